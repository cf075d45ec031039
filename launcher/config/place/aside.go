package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// kept are the folders of a node with what tasks and ranks of ended jobs left: the output of
// tasks, the logs of detached runs, and staged files. Other packages name the first and the
// last; a folder that is not there is no error.
var kept = []string{"output", "out", "stage"}

// keptDir has the kept folders of a launcher that was stopped alone.
func (d Dir) keptDir() string { return filepath.Join(d.Base, d.Instance, keptPrefix+d.Node) }

// SetAside removes what Make made, like Remove, except the kept output of the node: a
// launcher that starts again after TakeBack has the output. SetAside may be called twice.
// The pid file goes last: until then, others wait for the launcher.
func (d Dir) SetAside() error {
	defer func() { _ = os.Remove(d.Socket()) }()
	pid := filepath.Base(d.PIDFile())
	entries, err := os.ReadDir(d.Path())
	if errors.Is(err, fs.ErrNotExist) {
		return removed(filepath.Join(d.keptDir(), pid))
	}
	if err != nil {
		return err
	}
	some := false
	for _, e := range entries {
		path := filepath.Join(d.Path(), e.Name())
		switch {
		case e.Name() == pid:
		case !slices.Contains(kept, e.Name()):
			err = errors.Join(err, os.RemoveAll(path))
		case os.Remove(path) != nil: // the folder has files
			some = true
		}
	}
	if err != nil || !some {
		return errors.Join(err, d.Remove())
	}
	if err := errors.Join(os.RemoveAll(d.keptDir()), os.Rename(d.Path(), d.keptDir())); err != nil {
		return err
	}
	return removed(filepath.Join(d.keptDir(), pid))
}

// TakeBack brings back what SetAside has kept, before Make.
func (d Dir) TakeBack() error {
	if err := os.Rename(d.keptDir(), d.Path()); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// HasAside reports whether SetAside has kept output.
func (d Dir) HasAside() bool {
	_, err := os.Lstat(d.keptDir())
	return err == nil
}

// RemoveAside removes what launchers of an instance on this machine that were stopped alone
// have left, when the instance ends.
func RemoveAside(base, instance string) {
	for _, prefix := range []string{stoppedPrefix, keptPrefix} {
		files, _ := filepath.Glob(filepath.Join(base, instance, prefix+"*"))
		for _, f := range files {
			_ = os.RemoveAll(f)
		}
	}
	_ = os.Remove(filepath.Join(base, instance)) // fails while nodes are there
}

// removed removes a file that may be gone.
func removed(path string) error {
	if err := os.Remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
