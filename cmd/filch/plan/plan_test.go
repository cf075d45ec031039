package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/testbed/machinetree"
)

// Generated trees.
var (
	smt     = machinetree.Of("smt-2")
	two     = machinetree.Of("two-sockets-of-four")
	numa    = machinetree.Of("eight-small-numa-nodes")
	offline = machinetree.Of("offline-cores")
	cut     = machinetree.Of("mask-cuts-cores")
	huge    = machinetree.Of("2048-cpus")
)

// node is an idle node with the processors of a generated tree, without busy slots.
func node(t *testing.T, name filch.NodeName, m machinetree.Machine, threads bool, busy ...int32) wire.NodeInfo {
	t.Helper()
	tree, err := topology.Read(m.Tree())
	if err != nil {
		t.Fatal(err)
	}
	n := wire.NodeInfo{State: "up", Local: name == "n1", Processors: tree.Processors(threads)}
	n.Node, n.Slots, n.MemBytes, n.MemFree = name, int32(len(n.Processors)), 64<<30, 64<<30
	for i := range n.Slots {
		used := false
		for _, b := range busy {
			used = used || b == i
		}
		if !used {
			n.FreeSlots = append(n.FreeSlots, i)
		}
	}
	n.Free = int32(len(n.FreeSlots))
	return n
}

