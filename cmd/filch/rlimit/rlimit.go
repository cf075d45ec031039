// Package rlimit remembers the soft limit on open files that this process was
// started with.
//
// Go's syscall package raises the limit to the hard limit when syscall is
// initialized. Package rlimit imports nothing and sorts before syscall, so the
// language specification has rlimit initialized first (section "Program
// initialization"); hence rlimit makes the system call itself. Ranks are to get
// the user's own limit: programs that use select(2) break under a high limit.
package rlimit

const (
	resourceOpenFiles = 7 // RLIMIT_NOFILE of Linux
	failed            = ^uintptr(4095)
)

// OpenFiles is the soft limit on open files at the start; 0 if unknown.
var OpenFiles = read()

func read() uint64 {
	var limit [2]uint64 // soft, hard
	if prlimit(resourceOpenFiles, &limit) > failed {
		return 0
	}
	return limit[0]
}
