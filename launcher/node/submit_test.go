package node_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/launcher/node/request"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/slots"
)

// last is the last event that any client heard.
func (w *net) last() string { return w.replies[len(w.replies)-1] }

func TestWhatCanNeverFitIsRefusedAtOnceWithTheLargestThatWould(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape launcher.Shape
		want  []string
	}{
		{"ranks", launcher.Shape{Ranks: 17}, []string{"cannot run 17 ranks", "4 nodes have room for 16", "largest that fits: -n 16"}},
		{"nodes", launcher.Shape{Ranks: 5, MinNodes: 5}, []string{"cannot use 5 nodes: 4 could", "-N 4"}},
		{"per-rank", launcher.Shape{Ranks: 1, PerRank: filch.Room{Slots: 5}}, []string{"5 slots: no node has that much", "most on one node: 4 slots, 64 GiB"}},
		{"memory", launcher.Shape{Ranks: 9, PerRank: filch.Room{MemBytes: 30 << 30}}, []string{"9 ranks of 1 slot, 30 GiB", "-n 8"}},
		{"gpus", launcher.Shape{Ranks: 1, PerRank: filch.Room{GPUs: filch.GPU}}, []string{"1 GPU: no node has that much"}},
		{"two-nodes", launcher.Shape{Ranks: 9, MinNodes: 1, MaxNodes: 2}, []string{"9 ranks of 1 slot: 2 nodes have room for 8", "-n 8"}},
		{"one-node", launcher.Shape{Ranks: 5, MinNodes: 1, MaxNodes: 1}, []string{"5 ranks of 1 slot: 1 node has room for 4", "-n 4"}},
		{"more-nodes-than-there-are", launcher.Shape{Ranks: 17, MinNodes: 1, MaxNodes: 6}, []string{"17 ranks of 1 slot: 4 nodes have room for 16"}},
		{"per-node", launcher.Shape{Ranks: 9, PerNode: 2}, []string{"-n 8"}},
		{"named", launcher.Shape{Ranks: 5, Only: []filch.NodeName{"n2"}}, []string{"room for 4", "-n 4"}},
		{"no-such-node", launcher.Shape{Ranks: 1, Only: []filch.NodeName{"n9"}}, []string{"cannot use node n9: there is no such node"}},
		{"excluded", launcher.Shape{Ranks: 13, Exclude: []filch.NodeName{"n1"}}, []string{"-n 12"}},
	} {
		w := newNet(t, 4, 4)
		w.submit("n1", 1, launcher.Request{Shape: c.shape})
		if w.sent > 0 || w.age() > 0 {
			t.Errorf("%s: %d messages and %v before the answer, want none", c.name, w.sent, w.age())
		}
		for _, part := range append(c.want, "Refused 125") {
			if !strings.Contains(w.last(), part) {
				t.Errorf("%s: heard %s, want %q in it", c.name, w.last(), part)
			}
		}
	}
}

func TestNonsenseIsRefusedAsUsage(t *testing.T) {
	for _, s := range []launcher.Shape{
		{Ranks: -1},
		{Ranks: 1, MinNodes: -1},
		{Ranks: 1, PerNode: -1},
		{Ranks: 1, PerRank: filch.Room{Slots: -1}},
		{Ranks: 4, MinNodes: 3, MaxNodes: 2},
		{Ranks: 4, Only: []filch.NodeName{"n1", "n2"}, MaxNodes: 1},
		{Ranks: 1, Only: []filch.NodeName{"n1", "n2"}},
		{Ranks: 1, Only: []filch.NodeName{"n1"}, Exclude: []filch.NodeName{"n1"}},
		{Ranks: launcher.MaxRanks + 1},
	} {
		w := newNet(t, 4, 4)
		w.submit("n1", 1, launcher.Request{Shape: s})
		if !strings.Contains(w.last(), "Refused 2:") {
			t.Errorf("%+v: heard %s, want a refusal with 2", s, w.last())
		}
	}
}

