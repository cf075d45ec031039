package slots

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Lock takes room for ranks out of a hold for a launch and gives back the surplus.
// The claim can no longer be wounded, and lasts until End. Lock fails if the claim
// holds fewer ranks, or is under another lease.
func (l *Ledger) Lock(now time.Duration, k Key, lease filch.LeaseID, ranks int32) (Loan, bool) {
	c := l.find(k, lease)
	if c == nil || c.state != Held || c.held < ranks || ranks <= 0 {
		return Loan{}, false
	}
	c.state = Locked
	l.unqueue(c)
	if !c.ask.Exclusive {
		l.strip(c, c.held-ranks)
	}
	c.held = ranks
	l.untell(c)
	l.pump(now)
	return l.loan(c), true
}

// Run notes the opening of a launch's gate.
func (l *Ledger) Run(k Key, lease filch.LeaseID) bool {
	c := l.find(k, lease)
	if c == nil || c.state != Locked {
		return false
	}
	c.state = Running
	return true
}

func (l *Ledger) loan(c *claim) Loan {
	n := Loan{Lease: c.lease, Ranks: c.held, Slots: c.slots.list(), MemBytes: c.room.MemBytes}
	if l.capacity.Bound() {
		for _, i := range n.Slots {
			n.Cores = append(n.Cores, l.capacity.Cores[i])
		}
	}
	for _, i := range c.gpus.list() {
		n.GPUs = append(n.GPUs, l.capacity.GPUs[i])
	}
	return n
}

// End gives back the room of a launched claim. With left, some processes cannot be
// killed and the slots stay out of service. A step's slots go back to the parent.
// Slots of a parent still used by steps go back when the steps end.
func (l *Ledger) End(now time.Duration, k Key, lease filch.LeaseID, left bool) bool {
	c := l.find(k, lease)
	if c == nil || c.state < Locked {
		return false
	}
	if left {
		c.state = Stuck
		return true
	}
	if c.parent != nil {
		p := c.parent
		p.subs = slices.DeleteFunc(p.subs, func(s *claim) bool { return s == c })
		delete(l.claims, k)
		return true
	}
	l.orphan(c)
	c.held = max(c.held, 1)
	l.strip(c, c.held)
	l.drop(c)
	l.pump(now)
	return true
}

// orphan turns the steps of c into independent claims, out of c's room.
func (l *Ledger) orphan(c *claim) {
	for _, s := range c.subs {
		s.parent = nil
		c.slots.minus(s.slots)
		c.gpus.minus(s.gpus)
		c.room = c.room.Minus(s.room)
		l.holds = append(l.holds, s)
	}
	c.subs = nil
}

// Sub launches ranks of a step on the part of the parent's claim on this node not
// used by other steps.
func (l *Ledger) Sub(a Ask, parent Key, lease filch.LeaseID) (Loan, bool) {
	p := l.find(parent, lease)
	if p == nil || p.state != Running || p.parent != nil {
		return Loan{}, false
	}
	return l.sub(a, p)
}

func (l *Ledger) sub(a Ask, p *claim) (Loan, bool) {
	if l.claims[a.Key] != nil || a.Want <= 0 {
		return Loan{}, false
	}
	free, avail, gpus := p.room, p.slots.clone(), p.gpus.clone()
	for _, s := range p.subs {
		free = free.Minus(s.room)
		avail.minus(s.slots)
		gpus.minus(s.gpus)
	}
	if free.Fits(a.Base, a.Each) < a.Want {
		return Loan{}, false
	}
	c := l.claim(a)
	c.parent, c.state, c.held = p, Running, a.Want
	c.room = a.Base.Plus(a.Each.Times(a.Want))
	c.slots = avail.low(nil, c.room.Slots)
	c.gpus = gpus.low(nil, c.room.GPUs)
	p.subs = append(p.subs, c)
	return l.loan(c), true
}

