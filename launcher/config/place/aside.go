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
// launcher that starts again after TakeBack has the output. The launcher and the command that
// waits for the end of the launcher may both call SetAside, at the same time.
func (d Dir) SetAside() error {
	_ = os.Remove(d.Socket())
	if err := os.Rename(d.Path(), d.keptDir()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(d.keptDir())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	err = nil
	for _, e := range entries {
		path := filepath.Join(d.keptDir(), e.Name())
		if slices.Contains(kept, e.Name()) {
			_ = os.Remove(path) // fails while the folder has files
		} else {
			err = errors.Join(err, os.RemoveAll(path))
		}
	}
	_ = os.Remove(d.keptDir())            // fails while output is kept
	_ = os.Remove(filepath.Dir(d.Path())) // fails while other nodes are there
	return err
}

// TakeBack brings back what SetAside has kept, before Make: Make removes what is left.
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