// Products of large numbers are refused with the product: a product that wraps around would
// ask for few ranks, or for a negative part of a resource.
func TestProductsOfLargeNumbersAreRefused(t *testing.T) {
	license := func(n int32) record.License { return record.License{Name: "license", Each: n} }
	for _, c := range []struct {
		name string
		req  launcher.Request
		want string
	}{
		{"ranks-of-nodes", launcher.Request{Shape: launcher.Shape{MinNodes: 1 << 16, PerNode: 1 << 16}}, "cannot run 4294967296 ranks: the most is 1048576"},
		{"ranks-beyond-a-wrap", launcher.Request{Shape: launcher.Shape{MinNodes: 1<<16 + 1, PerNode: 1 << 16}}, "cannot run 4295032832 ranks: the most is 1048576"},
		{"largest", launcher.Request{Shape: launcher.Shape{MinNodes: math.MaxInt32, PerNode: math.MaxInt32}}, "cannot run 4611686014132420609 ranks"},
		{"part-of-ranks", launcher.Request{Shape: launcher.Shape{Ranks: 4}, License: license(1 << 30)}, "cannot take 4294967296 of license for 4 ranks: the most is 2147483647"},
		{"part-of-nodes", launcher.Request{Shape: launcher.Shape{MinNodes: 2, PerNode: 2}, License: license(1 << 30)}, "cannot take 4294967296 of license for 4 ranks: the most is 2147483647"},
		{"negative-part", launcher.Request{Shape: launcher.Shape{Ranks: 4}, License: license(-1)}, "what a rank takes of license is -1, and must not be negative"},
	} {
		_, err := request.NeedOf(c.req)
		if err == nil || err.Kind != filch.Invalid || !strings.Contains(err.Text, c.want) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.want)
		}
	}
	need, err := request.NeedOf(launcher.Request{Shape: launcher.Shape{MinNodes: 2, PerNode: 2}, License: license(math.MaxInt32 / 4)})
	if err != nil || need.Ranks != 4 {
		t.Errorf("the largest part of 4 ranks: got %d ranks, %v", need.Ranks, err)
	}
}

// A request has the ranks that its numbers say, or is refused.
func FuzzNeed(f *testing.F) {
	f.Add(int32(0), int32(1<<16), int32(1<<16), int32(1<<16), int32(1<<30))
	f.Add(int32(4), int32(1), int32(0), int32(0), int32(1<<30))
	f.Add(int32(0), int32(2), int32(3), int32(math.MaxInt32), int32(1))
	f.Fuzz(func(t *testing.T, ranks, minNodes, maxNodes, perNode, part int32) {
		s := launcher.Shape{Ranks: ranks, MinNodes: minNodes, MaxNodes: maxNodes, PerNode: perNode}
		need, err := request.NeedOf(launcher.Request{Shape: s, License: record.License{Name: "license", Each: part}})
		if err != nil {
			return
		}
		want := int64(ranks)
		if ranks == 0 {
			want = int64(max(minNodes, 1)) * int64(max(perNode, 1))
		}
		if int64(need.Ranks) != want || need.Ranks < 1 || need.Ranks > launcher.MaxRanks || need.MinNodes < 1 || need.MinNodes > need.Ranks {
			t.Errorf("%+v: got %d ranks on %d nodes, want %d", s, need.Ranks, need.MinNodes, want)
		}
		if all := int64(part) * want; part < 0 || all > math.MaxInt32 {
			t.Errorf("%+v: %d of a resource for each of %d ranks was accepted", s, part, want)
		}
	})
}

// placed runs a job on an idle cluster of four nodes with four slots and says
// where its ranks went.
func placed(t *testing.T, s launcher.Shape) string {
	w := newNet(t, 4, 4)
	id := w.submit("n1", 1, launcher.Request{Shape: s})
	w.run(5 * sec)
	if e := w.ended(id); e.Code != 0 {
		t.Errorf("ended %+v", e)
	}
	w.quiet()
	return w.ranksOf(id)
}

