package proc

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Inherited lists the descriptors beyond the standard ones that a parent left open in
// this process: Go opens all descriptors close-on-exec, so the others come from the
// parent. A process that outlives the parent must not keep such descriptors: a descriptor
// may hold a lock of the user's script, or a pipe with a reader waiting for the end.
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
