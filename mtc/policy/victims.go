package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Victims is a thief's choice of the nodes to ask.
type Victims uint8

// The choices. The zero Victims leaves the choice to [Config.Victims] of the core.
const (
	ByDefault    Victims = iota
	Random               // sqrt(N) distinct nodes, drawn each time (MATRIX v1, algorithm 1)
	Mesh                 // deterministic: neighbors of a virtual mesh by class (DVS)
	Hierarchical         // nodes of the own group first, others after a failure
	Sequential           // the next nodes in the order of names (DVS, 6)
	Leapfrog             // the node that last stole here, then drawn nodes (WOOL; DVS, 1)
	Lifeline             // 4 drawn nodes, then the lifelines of a cyclic hypercube, then silence (GLB)
	Fixed                // the same sqrt(N) nodes each time (MATRIX v1, 3.6: static neighbors)
	NoStealing           // none: tasks run where they are placed
)

var victimsNames = [...]string{"", "random", "dvs", "near", "sequential", "leapfrog", "lifeline", "fixed", "none"}

func (v Victims) String() string { return victimsNames[v] }

// parseVictims reads the name of a choice.
func parseVictims(name string) (Victims, error) {
	for v, n := range victimsNames {
		if v > 0 && n == name {
			return Victims(v), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q is no choice of victims", name).WithHint("the choices are near, random, lifeline, leapfrog, sequential, fixed, dvs and none")
}

// Ordered reports whether a thief takes the first of the asked nodes that has work; else a
// thief takes the most loaded.
func (v Victims) Ordered() bool { return v == Mesh && !mutantOrderless }

// Silent reports whether a thief is silent until news comes, once so many tries failed in a
// row.
func (v Victims) Silent(failures int) bool {
	return v == Lifeline && failures >= lifelineTries && !mutantRestless
}

// Search is a thief's search for victims.
type Search struct {
	Self     filch.NodeName
	Source   filch.NodeName // the node where the work began: the leader of a job; "": not known
	Thief    filch.NodeName // the node that last stole tasks of self; "": none did
	Teller   filch.NodeName // the node that last sent news of work, or tasks; "": none did since the last failure
	Width    int            // the most nodes to ask
	Failures int            // in a row so far
}

// Choose names the nodes to ask.
func (m *Members) Choose(v Victims, s Search, r *filch.Rand) []filch.NodeName {
	if mutantSameVictims {
		*r = 1
	}
	switch v {
	case Mesh:
		if s.Failures < meshPatience {
			return m.mesh(s.Self, s.Source)
		}
	case Hierarchical:
		if me := m.Get(s.Self); me != nil && me.Group != "" && s.Failures%2 == 0 && !mutantFarFirst {
			if p := m.Get(s.Teller); p != nil && p.Group != me.Group {
				break // work is elsewhere
			}
			if near := m.among(s, s.Width, r, func(p *filch.Member) bool { return lends(p) && p.Group == me.Group }); len(near) > 0 {
				return near
			}
		}
	case Sequential:
		if mutantSameNext {
			s.Failures = 0
		}
		return m.after(s.Self, s.Width, s.Failures)
	case Fixed:
		if !mutantUnfixed {
			return m.after(s.Self, min(s.Width, m.root(s.Self)), 0)
		}
	case Leapfrog:
		if p := m.Get(s.Thief); p != nil && lends(p) && s.Failures == 0 && !mutantNoLeap {
			return []filch.NodeName{s.Thief}
		}
	case Lifeline:
		if s.Failures > 0 {
			return m.lifelines(s.Self, false)
		}
		return m.told(s, LifelineDraws, r)
	case NoStealing:
		return nil
	}
	return m.told(s, s.Width, r)
}

// told names k nodes: the node that sent news or tasks, and drawn nodes.
func (m *Members) told(s Search, k int, r *filch.Rand) []filch.NodeName {
	return m.among(s, k, r, lends)
}

// among is told of nodes that fit.
func (m *Members) among(s Search, k int, r *filch.Rand, fits func(*filch.Member) bool) []filch.NodeName {
	p := m.Get(s.Teller)
	if p == nil || !fits(p) || s.Teller == s.Self {
		return m.Draw(s.Self, k, r, fits)
	}
	return append([]filch.NodeName{s.Teller}, m.Draw(s.Self, k-1, r, func(p *filch.Member) bool { return fits(p) && p.Name != s.Teller })...)
}

// after names the next k nodes behind self in the order of names; after each failure, the k
// nodes behind these.
func (m *Members) after(self filch.NodeName, k, failures int) []filch.NodeName {
	order := m.byName()
	at, n := m.place(self), len(order)
	var names []filch.NodeName
	for i := range n {
		p := m.At(order[(at+1+failures*k+i)%n])
		if p.Name != self && lends(p) && len(names) < k {
			names = append(names, p.Name)
		}
	}
	return names
}

// root is the square root of the number of nodes, self included.
func (m *Members) root(self filch.NodeName) int { return filch.Root(m.Others(self) + 1) }

// Sample draws sqrt(N) distinct nodes that fit, never self.
func (m *Members) Sample(self filch.NodeName, r *filch.Rand, fits func(*filch.Member) bool) []filch.NodeName {
	return m.Draw(self, m.root(self), r, fits)
}

// Draw picks k distinct nodes that fit, never self.
func (m *Members) Draw(self filch.NodeName, k int, r *filch.Rand, fits func(*filch.Member) bool) []filch.NodeName {
	drawn := Draw(nil, m.Len(), k, r, func(i int32) bool { p := m.At(i); return p.Name != self && fits(p) })
	if len(drawn) == 0 {
		return nil
	}
	names := make([]filch.NodeName, len(drawn))
	for i, at := range drawn {
		names[i] = m.At(at).Name
	}
	return names
}

// Draw picks k distinct numbers below n that fit, into a list.
func Draw(list []int32, n, k int, r *filch.Rand, fits func(i int32) bool) []int32 {
	list = list[:0]
	if 4*k < n {
		for tries := 0; tries < 8*k && len(list) < k; tries++ {
			if i := int32(r.IntN(n)); fits(i) && !slices.Contains(list, i) {
				list = append(list, i)
			}
		}
		if len(list) > 0 {
			return list
		}
	}
	for i := range int32(n) {
		if fits(i) {
			list = append(list, i)
		}
	}
	for i := 0; i < min(k, len(list)); i++ { // the first k of a shuffle
		j := i + r.IntN(len(list)-i)
		list[i], list[j] = list[j], list[i]
	}
	return list[:min(k, len(list))]
}

// Half is half of n, rounded up, so that a single task can be stolen too; the
// code of MATRIX rounds down.
func Half(n int64) int64 {
	if mutantHalfDown {
		return n / 2
	}
	return n/2 + n%2
}
