package place

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// maxLinks bounds the symbolic links on the way to a directory, like the kernel's
// limit.
const maxLinks = 40

// person holds the ids that decide which owners this process trusts.
type person struct {
	uid, gid uint32
	overflow uint32 // the uid that stands for all uids unknown to the user namespace
	partial  bool   // some uids are unknown to this user namespace
}

func myself() person {
	return person{uid: uint32(os.Getuid()), gid: uint32(os.Getgid()), overflow: overflowUID(), partial: partialUIDs()}
}

// checkAbove refuses dir when another user could replace dir: by renaming an entry of
// dir, or of a directory on the way to dir.
func checkAbove(dir string) error {
	me := myself()
	at, rest, links := "/", strings.Split(filepath.Clean(dir), "/"), 0
	for {
		var s unix.Stat_t
		if err := unix.Stat(at, &s); err != nil {
			return &os.PathError{Op: "stat", Path: at, Err: err}
		}
		if s.Mode&unix.S_IFMT == unix.S_IFDIR {
			if why := me.distrusts(s.Uid, s.Gid, s.Mode); why != "" {
				return unsafePlace(at, why)
			}
		}
		for len(rest) > 0 && rest[0] == "" {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		next := filepath.Join(at, rest[0])
		rest = rest[1:]
		if err := unix.Lstat(next, &s); err != nil {
			return &os.PathError{Op: "lstat", Path: next, Err: err}
		}
		if s.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		// In a sticky directory the owner of a link may change it.
		if why := me.distrusts(s.Uid, s.Gid, 0); why != "" {
			return unsafePlace(next, why)
		}
		target, err := os.Readlink(next)
		if err != nil {
			return err
		}
		if links++; links > maxLinks {
			return fmt.Errorf("more than %d symbolic links lead to it", maxLinks)
		}
		if filepath.IsAbs(target) {
			at = "/"
		}
		rest = append(strings.Split(target, "/"), rest...)
	}
}

// checkHolder refuses a directory whose entries others may rename; checkHolder does not
// check the directory's own path.
func checkHolder(dir string) error {
	var s unix.Stat_t
	if err := unix.Stat(dir, &s); err != nil {
		return &os.PathError{Op: "stat", Path: dir, Err: err}
	}
	if why := myself().distrusts(s.Uid, s.Gid, s.Mode); why != "" {
		return unsafePlace(dir, why)
	}
	return nil
}

func unsafePlace(dir, why string) error {
	return filch.Errorf(filch.Denied, "%s: other users may rename files in this folder (%s)", dir, why).
		WithHint("if you own the folder: chmod go-w %s; else set FILCH_LOCAL (for the home: FILCH_HOME) to a directory that only you may write to", dir)
}

// distrusts returns why others may rename entries of a directory with this owner, group
// and mode; "" when they may not.
//
// Root is trusted, and so is an owner unknown to the user namespace: such an owner is
// root there, as a rule, and virtual nodes see the owner of /tmp so. A directory that a
// group may write is refused like a world-writable directory. Exceptions are root's
// group and the user's own group without other members: systems that give each user a
// group (Debian, Fedora) make homes and folders with mode 0775 or 2775.
func (p person) distrusts(uid, gid, mode uint32) string {
	if uid != 0 && uid != p.uid && !(p.partial && uid == p.overflow) {
		return fmt.Sprintf("it belongs to uid %d", uid)
	}
	if mode&unix.S_ISVTX != 0 || mode&0o022 == 0 {
		return ""
	}
	if mode&0o002 == 0 && (gid == 0 || gid == p.gid && p.ownGroup()) {
		return ""
	}
	return fmt.Sprintf("mode %04o without the sticky bit, uid %d, gid %d", mode&0o7777, uid, gid)
}

// ownGroup reports whether the user's first group is theirs alone: the group has the
// user's number, or the user's name.
func (p person) ownGroup() bool {
	if p.uid == p.gid {
		return true
	}
	u, err := user.LookupId(strconv.Itoa(int(p.uid)))
	if err != nil {
		return false
	}
	g, err := user.LookupGroupId(strconv.Itoa(int(p.gid)))
	return err == nil && g.Name == u.Username
}
