package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of the removal of a folder.
const (
	// treeDepth bounds the depth of a folder, and so the open descriptors: deeper folders
	// move up first.
	treeDepth = 64
	// treeNames is how many names of a folder are read at a time.
	treeNames = 256
)

// RemoveTree removes a folder with all contents, until ctx ends. RemoveTree follows no
// symbolic link, also if a process replaces a folder by a link meanwhile.
func RemoveTree(ctx context.Context, dir string) error {
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
	if depth > treeDepth {
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
		names, _ := f.Readdirnames(treeNames)
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
