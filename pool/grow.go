package pool

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// grow asks for allocations.
func (t *turn) grow() {
	p := t.p
	want, most, why := t.want()
	have, coming := t.supply()
	each := max(p.Each, 1)
	live := 0 // the batch system has all these; the successor of one that ends by itself may come before
	for i := range p.Allocs {
		if a := &p.Allocs[i]; a.State != Ended && !t.leaves(a) {
			live++
		}
	}
	missing := want - have - int64(coming)*int64(each)
	n := 0
	if missing > 0 {
		n = int((missing + int64(each) - 1) / int64(each))
	}
	if p.Each == 0 {
		n = min(n, max(1-coming, 0)) // the first shows how many slots an allocation has
	}
	n = min(max(n, p.Min-t.left()), p.Max-live, MostAllocs-len(p.Allocs))
	if n <= 0 || p.Removed {
		t.tooMany((have + int64(coming)*int64(each) - most) / int64(each))
		return
	}
	t.m.spare = time.Time{}
	if wait := time.Unix(0, p.After).Sub(t.now); p.Paused != "" || wait > 0 && wait <= backOff[len(backOff)-1] || t.fresh {
		return // a longer wait is that of a holder with another clock
	}
	p.Said = fmt.Sprintf("asked for %d: %s; %d slots are there, %d allocations were coming", n, why, have, coming)
	for range n {
		p.Allocs = append(p.Allocs, Alloc{N: p.Next, State: Planned, Planned: t.now.UnixNano()})
		t.order(Submit, &p.Allocs[len(p.Allocs)-1])
		p.Next++
		p.Totals.Submitted++
	}
}

// want is the number of slots that would end the queued work within the time of the pool;
// most is the number of slots for which there is work at all.
func (t *turn) want() (slots, most int64, why string) {
	v := t.v
	length := v.Length
	if length <= 0 {
		length = guess
	}
	most = max(v.Slots, v.Ready)
	tasks := int64(math.Ceil(float64(v.Ready) * length / t.p.Within.Seconds()))
	grown := ""
	if more := v.Ready - t.m.ready; t.p.Grow > 0 && !t.m.looked.IsZero() && more >= t.p.Grow {
		tasks, grown = most, fmt.Sprintf(", %d more than a look before", more)
	}
	tasks = min(tasks, most)
	gangs, busy, all := int64(0), t.busy(), t.others()+int64(t.p.Max)*int64(t.p.Each)
	t.p.Large = ""
	for _, g := range v.Gangs {
		slots := max(int64(g.Slots), int64(g.Nodes)*int64(max(t.p.Each, 1)))
		if t.p.Each > 0 && slots > all {
			t.p.Large = fmt.Sprintf("a gang of %d slots waits, and with all %d allocations there are %d slots", slots, t.p.Max, all)
			t.p.Trouble = t.p.Large
			continue
		}
		gangs += slots
	}
	most += gangs + busy
	if slots = tasks + gangs; slots > 0 {
		slots += busy
	}
	return slots, most, fmt.Sprintf("%d tasks of %.3g s wait%s, and %d gangs of %d slots", v.Ready, length, grown, len(v.Gangs), gangs)
}

// others counts the slots of nodes that are not of the pool.
func (t *turn) others() (n int64) {
	for i := range t.v.Nodes {
		node := &t.v.Nodes[i]
		if !slices.ContainsFunc(t.p.Allocs, func(a Alloc) bool { return t.p.has(&a, node) }) {
			n += int64(node.Slots)
		}
	}
	return n
}

func (t *turn) busy() (n int64) {
	for i := range t.v.Nodes {
		n += int64(t.v.Nodes[i].Busy)
	}
	return n
}

// supply counts the slots that are there for longer than a new allocation takes to come,
// and the allocations that are on their way.
func (t *turn) supply() (slots int64, coming int) {
	for i := range t.v.Nodes {
		n := &t.v.Nodes[i]
		if !n.Draining && !t.ends(n) {
			slots += int64(n.Slots)
		}
	}
	for i := range t.p.Allocs {
		switch t.p.Allocs[i].State {
		case Planned, Queued, Started:
			if mutantQueuedFree {
				continue
			}
			coming++
		}
	}
	return slots, coming
}

// ends tells whether a node is taken away before a new allocation would have come and done a
// task. A batch system that lets jobs wait for longer than they run would make every node one
// that ends: half of the time of an allocation is the most.
func (t *turn) ends(n *Node) bool {
	lead := max(t.p.Delay, leadLeast) + time.Duration(t.v.Length*float64(time.Second))
	if n.Left == 0 || n.Left > lead {
		return false
	}
	return n.Left <= n.Age
}

// leaves tells whether an allocation ends by itself soon: all its nodes end.
func (t *turn) leaves(a *Alloc) bool {
	ends := false
	for i := range t.v.Nodes {
		if n := &t.v.Nodes[i]; t.p.has(a, n) {
			if !t.ends(n) {
				return false
			}
			ends = true
		}
	}
	return ends && !mutantNoSuccessor
}

// tooMany cancels allocations on their way that were not needed for the time of --idle: the
// last ones first.
func (t *turn) tooMany(spare int64) {
	p := t.p
	if spare <= 0 {
		t.m.spare = time.Time{}
		return
	}
	if t.m.spare.IsZero() {
		t.m.spare = t.now
	}
	if t.now.Sub(t.m.spare) < p.Idle {
		return
	}
	live := t.left()
	for i := len(p.Allocs) - 1; i >= 0 && spare > 0 && live > p.Min; i-- {
		if a := &p.Allocs[i]; a.State == Queued {
			t.giveBack(a, "was not needed")
			spare, live = spare-1, live-1
		}
	}
}
