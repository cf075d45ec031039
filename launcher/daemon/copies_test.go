package daemon

import (
	"archive/tar"
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// program gives a request a copy, as filch run --bcast does on node r: a script
// and padding, so that it has about so many bytes.
func (r *rig) program(q *launcher.Request, script string, size int) *launcher.Request {
	r.t.Helper()
	text := append([]byte("#!/bin/sh\n"+script+"\nexit\n"), bytes.Repeat([]byte("x"), size)...)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "prog", Size: int64(len(text)), Mode: 0o700})
	if err == nil {
		_, err = w.Write(text)
	}
	if err == nil {
		err = w.Close()
	}
	var word [16]byte
	_, _ = rand.Read(word[:])
	c := &launcher.Copy{File: hex.EncodeToString(word[:]), Name: "prog", Bytes: int64(b.Len()), Sum: sha256.Sum256(b.Bytes())}
	if err == nil {
		err = os.WriteFile(filepath.Join(r.cfg.Dir.Bcast(), c.File+".tar"), b.Bytes(), 0o600)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	q.Copy = c
	return q
}

// copied is a request for all slots, submitted on node 0, of such a script.
func (c *cluster) copied(script string, size int) *launcher.Request {
	c.t.Helper()
	return c.nodes[0].program(c.wide("prog"), script, size)
}