// ranksOf says where the ranks of a job went.
func (w *net) ranksOf(id filch.JobID) string {
	for _, e := range w.events[id] {
		if e, ok := e.(launcher.Started); ok {
			var out []string
			for _, n := range e.Nodes {
				out = append(out, fmt.Sprintf("%s:%v", n.Node, n.Ranks))
			}
			return strings.Join(out, " ")
		}
	}
	return "never started"
}

func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name  string
		shape launcher.Shape
		want  string
	}{
		{"home", launcher.Shape{Ranks: 3}, "n1:[{0 3}]"},
		{"nothing-said", launcher.Shape{}, "n1:[{0 1}]"},
		{"all", launcher.Shape{Ranks: 16}, "n1:[{0 4}] n2:[{4 4}] n3:[{8 4}] n4:[{12 4}]"},
		{"one-per-node", launcher.Shape{MinNodes: 4, MaxNodes: 4}, "n1:[{0 1}] n2:[{1 1}] n3:[{2 1}] n4:[{3 1}]"},
		{"two-per-node", launcher.Shape{MinNodes: 4, MaxNodes: 4, PerNode: 2}, "n1:[{0 2}] n2:[{2 2}] n3:[{4 2}] n4:[{6 2}]"},
		{"named", launcher.Shape{Ranks: 4, Only: []filch.NodeName{"n3", "n2"}}, "n2:[{0 2}] n3:[{2 2}]"},
		{"each-named-is-used", launcher.Shape{Ranks: 2, Only: []filch.NodeName{"n3", "n4"}}, "n3:[{0 1}] n4:[{1 1}]"},
		{"excluded", launcher.Shape{Ranks: 12, Exclude: []filch.NodeName{"n1"}}, "n2:[{0 4}] n3:[{4 4}] n4:[{8 4}]"},
		{
			"cyclic",
			launcher.Shape{Ranks: 8, MinNodes: 2, MaxNodes: 2, Only: []filch.NodeName{"n1", "n2"}, Layout: launcher.LayoutCyclic},
			"n1:[{0 1} {2 1} {4 1} {6 1}] n2:[{1 1} {3 1} {5 1} {7 1}]",
		},
		{
			"plane",
			launcher.Shape{Ranks: 8, MinNodes: 2, MaxNodes: 2, Only: []filch.NodeName{"n1", "n2"}, Layout: launcher.LayoutPlane, Plane: 2},
			"n1:[{0 2} {4 2}] n2:[{2 2} {6 2}]",
		},
		{"cpus", launcher.Shape{Ranks: 4, PerRank: filch.Room{Slots: 3}}, "n1:[{0 1}] n2:[{1 1}] n3:[{2 1}] n4:[{3 1}]"},
		{"memory", launcher.Shape{Ranks: 4, PerRank: filch.Room{MemBytes: 60 << 30}}, "n1:[{0 1}] n2:[{1 1}] n3:[{2 1}] n4:[{3 1}]"},
		{"exclusive", launcher.Shape{Ranks: 2, MinNodes: 2, MaxNodes: 2, Only: []filch.NodeName{"n1", "n2"}, Exclusive: true}, "n1:[{0 1}] n2:[{1 1}]"},
		{"even", launcher.Shape{Ranks: 6, MinNodes: 4, MaxNodes: 4, Even: true}, "n1:[{0 2}] n2:[{2 2}] n3:[{4 1}] n4:[{5 1}]"},
		{"overcommit", launcher.Shape{Ranks: 10, Overcommit: true}, "n1:[{0 10}]"},
		{"more-nodes-than-ranks", launcher.Shape{Ranks: 1, MinNodes: 3}, "n1:[{0 1}]"},
	} {
		if got := placed(t, c.shape); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAnEvenJobFitsOnUnevenNodes(t *testing.T) {
	w := newNet(t, 1, 3)
	w.add("n2", 1)
	w.meet()
	id := w.submit("n1", 1, launcher.Request{Shape: launcher.Shape{Ranks: 4, MinNodes: 2, MaxNodes: 2, Even: true}})
	w.run(5 * sec)
	if got, want := w.ranksOf(id), "n1:[{0 3}] n2:[{3 1}]"; got != want {
		t.Errorf("ranks are on %s, want %s; heard %s", got, want, w.last())
	}
}

func TestExclusiveHasTheNodeForItself(t *testing.T) {
	w := newNet(t, 2, 4)
	r := gang(1)
	r.Shape.Exclusive = true
	a := w.submit("n1", 1, r)
	b := w.submit("n1", 2, gang(1))
	w.run(100 * ms)
	if i, _ := w.nodes["n1"].node.Job(w.Now(), b); len(i.Nodes) != 1 || i.Nodes[0] != "n2" {
		t.Errorf("the second job is on %v, want n2", i.Nodes)
	}
	if s := w.nodes["n1"].node.Slots(); s.Running != 4 {
		t.Errorf("%+v, want all four slots running", s)
	}
	w.run(5 * sec)
	w.ended(a)
	w.ended(b)
	w.quiet()
}

func TestAPatientJobGivesUp(t *testing.T) {
	w := newNet(t, 2, 4)
	w.behave = func(k *keeper) { k.at = 60 * sec }
	w.submit("n1", 1, gang(8))
	w.run(sec)
	r := gang(4)
	r.Patient = 2 * sec
	w.submit("n1", 2, r)
	w.run(2 * sec)
	if !strings.Contains(w.last(), "no room for 4 ranks within 2s") || !strings.Contains(w.last(), "job 1 has 8 slots on n1, n2") {
		t.Errorf("heard %s, want who is in the way", w.last())
	}
	w.run(60 * sec)
	w.quiet()
}

func TestAHolderOfOneSlotHasOneSlot(t *testing.T) {
	w := newNet(t, 1, 1)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	w.submit("n1", 1, gang(1))
	w.run(sec)
	w.submit("n1", 2, gang(1))
	w.run(origin.SayAfter + 10*ms)
	if want := ": job 1 has 1 slot on n1"; !strings.Contains(w.last(), want) {
		t.Errorf("heard %s, want %q", w.last(), want)
	}
	w.run(200 * sec)
	w.quiet()
}

func TestStillWaitingSaysWhatIsMissingAndWhoHoldsIt(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 100 * sec }
	w.submit("n1", 1, gang(12))
	w.run(sec)
	id := w.submit("n2", 2, gang(6))
	w.run(origin.SayAfter + 10*ms)
	want := "room for 0 of 6 ranks is held, 6 missing (3 nodes asked): job 1 has 12 slots on n1, n2, n3"
	if !strings.Contains(w.last(), want) {
		t.Errorf("heard %s, want %q", w.last(), want)
	}
	n := len(w.replies)
	w.run(origin.SayEvery)
	if len(w.replies) != n+1 {
		t.Errorf("heard %d more lines in %v, want one", len(w.replies)-n, origin.SayEvery)
	}
	x, err := w.nodes["n2"].node.Explain(w.Now(), id)
	if err != nil || x.Phase != "insist" || x.Need != 6 || len(x.Places) != 3 || x.Places[0].Holder != 1 {
		t.Errorf("explains %+v %v, want three places that job 1 holds", x, err)
	}
	if _, err := w.nodes["n2"].node.Explain(w.Now(), 999); err == nil || err.Kind != filch.NotFound {
		t.Errorf("explains a job that is not: %v", err)
	}
}

