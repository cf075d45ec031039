package members

import (
	"time"

	"github.com/filch-hpc/filch"
)

// antiEntropy finds the differences between this node's list and another node's, so
// lost news are found. Two lists are compared by their sums.
type antiEntropy struct {
	clock *clock
	table *table
	next  time.Duration // no comparison before
	// full reports whether the list takes no entry more; agreed is called when two
	// lists are the same.
	full   func() bool
	agreed func(out *Out)
}

// compare checks whether two lists differ for longer than news travel, and then
// starts the search for the differences.
func (a *antiEntropy) compare(e *entry, sum uint64, out *Out) {
	if e == nil {
		return
	}
	if sum == a.table.total() {
		e.differ = 0
		a.agreed(out)
		return
	}
	if a.full() {
		return
	}
	e.differ++
	if e.differ >= 2 && a.clock.now >= a.next {
		e.differ = 0
		a.next = a.clock.now + syncEvery
		a.start(e.m.Name, out)
	}
}

// start sends the sums of the buckets.
func (a *antiEntropy) start(to filch.NodeName, out *Out) {
	out.send(to, &gossip{kind: kindSync, sums: a.table.sums})
}

// onSync sends the differing buckets and asks for the other side's.
func (a *antiEntropy) onSync(from filch.NodeName, g *gossip, out *Out) {
	var mask uint64
	for i, s := range g.sums {
		if s != a.table.sums[i] {
			mask |= 1 << i
		}
	}
	if mask != 0 {
		a.send(from, mask, out)
		out.send(from, &gossip{kind: kindSyncBack, sum: mask})
	}
}

// send sends all entries of some buckets. The dead and the departed are sent, too: the
// other side may not know of the end.
func (a *antiEntropy) send(to filch.NodeName, mask uint64, out *Out) {
	var ms []Member
	for _, e := range a.table.all {
		if mask&(1<<(e.key%buckets)) != 0 {
			ms = append(ms, e.m)
		}
	}
	out.sendNews(to, ms)
}
