package children

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
)

// Limits of the removal of tasks' temporary folders.
const (
	// tempsQueued bounds the folders that wait for removal; further folders stay until the
	// next start of the launcher.
	tempsQueued = 64 << 10
	// tempDepth bounds the depth of a folder, and so the open descriptors: deeper folders
	// move up first.
	tempDepth = 64
	// tempNames is how many names of a folder are read at a time.
	tempNames = 256
)

// temps makes the names of tasks' temporary folders, and removes the folders. Runners make
// them. Each launcher has a folder of its own, so that the folders of a killed launcher
// can be told apart. The loop owns all fields.
type temps struct {
	in        *inputs.Queue
	all       string // of all launchers of this node
	own       string // of this launcher
	made      bool
	busy      bool
	pending   []string
	discarded int // other folders than temporary ones
}

func newTemps(in *inputs.Queue, state string) *temps {
	all := filepath.Join(state, "tmp")
	t := &temps{in: in, all: all, own: filepath.Join(all, strconv.FormatInt(time.Now().UnixNano(), 36))}
	old, _ := os.ReadDir(all)
	for _, e := range old[:min(len(old), tempsQueued)] {
		t.pending = append(t.pending, filepath.Join(all, e.Name()))
	}
	return t
}

// name is the temporary folder of a task, which the task's runner makes.
func (t *temps) name(job filch.JobID, index int32, serial uint64) (string, error) {
	if err := t.makeOwn(); err != nil {
		return "", filch.Errorf(filch.Unavailable, "cannot make a folder for private TMPDIRs on %s: %s", t.in.Self, err.Error())
	}
	return filepath.Join(t.own, fmt.Sprintf("%d.%d.%d", job, index, serial)), nil
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
			if err := removeTree(t.in.Context(), dir); err != nil && t.in.Context().Err() == nil {
				t.in.Fault("cannot remove a temporary folder; the next start of the launcher tries again", err, "folder", dir)
			}
		}
		t.in.Post(func(*inputs.Turn) {
			t.busy = false
			t.next()
		})
	})
}

// removeTree removes a folder with all contents, until ctx ends. removeTree follows no
// symbolic link, also if a process replaces a folder by a link meanwhile.
func removeTree(ctx context.Context, dir string) error {
	parent, err := os.Open(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer parent.Close()
	w := treeRemoval{ctx: ctx, top: int(parent.Fd()), begun: time.Now().UnixNano()}
	err = w.remove(w.top, filepath.Base(dir), 0)
	for err == nil && len(w.moved) > 0 {
		name := w.moved[len(w.moved)-1]
		w.moved = w.moved[:len(w.moved)-1]
		err = w.remove(w.top, name, 0)
	}
	return err
}

// treeRemoval is the removal of one folder. Moved are deep folders, now at the top.
type treeRemoval struct {
	ctx   context.Context
	top   int
	moved []string
	begun int64 // makes the names of moved folders unique
	count int
}

func (w *treeRemoval) remove(parent int, name string, depth int) error {
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || err == unix.ENOENT {
		return nil
	}
	if err != unix.EISDIR && err != unix.EPERM {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	// The owner of a closed folder can neither read nor move the folder: open first.
	fd, err := openFolder(parent, name)
	if err != nil {
		return &os.PathError{Op: "open", Path: name, Err: err}
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if depth > tempDepth {
		w.count++
		up := fmt.Sprintf(".deep%d.%d", w.begun, w.count)
		if err := unix.Renameat(parent, name, w.top, up); err != nil {
			return &os.PathError{Op: "move", Path: name, Err: err}
		}
		w.moved = append(w.moved, up)
		return nil
	}
	for {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		names, _ := f.Readdirnames(tempNames)
		if len(names) == 0 {
			break
		}
		for _, n := range names {
			if err := w.remove(fd, n, depth+1); err != nil {
				return err
			}
		}
		if _, err := f.Seek(0, 0); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && err != unix.ENOENT {
		return &os.PathError{Op: "remove", Path: name, Err: err}
	}
	return nil
}

// openFolder opens a folder, and makes the folder writable if its owner took that right
// away.
func openFolder(parent int, name string) (int, error) {
	const flags = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	pin, err := unix.Openat(parent, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	defer unix.Close(pin)
	var st unix.Stat_t
	if err := unix.Fstat(pin, &st); err != nil {
		return -1, err
	}
	if st.Mode&0o700 != 0o700 {
		if err := unix.Chmod("/proc/self/fd/"+strconv.Itoa(pin), 0o700); err != nil {
			return -1, err
		}
	}
	return unix.Openat(pin, ".", flags, 0)
}
