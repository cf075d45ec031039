//go:build root

package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// hang mounts a file system on dir whose server answers nothing, as a server of files that is
// gone. Whatever touches the folder waits in the kernel until release, and then fails.
func hang(t *testing.T, dir string) (release func()) {
	t.Helper()
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("%v: modprobe fuse", err)
	}
	if err := unix.Mount("hung", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Fatal(err)
	}
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		if err := unix.Close(fd); err != nil { // who waits gets an error
			t.Error(err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(release)
	return release
}

// A file system that hangs holds the writer's goroutine and nobody else: Add never waits, the
// queue is bounded, the writer says that the file system is silent and how many entries are lost,
// and writes the others once a file system answers.
func TestRootAHungFileSystemHoldsNobody(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	release := hang(t, dir)
	w := newRunning(t, dir, "n1", time.Millisecond)
	w.silent = 50 * time.Millisecond
	w.begin()
	w.Add(entry("u1", 1, 1, 1))
	w.until("the report of a silent file system", func() bool { _, tells := w.losses(); return tells > 0 })
	w.mu.Lock()
	why := w.why
	w.mu.Unlock()
	if why == nil || !strings.Contains(why.Error(), "the file system of "+dir+" has not answered for") {
		t.Errorf("the reason is %v", why)
	}
	const total = 20_000
	for i := 1; i < total; i++ {
		w.Add(entry("u1", filch.JobID(i+1), 1, int64(i)))
	}
	w.Writer.mu.Lock()
	waiting := len(w.lines)
	w.Writer.mu.Unlock()
	if waiting > maxWaiting {
		t.Errorf("%d bytes wait, the most is %d", waiting, maxWaiting)
	}
	if n, why := w.Unwritten(); n != total || !strings.Contains(why, "has not answered for") {
		t.Errorf("%d of %d entries are not written, with none reported as lost: %q", n, total, why)
	}
	release() // the folder below the mount answers
	w.until("an entry on disk", func() bool { list, _, _ := Read(dir, 0, all); return len(list) > 0 })
	w.end()
	if n, why := w.Unwritten(); n != 0 || why != "" {
		t.Errorf("%d entries are not written at the end: %q", n, why)
	}
	lost, _ := w.losses()
	list, damage := read(t, dir, 0)
	if lost == 0 || len(list)+lost != total || damage != (Damage{}) {
		t.Errorf("%d entries are written and %d lost, with %+v; want %d together, some lost", len(list), lost, damage, total)
	}
}
