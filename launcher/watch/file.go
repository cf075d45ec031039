package watch

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// defaultLogBytes is the size of a full log.
const defaultLogBytes = 8 << 20

// File is a log file. When full, the file is renamed to PATH.1, in place of the one
// before. So the two files hold at most twice the limit.
type File struct {
	path string
	max  int64

	mu   sync.Mutex // guards the fields below; writes are to a local file
	file *os.File
	size int64
}

// OpenFile appends to path; maxBytes 0 means the default.
func OpenFile(path string, maxBytes int64) (*File, error) {
	if maxBytes <= 0 {
		maxBytes = defaultLogBytes
	}
	f := &File{path: path, max: maxBytes}
	return f, f.open()
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return fmt.Errorf("cannot open the log: %w", err)
	}
	f.file, f.size = file, info.Size()
	return nil
}

// Write appends one line.
func (f *File) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return 0, os.ErrClosed
	}
	if f.size > 0 && f.size+int64(len(b)) > f.max {
		f.file.Close()
		f.file = nil
		if err := os.Rename(f.path, f.path+".1"); err != nil {
			return 0, err
		}
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(b)
	f.size += int64(n)
	return n, err
}

// Close closes the file.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	err := f.file.Close()
	f.file = nil
	return err
}
