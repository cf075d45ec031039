package place

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// candidates lists the variables that may name a node-local directory, in order.
var candidates = []string{"FILCH_LOCAL", "SLURM_TMPDIR", "TMPDIR"}

// fallback is the local directory of every machine.
const fallback = "/tmp"

// maxBase leaves space for the hash of a socket's path.
const maxBase = 60

// shared lists the file systems that several nodes share, by statfs magic: a lock, a
// socket or a rename on such a file system concerns other nodes too.
var shared = map[int64]string{
	0x6969:     "NFS",
	0x0BD00BD0: "Lustre",
	0x47504653: "GPFS",
	0x19830326: "BeeGFS",
	0xFF534D42: "CIFS",
	0xFE534D42: "SMB2",
	0x517B:     "SMB",
	0x00C36400: "CephFS",
	0x5346414F: "AFS",
	0x6B414653: "kAFS",
	0x20030528: "OrangeFS",
	0x013111A8: "IBRIX",
	0x7461636F: "OCFS2",
}

// SharedKind names the shared file system of dir, "" if dir is local. A directory that
// does not exist yet is judged by its nearest parent.
func SharedKind(dir string) string {
	for {
		var s unix.Statfs_t
		err := unix.Statfs(dir, &s)
		if err == nil {
			return shared[int64(uint32(s.Type))]
		}
		parent := filepath.Dir(dir)
		if !errors.Is(err, unix.ENOENT) || parent == dir {
			return ""
		}
		dir = parent
	}
}

// Base returns BASE, and makes BASE if missing.
func Base() (string, error) {
	base, err := BaseName()
	if err != nil {
		return "", err
	}
	return base, private(base)
}

// BaseName returns BASE, which may be missing.
func BaseName() (string, error) {
	parent, err := pickParent(os.Getenv, SharedKind)
	if err == nil {
		err = Ambiguous()
	}
	if err != nil {
		return "", err
	}
	return filepath.Join(parent, "filch-"+strconv.Itoa(os.Getuid())), nil
}

// pickParent chooses the parent directory of BASE. A directory named by the user in
// FILCH_LOCAL is taken or refused; unusable other candidates are skipped.
func pickParent(env func(string) string, sharedKind func(string) string) (string, error) {
	for _, name := range candidates {
		dir := env(name)
		if dir == "" {
			continue
		}
		err := usable(dir, sharedKind)
		if err == nil {
			return filepath.Clean(dir), nil
		}
		if name == "FILCH_LOCAL" {
			return "", cannotKeep("FILCH_LOCAL="+dir, err, "name a directory on a disk of this node, for example FILCH_LOCAL=/tmp")
		}
	}
	if err := usable(fallback, sharedKind); err != nil {
		return "", cannotKeep(fallback, err, "set FILCH_LOCAL to a directory on a disk of this node")
	}
	return fallback, nil
}

// cannotKeep is the error for a place of state, with the hint of err, if err has a
// hint.
func cannotKeep(where string, err error, hint string) error {
	if e := (*filch.Error)(nil); errors.As(err, &e) && e.Hint != "" {
		hint = e.Hint
	}
	return filch.Errorf(FaultKind(err), "cannot keep state in %s: %s", where, Cause(err)).WithHint("%s", hint)
}

func usable(dir string, sharedKind func(string) string) error {
	if !filepath.IsAbs(dir) {
		return errors.New("it is not an absolute path")
	}
	if n := len(filepath.Join(dir, "filch-4294967294")); n > maxBase {
		return fmt.Errorf("paths of sockets in this directory would be longer than 103 bytes (the directory's path may have %d)", maxBase-len("/filch-4294967294"))
	}
	if kind := sharedKind(dir); kind != "" {
		return fmt.Errorf("it is on %s, which other nodes share", kind)
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return errors.New("it is not a directory")
	}
	return checkAbove(dir)
}

// private makes dir with mode 0700, or checks that nobody else could have made dir or
// can write to dir.
func private(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return filch.Errorf(FaultKind(err), "cannot make %s: %s", dir, Cause(err)).
			WithHint("set FILCH_LOCAL to a directory that you may write to")
	}
	return checkPrivate(dir)
}

func checkPrivate(dir string) error {
	var s unix.Stat_t
	if err := unix.Lstat(dir, &s); err != nil {
		return filch.Errorf(filch.Invalid, "cannot use %s: %s", dir, Cause(err))
	}
	switch {
	case s.Mode&unix.S_IFMT != unix.S_IFDIR:
		return filch.Errorf(filch.Denied, "cannot use %s: it is not a directory", dir).
			WithHint("another user may have made the file; set FILCH_LOCAL to another directory")
	case int(s.Uid) != os.Getuid():
		return filch.Errorf(filch.Denied, "cannot use %s: it belongs to uid %d, not to %d", dir, s.Uid, os.Getuid()).
			WithHint("set FILCH_LOCAL to another directory")
	case s.Mode&0o077 != 0:
		return filch.Errorf(filch.Denied, "cannot use %s: its mode is %04o, other users may read it", dir, s.Mode&0o7777).
			WithHint("chmod 700 %s", dir)
	}
	return nil
}
