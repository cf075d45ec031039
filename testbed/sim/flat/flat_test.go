package flat

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/policy"
)

// bars hold a bag of 20 tasks of 64 ms by slot, submitted to one node, on nodes of 16 slots with lifelines.
func bars(t *testing.T, nodes int, overhead time.Duration) {
	t.Helper()
	o := Options{Nodes: nodes, Slots: 16, Tasks: int64(nodes) * 16 * 20, Length: 64 * time.Millisecond, Victims: policy.Lifeline, Seed: 1}
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	sent, bytes := float64(r.Sent())/float64(nodes), r.Bytes/int64(nodes)
	t.Logf("figure: %d nodes: %v more than %v, %.1f messages a node, %d B a node", nodes, r.Makespan-o.Ideal(), o.Ideal(), sent, bytes)
	if r.Makespan-o.Ideal() > overhead {
		t.Errorf("a bag on %d nodes takes %v longer than the ideal, want at most %v", nodes, r.Makespan-o.Ideal(), overhead)
	}
	if sent > 30 {
		t.Errorf("%d nodes send %.1f messages each, want at most 30", nodes, sent)
	}
	if bytes > 400 {
		t.Errorf("%d nodes take %d B each, want at most 400", nodes, bytes)
	}
}

func TestOverheadOfABag(t *testing.T) {
	bars(t, 1024, 30*time.Millisecond)
	bars(t, 10_000, 60*time.Millisecond)
}

func TestMatrixOverheadOfABag(t *testing.T) {
	if testing.Short() {
		t.Skip("seconds: make test-all runs it")
	}
	bars(t, 100_000, 120*time.Millisecond)
}

// TestSeedRepeats: a run with the same seed is the same run, and one with another seed is another.
func TestSeedRepeats(t *testing.T) {
	o := Options{Nodes: 300, Slots: 3, Tasks: 7000, Length: 20 * time.Millisecond, Vary: 0.7, Victims: policy.Random, Seed: 5}
	run := func() Result {
		r, err := Run(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	a, b := run(), run()
	if a != b {
		t.Errorf("two runs of a seed: %+v and %+v", a, b)
	}
	if o.Seed++; run() == a {
		t.Error("another seed has the same run")
	}
}

// TestFewNodes: one node, few tasks, and no other node to ask are bags too.
func TestFewNodes(t *testing.T) {
	for _, o := range []Options{
		{Nodes: 1, Slots: 2, Tasks: 5}, {Nodes: 2, Slots: 1, Tasks: 1}, {Nodes: 3, Slots: 2, Tasks: 100}, {Nodes: 40, Slots: 4, Tasks: 39}, {Nodes: 18, Slots: 1, Tasks: 3000},
	} {
		for _, o.Victims = range []policy.Victims{policy.Random, policy.Lifeline} {
			o.Length = 10 * time.Millisecond
			r, err := Run(o)
			if err != nil {
				t.Errorf("%+v: %v", o, err)
			}
			if waves := (o.Tasks + int64(o.Nodes*o.Slots) - 1) / int64(o.Nodes*o.Slots); r.LastEnd < time.Duration(waves)*o.Length {
				t.Errorf("%+v: the last task ends after %v, before %d tasks in a row can", o, r.LastEnd, waves)
			}
		}
	}
}

func TestRefusals(t *testing.T) {
	good := Options{Nodes: 2, Slots: 2, Tasks: 4, Length: time.Second, Victims: policy.Random}
	for what, spoil := range map[string]func(o *Options){ // any order
		"no node": func(o *Options) { o.Nodes = 0 }, "no slot": func(o *Options) { o.Slots = 0 }, "no task": func(o *Options) { o.Tasks = 0 },
		"no length": func(o *Options) { o.Length = 0 }, "lengths below zero": func(o *Options) { o.Vary = 2 },
		"too many tasks": func(o *Options) { o.Tasks = 1 << 33 }, "other victims": func(o *Options) { o.Victims = policy.Mesh },
	} {
		o := good
		if spoil(&o); func() error { _, err := Run(o); return err }() == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}

// TestAskers: a node keeps each thief once, the oldest first, and forgets the oldest of too many.
func TestAskers(t *testing.T) {
	s := &Sim{unstarted: 1}
	s.askers.init(2)
	for i := range uint32(policy.AskersMax + 3) {
		s.remember(1, i)
		s.remember(1, i)
	}
	var want []int32
	for i := range int32(policy.AskersMax) {
		want = append(want, i+3)
	}
	if got := s.askers.take(nil, 1); !slices.Equal(got, want) {
		t.Errorf("the node keeps %v, want %v", got, want)
	}
	if got := s.askers.take(nil, 1); len(got) > 0 {
		t.Errorf("the node still keeps %v", got)
	}
	s.remember(0, 7)
	if got := s.askers.take(nil, 0); !slices.Equal(got, []int32{7}) {
		t.Errorf("another node keeps %v, want [7]", got)
	}
}
