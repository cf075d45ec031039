package output

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// goneFile, beside the folders of segments, lists the removed output: a line for each
// folder, with the folder's name and a number of bytes. Beyond goneMax lines the oldest
// lines are dropped.
const (
	goneFile = "gone"
	goneMax  = 4096
)

// Limits of the disk space that output leaves free: a twentieth of the disk, within
// these limits. A launcher without space for its records does nothing more.
const (
	spareMin = 4 << 20
	spareMax = 256 << 20
)

// Disk returns how many bytes the user may still write to the disk of a folder, and the
// size of the disk.
func Disk(dir string) (free, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Room returns how many bytes output may still fill on the disk of a folder, and how
// many bytes output leaves free. free is negative when other users have taken a part of
// the spare bytes.
func Room(dir string) (free, spare int64, err error) {
	free, size, err := Disk(dir)
	if err != nil {
		return 0, 0, err
	}
	spare = min(max(size/20, spareMin), spareMax)
	return free - spare, spare, nil
}

// TrimSegments removes the oldest files below dir, a folder of folders of segments,
// until the rest holds at most quota bytes and at least need bytes are gone.
// TrimSegments returns the number of removed bytes; [GoneSegments] returns the number
// for one folder later. Files open for writing stay, and so may exceed the quota. Only
// one process at a time may call TrimSegments.
func TrimSegments(dir string, quota, need int64) (gone int64, err error) {
	type file struct {
		name string
		size int64
		at   int64
	}
	var all []file
	total := int64(0)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(name) != ".seg" {
			return nil // gone meanwhile, or not ours
		}
		if st, err := d.Info(); err == nil {
			all = append(all, file{name, st.Size(), st.ModTime().UnixNano()})
			total += st.Size()
		}
		return nil
	})
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(cmp.Compare(a.at, b.at), strings.Compare(a.name, b.name)) })
	var of []goneLine
	for _, f := range all {
		if total-gone <= quota && gone >= need {
			break
		}
		removed, e := removeUnused(f.name)
		if err = errors.Join(err, e); !removed {
			continue
		}
		gone += f.size
		of = append(of, goneLine{filepath.Base(filepath.Dir(f.name)), f.size})
		_ = os.Remove(filepath.Dir(f.name)) // when the folder is empty
	}
	if len(of) > 0 {
		err = errors.Join(err, noteGone(dir, of))
	}
	return gone, err
}

// removeUnused removes a file unless a writer has locked the file.
func removeUnused(name string) (bool, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		return false, nil
	}
	err = os.Remove(name)
	return err == nil, err
}

type goneLine struct {
	name  string
	bytes int64
}

// readGone reads the list of removed output, oldest first; readGone skips invalid
// lines.
func readGone(dir string) (all []goneLine) {
	f, err := os.Open(filepath.Join(dir, goneFile))
	if err != nil {
		return nil
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var l goneLine
		if n, _ := fmt.Sscanf(in.Text(), "%s %d", &l.name, &l.bytes); n == 2 {
			all = append(all, l)
		}
	}
	return all
}

// noteGone adds removed files to the list.
func noteGone(dir string, of []goneLine) error {
	all := readGone(dir)
	for _, l := range of {
		if i := slices.IndexFunc(all, func(o goneLine) bool { return o.name == l.name }); i >= 0 {
			l.bytes += all[i].bytes
			all = slices.Delete(all, i, i+1)
		}
		all = append(all, l)
	}
	var text strings.Builder
	for _, l := range all[max(0, len(all)-goneMax):] {
		fmt.Fprintf(&text, "%s %d\n", l.name, l.bytes)
	}
	name := filepath.Join(dir, goneFile)
	if err := os.WriteFile(name+".new", []byte(text.String()), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// GoneSegments returns how many bytes of a folder's files [TrimSegments] has removed.
func GoneSegments(dir string) int64 {
	for _, l := range readGone(filepath.Dir(dir)) {
		if l.name == filepath.Base(dir) {
			return l.bytes
		}
	}
	return 0
}
