package policy

import (
	"iter"

	"github.com/filch-hpc/filch"
)

// The bounds of a spell without work in lifeline stealing: drawn nodes, then one request
// over each lifeline, then silence until news comes. In an instance of 4^10 nodes a spell
// costs at most 14 requests.
const (
	lifelineBase  = 4
	LifelineDraws = 4 // w of GLB (X10, glb.GLBParameters)
	lifelineTries = 2 // the drawn nodes, then the lifelines
)

// lifelines names the nodes that self has lifelines to, or, with reverse, the nodes that
// have lifelines to self: the edges of a cyclic hypercube of base 4 over the places in the
// order of names (GLB: X10, glb.Worker). The edge of digit j leads to the place with a
// smaller digit j, modulo 4. A place beyond the last node, or of a node that gives no work,
// is passed over for the next smaller digit.
func (m *Members) lifelines(self filch.NodeName, reverse bool) []filch.NodeName {
	if m.Find(self) < 0 {
		return nil
	}
	order := m.byName()
	var names []filch.NodeName
	for to := range Lifelines(m.place(self), len(order), reverse, func(place int) bool { return lends(m.At(order[place])) }) {
		names = append(names, m.At(order[to]).Name)
	}
	return names
}

// Lifelines yields the places, of n, to which a place has lifelines; with reverse, the places with
// lifelines to this place.
func Lifelines(me, n int, reverse bool, lends func(place int) bool) iter.Seq[int] {
	return func(yield func(int) bool) {
		for unit := 1; unit < n; unit *= lifelineBase {
			for by := 1; by < lifelineBase; by++ {
				to := withDigit(me, unit, -by)
				if reverse {
					to = withDigit(me, unit, by)
				}
				if to >= n || !lends(to) {
					continue
				}
				if !yield(to) {
					return
				}
				break
			}
		}
	}
}

// withDigit adds by to the digit of value unit of a place, modulo the base.
func withDigit(place, unit, by int) int {
	digit := place / unit % lifelineBase
	return place + (((digit+by)%lifelineBase+lifelineBase)%lifelineBase-digit)*unit
}

// fed names the nodes that have lifelines to a node with its first work: these hear of the
// work as if each had found nothing there before.
func (m *Members) fed(w News) []filch.NodeName {
	if !w.Feeds() {
		return nil
	}
	return m.lifelines(w.Self, true)
}

// Feeds reports whether the nodes with lifelines to a node hear of its work, asked or not. Nodes that
// have parts of the work themselves do not: they ask here first when they have nothing else.
func (w *News) Feeds() bool {
	return w.Victims == Lifeline && w.First && !w.Spread && !mutantUnfed
}
