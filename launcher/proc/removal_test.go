package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// A folder is removed with all that a task may leave: links to elsewhere, folders that
// nobody may write, a path longer than a name may be.
func TestRemoveTree(t *testing.T) {
	t.Run("short-names", func(t *testing.T) { testRemoveTree(t, t.TempDir(), "d") })
	// Some file systems make no folder that is deeper than a path may be long: the one of
	// a container, for example. A file system in memory does.
	t.Run("longer-than-a-path", func(t *testing.T) {
		top, err := os.MkdirTemp("/dev/shm", "tree")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.RemoveAll(top); err != nil {
				t.Error(err)
			}
		})
		testRemoveTree(t, top, strings.Repeat("d", 200))
	})
}

func testRemoveTree(t *testing.T, top, name string) {
	outside := filepath.Join(top, "outside")
	dir := filepath.Join(top, "own", "7.1.3")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.MkdirAll(outside, 0o700))
	must(os.WriteFile(filepath.Join(outside, "file"), []byte("kept"), 0o600))
	must(os.MkdirAll(filepath.Join(dir, "closed", "in"), 0o700))
	must(os.WriteFile(filepath.Join(dir, "closed", "in", "file"), nil, 0o600))
	must(os.Chmod(filepath.Join(dir, "closed", "in"), 0o500))
	must(os.Chmod(filepath.Join(dir, "closed"), 0))
	must(os.Symlink(outside, filepath.Join(dir, "link")))
	must(os.Symlink("/nowhere", filepath.Join(dir, "dangling")))
	for i := range 2 * treeNames {
		must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("many\n%d", i)), nil, 0o400))
	}
	// Possibly deeper than a path may be long, so step by step. On each level is a closed
	// folder, so that one of these folders is to be moved up.
	deep, err := os.OpenRoot(dir)
	must(err)
	for range 5 * treeDepth {
		must(deep.Mkdir("shut", 0))
		must(deep.Mkdir(name, 0o700))
		next, err := deep.OpenRoot(name)
		must(err)
		must(deep.Close())
		deep = next
	}
	must(deep.Close())

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := RemoveTree(ended, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("with the launcher going down: got %v, want a cancelled removal", err)
	}
	if err := RemoveTree(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "file")); string(text) != "kept" {
		t.Errorf("a link was followed: %q, %v", text, err)
	}
	if err := RemoveTree(t.Context(), dir); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
	must(os.Symlink(outside, dir))
	if err := RemoveTree(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("the folder itself is a link, and was followed: %v", err)
	}
}

// The sweep removes the folders of dead keepers by the process id at the end of the name,
// and nothing else: not of a living process of this place, not of a launcher, and no target
// of a link.
func TestSweepRemovesTheFoldersOfDeadKeepers(t *testing.T) {
	p := Place{Dir: t.TempDir(), Node: "long-name-of-a-node-9.example.org"}
	const dead = 1 << 23 // above the greatest process id of Linux
	outside := t.TempDir()
	name := func(job string, pid int) string {
		return filepath.Join(p.TmpDir(), p.TmpName(job, 2, KeeperWord(pid, 3)))
	}
	if got, want := filepath.Base(name("7.12", 99)), "filch-7.12.2-long-name-of-a-n-99.3"; got != want {
		t.Errorf("the name is %s, want %s", got, want)
	}
	gone := []string{name("7", dead), filepath.Join(p.Dir, "pmix", KeeperWord(dead, 1))}
	kept := []string{name("8", os.Getpid()), filepath.Join(p.TmpDir(), "1", p.TmpName("9.1", 1, strconv.Itoa(dead))), filepath.Join(p.TmpDir(), "filch-x")}
	for _, dir := range append(gone, kept...) {
		if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(gone[0], "in"), 0o500); err != nil {
		t.Fatal(err)
	}
	link := name("10", dead)
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	removeScratch(p)
	for _, dir := range append(gone, link) {
		if PathExists(dir) {
			t.Errorf("%s of a dead keeper stays", dir)
		}
	}
	for _, dir := range append(kept, outside) {
		if !PathExists(dir) {
			t.Errorf("%s is gone", dir)
		}
	}
}
