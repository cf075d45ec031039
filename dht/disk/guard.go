package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// lockName is the file locked against a second process.
const lockName = "lock"

// take makes dir if dir is missing, refuses a directory open to or made by another
// user, and locks dir for as long as the returned file is open.
func take(dir string) (*os.File, error) {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("cannot make the log's directory: %w", err)
	}
	var s unix.Stat_t
	if err := unix.Lstat(dir, &s); err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", dir, err)
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFDIR:
		return nil, fmt.Errorf("cannot keep a log in %s: it is not a directory", dir)
	case int(s.Uid) != os.Geteuid():
		return nil, fmt.Errorf("cannot keep a log in %s: it belongs to uid %d, not to %d", dir, s.Uid, os.Geteuid())
	case s.Mode&0o077 != 0:
		return nil, fmt.Errorf("cannot keep a log in %s: its mode is %04o, others may look into it", dir, s.Mode&0o7777)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot lock the log: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("cannot open the log in %s: %w%s", dir, errLocked, holder(f))
		}
		return nil, fmt.Errorf("cannot lock the log: %w", err)
	}
	// The pid helps only the reader of an error: on a full disk the pid is left
	// out.
	if f.Truncate(0) == nil {
		_, _ = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	return f, nil
}

// holder names the process holding the lock, if known.
func holder(f *os.File) string {
	b := make([]byte, 16)
	n, _ := f.ReadAt(b, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
		return fmt.Sprintf(", pid %d", pid)
	}
	return ""
}
