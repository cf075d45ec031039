package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Inherited lists the descriptors beyond the standard ones that a parent left
// open in this process: Go closes all of its own when another program begins. A
// process that outlives its parent must not keep them: they may be a lock of the
// user's script, or the pipe whose end somebody waits for.
func Inherited() (fds []int) {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return nil
	}
	for _, e := range entries {
		fd, err := strconv.Atoi(e.Name())
		if err != nil || fd <= unix.Stderr {
			continue
		}
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		if err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
	}
	return fds
}
