package children

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A folder is removed with all that a task may leave: links to elsewhere, folders that
// nobody may write, a path longer than a name may be.
func TestRemoveTree(t *testing.T) {
	top := t.TempDir()
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
	// Deeper than a path may be long, so step by step.
	deep, err := os.OpenRoot(dir)
	must(err)
	for range 5 * tempDepth {
		name := strings.Repeat("d", 200)
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
