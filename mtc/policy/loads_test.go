package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

const gigabyte = 1_250_000_000 // a second on the network

func listed(names ...filch.NodeName) *Members {
	m := NewMembers()
	for _, n := range names {
		m.Set(filch.Member{Name: n, Incarnation: 1, Total: filch.Room{Slots: 4}})
	}
	return m
}

// TestBestNodeIsNotThePrintedOne: ADAGE's listing 3, as printed, adds the transfer times of
// the input that a node has, and takes the node with the least sum. The choice here is the
// node that lacks the least.
func TestBestNodeIsNotThePrintedOne(t *testing.T) {
	nodes := []filch.NodeName{"a", "b", "c"}
	inputs := []Input{{Node: "b", Bytes: 3 * gigabyte}, {Node: "c", Bytes: gigabyte}}
	printed, least := filch.NodeName(""), time.Duration(0)
	for _, n := range nodes {
		sum := time.Duration(0)
		for _, in := range inputs {
			if in.Node == n {
				sum += TransferTime(in.Bytes, bandwidth)
			}
		}
		if printed == "" || sum < least {
			printed, least = n, sum
		}
	}
	idle := Load{Slots: 4, Free: 4}
	var l Loads
	to, _ := l.Choose(nodes, "a", idle, inputs, time.Second, &Estimates{}, listed(nodes...))
	if to != "b" || printed != "a" {
		t.Errorf("the choice is %s, want b with most of the input; as printed %s, which has nothing", to, printed)
	}
}

// TestChoiceOfANode: the choice of a task of a second with two seconds of input at node b.
func TestChoiceOfANode(t *testing.T) {
	nodes := []filch.NodeName{"a", "b", "c"}
	busy := func(wait time.Duration) Load { return Load{Slots: 4, Work: 4 * wait} }
	idle := Load{Slots: 4, Free: 2}
	for _, c := range []struct {
		name    string
		own     Load
		b, c    Load
		copied  filch.NodeName
		slow    filch.NodeName
		want    filch.NodeName
		without bool // input
	}{
		{name: "where the input is", own: idle, b: idle, c: idle, want: "b"},
		{name: "a short wait is better than the transfer", own: idle, b: busy(time.Second), c: idle, want: "b"},
		{name: "a long wait is worse", own: idle, b: busy(5 * time.Second), c: idle, want: "a"},
		{name: "a node with a copy", own: busy(time.Minute), b: busy(5 * time.Second), c: idle, copied: "c", want: "c"},
		{name: "here, where a copy is", own: idle, b: idle, c: idle, copied: "a", want: "a"},
		{name: "a slow node", own: idle, b: idle, c: idle, slow: "b", want: "a"},
		{name: "no input, and all are idle", own: idle, b: idle, c: idle, want: "a", without: true},
		{name: "no input, and one is idle", own: busy(time.Minute), b: busy(time.Minute), c: idle, want: "c", without: true},
		{name: "no input, and all wait", own: busy(time.Minute), b: busy(time.Second), c: busy(time.Minute), want: "a", without: true},
		{name: "a slow connection", own: idle, b: busy(10 * time.Second), c: Load{Slots: 4, Free: 4, Rate: bandwidth / 100}, want: "a"},
	} {
		inputs := []Input{{Node: "b", Bytes: 2 * gigabyte}}
		if c.copied != "" {
			inputs[0].Copies = []filch.NodeName{c.copied}
		}
		if c.without {
			inputs = nil
		}
		if c.slow != "" {
			inputs[0].Bytes = gigabyte + gigabyte/5
		}
		var l Loads
		var e Estimates
		for range 60 {
			if c.slow != "" {
				e.Add("k", "a", time.Second)
				e.Add("k", "c", time.Second)
				e.Add("k", c.slow, time.Minute)
			}
		}
		l.Ask(0, nodes, "a")
		l.Said("b", c.b)
		l.Said("c", c.c)
		if to, stays := l.Choose(nodes, "a", c.own, inputs, time.Second, &e, listed(nodes...)); to != c.want || stays == c.without {
			t.Errorf("%s: the choice is %s, want %s; the task stays: %v", c.name, to, c.want, stays)
		}
	}
}

// TestGivenTasksCount: between two words of a node, and before the first, the tasks given to
// the node count.
func TestGivenTasksCount(t *testing.T) {
	nodes := []filch.NodeName{"a", "b", "c"}
	var l Loads
	m := listed(nodes...)
	l.Ask(0, nodes, "a")
	if all := l.Said("b", Load{Slots: 2, Free: 2}); all {
		t.Error("all nodes answered, though c did not")
	}
	count := map[filch.NodeName]int{}
	full := Load{Slots: 4, Work: time.Hour}
	for range 10 {
		to, _ := l.Choose(nodes, "a", full, nil, time.Second, &Estimates{}, m)
		count[to]++
	}
	if count["b"] != 2 || count["c"] != 4 || count["a"] != 4 {
		t.Errorf("of ten tasks the nodes have %v, want one for each free slot, and the rest here", count)
	}
	if ask := l.Ask(loadAgain/2, nodes, "a"); len(ask) > 0 {
		t.Errorf("%v are asked again at once", ask)
	}
	if ask := l.Ask(loadAgain, nodes, "a"); len(ask) != 2 {
		t.Errorf("%v are asked later, want b and c", ask)
	}
	l.Forget("c")
	if all := l.Said("b", Load{Slots: 2}); !all || l.Said("c", Load{Slots: 4}) {
		t.Error("the answer of a node that is gone is waited for, or taken")
	}
}

// TestCandidates: nodes with input, sqrt(N) drawn ones and the least loaded known.
func TestCandidates(t *testing.T) {
	var names []filch.NodeName
	for i := range 100 {
		names = append(names, numbered(i))
	}
	m, r := listed(names...), filch.Rand(1)
	var l Loads
	l.Ask(0, names, "n1")
	for _, n := range names[1:] {
		l.Said(n, Load{Slots: 4, Work: time.Hour})
	}
	l.Ask(time.Second, names, "n1")
	l.Said("n77", Load{Slots: 4, Free: 1})
	fits := func(p *filch.Member) bool { return p.Name != "n5" }
	list := l.Candidates([]Input{{Node: "n5", Bytes: 1}, {Node: "n6", Bytes: 1, Copies: []filch.NodeName{"n7"}}, {Node: "n8"}}, "n1", m, &r, fits)
	if !slices.Equal(list[:4], []filch.NodeName{"n1", "n77", "n6", "n7"}) || len(list) < 12 || len(list) > 14 {
		t.Errorf("the candidates are %v", list)
	}
}