func TestSignalsAreDeliveredOnceEach(t *testing.T) {
	w := newNet(t, 2, 4)
	w.faults = faults{drop: 0.3, dup: 0.3, delayMax: 5 * ms}
	var all []*keeper
	w.behave = func(k *keeper) { k.at = 100 * sec; all = append(all, k) }
	id := w.submit("n1", 1, gang(8))
	w.run(20 * sec)
	h := w.nodes["n1"]
	for _, sig := range []int32{10, 12, 10} {
		h.input(func(out *launcher.Outbox) {
			if err := h.node.Signal(w.Now(), id, sig, out); err != nil {
				t.Error(err)
			}
		})
	}
	w.run(30 * sec)
	for _, k := range all {
		if fmt.Sprint(k.signals) != "[10 12 10]" {
			t.Errorf("%s got %v, want 10, 12 and 10", k.host.Name, k.signals)
		}
	}
}

func TestADrainedNodeGetsNoNewWork(t *testing.T) {
	w := newNet(t, 3, 4)
	w.behave = func(k *keeper) { k.at = 5 * sec }
	running := w.submit("n2", 1, gang(2))
	n2 := w.nodes["n2"]
	n2.input(func(out *launcher.Outbox) { n2.node.Drain(w.Now(), &launcher.Drain{}, out) })
	w.declare("n2", filch.Draining)
	id := w.submit("n1", 2, gang(8))
	w.run(100 * ms)
	if i, _ := w.nodes["n1"].node.Job(w.Now(), id); fmt.Sprint(i.Nodes) != "[n1 n3]" {
		t.Errorf("the job is on %v, want n1 and n3", i.Nodes)
	}
	waits := w.submit("n1", 3, gang(12)) // fits once n2 lends again
	w.run(20 * sec)
	w.ended(running)
	if i, _ := w.nodes["n1"].node.Job(w.Now(), waits); i.State != "waiting" {
		t.Errorf("job is %s, want it waiting", i.State)
	}
	n2.input(func(out *launcher.Outbox) { n2.node.Drain(w.Now(), nil, out) })
	w.declare("n2", filch.Up)
	w.run(10 * sec)
	if e := w.ended(waits); e.Code != 0 {
		t.Errorf("ended %+v, want 0", e)
	}
	w.quiet()
}

