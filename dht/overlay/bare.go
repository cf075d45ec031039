package overlay

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// bare reads into or writes from b without announcing the system call to the
// scheduler.
func bare(call uintptr, fd uintptr, b []byte) (int, error) {
	for {
		n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
