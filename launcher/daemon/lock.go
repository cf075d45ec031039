package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
)

// takeLock makes this process the launcher of the state directory, for as long as the
// file is open: the lock ends with the process, however the process ends.
func takeLock(dir place.Dir) (*os.File, error) {
	f, err := os.OpenFile(dir.PIDFile(), os.O_CREATE|os.O_RDWR|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot open %s: %s", dir.PIDFile(), err.Error())
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, filch.Errorf(filch.Busy, "node %s of %s runs already%s", dir.Node, dir.Instance, heldBy(f)).
				WithHint("`filch nodes` shows the node; `filch down` ends the instance")
		}
		return nil, filch.Errorf(filch.Invalid, "cannot lock %s: %s", dir.PIDFile(), err.Error())
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, filch.Errorf(filch.Invalid, "cannot write %s: %s", dir.PIDFile(), err.Error())
	}
	return f, nil
}

func heldBy(f *os.File) string {
	b := make([]byte, 16)
	n, _ := f.ReadAt(b, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n]))); err == nil {
		return fmt.Sprintf(", as pid %d", pid)
	}
	return ""
}

// nextIncarnation is greater than any earlier incarnation of this node: the clock may
// go back, so a file keeps the last incarnation.
func nextIncarnation(dir place.Dir) (uint64, error) {
	var last uint64
	if b, err := os.ReadFile(incarnationFile(dir)); err == nil {
		last, _ = strconv.ParseUint(strings.TrimSpace(string(b)), 10, 63)
	}
	next := max(last+1, uint64(time.Now().UnixNano()))
	return next, keepIncarnation(dir, next)
}

func incarnationFile(dir place.Dir) string { return filepath.Join(dir.Path(), "incarnation") }

func keepIncarnation(dir place.Dir, n uint64) error {
	return place.WritePrivate(incarnationFile(dir), []byte(strconv.FormatUint(n, 10)+"\n"))
}
