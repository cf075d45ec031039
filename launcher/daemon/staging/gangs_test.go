package staging

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// gangOf is a gang of a task of n1 with a rank on each of n2 and n3, rank 0 on n2.
type gangOf struct {
	*group
	test  *testing.T
	owner *Attempt
	parts []*gangPart
}

const gangRun = 77

func newGang(t *testing.T, all bool, outputs ...string) *gangOf {
	g := &gangOf{group: newGroup(t, "n1", "n2", "n3"), test: t}
	g.wrote("n1", 3, "in", []byte("input"))
	item := launcher.TaskItem{AllNodes: all, Inputs: []launcher.TaskFile{{Path: "in", Writer: 3}}, Streams: &launcher.Streams{Stdout: "log"}}
	for _, name := range append([]string{"log"}, outputs...) {
		item.Outputs = append(item.Outputs, launcher.TaskFile{Path: name, Writer: 6})
	}
	g.owner = &Attempt{
		start: launcher.TaskStart{Job: 5, Index: 6, Attempt: 1}, graph: &launcher.TaskGraph{Origin: "n1", Folder: t.TempDir()},
		item: item, from: map[int32]filch.NodeName{3: "n1"}, sink: &Sink{},
	}
	if err := g.node("n1").gangs.openStreams(g.owner); err != nil {
		t.Fatal(err)
	}
	order, err := wire.Marshal(&launcher.Order{Task: &launcher.GangTask{Attempt: 1}, Files: g.owner.GangFiles()})
	if err != nil {
		t.Fatal(err)
	}
	l := launcher.Launch{Ident: filch.Ident{Job: gangRun, Attempt: 1}, Of: launcher.TaskID{Job: 5, Index: 6}, Order: order, Staged: true}
	for i, n := range []filch.NodeName{"n2", "n3"} {
		l.Nodes = append(l.Nodes, launcher.NodeRanks{Node: n, Ranks: []launcher.Span{{First: filch.Rank(i), Count: 1}}})
	}
	for i := range l.Nodes {
		p := &gangPart{start: launcher.Start{Launch: l, Index: int32(i)}, given: true}
		if err := g.node(l.Nodes[i].Node).gangs.fill(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(p.start.Folder, "in")); err != nil || string(got) != "input" {
			t.Fatalf("got the input %q, %v on %s", got, err, l.Nodes[i].Node)
		}
		g.parts = append(g.parts, p)
	}
	return g
}

// writes writes a file as a rank does.
func (g *gangOf) writes(rank int, name string, text []byte) {
	if err := os.WriteFile(filepath.Join(g.parts[rank].start.Folder, name), text, 0o700); err != nil {
		g.t.Fatal(err)
	}
}

// ends ends the ranks, has the owner take the outputs, and makes sure that no node keeps a
// folder of the gang.
func (g *gangOf) ends() error {
	g.t.Helper()
	for _, p := range g.parts {
		if g.node(p.start.Launch.Nodes[p.start.Index].Node) == nil {
			continue
		}
		g.node(p.start.Launch.Nodes[p.start.Index].Node).gangs.leave(p)
		if _, err := os.Stat(p.start.Folder); !os.IsNotExist(err) {
			g.t.Errorf("the folder of the ranks is there: %v", err)
		}
	}
	err := g.node("n1").gangs.take(g.owner, &launcher.TaskEnd{Run: gangRun, Nodes: []filch.NodeName{"n2", "n3"}})
	for _, n := range []filch.NodeName{"n1", "n2", "n3"} {
		if f := g.node(n); f != nil {
			poll(g.test, "no files are left on "+string(n), func() bool {
				left, _ := filepath.Glob(filepath.Join(f.dir, "5", "left", "*"))
				run, _ := filepath.Glob(filepath.Join(f.dir, "5", "run", "*"))
				return len(left)+len(run) == 0
			})
		}
	}
	return err
}

