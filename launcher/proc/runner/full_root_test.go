//go:build root

package runner

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// A task that fails on a full disk has the disk as the reason: the node, the folder, the
// free bytes, and the remedy. A task that fails beside free space has not.
func TestRootFullDiskIsTheReason(t *testing.T) {
	r := newLookRig(t)
	small := filepath.Join(t.TempDir(), "small")
	if err := os.Mkdir(small, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=1m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(small, unix.MNT_DETACH) })
	end := func(cwd, script string) launcher.TaskEnd {
		t.Helper()
		r.orders[1] = newTaskOrder(r.runner, &launcher.TaskOrder{Ident: filch.Ident{Job: 1}, Keep: launcher.KeepAll, Env: os.Environ(), Cwd: cwd})
		r.start(&launcher.TaskStart{Serial: 1, Job: 1, Index: 1, Nth: 1, Argv: []string{"/bin/sh", "-c", script}})
		for len(r.tasks) > 0 {
			r.turn()
		}
		if len(r.ends) != 1 {
			t.Fatalf("got %+v, want one end", r.ends)
		}
		e := r.ends[0]
		r.ends = nil
		return e
	}
	if e := end(small, "exit 3"); e.Full || e.Text != "exited with 3" {
		t.Errorf("beside free space: got %+v", e)
	}
	e := end(small, "head -c 2000000 /dev/zero >ballast")
	if want := "the disk of " + small + " on n3 is full: 0 bytes are free; make room there"; !e.Full || !strings.Contains(e.Text, want) || e.Bytes == 0 {
		t.Errorf("on the full disk: got %+v, want %q", e, want)
	}
	if e := end(r.place.Dir, "exit 4"); e.Full {
		t.Errorf("on another disk: got %+v", e)
	}
}
