package keeper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ownerOf is the owner of a file, and the mode with the sticky bit.
func ownerOf(info fs.FileInfo) (uid int, mode uint32) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1, 0
	}
	return int(st.Uid), st.Mode & 0o7777
}

// makeTrusted makes a folder and its missing parents. Each folder is checked before an
// entry is made inside.
func makeTrusted(dir string) error {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && dir != "/" {
		if err := makeTrusted(filepath.Dir(dir)); err != nil {
			return err
		}
		if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return trusted(dir)
}

// trusted refuses a folder in which any user may replace our files: a folder writable by
// all without the sticky bit, or a folder or link that another user has put into a folder
// like /tmp before us. A folder shared with a group, or owned by another user elsewhere,
// is the user's own decision. In a user namespace, as for virtual nodes of an ordinary
// user, root counts as another user: root's folders in a place like /tmp are refused as
// well.
func trusted(dir string) error {
	parent, given := "/", dir
	info, err := os.Lstat(parent)
	if err != nil {
		return err
	}
	for hops := 0; ; {
		if err := closed(parent, info); err != nil {
			return err
		}
		rest, err := filepath.Rel(parent, dir)
		if err != nil {
			return err
		}
		if rest == "." {
			if at, err := os.Stat(given); err != nil || !os.SameFile(at, info) {
				return fmt.Errorf("%s changed during the check", given)
			}
			return nil
		}
		_, mode := ownerOf(info)
		open := mode&0o002 != 0 // to all
		first, _, _ := strings.Cut(rest, "/")
		path := filepath.Join(parent, first)
		if info, err = os.Lstat(path); err != nil {
			return err
		}
		if uid, _ := ownerOf(info); open && uid != os.Geteuid() && uid != 0 {
			return fmt.Errorf("%s belongs to uid %d, in a folder where all users may write", path, uid)
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			parent = path
			continue
		}
		if hops++; hops > 40 { // as the kernel, path_resolution(7)
			return fmt.Errorf("%s has too many links", dir)
		}
		to, err := os.Readlink(path)
		if err != nil {
			return err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(parent, to)
		}
		after, _ := filepath.Rel(path, dir)
		dir, parent = filepath.Join(to, after), "/"
		if info, err = os.Lstat(parent); err != nil {
			return err
		}
	}
}

// closed refuses a folder in which all users may rename files of others.
func closed(path string, info fs.FileInfo) error {
	if _, mode := ownerOf(info); mode&0o002 != 0 && mode&0o1000 == 0 {
		return fmt.Errorf("any user may replace files in %s (mode %04o)", path, mode)
	}
	return nil
}
