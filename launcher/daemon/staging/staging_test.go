package staging

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// group is the files of several nodes, which send each other frames.
type group struct {
	cut filch.NodeName // lives, and no node has a way to it
	t   testing.TB
	// way sees each frame before its arrival; false loses the frame.
	way func(from, to filch.NodeName, f *wire.Frame) bool

	mu    sync.Mutex // guards the fields below
	nodes map[filch.NodeName]*Files
	lives map[filch.NodeName]uint64
	asked map[filch.NodeName]int // requests by their receiver
}

func newPair(t testing.TB) *group { return newGroup(t, "n1", "n2") }

func newGroup(t testing.TB, names ...filch.NodeName) *group {
	c := &group{t: t, nodes: map[filch.NodeName]*Files{}, lives: map[filch.NodeName]uint64{}, asked: map[filch.NodeName]int{}}
	for _, n := range names {
		c.start(n)
	}
	return c
}

// kill ends a node for good.
func (c *group) kill(n filch.NodeName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.nodes, n)
}

func (c *group) start(n filch.NodeName) {
	g := NewFiles(inputs.New(n, watch.Discard()), c.t.TempDir(), "filch", c.of(n), nil)
	NewCopies(g.in, place.Dir{Base: c.t.TempDir(), Instance: "i", Node: string(n)}, g, nil, nil)
	NewGangs(g.in, g, nil, nil)
	g.Connect(c.of(n))
	c.t.Cleanup(func() { g.in.Stop(); g.in.Wait() })
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes[n] = g
	c.lives[n]++
}

// restart ends a node and starts the next launcher of the node.
func (c *group) restart(n filch.NodeName) {
	c.node(n).in.Stop()
	c.start(n)
}

func (c *group) node(n filch.NodeName) *Files {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.nodes[n]
}

func (c *group) of(n filch.NodeName) end { return end{c, n} }

// end is the network and the list of nodes as a node sees them.
type end struct {
	*group
	self filch.NodeName
}

func (e end) Live(n filch.NodeName) bool { return n != e.self && e.node(n) != nil }

func (e end) Names() (names []filch.NodeName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for n := range e.nodes {
		if n != e.self {
			names = append(names, n)
		}
	}
	return names
}

func (e end) Incarnation(n filch.NodeName) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lives[n]
}

func (e end) Send(to filch.NodeName, _ overlay.Class, payload []byte) error {
	g := e.node(to)
	if g == nil || to == e.cut {
		return overlay.ErrUnreachable
	}
	f, err := wire.ParsePayload(bytes.Clone(payload))
	if err != nil {
		return err
	}
	if e.way != nil && !e.way(e.self, to, &f) {
		return nil
	}
	if f.Kind == wire.KindFetch {
		e.mu.Lock()
		e.asked[to]++
		e.mu.Unlock()
		return g.OnFetch(e.self, f)
	}
	return g.OnPart(e.self, f)
}

func (e end) SendWait(_ context.Context, to filch.NodeName, c overlay.Class, payload []byte) error {
	return e.Send(to, c, payload)
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("waited for %s", what)
}

