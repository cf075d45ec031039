package disk

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// FS is the part of a file system needed by a log; tests provide an FS with faults.
// Names are paths.
type FS interface {
	// Create makes a new file, and fails if the name exists.
	Create(name string) (File, error)
	// Open opens an existing file, for reading and truncation.
	Open(name string) (File, error)
	// Reserve makes a file with the given number of bytes of the disk allocated.
	Reserve(name string, bytes int64) error
	Remove(name string) error
	// List names the entries of a directory.
	List(dir string) ([]string, error)
	// SyncDir makes the creation and removal of files in dir durable.
	SyncDir(dir string) error
}

// File is an open file of an [FS].
type File interface {
	io.ReaderAt
	io.WriterAt
	io.Closer
	Size() (int64, error)
	Truncate(size int64) error
	// Sync makes all writes durable.
	Sync() error
}

// system is the file system of this machine.
type system struct{}

type file struct{ *os.File }

func (system) Create(name string) (File, error) {
	return open(name, os.O_CREATE|os.O_EXCL|os.O_RDWR)
}

func (system) Open(name string) (File, error) { return open(name, os.O_RDWR) }

func open(name string, flag int) (File, error) {
	f, err := os.OpenFile(name, flag|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	return file{f}, nil
}

func (system) Reserve(name string, bytes int64) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(unix.Fallocate(int(f.Fd()), 0, 0, bytes), f.Close())
}

func (system) Remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (system) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

func (system) SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// Sync leaves the times of the file to the kernel.
func (f file) Sync() error {
	for {
		err := unix.Fdatasync(int(f.Fd()))
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
