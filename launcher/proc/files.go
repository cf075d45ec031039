package proc

import (
	"errors"
	"os"
	"os/user"
	"strconv"

	"github.com/filch-hpc/filch"
	"golang.org/x/sys/unix"
)

// Files are the descriptors of one rank around its fork.
type Files struct {
	Child  []uintptr // 0, 1, 2 and, with a PMI server, 3
	Theirs []int     // the part of Child that we close after the fork
	IsPty  bool
}

func (f *Files) CloseTheirs() {
	for _, fd := range f.Theirs {
		unix.Close(fd)
	}
	*f = Files{}
}

// Give adds a descriptor. We close our copy after the fork.
func (f *Files) Give(fd int) {
	f.Child = append(f.Child, uintptr(fd))
	f.Theirs = append(f.Theirs, fd)
}

// Lend adds a descriptor that stays open here.
func (f *Files) Lend(fd int) { f.Child = append(f.Child, uintptr(fd)) }

// Pipe returns our end, which does not block, and the child's end.
func Pipe(weRead bool) (ours, theirs int, err error) {
	var p [2]int
	if err = unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return -1, -1, err
	}
	ours, theirs = p[1], p[0]
	if weRead {
		ours, theirs = p[0], p[1]
	}
	unix.SetNonblock(ours, true)
	return ours, theirs, nil
}

// OpenNull opens /dev/null: reads return nothing, writes are dropped.
func OpenNull() (int, error) {
	return unix.Open("/dev/null", unix.O_RDWR|unix.O_CLOEXEC, 0)
}

// UserName is the name of the user running this process, or the user id where no name is
// known.
func UserName() string {
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return strconv.Itoa(os.Getuid())
}

// ErrorKind classes a file error.
func ErrorKind(err error) filch.Kind {
	switch {
	case errors.Is(err, os.ErrNotExist):
		return filch.NotFound
	case errors.Is(err, os.ErrPermission):
		return filch.Denied
	}
	return filch.Unavailable
}

func WriteAll(fd int, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}
