package report

import "slices"

const (
	// lanesMost bounds the lanes of slots of a node. A bar in a slot with a higher number counts
	// as a bar without known slots.
	lanesMost = 4096
	// lateMost bounds how much of a bar is cut: a launcher may learn so late of an end, and the
	// next task of the slot has begun meanwhile.
	lateMost = int64(1e8) // ns
)

// lanes are the lanes of the nodes: a lane for each slot that a bar is in, and of lower slots, and
// below them lanes of bars without known slots. The bars of a lane do not overlap.
type lanes struct {
	list   []ended // in the order of begins
	slots  []int32 // lanes of slots, by node
	last   map[slotOf]int
	others [][]int64 // the ends of the last bars of the lanes below, by node
}

type slotOf struct{ node, slot int32 }

func newLanes(list []ended, nodes int) *lanes {
	l := &lanes{list: list, slots: make([]int32, nodes), last: map[slotOf]int{}, others: make([][]int64, nodes)}
	for i := range list {
		e := &list[i]
		if end := e.On.First + e.On.Count; end <= lanesMost {
			l.slots[e.Bar.Node] = max(l.slots[e.Bar.Node], end)
		}
	}
	return l
}

// of returns the first lane of the next bar, and how many lanes the bar has. The bars are asked
// for in their order. A bar in several runs of slots is in the lanes of the first run.
func (l *lanes) of(i int) (lane, tall int32) {
	e := &l.list[i]
	if l.fits(e) {
		for n := range e.On.Count {
			at := slotOf{e.Bar.Node, e.On.First + n}
			if k, ok := l.last[at]; ok {
				before := &l.list[k].Bar
				before.End = max(before.Begin, min(before.End, e.Bar.Begin))
			}
			l.last[at] = i
		}
		return e.On.First, e.On.Count
	}
	busy := l.others[e.Bar.Node]
	n := slices.IndexFunc(busy, func(end int64) bool { return end <= e.Bar.Begin })
	if n < 0 {
		n = len(busy)
		busy = append(busy, 0)
	}
	busy[n] = e.Bar.End
	l.others[e.Bar.Node] = busy
	return l.slots[e.Bar.Node] + int32(n), 1
}

// fits reports whether the slots of a bar are known, and free but for ends that were learnt late.
func (l *lanes) fits(e *ended) bool {
	if e.On.Count == 0 || e.On.First+e.On.Count > lanesMost {
		return false
	}
	for n := range e.On.Count {
		k, ok := l.last[slotOf{e.Bar.Node, e.On.First + n}]
		if ok && l.list[k].Bar.End-e.Bar.Begin > lateMost {
			return false
		}
	}
	return true
}

// count is the number of lanes of a node.
func (l *lanes) count(node int32) int32 { return l.slots[node] + int32(len(l.others[node])) }
