//go:build root

package keeper

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// stranger is a user whom no file of these tests belongs to.
const stranger = 65534

func TestRootTrustedFolders(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "ft")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	do := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	folder := func(name string, uid int, mode os.FileMode) {
		t.Helper()
		do(os.Mkdir(filepath.Join(dir, name), 0o700))
		do(os.Chown(filepath.Join(dir, name), uid, uid))
		do(os.Chmod(filepath.Join(dir, name), mode))
	}
	link := func(to, name string, uid int) {
		t.Helper()
		do(os.Symlink(to, filepath.Join(dir, name)))
		do(os.Lchown(filepath.Join(dir, name), uid, uid))
	}
	folder("own", 0, 0o755)
	folder("group", 0, 0o2775)
	folder("theirs", stranger, 0o755)
	folder("open", 0, 0o777)
	folder("open/in", 0, 0o755)
	folder("tmp", 0, os.ModeSticky|0o777)
	folder("tmp/own", 0, 0o755)
	folder("tmp/squat", stranger, 0o777)
	folder("tmp/squat/in", 0, 0o755)
	folder("tmp/polite", stranger, 0o755)
	link("../own", "tmp/link", 0)
	link("../own", "tmp/planted", stranger)
	link("tmp/planted", "second", 0)
	link("tmp/squat", "into", 0)
	link("loop", "loop", 0)
	for _, c := range []struct {
		name string
		want string // in the error; "" none
	}{
		{"own", ""},
		{"group", ""},
		{"tmp", ""},
		{"tmp/own", ""},
		{"tmp/link", ""},
		{"theirs", ""}, // nobody could have put it there but its parent's owner
		{"open", "any user may replace"},
		{"open/in", "any user may replace"},
		{"tmp/squat", "belongs to uid 65534"},
		{"tmp/squat/in", "belongs to uid 65534"},
		{"tmp/polite", "belongs to uid 65534"},
		{"tmp/planted", "belongs to uid 65534"},
		{"second", "belongs to uid 65534"},
		{"into", "belongs to uid 65534"},
		{"loop", "too many links"},
		{"missing", "no such file"},
	} {
		err := trusted(filepath.Join(dir, c.name))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
}

// What is refused is refused before a folder is made behind it.
func TestRootCopyMakesNothingBehindALinkOfAnother(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	link := filepath.Join(dir, "link")
	if err := errors.Join(os.Chmod(dir, os.ModeSticky|0o777), os.Symlink(elsewhere, link), os.Lchown(link, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	if err := copyTo(t, filepath.Join(link, "new"), reg("prog", "x")); err == nil || !strings.Contains(err.Error(), "belongs to uid 65534") {
		t.Errorf("got %v", err)
	}
	if e, _ := os.ReadDir(elsewhere); len(e) > 0 {
		t.Errorf("made where the link leads: %v", e)
	}
}

// TestRootCopyRefusesLibrariesOfAnotherUser has the folder of the libraries belong to another user.
func TestRootCopyRefusesLibrariesOfAnotherUser(t *testing.T) {
	dest := t.TempDir()
	libs := filepath.Join(dest, "prog_libs")
	if err := errors.Join(os.Mkdir(libs, 0o755), os.Chown(libs, stranger, stranger)); err != nil {
		t.Fatal(err)
	}
	if err := copyTo(t, dest, reg("prog", "new"), reg("prog_libs/a.so", "lib")); err == nil || !strings.Contains(err.Error(), "could change") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(filepath.Join(dest, "prog")); err == nil {
		t.Error("the program is there without its libraries")
	}
}
