package place

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
)

// nest makes folders below each other, each with its mode, and returns the last.
func nest(t *testing.T, modes ...os.FileMode) string {
	t.Helper()
	dir := t.TempDir()
	for i, mode := range modes {
		dir = filepath.Join(dir, string(rune('a'+i)))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestPlacesThatOthersMayWriteTo(t *testing.T) {
	open := nest(t, 0o777)
	link := filepath.Join(open, "link")
	if err := os.Symlink(nest(t, 0o700), link); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ dir, err string }{
		"private":       {dir: nest(t, 0o755, 0o700)},
		"sticky":        {dir: nest(t, 0o777|os.ModeSticky)},
		"sticky-above":  {dir: nest(t, 0o777|os.ModeSticky, 0o700)},
		"open":          {dir: open, err: open + ": other users may rename files in this folder (mode 0777"},
		"open-above":    {dir: nest(t, 0o777, 0o700), err: "other users may rename files in this folder (mode 0777"},
		"link-in-open":  {dir: link, err: open + ": other users may rename"},
		"not-there-yet": {dir: filepath.Join(nest(t, 0o700), "no"), err: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			err := checkAbove(c.dir)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: got %v, want %q", c.dir, err, c.err)
			}
		})
	}
}

func TestBaseInAnOpenPlaceIsRefused(t *testing.T) {
	dir, err := os.MkdirTemp("/tmp", "fp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"TMPDIR": dir}
	local := func(string) string { return "" }
	if got, err := pickParent(func(k string) string { return env[k] }, local); got != fallback || err != nil {
		t.Errorf("an open TMPDIR: got %q, %v, want that it is passed over", got, err)
	}
	env["FILCH_LOCAL"] = dir
	_, err = pickParent(func(k string) string { return env[k] }, local)
	var told *filch.Error
	if !errors.As(err, &told) || !strings.Contains(told.Text, dir+": other users may rename") || !strings.Contains(told.Hint, "chmod go-w "+dir) {
		t.Errorf("an open FILCH_LOCAL: got %v", err)
	}
	base := filepath.Join(dir, "filch-0")
	if err := (Dir{Base: base, Instance: "i", Node: "n"}).Make(); err == nil || !strings.Contains(err.Error(), "other users may rename") {
		t.Errorf("a launcher there: got %v", err)
	}
}

// TestPlacesByOwnerAndGroup asks the rule itself: other owners need root.
func TestPlacesByOwnerAndGroup(t *testing.T) {
	const sticky = 0o1000
	alice := person{uid: 1000, gid: 1000}
	for name, c := range map[string]struct {
		who  person
		uid  uint32
		gid  uint32
		mode uint32
		bad  bool
	}{
		"root-owns-it":                      {who: alice, mode: 0o755},
		"tmp":                               {who: alice, mode: 0o777 | sticky},
		"mine":                              {who: alice, uid: 1000, gid: 1000, mode: 0o700},
		"mine-open-but-sticky":              {who: alice, uid: 1000, gid: 1000, mode: 0o777 | sticky},
		"mine-open":                         {who: alice, uid: 1000, gid: 1000, mode: 0o777, bad: true},
		"another-user-owns-it":              {who: alice, uid: 1001, gid: 1001, mode: 0o755, bad: true},
		"another-user-owns-it-sticky":       {who: alice, uid: 1001, gid: 1001, mode: 0o777 | sticky, bad: true},
		"my-own-group-may-write":            {who: alice, uid: 1000, gid: 1000, mode: 0o2775},
		"a-project-group-may-write":         {who: alice, uid: 1000, gid: 500, mode: 0o2775, bad: true},
		"primary-group-of-many-may-write":   {who: person{uid: 1000, gid: 100}, uid: 1000, gid: 100, mode: 0o775, bad: true},
		"group-root-may-write":              {who: alice, mode: 0o775},
		"unknown-owner-in-a-user-namespace": {who: person{uid: 1000, gid: 1000, partial: true}, uid: 65534, gid: 65534, mode: 0o755},
		"unknown-owner-without-one":         {who: alice, uid: 65534, gid: 65534, mode: 0o755, bad: true},
	} {
		t.Run(name, func(t *testing.T) {
			c.who.overflow = 65534
			if why := c.who.distrusts(c.uid, c.gid, c.mode); c.bad != (why != "") {
				t.Errorf("got %q, want a refusal: %v", why, c.bad)
			}
		})
	}
}

func TestHomeThatOthersMayWriteTo(t *testing.T) {
	for name, c := range map[string]struct {
		dir string
		err string
	}{
		"private": {dir: nest(t, 0o755, 0o700)},
		"open":    {dir: nest(t, 0o755, 0o777), err: "mode 0777"},
		"in-open": {dir: nest(t, 0o777, 0o700), err: "mode 0777"},
		"new":     {dir: filepath.Join(nest(t, 0o755), "new")},
	} {
		t.Run(name, func(t *testing.T) {
			err := Home(filepath.Join(c.dir, "bold-otter")).Make()
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("%s: got %v, want %q", c.dir, err, c.err)
			}
		})
	}
}
