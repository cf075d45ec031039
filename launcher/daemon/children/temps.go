package children

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/proc"
)

// tempsQueued bounds the folders that wait for removal; further folders stay until the
// next start of the launcher.
const tempsQueued = 64 << 10

// temps makes the names of tasks' temporary folders, and removes the folders. Runners make
// them. Each launcher has a folder of its own beside the TMPDIRs of keepers, so that the
// folders of a killed launcher can be told apart. The folder is named by a number, since a
// path in TMPDIR must be short: a socket's path has at most 107 bytes. The loop owns all fields.
type temps struct {
	in        *inputs.Queue
	place     proc.Place
	own       string // of this launcher
	made      bool
	busy      bool
	pending   []string
	named     int
	discarded int // other folders than temporary ones
}

func newTemps(in *inputs.Queue, state string) *temps {
	t := &temps{in: in, place: proc.Place{Dir: state, Node: in.Self}}
	all := t.place.TmpDir()
	old, _ := os.ReadDir(all)
	names := map[string]bool{}
	for _, e := range old {
		names[e.Name()] = true
		if !proc.IsTmpName(e.Name()) && len(t.pending) < tempsQueued { // else of a keeper, which may live
			t.pending = append(t.pending, filepath.Join(all, e.Name()))
		}
	}
	n := 1
	for names[strconv.Itoa(n)] {
		n++
	}
	t.own = filepath.Join(all, strconv.Itoa(n))
	return t
}

// name is the temporary folder of an attempt of a task, which the task's runner makes.
func (t *temps) name(task launcher.TaskID, attempt filch.Attempt) (string, error) {
	if err := t.makeOwn(); err != nil {
		return "", filch.Errorf(filch.Unavailable, "cannot make a folder for private TMPDIRs on %s: %s", t.in.Self, err.Error())
	}
	t.named++
	return filepath.Join(t.own, t.place.TmpName(task.String(), attempt, strconv.Itoa(t.named))), nil
}

func (t *temps) makeOwn() error {
	if t.made {
		return nil
	}
	err := os.MkdirAll(t.own, 0o700)
	t.made = err == nil
	return err
}

// discard moves a folder away at once, and removes the folder in the background: the
// removal of many files takes longer than a caller waits.
func (t *temps) discard(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err := t.makeOwn(); err != nil {
		return err
	}
	t.discarded++
	away := filepath.Join(t.own, fmt.Sprintf("discarded.%d", t.discarded))
	if err := os.Rename(dir, away); err != nil {
		return err
	}
	t.remove(away)
	return nil
}

// remove removes a folder in the background, one after the other.
func (t *temps) remove(dir string) {
	if len(t.pending) < tempsQueued {
		t.pending = append(t.pending, dir)
	}
	t.next()
}

// next begins the removal of the folders that wait.
func (t *temps) next() {
	if t.busy || len(t.pending) == 0 {
		return
	}
	t.busy = true
	dirs := t.pending
	t.pending = nil
	t.in.Go(func() {
		for _, dir := range dirs {
			if err := proc.RemoveTree(t.in.Context(), dir); err != nil && t.in.Context().Err() == nil {
				t.in.Fault("cannot remove a temporary folder; the next start of the launcher tries again", err, "folder", dir)
			}
		}
		t.in.Post(func(*inputs.Turn) {
			t.busy = false
			t.next()
		})
	})
}
