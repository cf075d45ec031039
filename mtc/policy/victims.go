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
)

var victimsNames = [...]string{"", "random", "dvs", "near", "sequential"}

func (v Victims) String() string { return victimsNames[v] }

// parseVictims reads the name of a choice.
func parseVictims(name string) (Victims, error) {
	for v, n := range victimsNames {
		if v > 0 && n == name {
			return Victims(v), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q is no choice of victims", name).WithHint("the choices are near, random, sequential and dvs")
}

// Ordered reports whether a thief takes the first of the asked nodes that has work; else a
// thief takes the most loaded.
func (v Victims) Ordered() bool { return v == Mesh && !mutantOrderless }

// Search is a thief's search for victims.
type Search struct {
	Self     filch.NodeName
	Source   filch.NodeName // the node where the work began: the leader of a job; "": not known
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
		if me := m.Get(s.Self); me != nil && me.Group != "" && s.Failures%2 == 0 {
			if near := m.Draw(s.Self, s.Width, r, func(p *filch.Member) bool { return lends(p) && p.Group == me.Group }); len(near) > 0 {
				return near
			}
		}
	case Sequential:
		return m.after(s.Self, s.Width, s.Failures)
	}
	return m.Draw(s.Self, s.Width, r, lends)
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

// Draw picks k distinct nodes that fit, never self.
func (m *Members) Draw(self filch.NodeName, k int, r *filch.Rand, fits func(*filch.Member) bool) []filch.NodeName {
	var names []filch.NodeName
	if n := m.Len(); 4*k < n {
		for tries := 0; tries < 8*k && len(names) < k; tries++ {
			p := m.At(int32(r.IntN(n)))
			if p.Name != self && fits(p) && !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
		if len(names) > 0 {
			return names
		}
	}
	for i := range m.All() {
		if p := m.At(int32(i)); p.Name != self && fits(p) {
			names = append(names, p.Name)
		}
	}
	for i := 0; i < min(k, len(names)); i++ { // the first k of a shuffle
		j := i + r.IntN(len(names)-i)
		names[i], names[j] = names[j], names[i]
	}
	return names[:min(k, len(names))]
}

// Half is half of n, rounded up, so that a single task can be stolen too; the
// code of MATRIX rounds down.
func Half(n int64) int64 {
	if mutantHalfDown {
		return n / 2
	}
	return n/2 + n%2
}