// What another node asks for stays within the job's folder, and what is no
// file, or changes, is refused.
func TestFetchBelievesNobody(t *testing.T) {
	c := newPair(t)
	g := c.node("n1")
	root, err := g.root(5)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	have := filepath.Join(g.dir, "5", "have", "0")
	if err := os.MkdirAll(filepath.Join(have, "folder"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(have, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(have, "good"), []byte("good"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, q := range []wire.Fetch{
		{Path: "../0/good"},
		{Path: "/etc/passwd"},
		{Path: "link"},
		{Path: "folder"},
		{Path: ""},
		{Path: "none"},
		{Path: "good", Offset: 5},
		{Path: "good", Offset: -1},
		{Path: "good", Writer: 1},
		{Path: "passwd", Writer: -1, Folder: "etc"},
	} {
		q.Job = 5
		if p, err := c.node("n2").part(t.Context(), "n1", q); err == nil {
			t.Errorf("%+v: got %d bytes", q, len(p.Data))
		}
	}
	other, err := c.node("n2").root(5)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	n, err := c.node("n2").fetchFile(t.Context(), "n1", wire.Fetch{Job: 5, Path: "good"}, other, "part/1", "have/0/good", readOnly)
	if st, bad := other.Stat("have/0/good"); err != nil || bad != nil || n != 4 || st.Mode().Perm() != 0o555 {
		t.Errorf("got %d bytes, %v, %v", n, err, bad)
	}
	// A wrong sum: nothing appears.
	f, key, _, err := g.openKept(wire.Fetch{Job: 5, Path: "good"})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := g.sum(key, f)
	if err != nil {
		t.Fatal(err)
	}
	s.sum[0]++
	g.mu.Lock()
	g.sums[key] = s
	g.mu.Unlock()
	_, err = c.node("n2").fetchFile(t.Context(), "n1", wire.Fetch{Job: 5, Path: "good"}, other, "part/2", "have/0/bad", readOnly)
	if err == nil || !strings.Contains(err.Error(), "the copy is damaged") {
		t.Errorf("got %v", err)
	}
	for _, name := range []string{"have/0/bad", "part/2"} {
		if _, err := other.Stat(name); err == nil {
			t.Errorf("%s is there", name)
		}
	}
	// Nobody to ask, and somebody who gives up.
	if _, err := c.node("n2").part(t.Context(), "n9", wire.Fetch{Job: 5, Path: "good"}); err == nil {
		t.Error("a node that is not there answered")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.node("n2").fetchFile(ctx, "n9", wire.Fetch{Job: 5, Path: "good"}, other, "part/3", "have/0/never", readOnly); err == nil {
		t.Error("a file was brought from a node that is not there")
	}
}

// A node that was asked for a file by a launcher that is gone answers the one
// that came after it. That one has asked for another file meanwhile.
func TestAnswerToAnEarlierLauncherIsNotTaken(t *testing.T) {
	c := newPair(t)
	have := filepath.Join(c.node("n1").dir, "5", "have", "0")
	if err := os.MkdirAll(have, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "new"} {
		if err := os.WriteFile(filepath.Join(have, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	asked := func(name string) chan wire.Part {
		g, got := c.node("n2"), make(chan wire.Part, 1)
		go func() {
			parts, _ := g.askOnce(g.in.Context(), "n1", wire.Fetch{Job: 5, Path: name})
			if len(parts) == 1 {
				got <- parts[0]
			} else {
				got <- wire.Part{}
			}
		}()
		return got
	}
	// It hashes a large file, and what is asked for meanwhile waits.
	busy := c.node("n1")
	busy.hash.Lock()
	asked("old")
	poll(t, "the first question", func() bool { return len(busy.busy) == 1 })
	c.restart("n2")
	got := asked("new")
	poll(t, "the second question", func() bool { return len(busy.busy) == 2 })
	busy.hash.Unlock()
	if p := <-got; string(p.Data) != "new" {
		t.Errorf("asked for new, got %q", p.Data)
	}
}

// What was brought of a file before nobody wanted it any more is removed.
func TestPartOfAFileIsRemoved(t *testing.T) {
	c := newPair(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "start"), []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := c.node("n2")
	root, err := g.root(5)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	c.node("n1").hash.Lock() // it does not answer yet
	defer c.node("n1").hash.Unlock()
	ended := make(chan error, 1)
	go func() {
		_, err := g.fetchFile(ctx, "n1", wire.Fetch{Job: 5, Writer: -1, Folder: folder, Path: "start"}, root, "part/1", "have/start/start", readOnly)
		ended <- err
	}()
	poll(t, "a part", func() bool { _, err := root.Stat("part/1"); return err == nil })
	cancel()
	if err := <-ended; err == nil {
		t.Error("a file was brought that nobody sent")
	}
	if _, err := root.Stat("part/1"); err == nil {
		t.Error("a part is left")
	}
}

// TestUnpublishedOutputIsGivenAnew: the output of a task that came second is removed, and a
// reader on the same node gets the output of the recorded end.
func TestUnpublishedOutputIsGivenAnew(t *testing.T) {
	c := newPair(t)
	for _, n := range []filch.NodeName{"n1", "n2"} {
		root, err := c.node(n).root(7)
		if err != nil {
			t.Fatal(err)
		}
		if err := root.MkdirAll("have/3/sub", 0o700); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile("have/3/sub/out", []byte(n), 0o400); err != nil {
			t.Fatal(err)
		}
		if err := root.WriteFile("have/start", []byte("x"), 0o400); err != nil {
			t.Fatal(err)
		}
		_ = root.Close()
	}
	g := c.node("n2")
	g.Unpublish(7, 3)
	g.Unpublish(8, 3) // a job without files
	if _, err := os.Stat(filepath.Join(g.dir, "7/have/3")); !os.IsNotExist(err) {
		t.Errorf("the files are left: %v", err)
	}
	if _, err := os.Stat(filepath.Join(g.dir, "7/have/start")); err != nil {
		t.Errorf("other files are gone: %v", err)
	}
	p, err := g.part(t.Context(), "n1", wire.Fetch{Job: 7, Writer: 3, Path: "sub/out"})
	if err != nil || string(p.Data) != "n1" {
		t.Errorf("got %q, %v, want the file of n1", p.Data, err)
	}
}
