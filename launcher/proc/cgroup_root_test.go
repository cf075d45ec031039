//go:build root

package proc_test

import (
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher"
)

func init() { helpers["eat"] = helperEat }

// helperEat takes memory until it is killed.
func helperEat([]string) int {
	var all [][]byte
	for range 64 {
		b := make([]byte, 4<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	return len(all) & 1
}

func TestRootOutOfMemory(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, argv("eat")...)
	o.start.Memory = 64 << 20
	b.run(o)
	s := b.untilDone()
	if len(s.warns) > 0 {
		t.Fatalf("the keeper made no cgroup for memory: %q", s.warns)
	}
	if e := s.ends[0]; e.Kind != launcher.CauseOOM || e.Code != 9 || e.Told || e.Text != "killed: out of memory (the job's limit here is 64 MiB)" {
		t.Errorf("got %+v", e)
	}
	b.forget()
	o = newOrder(1, argv("eat")...)
	b.run(o)
	if s = b.untilDone(); s.ends[0].Code != 0 {
		t.Errorf("the limit of one job reached the next: %+v", s.ends)
	}
}

// TestRootNestedCgroup has a rank make a cgroup of its own in ours.
func TestRootNestedCgroup(t *testing.T) {
	b := newBoss(t)
	o := newOrder(1, "/bin/sh", "-c", `for m in /sys/fs/cgroup/unified /sys/fs/cgroup; do
		d=$m$(sed -n s/^0:://p /proc/self/cgroup)
		case $d in *filch-*) mkdir $d/inner && echo $$ >$d/inner/cgroup.procs && echo in $d && echo up $$ && exec sleep 1000;; esac
	done; echo no; exit 1`)
	b.run(o)
	s := b.until("the rank", func(s seen) bool { return len(pidsAfter(s, "up")) == 1 || len(s.ends) > 0 })
	if len(pidsAfter(s, "up")) == 0 {
		b.untilDone()
		t.Fatalf("the keeper made no cgroup: %q", s.out)
	}
	dir, _, _ := strings.Cut(strings.TrimPrefix(string(s.out["0.1"]), "in "), "\n")
	b.stop(unix.SIGKILL, 0)
	b.untilDone()
	b.forget()
	if _, err := os.Stat(dir); err == nil {
		t.Errorf("%s is left", dir)
	}
}

func TestRootRunnerMemoryLimit(t *testing.T) {
	c := newCrew(t)
	c.order(func(o *launcher.TaskOrder) {
		o.Argv = []string{"sh", "-c", "x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo ${#x}"}
	})
	e := c.end(c.start(launcher.TaskStart{Memory: 32 << 20}))
	if e.Kind != launcher.CauseOOM && e.Kind != launcher.CauseExit {
		t.Errorf("got %+v", e)
	}
	if e := c.end(c.start(launcher.TaskStart{Memory: 1 << 30})); e.Kind != launcher.CauseNone {
		t.Errorf("with enough: got %+v", e)
	}
}
