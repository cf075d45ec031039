package children

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
)

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
