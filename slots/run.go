package slots

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Lock takes room for ranks out of a hold for a launch and gives back the surplus.
// The claim can no longer be wounded, and lasts until End. Lock fails if the claim
// holds fewer ranks, or is under another lease.
func (l *Ledger) Lock(now time.Duration, k Key, lease filch.LeaseID, ranks int32) (Loan, bool) {
	c := l.find(k, lease)
	if c == nil {
		c = l.Spares.move(k, lease)
	}
	if c == nil || c.state != Held || c.held < ranks || ranks <= 0 {
		return Loan{}, false
	}
	if len(c.fills) > 0 {
		if c.firm() < ranks {
			l.Backfill.recall(c)
			return Loan{}, false
		}
		l.Backfill.leave(c)
		l.Backfill.shrink(c)
	}
	c.launched(now)
	c.state, c.kept = Locked, false
	l.wait.remove(c)
	if !c.ask.Exclusive {
		l.strip(c, c.held-ranks)
	}
	c.held = ranks
	l.capacity.gather(&c.share, &l.free, ranks)
	l.reports.remove(c)
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

// launched notes when the ranks of a claim are over at the latest.
func (c *claim) launched(now time.Duration) {
	if c.ask.Takes > 0 {
		c.ends = now + c.ask.Takes
	}
}

func (l *Ledger) loan(c *claim) Loan {
	numbers := l.capacity.inOrder(c.slots, c.held)
	return Loan{
		Lease: c.lease, Ranks: c.held, Slots: numbers, MemBytes: c.room.MemBytes, Named: c.room.Named,
		Processors: l.capacity.processorsOf(numbers), GPUs: l.capacity.gpusOf(c.gpus, c.ask.Each.GPUs),
	}
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
		c.share.minus(&s.share)
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
	free := p.share.clone()
	for _, s := range p.subs {
		free.minus(&s.share)
	}
	if free.fits(a.Base, a.Each) < a.Want {
		return Loan{}, false
	}
	c := l.claim(a)
	c.parent, c.state, c.held = p, Running, a.Want
	free.lend(a.Base.Plus(a.Each.Times(a.Want)), a.Each, &c.share)
	l.capacity.gather(&c.share, &free, a.Want)
	p.subs = append(p.subs, c)
	n := l.loan(c)
	if len(n.GPUs) == 0 {
		n.ParentGPUs = l.capacity.gpusIn(p.gpus)
	}
	return n, true
}

// Adopt books the room still used by a keeper after the end of the keeper's
// launcher, under the lease of the earlier incarnation. Adopt refuses room booked
// already, except by the steps of a adopted earlier: from now on the steps are
// inside the claim of a.
func (l *Ledger) Adopt(a Ask, n Loan, steps ...Key) bool {
	if n.Ranks <= 0 || l.claims[a.Key] != nil {
		return false
	}
	c := &claim{ask: a, lease: n.Lease, state: Running, held: n.Ranks, share: l.capacity.share(n, a.Each)}
	avail := l.free.clone()
	for _, k := range steps {
		if s := l.claims[k]; s != nil && s.parent == nil && s.state >= Locked && s.inside(c.share) {
			avail.plus(&s.share)
			c.subs = append(c.subs, s)
		}
	}
	if !c.inside(avail) || n.MemBytes > avail.room.MemBytes || !avail.room.Holds(filch.Room{Named: n.Named}) {
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
	avail.minus(&c.share)
	l.free = avail
	return true
}

// AdoptSub books the room still used by a step, within the parent's claim. A step
// may have given slots back already if all of the step's ranks have ended, and
// another step may have the slots.
func (l *Ledger) AdoptSub(a Ask, n Loan, parent Key, ended bool) bool {
	p := l.claims[parent]
	if p == nil || p.state != Running || l.claims[a.Key] != nil {
		return l.Adopt(a, n)
	}
	c := &claim{ask: a, lease: n.Lease, state: Running, held: n.Ranks, share: l.capacity.share(n, a.Each), parent: p}
	for _, s := range p.subs {
		switch {
		case !s.meets(c.share):
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
	if c.gpus.exceeds(to.gpus) {
		c.gpus.minus(to.gpus)
	}
	c.room = filch.Room{Slots: c.slots.count(), GPUs: c.gpus.sum()}
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
		l.reports.remove(c)
	}
	l.incarnation = incarnation
	l.pump(now)
}

// Holder is a claim with slots, as [Ledger.Holders] lists claims.
type Holder struct {
	Job   filch.JobID
	Slots int32
	Named filch.Amounts
	State State
	Kept  bool // for a later attempt: see [Spares]
}

// job is the job that a person knows as the holder.
func (a *Ask) job() filch.JobID {
	if a.Of != 0 {
		return a.Of
	}
	return a.Key.Job
}

// Holders lists the claims with slots that no task uses, in the order in which they got the first slot.
func (l *Ledger) Holders() (all []Holder) {
	for _, c := range l.holds {
		if n := c.room.Slots - c.filled().Slots; n > 0 {
			all = append(all, Holder{c.ask.job(), n, c.room.Named, c.state, c.kept})
		}
	}
	return all
}

// Counts is the slots by their state, which make all slots of the node, and how many jobs
// wait.
type Counts struct {
	Free, Held, Lent, Locked, Running, Tasks, Stuck int32

	Waiting int32 // jobs
}

// Counts counts the slots by the state of their claim. A slot of a hold that tasks use is
// lent, and neither held nor of tasks.
func (l *Ledger) Counts() Counts {
	n := Counts{
		Free: l.free.room.Slots, Lent: l.Backfill.Slots(), Tasks: l.tasks.held().Slots, Stuck: l.tasks.stuck.Slots,
		Waiting: int32(len(l.wait.claims)),
	}
	for _, c := range l.holds {
		switch c.state {
		case Held:
			n.Held += c.room.Slots - c.filled().Slots
		case Locked:
			n.Locked += c.room.Slots
		case Running:
			n.Running += c.room.Slots
		case Stuck:
			n.Stuck += c.room.Slots
		}
	}
	return n
}

// FreeSlots are the numbers of the free slots.
func (l *Ledger) FreeSlots() []int32 { return l.free.slots.list() }

// FreeGPUs names the GPUs of which no part is lent.
func (l *Ledger) FreeGPUs() []string {
	return l.capacity.gpusOf(l.free.gpus, filch.GPU)
}