// Adopt books the room still used by a keeper after the end of the keeper's
// launcher, under the lease of the earlier incarnation. Adopt refuses room booked
// already, except by the steps of a adopted earlier: from now on the steps are
// inside the claim of a.
func (l *Ledger) Adopt(a Ask, n Loan, steps ...Key) bool {
	if n.Ranks <= 0 || l.claims[a.Key] != nil {
		return false
	}
	c := &claim{ask: a, lease: n.Lease, state: Running, held: n.Ranks}
	c.slots, c.gpus = setOf(n.Slots, l.capacity.Slots), l.gpuSet(n.GPUs)
	c.room = Room{Slots: c.slots.count(), MemBytes: n.MemBytes, GPUs: c.gpus.count()}
	rest, restGPUs, free := c.slots.clone(), c.gpus.clone(), l.free
	rest.minus(l.slots)
	restGPUs.minus(l.gpus)
	for _, k := range steps {
		if s := l.claims[k]; s != nil && s.parent == nil && s.state >= Locked && s.inside(c) {
			rest.minus(s.slots)
			restGPUs.minus(s.gpus)
			free = free.Plus(s.room)
			c.subs = append(c.subs, s)
		}
	}
	if rest.count()+restGPUs.count() > 0 || n.MemBytes > free.MemBytes {
		return false
	}
	if mutantBlindAdopt {
		return true
	}
	for _, s := range c.subs {
		s.parent = c
	}
	l.claims[a.Key] = c
	l.holds = append(slices.DeleteFunc(l.holds, func(s *claim) bool { return s.parent == c }), c)
	l.slots.minus(c.slots)
	l.gpus.minus(c.gpus)
	l.free = free.Minus(c.room)
	return true
}

// inside reports whether p has everything held by c.
func (c *claim) inside(p *claim) bool {
	over, overGPUs := c.slots.clone(), c.gpus.clone()
	over.minus(p.slots)
	overGPUs.minus(p.gpus)
	return over.count()+overGPUs.count() == 0
}

// gpuSet is the set of some of this node's GPUs.
func (l *Ledger) gpuSet(names []string) set {
	gpus := make(set, len(l.gpus))
	for i, name := range l.capacity.GPUs {
		if slices.Contains(names, name) {
			gpus[i/64] |= 1 << (i % 64)
		}
	}
	return gpus
}

// AdoptSub books the room still used by a step, within the parent's claim. A step
// may have given slots back already if all of the step's ranks have ended, and
// another step may have the slots.
func (l *Ledger) AdoptSub(a Ask, n Loan, parent Key, ended bool) bool {
	p := l.claims[parent]
	if p == nil || p.state != Running || l.claims[a.Key] != nil {
		return l.Adopt(a, n)
	}
	c := &claim{ask: a, lease: n.Lease, state: Running, held: n.Ranks, parent: p}
	c.slots, c.gpus = setOf(n.Slots, l.capacity.Slots), l.gpuSet(n.GPUs)
	c.room = Room{Slots: c.slots.count(), MemBytes: n.MemBytes, GPUs: c.gpus.count()}
	for _, s := range p.subs {
		switch {
		case !s.slots.meets(c.slots) && !s.gpus.meets(c.gpus):
		case ended:
			c.yield(s)
		default:
			s.yield(c)
		}
	}
	l.claims[a.Key] = c
	p.subs = append(p.subs, c)
	return true
}

// yield leaves the slots and GPUs held by both steps of a parent to the other step.
func (c *claim) yield(to *claim) {
	c.slots.minus(to.slots)
	c.gpus.minus(to.gpus)
	c.room = Room{Slots: c.slots.count(), GPUs: c.gpus.count()}
}

// Reborn starts a new incarnation: claims not launched are forgotten.
func (l *Ledger) Reborn(now time.Duration, incarnation uint64) {
	var gone []*claim
	for _, c := range l.claims { // in any order: sorted below
		if c.state <= Held {
			gone = append(gone, c)
		}
	}
	slices.SortFunc(gone, byTicket)
	for _, c := range gone {
		l.strip(c, c.held)
		l.drop(c)
		l.untell(c)
	}
	l.incarnation = incarnation
	l.pump(now)
}

// InTheWay names the job with the most slots here, except k's.
func (l *Ledger) InTheWay(k Key) (job filch.JobID, n int32) {
	for _, c := range l.holds {
		if c.ask.Key.Job != k.Job && c.room.Slots > n {
			job, n = c.ask.Key.Job, c.room.Slots
		}
	}
	return job, n
}

