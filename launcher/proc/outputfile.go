package proc

import (
	"errors"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// OpenOutput opens a file that the user names for output, at the end of the file with more, and
// makes the missing folders. OpenOutput does not wait for the reader of a named pipe: a pipe
// without a reader is an error.
func OpenOutput(name string, more bool) (int, error) {
	flags := unix.O_WRONLY | unix.O_CREAT | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_TRUNC | unix.O_NONBLOCK
	if more {
		flags = flags&^unix.O_TRUNC | unix.O_APPEND
	}
	fd, err := unix.Open(name, flags, 0o666)
	if errors.Is(err, unix.ENOENT) && os.MkdirAll(filepath.Dir(name), 0o777) == nil {
		fd, err = unix.Open(name, flags, 0o666)
	}
	if err != nil {
		return -1, err
	}
	unix.SetNonblock(fd, false)
	return fd, nil
}