// of plans a command line of filch run.
func of(t *testing.T, line string, nodes []wire.NodeInfo) (*Plan, error) {
	t.Helper()
	r, err := spec.Parse(append(strings.Fields(line), "true"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Finish(spec.Context{Cwd: "/"}); err != nil {
		t.Fatal(err)
	}
	return Make(r.Request, r.Order.Bind, nodes)
}

func TestPlansOnGeneratedTrees(t *testing.T) {
	one := func(m machinetree.Machine, busy ...int32) []wire.NodeInfo {
		return []wire.NodeInfo{node(t, "n1", m, false, busy...)}
	}
	threads := func(m machinetree.Machine, busy ...int32) []wire.NodeInfo {
		return []wire.NodeInfo{node(t, "n1", m, true, busy...)}
	}
	pair := []wire.NodeInfo{node(t, "n1", smt, false), node(t, "n2", two, false)}
	same := []wire.NodeInfo{node(t, "n1", smt, false), node(t, "n2", smt, false)}
	for _, c := range []struct {
		name, line string
		nodes      []wire.NodeInfo
		want       string
	}{
		{"a-core-each", "-n 3", one(smt), "n1:0,4 n1:1,5 n1:2,6"},
		{"two-cores-each", "-n 2 -c 2", one(smt), "n1:0-1,4-5 n1:2-3,6-7"},
		{"one-thread-of-each-core", "-n 2 -c 2 --cpu-bind=threads", one(smt), "n1:0-1 n1:2-3"},
		{"unbound", "-n 2 --cpu-bind=none", one(smt), "n1:- n1:-"},
		{"map", "-n 2 --cpu-bind=map_cpu:3,1", one(smt), "n1:3 n1:1"},
		{"mask", "-n 2 --cpu-bind=mask_cpu:0x3,0xc", one(smt), "n1:0-1 n1:2-3"},
		{"rank", "-n 2 --cpu-bind=rank", one(smt), "n1:0,4 n1:1,5"},
		{"overcommitted", "-O -n 5", one(smt), "n1:- n1:- n1:- n1:- n1:-"},
		{"hardware-threads", "-n 3", threads(smt), "n1:0 n1:4 n1:1"},
		{"a-core-of-hardware-threads", "-n 2 -c 2", threads(smt), "n1:0,4 n1:1,5"},
		{"the-rest-of-a-core-first", "-n 1", threads(smt, 0), "n1:4"},
		{"sockets", "-n 8 --cpu-bind=sockets", one(two), strings.Repeat("n1:0-3,8-11 ", 4) + strings.Repeat("n1:4-7,12-15 ", 4)},
		{"sockets-of-the-lent-cores-only", "-n 2 --cpu-bind=sockets", one(two), "n1:0-1,8-9 n1:0-1,8-9"},
		{"three-cores-each-in-a-socket", "-n 2 -c 3", one(two), "n1:0-2,8-10 n1:4-6,12-14"},
		{"the-fuller-socket", "-n 3", one(two, 0), "n1:1,9 n1:2,10 n1:3,11"},
		{"a-socket-with-room", "-n 4", one(two, 0), "n1:4,12 n1:5,13 n1:6,14 n1:7,15"},
		{"numa-nodes", "-n 2 -c 4 --cpu-bind=ldoms", one(numa), "n1:0-3,32-35 n1:4-7,36-39"},
		{"a-numa-node-with-room", "-n 1 -c 4", one(numa, 1, 6, 9, 12), "n1:16-19,48-51"},
		{"offline-cpus", "-n 4", one(offline), "n1:4 n1:5 n1:6 n1:7"},
		{"all-that-is-online", "-n 6", one(offline), "n1:4 n1:5 n1:6 n1:7 n1:0 n1:3"},
		{"a-mask-cuts-cores", "-n 4", one(cut), "n1:0,4 n1:1,5 n1:2 n1:3"},
		{"own-node-first", "-n 2", pair, "n1:0,4 n1:1,5"},
		{"two-nodes", "-n 2 -N 2", pair, "n1:0,4 n2:0,8"},
		{"cyclic", "-n 4 -N 2 -m cyclic", pair, "n1:0,4 n2:0,8 n1:1,5 n2:1,9"},
		{"even-parts", "-n 4 -N 2", pair, "n1:0,4 n1:1,5 n2:0,8 n2:1,9"},
		{"larger-than-the-own-node", "-n 10", pair, "n1:0,4 n1:1,5 n1:2,6 n1:3,7 n2:0,8 n2:1,9 n2:2,10 n2:3,11 n2:4,12 n2:5,13"},
		{"one-more-than-the-own-node", "-n 5", same, "n1:0,4 n1:1,5 n1:2,6 n1:3,7 n2:0,4"},
		{"two-more-than-the-own-node", "-n 6", same, "n1:0,4 n1:1,5 n1:2,6 n1:3,7 n2:0,4 n2:1,5"},
		{"a-busy-neighbor", "-n 5", []wire.NodeInfo{same[0], node(t, "n2", smt, false, 0, 1)}, "n1:0,4 n1:1,5 n1:2,6 n1:3,7 n2:2,6"},
		{"a-named-node", "-n 1 -w n2", pair, "n2:0,8"},
		{"a-whole-node", "--exclusive -n 2 -w n2", pair, "n2:0-3,8-11 n2:4-7,12-15"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := of(t, c.line, c.nodes)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for i, r := range p.Ranks {
				if r.Rank != filch.Rank(i) {
					t.Errorf("rank %d is at the place of rank %d", r.Rank, i)
				}
				cpus := r.CPUs
				if cpus == "" {
					cpus = "-"
				}
				got = append(got, fmt.Sprintf("%s:%s", r.Node, cpus))
			}
			if s := strings.Join(got, " "); s != strings.TrimSpace(c.want) || p.Now != int32(len(p.Ranks)) {
				t.Errorf("got %s, %d now; want %s", s, p.Now, c.want)
			}
		})
	}
}

// everyTree has the placement of runs on each generated machine: of two ranks, of two ranks on
// one core or two, bound to sockets and to NUMA nodes, of two ranks of a whole machine by
// turns of the sockets, of one rank for each slot, and of two ranks on hardware threads.
var everyTree = map[string][7]string{
	"one-cpu":                 {"refused", "refused", "refused", "refused", "refused", "0", "refused"},
	"smt-2":                   {"0,4 1,5", "0-1,4-5", "0-1,4-5 0-1,4-5", "0-1,4-5 0-1,4-5", "0-1,4-5 2-3,6-7", "0,4 1,5 2,6 3,7", "0 4"},
	"smt-2-adjacent":          {"0-1 2-3", "0-3", "0-3 0-3", "0-3 0-3", "0-1 2-3", "0-1 2-3", "0 1"},
	"smt-4-old-names":         {"0-3 4-7", "0-7", "0-7 0-7", "0-7 0-7", "0-3 4-7", "0-3 4-7", "0 1"},
	"two-sockets":             {"0,4 1,5", "0-1,4-5", "0-1,4-5 0-1,4-5", "0-1,4-5 0-1,4-5", "0-1,4-5 2-3,6-7", "0,4 1,5 2,6 3,7", "0 4"},
	"two-domains-in-a-socket": {"0 1", "0-1", "0-1 0-1", "0-1 0-1", "0-1 2-3", "0 1 2 3", "0 1"},
	"memory-only-node":        {"0 1", "0-1", "0-1 0-1", "0-1 0-1", "0 1", "0 1", "0 1"},
	"no-numa":                 {"0 1", "0-1", "0 1", "0-1 0-1", "0 1", "0 1", "0 1"},
	"offline-thread":          {"0 1,3", "0-1,3", "0-1,3 0-1,3", "0-1,3 0-1,3", "0 1,3", "0 1,3", "1 3"},
	"offline-first-cpu":       {"2 3", "2-3", "2-3 2-3", "2-3 2-3", "2 1,3", "2 3 1", "2 3"},
	"mask-cuts-cores":         {"0,4 1,5", "0-1,4-5", "0-1,4-5 0-1,4-5", "0-1,4-5 0-1,4-5", "0-1,4-5 2-3", "0,4 1,5 2 3", "0 4"},
	"mask-wider-than-online":  {"0 1", "0-1", "0-1 0-1", "0-1 0-1", "0 1", "0 1", "0 1"},
	"cgroup-1":                {"1 2", "1-2", "1 2", "1 2", "1 2", "1 2", "1 2"},
	"cgroup-2-and-mask":       {"1 2", "1-2", "1 2", "1 2", "1 2", "1 2", "1 2"},
	"eight-numa-nodes":        {"0,128 1,129", "0-1,128-129", "0-1,128-129 0-1,128-129", "0-1,128-129 0-1,128-129", "0-63,128-191 64-127,192-255", "0-31,128-159 32-63,160-191 64-95,192-223 96-127,224-255", "0 128"},
	"2048-cpus":               {"0,1024 1,1025", "0-1,1024-1025", "0-1,1024-1025 0-1,1024-1025", "0-1,1024-1025 0-1,1024-1025", "0-511,1024-1535 512-1023,1536-2047", "0-255,1024-1279 256-511,1280-1535 512-767,1536-1791 768-1023,1792-2047", "0 1024"},
	"two-sockets-of-four":     {"0,8 1,9", "0-1,8-9", "0-1,8-9 0-1,8-9", "0-1,8-9 0-1,8-9", "0-3,8-11 4-7,12-15", "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15", "0 8"},
	"eight-small-numa-nodes":  {"0,32 1,33", "0-1,32-33", "0-1,32-33 0-1,32-33", "0-1,32-33 0-1,32-33", "0-15,32-47 16-31,48-63", "0-7,32-39 8-15,40-47 16-23,48-55 24-31,56-63", "0 32"},
	"offline-cores":           {"0 3", "0,3", "0,3 0,3", "0,3 0,3", "0,3,7 4-6", "4 5 6 7 0 3", "0 3"},
}

var everyLine = [7]string{"-n 2", "-n 1 -c 2", "-n 2 --cpu-bind=sockets", "-n 2 --cpu-bind=ldoms", "--exclusive -n 2 -m block:cyclic", "-n ALL", onThreads}

const onThreads = "-n 2 " // with hardware threads for slots

// No machine of the list is without its placements.
func TestPlansOnEveryGeneratedTree(t *testing.T) {
	for _, m := range machinetree.Machines {
		for i, line := range everyLine {
			n := node(t, "n1", m.Machine, line == onThreads)
			if n.Slots > 16 && strings.Contains(line, "ALL") {
				line = "-n 4 -c " + fmt.Sprint(n.Slots/4)
			}
			line = strings.ReplaceAll(line, "ALL", fmt.Sprint(n.Slots))
			got := ""
			if p, err := of(t, line, []wire.NodeInfo{n}); err != nil {
				got = "refused"
			} else {
				var cpus []string
				for _, r := range p.Ranks {
					cpus = append(cpus, r.CPUs)
				}
				got = strings.Join(cpus, " ")
			}
			if want := everyTree[m.Name][i]; got != want {
				t.Errorf("%s %s: got %q, want %q", m.Name, line, got, want)
			}
		}
	}
	if len(everyTree) != len(machinetree.Machines) {
		t.Errorf("placements of %d machines, want %d", len(everyTree), len(machinetree.Machines))
	}
}

// On 2,048 CPUs no rank of 64 cores leaves its socket, and no CPU has two ranks.
func TestPlanOf2048CPUs(t *testing.T) {
	p, err := of(t, "-n 16 -c 64", []wire.NodeInfo{node(t, "n1", huge, false)})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range p.Ranks {
		if want := fmt.Sprintf("%d-%d,%d-%d", i*64, i*64+63, 1024+i*64, 1024+i*64+63); r.CPUs != want {
			t.Errorf("rank %d: got %s, want %s", i, r.CPUs, want)
		}
	}
	if p, err = of(t, "-n 2048", []wire.NodeInfo{node(t, "n1", huge, true)}); err != nil || len(p.Ranks) != 2048 {
		t.Fatalf("got %v, want 2,048 ranks", err)
	}
	seen := map[string]bool{}
	for _, r := range p.Ranks {
		seen[r.CPUs] = true
	}
	if len(seen) != 2048 {
		t.Errorf("2,048 ranks have %d different CPUs", len(seen))
	}
}

func TestPlansThatWaitOrNeverFit(t *testing.T) {
	busy := []wire.NodeInfo{node(t, "n1", smt, false, 0, 1, 2)}
	p, err := of(t, "-n 3", busy)
	if err != nil || p.Now != 1 || len(p.Ranks) != 3 || p.Ranks[0].CPUs != "0,4" {
		t.Errorf("got %+v, %v; want three ranks on the idle node, one of them now", p, err)
	}
	_, err = of(t, "-n 5", busy)
	var told *filch.Error
	if !errors.As(err, &told) || told.Kind != filch.NoFit || !strings.Contains(told.Hint, "-n 4") {
		t.Errorf("got %v, want a refusal that names the largest run", err)
	}
	busy[0].State = "dead"
	if _, err := Make(launcher.Request{Shape: launcher.Shape{Ranks: 1}}, launcher.Bind{}, busy); err == nil {
		t.Error("a run was planned on a dead node")
	}
}
