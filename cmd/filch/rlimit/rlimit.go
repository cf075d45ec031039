// Package rlimit remembers the soft limit on open files that this process was
// started with.
//
// Go's os package raises it to the hard limit when it is initialized. This
// package imports syscall alone and sorts before os, so the language
// specification has it initialized first (section "Program initialization").
// Ranks are to get the user's own limit: programs that use select(2) break
// under a high one.
package rlimit

import "syscall"

// OpenFiles is the soft limit on open files at the start; 0 if it is unknown.
var OpenFiles = read()

func read() uint64 {
	var r syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &r) != nil {
		return 0
	}
	return r.Cur
}