// Counts is the slots by the state of their claim, and how many jobs wait.
func (l *Ledger) Counts() (held, locked, running, stuck, waiting int32) {
	for _, c := range l.holds {
		switch c.state {
		case Held:
			held += c.room.Slots
		case Locked:
			locked += c.room.Slots
		case Running:
			running += c.room.Slots
		case Stuck:
			stuck += c.room.Slots
		}
	}
	return held, locked, running, stuck, int32(len(l.wait))
}

// FreeGPUs names the free GPUs.
func (l *Ledger) FreeGPUs() []string {
	out := make([]string, 0, l.free.GPUs)
	for _, i := range l.gpus.list() {
		out = append(out, l.capacity.GPUs[i])
	}
	return out
}

// Check panics if an invariant is broken: every slot, byte and GPU is in exactly
// one place, the wait list is in order, and no claim waits while enough room is
// free.
func (l *Ledger) Check() {
	sum, slotsSeen, gpusSeen := l.free.Plus(l.tasks.held).Plus(l.tasks.stuck), l.slots.clone(), l.gpus.clone()
	if l.tasks.slots.meets(slotsSeen) || l.tasks.gpus.meets(gpusSeen) || l.tasks.slots.count() != l.tasks.held.Slots+l.tasks.stuck.Slots {
		panic(fmt.Sprintf("slots: tasks have %d slots, %d counted, or some that are free", l.tasks.slots.count(), l.tasks.held.Slots))
	}
	slotsSeen.plus(l.tasks.slots)
	gpusSeen.plus(l.tasks.gpus)
	for _, c := range l.tasks.lent {
		l.checkSubs(c)
	}
	for _, c := range l.holds {
		l.checkClaim(c, slotsSeen, gpusSeen)
		sum = sum.Plus(c.room)
		slotsSeen.plus(c.slots)
		gpusSeen.plus(c.gpus)
	}
	if sum != l.Total() || slotsSeen.count() != l.capacity.Slots || gpusSeen.count() != int32(len(l.capacity.GPUs)) {
		panic(fmt.Sprintf("slots: free and held make %+v, the node has %+v", sum, l.Total()))
	}
	if l.slots.count() != l.free.Slots || l.gpus.count() != l.free.GPUs {
		panic(fmt.Sprintf("slots: %d free in the set, %d counted", l.slots.count(), l.free.Slots))
	}
	if !slices.IsSortedFunc(l.wait, byTicket) {
		panic("slots: wait list out of order")
	}
	if len(l.wait) == 0 || l.drained() || l.shut {
		return
	}
	if c := l.wait[0]; c.held < c.ask.Want && l.fits(c, c.ask) > 0 {
		panic(fmt.Sprintf("slots: job %d waits while room for %d ranks is free", c.ask.Key.Job, l.fits(c, c.ask)))
	}
}

func (l *Ledger) checkClaim(c *claim, slotsSeen, gpusSeen set) {
	k := c.ask.Key
	switch {
	case c.slots.meets(slotsSeen) || c.gpus.meets(gpusSeen):
		panic(fmt.Sprintf("slots: job %d has slots that are not its own", k.Job))
	case c.slots.count() != c.room.Slots || c.gpus.count() != c.room.GPUs:
		panic(fmt.Sprintf("slots: job %d has %d slots, %d counted", k.Job, c.slots.count(), c.room.Slots))
	case c.held == 0 || c.state == Waiting:
		panic(fmt.Sprintf("slots: job %d holds %d ranks in state %d", k.Job, c.held, c.state))
	case l.claims[k] != c:
		panic(fmt.Sprintf("slots: job %d holds slots without a claim", k.Job))
	case c.queued && c.state > Held:
		panic(fmt.Sprintf("slots: job %d waits in state %d", k.Job, c.state))
	}
	l.checkSubs(c)
}

func (l *Ledger) checkSubs(c *claim) {
	k, used, room := c.ask.Key, make(set, len(l.slots)), c.room
	for _, s := range c.subs {
		room = room.Minus(s.room)
		if s.slots.meets(used) {
			panic(fmt.Sprintf("slots: steps of job %d share slots", k.Job))
		}
		used.plus(s.slots)
	}
	used.minus(c.slots)
	if used.count() > 0 || room.Slots < 0 || room.MemBytes < 0 || room.GPUs < 0 {
		panic(fmt.Sprintf("slots: steps of job %d have what it has not", k.Job))
	}
}
