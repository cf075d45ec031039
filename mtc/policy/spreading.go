package policy

import (
	"iter"
	"math/bits"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Spreading is to how many nodes a submitted bag goes at once: the dispatchers of MATRIX v1
// (3.4). From there the tasks go on by stealing.
type Spreading uint8

// The numbers of nodes, with the node of the submission.
const (
	spreadAuto Spreading = iota // all where a bag needs them, in an instance that the first news does not reach; else one
	spreadOne                   // the worst case of MATRIX: all tasks begin on one node
	spreadLog                   // log2(N)
	spreadRoot                  // sqrt(N)
	spreadAll                   // the best case, by a tree: see [Members.Branches]
)

var spreadingNames = [...]string{"auto", "1", "log", "sqrt", "all"}

func (s Spreading) String() string { return spreadingNames[min(int(s), len(spreadingNames)-1)] }

// ParseSpreading reads the name of a number of nodes.
func ParseSpreading(name string) (Spreading, error) {
	for s, n := range spreadingNames {
		if n == name {
			return Spreading(s), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q says not to how many nodes the tasks go", name).WithHint("the numbers of nodes are auto, 1, log, sqrt and all")
}

// spreadKeep is how long the tasks of a bag stay on the node that the bag's tree gave them to, and
// thieves get none: a thief would take the parts of nodes that the tree reaches next. The tree reaches
// 1,024 nodes within 2 ms.
const spreadKeep = 25 * time.Millisecond

// branchesMax is to how many nodes a node offers parts of a bag.
const branchesMax = 4

// Branch is a part of a bag for a segment of the nodes, from To through Last. The order is that of
// names, and cyclic.
type Branch struct {
	To, Last filch.NodeName
	Tasks    int64
}

// Bag is a bag to spread, or a part.
type Bag struct {
	Self  filch.NodeName
	Tasks int64
	Free  int64 // tasks that can start on the node at once
	Alone bool  // other nodes may have no tokens for the tasks, or the tasks are gangs
	Fits  func(*filch.Member) bool
}

// BagOf is so many tasks of a job, on a node with free room. A node that does not know the job yet, for
// which spec is nil, takes each node for suited.
func BagOf(self filch.NodeName, spec *record.Spec, tasks int64, free filch.Room) Bag {
	if spec == nil {
		return Bag{Self: self, Tasks: tasks, Fits: func(*filch.Member) bool { return true }}
	}
	return Bag{
		Self: self, Tasks: tasks, Free: int64(free.Fits(filch.Room{}, spec.Each)), Alone: spec.Capped() || spec.Gangs(),
		Fits: func(p *filch.Member) bool { return Suits(spec, p) },
	}
}

// Branches returns the parts of a bag for other nodes; the rest stays.
func (s Spreading) Branches(m *Members, b *Bag, r *filch.Rand) (branches []Branch) {
	others := m.Others(b.Self)
	if s.ToAll(others, b.Tasks, b.Free, b.Alone) {
		return m.Branches(b, m.before(b.Self))
	}
	n := s.Nodes(others + 1)
	part := b.Tasks / int64(n)
	if part == 0 {
		return nil // fewer tasks than nodes: thieves are as fast
	}
	for _, to := range m.Draw(b.Self, n-1, r, func(p *filch.Member) bool { return p.Standing == filch.Up && b.Fits(p) }) {
		branches = append(branches, Branch{to, to, part})
	}
	return branches
}

// ToAll reports whether a bag goes to all other nodes by a tree; see [Bag] for the last three.
func (s Spreading) ToAll(others int, tasks, free int64, alone bool) bool {
	if s == spreadAuto && others > tellAll && tasks > free && !alone {
		s = spreadAll
	}
	return s == spreadAll && !mutantUnspread
}

// Nodes is the number of n nodes, at least one, where a bag does not go to all.
func (s Spreading) Nodes(n int) int {
	switch s {
	case spreadLog:
		n = bits.Len(uint(max(n, 1))) - 1
	case spreadRoot:
		n = filch.Root(n)
	default:
		n = 1
	}
	if mutantUnspread {
		n = 1
	}
	return max(n, 1)
}

// Branches splits a bag between its node and the nodes behind this node through last, by their
// slots. The parts for others are for segments of the nodes, which the first node of the segment
// splits again: with N nodes, all have their parts after log(N) offers in a row.
func (m *Members) Branches(b *Bag, last filch.NodeName) (branches []Branch) {
	if mutantTreeStops && last != m.before(b.Self) {
		return nil
	}
	order, me := m.byName(), m.place(b.Self)
	n := (m.place(last) - me + len(order)) % len(order)
	var names []filch.NodeName
	sums := []int64{0} // slots of this node and of the first names
	if self := m.At(order[me]); b.Fits(self) {
		sums[0] = slotsOf(self)
	}
	for k := 1; k <= n; k++ {
		if p := m.At(order[(me+k)%len(order)]); p.Standing == filch.Up && b.Fits(p) {
			names = append(names, p.Name)
			sums = append(sums, sums[len(sums)-1]+slotsOf(p))
		}
	}
	for p := range Parts(b.Tasks, len(names), func(k int) int64 { return sums[k] }) {
		branches = append(branches, Branch{names[p.Lo], names[p.Hi-1], p.Tasks})
	}
	return branches
}

// Part is the tasks of a bag for the nodes from Lo up to but not including Hi, counted from the node
// behind the one that splits the bag.
type Part struct {
	Lo, Hi int
	Tasks  int64
}

// Parts yields the parts of a bag for the n nodes behind a node. sum is the slots of the first k of
// these nodes and of the node itself.
func Parts(tasks int64, n int, sum func(k int) int64) iter.Seq[Part] {
	return func(yield func(Part) bool) {
		parts, all := min(branchesMax, n), sum(n)
		for k := range parts {
			lo, hi := k*n/parts, (k+1)*n/parts
			if t := tasks*sum(hi)/all - tasks*sum(lo)/all; t > 0 && !yield(Part{lo, hi, t}) {
				return
			}
		}
	}
}

// slotsOf is a node's slots; 1 if they are not known.
func slotsOf(p *filch.Member) int64 { return int64(max(p.Total.Slots, 1)) }