// TestOutputsOfTheNodeOfRankZero takes small and large outputs from the node of rank 0, and
// no file of another node.
func TestOutputsOfTheNodeOfRankZero(t *testing.T) {
	g := newGang(t, false, "small", "large")
	large := bytes.Repeat([]byte("0123456789"), 200_000)
	g.writes(0, "small", []byte("zero"))
	g.writes(1, "small", []byte("one"))
	g.writes(0, "large", large)
	g.writes(0, "scratch", large)
	g.owner.Sink().Take(1, []byte("said\n"))
	if g.owner.Sink().Take(2, []byte("kept elsewhere\n")) {
		t.Error("standard error went to a file of the task, which has none")
	}
	if err := g.ends(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"small": "zero", "large": string(large), "log": "said\n"} {
		got, err := os.ReadFile(filepath.Join(g.node("n1").dir, "5", keptPath(6, name)))
		if err != nil || string(got) != want {
			t.Errorf("%s: got %.20q, %v, want %.20q", name, got, err, want)
		}
	}
	if st, err := os.Stat(filepath.Join(g.node("n1").dir, "5", keptPath(6, "small"))); err != nil || st.Mode().Perm() != 0o555 {
		t.Errorf("got %v, %v, want a read-only program", st.Mode(), err)
	}
}

// TestOutputsThatCannotBeTaken names the file, the nodes and the reason.
func TestOutputsThatCannotBeTaken(t *testing.T) {
	for name, c := range map[string]struct {
		all  bool
		make func(g *gangOf)
		want string
		lost bool
	}{
		"missing":          {false, func(g *gangOf) { g.writes(1, "out", nil) }, `did not write its output "out" on n2, the node of rank 0`, false},
		"missing-anywhere": {true, func(*gangOf) {}, `did not write its output "out" on any of its nodes n2, n3`, false},
		"on-two-nodes": {
			true, func(g *gangOf) { g.writes(0, "out", nil); g.writes(1, "out", nil) },
			`task 5.6 wrote its output "out" on both n2 and n3`, false,
		},
		"folder": {false, func(g *gangOf) {
			if err := os.Mkdir(filepath.Join(g.parts[0].start.Folder, "out"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, `cannot take the output "out" of task 5.6 from node n2: the name is a folder's`, false},
		"stopped": {true, func(g *gangOf) {
			for i, p := range g.parts {
				g.writes(i, "out", nil)
				p.void = true
			}
		}, `did not write`, false},
		"node-lost": {true, func(g *gangOf) { g.writes(0, "out", nil); g.kill("n3") }, `from node n3: the node is gone`, true},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGang(t, c.all, "out")
			c.make(g)
			err := g.ends()
			if err == nil || !strings.Contains(err.Error(), c.want) || isLost(err) != c.lost {
				t.Errorf("got %v, lost %t, want %s, %t", err, isLost(err), c.want, c.lost)
			}
		})
	}
}

// TestOutputsOfAllNodes takes each file from the node that has the file.
func TestOutputsOfAllNodes(t *testing.T) {
	g := newGang(t, true, "a", "b")
	g.writes(0, "a", []byte("zero"))
	g.writes(1, "b", []byte("one"))
	if err := g.ends(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"a": "zero", "b": "one"} {
		if got, err := os.ReadFile(filepath.Join(g.node("n1").dir, "5", keptPath(6, name))); err != nil || string(got) != want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}

// TestGangsOfAnEarlierLauncher keeps the folder of ranks whose keeper is adopted, takes
// their outputs when they end, and removes the folder of the others.
func TestGangsOfAnEarlierLauncher(t *testing.T) {
	g := newGang(t, true, "a", "b")
	g.writes(0, "a", []byte("zero"))
	g.writes(1, "b", []byte("one"))
	f := g.node("n2")
	orphan := filepath.Join(f.dir, "4", "run", gangFolder+"9.1")
	if err := os.MkdirAll(orphan, 0o700); err != nil {
		t.Fatal(err)
	}
	next := NewGangs(f.in, f, nil, nil)
	next.OnAdopted(&g.parts[0].start)
	next.Settle()
	poll(t, "the folder without a keeper is removed", func() bool {
		_, err := os.Stat(orphan)
		return os.IsNotExist(err)
	})
	if !next.busy(5) || next.busy(4) {
		t.Errorf("got busy %t and %t, want true and false", next.busy(5), next.busy(4))
	}
	done := make(chan struct{})
	if !next.Hold(g.parts[0].start.Launch.Ident, func() { close(done) }) {
		t.Fatal("the end of the adopted ranks is not held")
	}
	<-done
	if err := g.ends(); err != nil {
		t.Error(err)
	}
}
