package slots

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
)

// Check panics if an invariant is broken: every slot, byte and GPU is in exactly
// one place, the wait list is in order, and no claim waits while enough room is
// free.
func (l *Ledger) Check() {
	if l.tasks.used.meets(l.free) || l.tasks.used.slots.count() != l.tasks.used.room.Slots {
		panic(fmt.Sprintf("slots: tasks have %d slots, %d counted, or some that are free", l.tasks.used.slots.count(), l.tasks.used.room.Slots))
	}
	seen := l.free.clone()
	seen.plus(&l.tasks.used)
	l.Backfill.check()
	for _, c := range l.tasks.lent {
		c.checkSubs()
	}
	for _, c := range l.holds {
		l.checkClaim(c, seen)
		seen.plus(&c.share)
	}
	if slices.ContainsFunc(seen.gpus, func(v int16) bool { return v > filch.GPU }) {
		panic(fmt.Sprintf("slots: of a GPU %v thousandths are lent", seen.gpus))
	}
	if seen.room != l.Total() || !seen.counted() {
		panic(fmt.Sprintf("slots: free and held make %+v, the node has %+v", seen.room, l.Total()))
	}
	n := l.Counts()
	if sum := n.Free + n.Held + n.Lent + n.Locked + n.Running + n.Tasks + n.Stuck; sum != l.Total().Slots {
		panic(fmt.Sprintf("slots: the states of slots make %d slots, the node has %d", sum, l.Total().Slots))
	}
	if !l.free.counted() {
		panic(fmt.Sprintf("slots: %d free in the set, %d counted", l.free.slots.count(), l.free.room.Slots))
	}
	if !slices.IsSortedFunc(l.wait.claims, byTicket) {
		panic("slots: wait list out of order")
	}
	if c := l.wait.first(); c != nil && !l.closing.drained() && !l.closing.shut && c.held < c.ask.Want && l.fits(c, c.ask) > 0 {
		panic(fmt.Sprintf("slots: job %d waits while room for %d ranks is free", c.ask.Key.Job, l.fits(c, c.ask)))
	}
}

func (l *Ledger) checkClaim(c *claim, seen share) {
	k := c.ask.Key
	switch {
	case c.meets(seen):
		panic(fmt.Sprintf("slots: job %d has slots that are not its own", k.Job))
	case !c.counted():
		panic(fmt.Sprintf("slots: job %d has %d slots, %d counted", k.Job, c.slots.count(), c.room.Slots))
	case c.held == 0 || c.state == Waiting:
		panic(fmt.Sprintf("slots: job %d holds %d ranks in state %d", k.Job, c.held, c.state))
	case l.claims[k] != c:
		panic(fmt.Sprintf("slots: job %d holds slots without a claim", k.Job))
	case c.kept && (c.state != Held || c.queued || c.lends.on || c.held < c.ask.Want):
		panic(fmt.Sprintf("slots: job %d keeps %d ranks of %d in state %d, or waits for more", k.Job, c.held, c.ask.Want, c.state))
	case c.queued && c.state > Held:
		panic(fmt.Sprintf("slots: job %d waits in state %d", k.Job, c.state))
	}
	c.checkSubs()
}

// checkSubs panics unless each slot of the steps is the claim's and in one step.
func (c *claim) checkSubs() {
	k, used, room := c.ask.Key, make(set, len(c.slots)), c.room
	for _, s := range c.subs {
		room = room.Minus(s.room)
		if s.slots.meets(used) {
			panic(fmt.Sprintf("slots: steps of job %d share slots", k.Job))
		}
		used.plus(s.slots)
	}
	used.minus(c.slots)
	if used.count() > 0 || room.Slots < 0 || room.MemBytes < 0 || room.GPUs < 0 {
		panic(fmt.Sprintf("slots: steps of job %d have slots outside the job", k.Job))
	}
}