func TestEndedJobsAreForgottenInTime(t *testing.T) {
	w := newNet(t, 1, 4)
	w.behave = func(k *keeper) { k.at = 0 }
	w.every = 50
	var first filch.JobID
	for i := range local.MaxPast + 50 {
		r := gang(1)
		r.Name = strings.Repeat("x", i%50)
		r.Detach = i%3 == 0
		id := w.submit("n1", launcher.ClientID(i%2), r)
		if first == 0 {
			first = id
		}
		w.run(2 * ms)
		if i%2 == 0 {
			h := w.nodes["n1"]
			h.input(func(out *launcher.Outbox) { h.node.ClientGone(w.Now(), 0, out) })
		}
		w.events = map[filch.JobID][]launcher.Event{}
	}
	jobs := w.nodes["n1"].node.Jobs(w.Now())
	if len(jobs) > local.MaxPast || len(jobs) < 1000 {
		t.Errorf("%d jobs are remembered, want at most %d", len(jobs), local.MaxPast)
	}
	if _, ok := w.nodes["n1"].node.Job(w.Now(), first); ok {
		t.Error("the first job is still remembered")
	}
	detached := 0
	for _, j := range jobs {
		if j.Detached {
			detached++
		}
	}
	if n := len(w.nodes["n1"].records); n > detached+origin.MaxUnreceived+1 {
		t.Errorf("%d records are left for %d detached jobs", n, detached)
	}
}

func TestTheSameSeedMakesTheSameTrace(t *testing.T) {
	run := func() string {
		w := newNet(t, 6, 4)
		var lines []string
		w.onSend = func(from, to filch.NodeName, m launcher.Message) {
			lines = append(lines, fmt.Sprintf("%v %s %s %s", w.Now(), from, to, describe(m)))
		}
		w.faults = faults{drop: 0.05, dup: 0.05, delayMax: ms}
		w.behave = w.randomLife
		for i := range 12 {
			w.submit(w.names[i%6], launcher.ClientID(i), gang(int32(1+5*i%17)))
			w.run(100 * ms)
		}
		w.crashAndBack("n3", true, 8*sec)
		w.run(60 * sec)
		return strings.Join(lines, "\n")
	}
	a, b := run(), run()
	if a != b || len(a) < 10000 {
		t.Errorf("two runs of one seed differ: %d and %d bytes", len(a), len(b))
	}
}

