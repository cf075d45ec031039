package policy

import "github.com/filch-hpc/filch"

// The bounds of a spell without work in lifeline stealing: drawn nodes, then one request
// over each lifeline, then silence until news comes. In an instance of 4^10 nodes a spell
// costs at most 14 requests.
const (
	lifelineBase  = 4
	lifelineDraws = 4 // w of GLB (X10, glb.GLBParameters)
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
	order, me := m.byName(), m.place(self)
	var names []filch.NodeName
	for unit := 1; unit < len(order); unit *= lifelineBase {
		for by := 1; by < lifelineBase; by++ {
			to := withDigit(me, unit, -by)
			if reverse {
				to = withDigit(me, unit, by)
			}
			if to >= len(order) || !lends(m.At(order[to])) {
				continue
			}
			names = append(names, m.At(order[to]).Name)
			break
		}
	}
	return names
}

// withDigit adds by to the digit of value unit of a place, modulo the base.
func withDigit(place, unit, by int) int {
	digit := place / unit % lifelineBase
	return place + (((digit+by)%lifelineBase+lifelineBase)%lifelineBase-digit)*unit
}

// fed names the nodes that have lifelines to a node with its first work: these hear of the
// work as if each had found nothing there before.
func (m *Members) fed(w News) []filch.NodeName {
	if w.Victims != Lifeline || !w.First || mutantUnfed {
		return nil
	}
	return m.lifelines(w.Self, true)
}
