package wire

import (
	"io"
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// bareReader reads a socket by bare system calls. Go announces each call to its
// scheduler in case the call blocks; calls on Go's own sockets never block, and the
// announcement wakes a thread, which costs as much as the call. Waiting and deadlines
// are the runtime's.
type bareReader struct {
	sock  io.Reader
	raw   syscall.RawConn
	reads uint32
}

// announceEvery is how often a read is announced all the same: under load the woken
// thread is needed, and then stays awake by itself.
const announceEvery = 64

// readerOf returns rw itself unless rw is a socket of the net package: other
// descriptors may block.
func readerOf(rw io.Reader) io.Reader {
	if s, ok := rw.(*net.UnixConn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			return &bareReader{sock: s, raw: raw}
		}
	}
	return rw
}

func (r *bareReader) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if r.reads++; r.reads%announceEvery == 0 {
		return r.sock.Read(b)
	}
	var errno syscall.Errno
	wait := r.raw.Read(func(fd uintptr) bool {
		n, errno = bareCall(unix.SYS_READ, fd, b)
		return errno != unix.EAGAIN
	})
	switch {
	case wait != nil:
		return 0, wait
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// bareCall reads into or writes from b; b is not empty.
func bareCall(call, fd uintptr, b []byte) (int, syscall.Errno) {
	for {
		n, _, errno := unix.RawSyscall(call, fd, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), 0
		case unix.EINTR:
		default:
			return 0, errno
		}
	}
}
