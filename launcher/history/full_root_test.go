//go:build root

package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// On a full disk, no end waits, the writer says that the disk is full, and each entry is
// written once there is space, whole and once. Half a line may stay behind.
func TestRootAFullDiskLosesNothingThatFits(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 112<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, dir, "n1", time.Millisecond)
	const total = 30
	for i := range total {
		e := entry("u1", filch.JobID(i+1), 1, int64(i))
		e.Job.Cause = strings.Repeat("x", 600) // more of all than the 16 KiB that are free
		w.Add(e)
	}
	w.until("the report of a full disk", func() bool { _, tells := w.losses(); return tells == 1 })
	w.mu.Lock()
	why := w.why
	w.mu.Unlock()
	if !errors.Is(why, unix.ENOSPC) || !strings.Contains(why.Error(), dir) {
		t.Errorf("the reason is %v, want a full disk and the folder %s", why, dir)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	w.until("the entries", func() bool { list, _, _ := Read(dir, 0, all); return len(list) == total })
	w.end()
	list, damage := read(t, dir, 0)
	if lost, _ := w.losses(); lost != 0 || len(list) != total || damage.Files != 0 || damage.Lines > 1 {
		t.Errorf("%d entries of %d with %+v, and %d lost", len(list), total, damage, lost)
	}
}
