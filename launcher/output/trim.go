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

// goneFile, beside the folders of segments, says what was removed of which: a
// line for each folder, its name and a number of bytes. The oldest lines go when
// there are more than goneMax.
const (
	goneFile = "gone"
	goneMax  = 4096
)

// What output leaves free of a disk, since a launcher whose records find no room
// does nothing more: a twentieth, within these.
const (
	spareMin = 4 << 20
	spareMax = 256 << 20
)

// Disk is how many bytes the user may still write to the disk that a folder is
// on, and how many it holds.
func Disk(dir string) (free, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, &fs.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// Room is how many bytes output may still fill of the disk that a folder is on,
// and how many it leaves; what others took of those makes the first one negative.
func Room(dir string) (free, spare int64, err error) {
	free, size, err := Disk(dir)
	if err != nil {
		return 0, 0, err
	}
	spare = min(max(size/20, spareMin), spareMax)
	return free - spare, spare, nil
}

// TrimSegments removes the oldest files below dir, a folder of folders of
// segments, until they hold at most quota bytes and at least need bytes are gone,
// and returns how many are; [GoneSegments] says later of which folder. Files that have a writer are
// spared, and so the quota may be exceeded by them. One process at a time may
// call it.
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
		_ = os.Remove(filepath.Dir(f.name)) // when it is empty
	}
	if len(of) > 0 {
		err = errors.Join(err, noteGone(dir, of))
	}
	return gone, err
}

// removeUnused removes a file that no writer has locked.
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

// readGone reads what was removed, oldest first; a line that makes no sense is
// passed over.
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

// noteGone adds to what was removed.
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

// GoneSegments is how many bytes of the files of a folder were removed by
// [TrimSegments].
func GoneSegments(dir string) int64 {
	for _, l := range readGone(filepath.Dir(dir)) {
		if l.name == filepath.Base(dir) {
			return l.bytes
		}
	}
	return 0
}
