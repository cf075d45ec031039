package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Askers are thieves that found nothing at a node, for news of later work; the oldest
// first.
type Askers []filch.NodeName

// tellAll bounds the instances in which all nodes hear of the first work of a node, and
// each node with work tells a new node.
const tellAll = 16

// News is work at a node, for other nodes to hear of.
type News struct {
	Self    filch.NodeName
	First   bool  // of the node
	Urgent  bool  // of a better class than work elsewhere
	Spread  bool  // other nodes have parts of the work
	Ready   int64 // tasks of workflows, which thieves do not pass on
	Victims Victims
	many    bool                     // nodes for all of these tasks
	Fits    func(*filch.Member) bool // there is work for the node
}

// Tell names the nodes to tell of news, and forgets the thieves among these. Thieves that
// found nothing here hear first and, if few asked, as many drawn nodes as a thief asks. The
// first news goes to more nodes, as no node looks for work in an instance that has had
// none; with lifelines, the first news goes over the lifelines alone.
func (a *Askers) Tell(m *Members, w News, r *filch.Rand) (names []filch.NodeName) {
	var unsuited Askers
	for _, name := range *a {
		if p := m.Get(name); p != nil && w.Fits(p) {
			names = append(names, name)
		} else {
			unsuited = append(unsuited, name)
		}
	}
	*a = unsuited
	n := m.Others(w.Self)
	least := w.Least(n)
	for _, name := range m.fed(w) {
		if !slices.Contains(names, name) && w.Fits(m.Get(name)) {
			names = append(names, name)
		}
	}
	if len(names) < least && n > 0 {
		names = append(names, m.Draw(w.Self, min(least, n), r, func(p *filch.Member) bool {
			return p.Standing == filch.Up && !slices.Contains(names, p.Name) && w.Fits(p)
		})...)
	}
	return names
}

// Least is how many of n other nodes hear of the news at least, drawn ones among them.
func (w *News) Least(n int) int {
	least := filch.Root(n + 1)
	switch {
	case w.many:
		return max(least, int(min(w.Ready, heardMax)))
	case w.Urgent || w.First && w.Victims != Lifeline && !w.Spread:
		return max(least, tellAll)
	case w.Victims == Lifeline || w.Spread:
		return 0
	}
	return least
}

// AskersMax bounds the nodes that receive news of work.
const AskersMax = 64

// Add keeps the name of a thief.
func (a *Askers) Add(thief filch.NodeName) {
	if !slices.Contains(*a, thief) {
		*a = append(*a, thief)
	}
	if len(*a) > AskersMax {
		*a = slices.Delete(*a, 0, 1)
	}
}
