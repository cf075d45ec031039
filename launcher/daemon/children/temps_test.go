package children

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
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
	for i := range 2 * tempNames {
		must(os.WriteFile(filepath.Join(dir, fmt.Sprintf("many\n%d", i)), nil, 0o400))
	}
	// Possibly deeper than a path may be long, so step by step. On each level is a closed
	// folder, so that one of these folders is to be moved up.
	deep, err := os.OpenRoot(dir)
	must(err)
	for range 5 * tempDepth {
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
	if err := removeTree(ended, dir); !errors.Is(err, context.Canceled) {
		t.Errorf("with the launcher going down: got %v, want a cancelled removal", err)
	}
	if err := removeTree(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	if text, err := os.ReadFile(filepath.Join(outside, "file")); string(text) != "kept" {
		t.Errorf("a link was followed: %q, %v", text, err)
	}
	if err := removeTree(t.Context(), dir); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
	must(os.Symlink(outside, dir))
	if err := removeTree(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Errorf("the folder itself is a link, and was followed: %v", err)
	}
}

// A folder of many files is away at once, though the removal takes its time; a launcher
// that ends before has the next one remove the folder.
func TestDiscardedFolderIsAwayAtOnce(t *testing.T) {
	state := t.TempDir()
	in := inputs.New("n1", watch.Discard())
	defer in.Wait()
	tm := newTemps(in, state)
	tm.busy = true // with other folders
	for i := range 2 {
		dir := filepath.Join(state, "stage", "7")
		if err := os.MkdirAll(filepath.Join(dir, "have"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := tm.discard(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) || len(tm.pending) != i+1 {
			t.Fatalf("after discard: got %v and %d folders to be removed", err, len(tm.pending))
		}
	}
	if err := tm.discard(filepath.Join(state, "stage", "7")); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}

	later := newTemps(in, state)
	later.next()
	in.Wait()
	if left, err := os.ReadDir(filepath.Join(state, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
