//go:build root

package daemon

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher/wire"
)

// With a home whose server does not answer, jobs end as ever, the launcher says that the history
// is not written, and the launcher ends.
func TestRootAHungHomeCostsNoEnd(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("%v: modprobe fuse", err)
	}
	// Nobody reads the questions of the kernel: a folder access waits for ever.
	if err := unix.Mount("hung", home, "fuse", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", fd)); err != nil {
		t.Fatal(err)
	}
	cfg := testConfig(t)
	cfg.History = filepath.Join(home, "history")
	r := start(t, cfg)
	t.Cleanup(func() { // the writer waits until the kernel gives up
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
		if err := unix.Unmount(home, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
		select {
		case <-r.past.ended:
		case <-time.After(20 * time.Second):
			t.Error("the history's writer does not end although the file system answers")
		}
	})
	run := func(jobs int) {
		t.Helper()
		for range jobs {
			s, err := r.dial().Submit(request(t, 1, "true"))
			if err != nil {
				t.Fatal(err)
			}
			o := finish(t, s, nil)
			s.Close()
			if o.ended.Code != 0 {
				t.Fatalf("got %+v", o.ended)
			}
		}
	}
	run(5)
	pollFor(t, 30*time.Second, "the trouble in the roster", func() bool {
		var list []wire.RosterInfo
		r.query(t, &list, wire.VerbRoster, wire.OnlyHere)
		h := list[0].Here
		return h.HistoryEnds == 5 && strings.Contains(h.History, "the file system of "+cfg.History+" has not answered for")
	})
	run(3)
	logged := func(what string) int {
		b, err := os.ReadFile(cfg.Dir.Log())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(b), what)
	}
	const missing = "the history of jobs is not written"
	if n := logged(missing); n != 1 {
		t.Errorf("the log tells %d times that the history is not written, want once", n)
	}
	began := time.Now()
	r.Stop()
	r.end()
	if took := time.Since(began); took > 4*pastEnd {
		t.Errorf("the launcher took %v to end", took)
	}
	if logged(missing) != 2 || logged(`"jobs":8`) != 1 {
		t.Error("the log does not tell of the 8 ends that are missing at the end of the launcher")
	}
}
