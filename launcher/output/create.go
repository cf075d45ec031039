package output

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Create opens a file that the user names for output, at the end of the file with more, and
// makes the missing folders. Of a named pipe, Create waits for the reader.
func Create(name string, more bool) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if more {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(name, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) && os.MkdirAll(filepath.Dir(name), 0o777) == nil {
		f, err = os.OpenFile(name, flags, 0o666)
	}
	return f, err
}