// bcast lists what is in the folder of copies of node i.
func (c *cluster) bcast(i int) []string {
	entries, err := os.ReadDir(c.nodes[i].cfg.Dir.Bcast())
	if err != nil {
		c.t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// bare waits until no node has anything of a copy.
func (c *cluster) bare() {
	c.t.Helper()
	for i := range c.nodes {
		var left []string
		poll(c.t, "the copies to be removed", func() bool { left = c.bcast(i); return len(left) == 0 })
	}
}

// arrived are the archives that came to each node.
func (c *cluster) arrived() []uint64 {
	var n []uint64
	for _, r := range c.nodes {
		n = append(n, r.cfg.Watch.Count(watch.CopiesIn))
	}
	return n
}

func TestCopyComesToEachNodeOnce(t *testing.T) {
	c := newCluster(t, 3, 2)
	o := finish(t, c.submit(0, c.copied("echo $0", 3*wire.PartBytes)), nil)
	if o.ended.Code != 0 {
		t.Fatalf("got %+v", o.ended)
	}
	lines := sortedLines(o.out)
	if len(lines) != 6 || len(slices.Compact(slices.Clone(lines))) != 3 {
		t.Fatalf("got %q, want two ranks of each node", lines)
	}
	for i, r := range c.nodes {
		if dir := r.cfg.Dir.Bcast() + "/"; !strings.HasPrefix(lines[2*i], dir) || filepath.Base(lines[2*i]) != "prog" {
			t.Errorf("a rank ran %s, want it in %s", lines[2*i], dir)
		}
	}
	if got, want := c.arrived(), []uint64{0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("archives that came to the nodes: got %v, want %v", got, want)
	}
	c.bare()
}

// With more nodes than the tree is wide some fetch from another than the origin.
func TestCopyGoesDownTheTree(t *testing.T) {
	c := newCluster(t, launcher.TreeWidth+3, 1)
	req := c.copied("echo $0", 1000)
	var nodes []launcher.NodeRanks
	o := finish(t, c.submit(0, req), func(v any) {
		if s, ok := v.(launcher.Started); ok {
			nodes = s.Nodes
		}
	})
	if n := len(sortedLines(o.out)); o.ended.Code != 0 || n != len(c.nodes) {
		t.Fatalf("got %d lines and %+v", n, o.ended)
	}
	for i, n := range c.arrived() {
		if want := min(i, 1); n != uint64(want) {
			t.Errorf("n%d: %d archives came, want %d", i+1, n, want)
		}
	}
	l := launcher.Launch{Nodes: nodes, Copy: &launcher.Copy{From: "n1"}}
	if got := l.CopyParent(launcher.TreeWidth + 2); got != nodes[1].Node {
		t.Errorf("the last node fetches from %s, want %s", got, nodes[1].Node)
	}
	c.bare()
}

// An archive that nodes keep comes to each node once, for all jobs with the program, also when
// the node of the submission has the archive no more.
func TestKeptCopyComesOnceForAllJobs(t *testing.T) {
	c := newCluster(t, 3, 2)
	kept := func() *launcher.Request {
		q := c.copied("echo $0", 3*wire.PartBytes)
		at := filepath.Join(c.nodes[0].cfg.Dir.Bcast(), q.Copy.Archive())
		q.Copy.File, q.Copy.Kept, q.Copy.From = launcher.KeptFile(q.Copy.Sum), true, "n1"
		if err := os.Rename(at, filepath.Join(c.nodes[0].cfg.Dir.Bcast(), q.Copy.Archive())); err != nil {
			t.Fatal(err)
		}
		return q
	}
	for range 3 {
		if o := finish(t, c.submit(0, kept()), nil); o.ended.Code != 0 || len(sortedLines(o.out)) != 6 {
			t.Fatalf("got %q and %+v", o.out, o.ended)
		}
	}
	if got, want := c.arrived(), []uint64{0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("archives that came to the nodes: got %v, want %v", got, want)
	}
	q := kept()
	for i := range c.nodes {
		poll(t, "the folders of the jobs to be removed", func() bool { return slices.Equal(c.bcast(i), []string{q.Copy.Archive()}) })
	}
	for i := range 2 {
		if err := os.Remove(filepath.Join(c.nodes[i].cfg.Dir.Bcast(), q.Copy.Archive())); err != nil {
			t.Fatal(err)
		}
	}
	if o := finish(t, c.submit(0, q), nil); o.ended.Code != 0 || len(sortedLines(o.out)) != 6 {
		t.Fatalf("without the archive of n1: got %q and %+v", o.out, o.ended)
	}
	for i := range c.nodes {
		if err := os.Remove(filepath.Join(c.nodes[i].cfg.Dir.Bcast(), q.Copy.Archive())); err != nil {
			t.Fatal(err)
		}
	}
	o := finish(t, c.submit(0, q), nil)
	if want := "no node has the copy that n1 made at the submission"; o.ended.Code == 0 || !strings.Contains(o.ended.Cause.Text, want) {
		t.Errorf("got %+v, want %q", o.ended, want)
	}
}

func TestCopyOfAJobOfOneNodeIsNotSent(t *testing.T) {
	c := newCluster(t, 1, 2)
	r := c.nodes[0]
	o := finish(t, c.submit(0, c.copied("echo $0; exit 3", 1000)), nil)
	if o.ended.Code != 3 || !strings.HasPrefix(string(o.out), r.cfg.Dir.Bcast()) {
		t.Errorf("got %q and %+v", o.out, o.ended)
	}
	c.bare()
}

func TestCopyFails(t *testing.T) {
	for name, x := range map[string]struct {
		spoil func(t *testing.T, c *cluster, q *launcher.Request)
		want  []string
	}{
		"no-folder": {func(t *testing.T, c *cluster, _ *launcher.Request) {
			if err := os.Remove(c.nodes[2].cfg.Dir.Bcast()); err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot copy prog", "to n3", "no such file"}},
		"no-archive": {func(t *testing.T, c *cluster, q *launcher.Request) {
			if err := os.Remove(filepath.Join(c.nodes[0].cfg.Dir.Bcast(), q.Copy.File+".tar")); err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot copy prog", "to n", "no such file"}},
		"changed": {func(t *testing.T, c *cluster, q *launcher.Request) {
			name := filepath.Join(c.nodes[0].cfg.Dir.Bcast(), q.Copy.File+".tar")
			b, err := os.ReadFile(name)
			if err == nil {
				b[len(b)/2]++
				err = os.WriteFile(name, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot copy prog", "to n", "the copy is damaged", "differ"}},
		"cut-short": {func(t *testing.T, c *cluster, q *launcher.Request) {
			if err := os.Truncate(filepath.Join(c.nodes[0].cfg.Dir.Bcast(), q.Copy.File+".tar"), 700); err != nil {
				t.Fatal(err)
			}
		}, []string{"cannot copy prog", "to n"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, 3, 1)
			q := c.copied("echo it ran", 1000)
			x.spoil(t, c, q)
			o := finish(t, c.submit(0, q), nil)
			if o.ended.Code != filch.ExitOurs || len(o.out) > 0 {
				t.Errorf("got %q and %+v", o.out, o.ended)
			}
			for _, w := range x.want {
				if !strings.Contains(o.ended.Cause.Text, w) {
					t.Errorf("got %q, want %q in it", o.ended.Cause.Text, w)
				}
			}
			if name == "no-folder" {
				if err := c.nodes[2].cfg.Dir.Make(); err != nil {
					t.Fatal(err)
				}
			}
			c.bare()
			for _, r := range c.nodes {
				poll(t, "nothing to be left", func() bool { return r.stats().Routes == 0 })
			}
			if o := finish(t, c.submit(0, c.copied("exit 0", 10)), nil); o.ended.Code != 0 {
				t.Errorf("the next one: %+v", o.ended)
			}
		})
	}
}

// A request of which no job is made leaves nothing.
func TestCopyOfARefusedJobIsRemoved(t *testing.T) {
	c := newCluster(t, 1, 1)
	run := c.submit(0, c.nodes[0].program(request(t, 64, "prog"), "", 10))
	if v, err := run.Next(); err != nil {
		t.Fatal(err)
	} else if _, ok := v.(launcher.Refused); !ok {
		t.Fatalf("got %+v", v)
	}
	run.Close()
	c.bare()
	for _, file := range []string{"../../../etc/passwd", "x", "", strings.Repeat("A", 32)} {
		q := c.nodes[0].program(request(t, 1, "prog"), "", 10)
		os.Remove(filepath.Join(c.nodes[0].cfg.Dir.Bcast(), q.Copy.File+".tar"))
		q.Copy.File = file
		v, err := c.submit(0, q).Next()
		if r, ok := v.(launcher.Refused); err != nil || !ok || r.Err.Kind != filch.Invalid {
			t.Errorf("the archive %q: got %+v, %v", file, v, err)
		}
	}
}

func TestCopyIsStoppedWithItsJob(t *testing.T) {
	c := newCluster(t, 3, 1)
	c.fabric.SetDelay(20 * time.Millisecond)
	run := c.submit(0, c.copied("echo it ran", 40*wire.PartBytes))
	c.onTheWay(func(int) {
		if err := run.Cancel(15); err != nil {
			t.Error(err)
		}
	})
	o := finish(t, run, nil)
	if o.ended.Code != filch.ExitCancelled || len(o.out) > 0 || strings.Contains(o.ended.Cause.Text, "nodes") {
		t.Errorf("got %q and %+v", o.out, o.ended)
	}
	c.bare()
}

func TestCopyGoesWithItsClient(t *testing.T) {
	c := newCluster(t, 3, 1)
	c.fabric.SetDelay(20 * time.Millisecond)
	run := c.submit(0, c.copied("echo it ran", 40*wire.PartBytes))
	accepted(t, run)
	c.onTheWay(func(int) { run.Close() })
	c.bare()
	for _, r := range c.nodes {
		poll(t, "nothing to be left", func() bool { return r.stats().Routes == 0 })
	}
}

// A node that dies while it gets its copy is replaced, and its substitute gets
// one too.
func TestCopyGoesToANodeThatTakesTheNextAttempt(t *testing.T) {
	c := newCluster(t, 4, 1)
	c.fabric.SetDelay(20 * time.Millisecond)
	q := c.nodes[0].program(request(t, 3, "prog"), "echo ran", 40*wire.PartBytes)
	run := c.submit(0, q)
	accepted(t, run)
	dead := 0
	c.onTheWay(func(i int) {
		dead = i
		c.nodes[i].Stop()
		c.nodes[i].end()
	})
	c.fabric.SetDelay(0)
	o := finish(t, run, nil)
	if o.ended.Code != 0 || string(o.out) != "ran\nran\nran\n" {
		t.Errorf("n%d died: got %q and %+v", dead+1, o.out, o.ended)
	}
	for i, n := range c.arrived() {
		if i != 0 && i != dead && n == 0 {
			t.Errorf("n%d ran a rank without a copy", i+1)
		}
	}
}

// accepted waits until a run is a job.
func accepted(t *testing.T, run interface{ Next() (any, error) }) {
	t.Helper()
	for {
		v, err := run.Next()
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := v.(launcher.Accepted); ok {
			return
		}
	}
}

// onTheWay calls f when a copy is on its way to a node.
func (c *cluster) onTheWay(f func(node int)) {
	c.t.Helper()
	poll(c.t, "a copy to be on its way", func() bool {
		for i := 1; i < len(c.nodes); i++ {
			if slices.ContainsFunc(c.bcast(i), func(n string) bool { return strings.HasSuffix(n, ".part") }) {
				f(i)
				return true
			}
		}
		return false
	})
}

// An archive waits with its job for a restart of the launcher; what else the
// launcher before had goes.
func TestCopyOutlivesALauncherThatIsRestarted(t *testing.T) {
	t.Run("attached", func(t *testing.T) { testCopyOutlives(t, false) })
	t.Run("detached", func(t *testing.T) { testCopyOutlives(t, true) })
}

func testCopyOutlives(t *testing.T, detach bool) {
	c := newCluster(t, 2, 1)
	first := c.submit(1, c.wide("sleep", "1"))
	untilStarted(t, first)
	mark := filepath.Join(c.base, "mark.")
	q := c.copied("touch "+mark+"$FILCH_RANK", 1000)
	q.Detach = detach
	run := c.submit(0, q)
	accepted(t, run)
	dir := c.nodes[0].cfg.Dir.Bcast()
	have := c.bcast(0)
	for _, name := range []string{strings.Repeat("0", 32) + ".tar", "5.1.1.tar", "5.1.1.part"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	victim := filepath.Join(c.base, "victim")
	if err := os.MkdirAll(filepath.Join(victim, "deep"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "999999999.1"), 0o700); err != nil { // of no living keeper
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(dir, "999999999.1", "link")); err != nil {
		t.Fatal(err)
	}
	c.restart(0)
	poll(t, "the leftovers to be removed", func() bool { return slices.Equal(c.bcast(0), have) })
	if _, err := os.Stat(filepath.Join(victim, "deep")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	finish(t, first, nil)
	if !detach {
		if o := finish(t, run, nil); o.ended.Code != 0 {
			t.Errorf("got %+v", o.ended)
		}
	}
	pollFor(t, 30*time.Second, "all ranks to run", func() bool { m, _ := filepath.Glob(mark + "*"); return len(m) == 2 })
	c.bare()
}

// The folder of a copy goes when its keeper was killed, too.
func TestCopyGoesWithItsKeeper(t *testing.T) {
	c := newCluster(t, 2, 1)
	o := finish(t, c.submit(0, c.copied("[ $FILCH_RANK = 1 ] && kill -9 $PPID; sleep 991", 10)), nil)
	if o.ended.Code == 0 {
		t.Errorf("got %+v", o.ended)
	}
	c.bare()
}

func TestCopyOfADetachedJobStaysUntilItsEnd(t *testing.T) {
	c := newCluster(t, 3, 1)
	gate := filepath.Join(c.base, "gate")
	mark := filepath.Join(c.base, "mark.")
	q := c.copied("while [ ! -e "+gate+" ]; do sleep 0.01; done; [ -x $0 ] && touch "+mark+"$FILCH_RANK", 10)
	q.Detach = true
	run := c.submit(0, q)
	accepted(t, run)
	run.Close()
	poll(t, "the copies to be there", func() bool { return len(c.bcast(1))+len(c.bcast(2)) >= 2 })
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "all ranks to find their program", func() bool { m, _ := filepath.Glob(mark + "*"); return len(m) == 3 })
	c.bare()
}
