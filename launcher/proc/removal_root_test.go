//go:build root

package proc

import (
	"os"
	"path/filepath"
	"testing"
)

// The sweep of the folders of dead keepers keeps the folders of other users, who may write
// to /dev/shm, whatever their names are.
func TestRootSweepKeepsTheFoldersOfOthers(t *testing.T) {
	p := Place{Dir: t.TempDir(), Node: "n1"}
	const dead, stranger = 1 << 23, 65534
	word := KeeperWord(dead, 1)
	s := ScratchPrefix(p)
	t.Cleanup(func() { os.RemoveAll(s.Shm + word); os.RemoveAll(s.Shm + KeeperWord(dead+1, 1)) })
	theirs := []string{filepath.Join(p.TmpDir(), p.TmpName("7", 1, word)), s.Dir + word, s.Shm + word}
	word = KeeperWord(dead+1, 1)
	ours := []string{filepath.Join(p.TmpDir(), p.TmpName("7", 1, word)), s.Dir + word, s.Shm + word}
	for _, dir := range append(ours, theirs...) {
		if err := os.MkdirAll(filepath.Join(dir, "in"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range theirs {
		if err := os.Chown(dir, stranger, stranger); err != nil {
			t.Fatal(err)
		}
	}
	removeScratch(p)
	for _, dir := range theirs {
		if !PathExists(filepath.Join(dir, "in")) {
			t.Errorf("%s of another user is gone", dir)
		}
	}
	for _, dir := range ours {
		if PathExists(dir) {
			t.Errorf("%s of a dead keeper stays", dir)
		}
	}
}