// A run that fits in the free slots of the node where it was typed stays there:
// with others that are idle, right after another one ended, as a step of a job
// over several nodes, and however its ranks are ordered.
func TestARunThatFitsStaysAtHome(t *testing.T) {
	where := func(w *net, id filch.JobID) []launcher.NodeRanks {
		for _, e := range w.events[id] {
			if s, ok := e.(launcher.Started); ok {
				return s.Nodes
			}
		}
		t.Fatalf("job %d has not started", id)
		return nil
	}
	home := func(w *net, id filch.JobID) {
		t.Helper()
		if at := where(w, id); len(at) != 1 || at[0].Node != "n1" {
			t.Errorf("job %d runs on %v, want n1 alone", id, at)
		}
	}
	w := newNet(t, 4, 4)
	w.behave = func(k *keeper) { k.at = sec }
	for _, layout := range []launcher.Layout{launcher.LayoutAuto, launcher.LayoutBlock, launcher.LayoutCyclic} {
		r := gang(4)
		r.Shape.Layout = layout
		id := w.submit("n1", 1, r)
		w.run(10 * ms)
		home(w, id)
		w.run(2 * sec)
	}
	// Half of the node is taken by another run, and others have more to offer.
	w.submit("n1", 1, gang(2))
	id := w.submit("n1", 1, gang(2))
	w.run(10 * ms)
	home(w, id)
	w.run(2 * sec)
	// The very moment that the one before has ended.
	first := w.submit("n1", 1, gang(4))
	for end := w.Now() + 3*sec; ; w.run(ms / 10) {
		if last := w.events[first]; len(last) > 0 {
			if _, over := last[len(last)-1].(launcher.Ended); over {
				break
			}
		}
		if w.Now() > end {
			t.Fatal("the first one does not end")
		}
	}
	id = w.submit("n1", 1, gang(4))
	w.run(10 * ms)
	home(w, id)
	w.run(2 * sec)
	// A step.
	r := gang(8)
	r.Shape.MinNodes = 2
	parent := w.submit("n1", 1, r)
	w.run(10 * ms)
	step := gang(4)
	step.Parent = parent
	id = w.submit("n1", 1, step)
	w.run(10 * ms)
	home(w, id)
	w.run(3 * sec)
	// What asks for more nodes gets them.
	for _, ask := range []func(*launcher.Shape){
		func(s *launcher.Shape) { s.MinNodes = 2 },
		func(s *launcher.Shape) { s.PerNode = 2 },
	} {
		r := gang(4)
		ask(&r.Shape)
		id := w.submit("n1", 1, r)
		w.run(10 * ms)
		if at := where(w, id); len(at) != 2 {
			t.Errorf("%+v runs on %v, want two nodes", r.Shape, at)
		}
		w.run(2 * sec)
	}
	w.quiet()
}

// A node with four slots on two cores tells each launch how many cores no other
// has.
func TestALaunchKnowsItsCores(t *testing.T) {
	w := newNet(t, 1, 4)
	w.crash("n1", true)
	w.nodes["n1"].cfg.Capacity = slots.Capacity{Slots: 4, CPUs: 2, MemBytes: 1 << 30}
	w.restart("n1")
	w.run(sec)
	var spare []int32
	w.behave = func(k *keeper) { k.at, spare = sec, append(spare, k.start.Spare) }
	w.submit("n1", 1, gang(1))
	w.submit("n1", 1, gang(1))
	w.submit("n1", 1, gang(2))
	w.run(2 * sec)
	w.submit("n1", 1, gang(4))
	w.run(2 * sec)
	if want := []int32{2, 1, 0, 2}; !slices.Equal(spare, want) {
		t.Errorf("launches have %v cores to themselves, want %v", spare, want)
	}
	w.quiet()
}
