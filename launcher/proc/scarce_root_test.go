//go:build root

package proc_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/filch-hpc/filch/launcher"
)

// smallDisk mounts a tmpfs.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		t.Fatalf("mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// fill leaves a disk with no byte, and returns what makes room again.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	name := filepath.Join(dir, "ballast")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<16); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
	return func() {
		if err := os.Remove(name); err != nil {
			t.Error(err)
		}
	}
}

// TestRootRunnerOnAFullDisk runs tasks that print while the disk has no room: they
// end as if there were, and their ends say that output is missing.
func TestRootRunnerOnAFullDisk(t *testing.T) {
	dir := smallDisk(t, "24m")
	c := newCrewIn(t, dir)
	speak := func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "echo out $FILCH_TASK && echo err $FILCH_TASK >&2"}
	}
	c.order(speak)
	if e := c.end(c.start(launcher.TaskStart{})); e.Kind != launcher.CauseNone || e.Cut || e.Bytes != 12 {
		t.Errorf("before: got %+v", e)
	}
	if out := c.printed(); out["0.1"] != "out 0\n" || out["0.2"] != "err 0\n" {
		t.Errorf("before: got %q", out)
	}
	free := fill(t, dir)
	c.order(speak)
	first := c.start(make([]launcher.TaskStart, 20)...)
	for i := range uint64(20) {
		if e := c.end(first + i); e.Kind != launcher.CauseNone || !e.Cut || e.Bytes != 0 {
			t.Errorf("on the full disk: got %+v", e)
		}
	}
	c.order(func(o *launcher.TaskOrder) { o.Argv = []string{"true"} })
	if e := c.end(c.start(launcher.TaskStart{})); e.Kind != launcher.CauseNone || e.Cut {
		t.Errorf("a task that prints nothing: got %+v", e)
	}
	free()
	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "echo first; head -c 50000000 /dev/zero; echo last"}
	})
	e := c.end(c.start(launcher.TaskStart{}))
	if e.Kind != launcher.CauseNone || !e.Cut || e.Bytes == 0 {
		t.Errorf("a flood on a small disk: got %+v", e)
	}
	out := c.printed()["0.1"]
	if !strings.HasPrefix(out, "first\n") || !strings.HasSuffix(out, "last\n") || int64(len(out)) != e.Bytes {
		t.Errorf("got %d bytes of %d, %.10q ... %.10q", len(out), e.Bytes, out, out[max(0, len(out)-10):])
	}
}

// TestRootRunnerWhileADiskFills lets a task print before and after somebody else took
// all of the room.
func TestRootRunnerWhileADiskFills(t *testing.T) {
	dir := smallDisk(t, "24m")
	c := newCrewIn(t, dir)
	work := t.TempDir()
	c.order(func(o *launcher.TaskOrder) {
		o.Argv, o.Cwd = []string{"sh", "-c", "echo begin && : >began && until [ -e full ]; do :; done && echo end"}, work
	})
	serial := c.start(launcher.TaskStart{})
	eventually(t, "the task prints", func() bool { _, err := os.Stat(filepath.Join(work, "began")); return err == nil })
	free := fill(t, dir)
	if err := os.WriteFile(filepath.Join(work, "full"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if e := c.end(serial); e.Kind != launcher.CauseNone || !e.Cut {
		t.Errorf("got %+v", e)
	}
	free()
}

// TestRootRankWithAFullFile runs a rank that writes a file of its own on a full disk: the
// rank's own words about the error have no room, and the end of the rank names the disk.
func TestRootRankWithAFullFile(t *testing.T) {
	dir := smallDisk(t, "1m")
	b := newBoss(t)
	for _, full := range []bool{false, true} {
		if full {
			defer fill(t, dir)()
		}
		o := newOrder(1, "/bin/sh", "-c", "head -c 1000 /dev/zero; exit 3")
		o.Cwd, o.IO.Stdout = dir, "out.%t"
		b.run(o)
		s := b.untilDone()
		want := "exited with 3"
		if full {
			want += "; the disk of " + dir + ", where the rank's output goes, is full"
		}
		if got := s.ends[0].Text; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		b.forget()
	}
}
