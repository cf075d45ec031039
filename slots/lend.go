package slots

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Spare is how many more ranks could be lent to a at once: none while an older
// request waits here.
func (l *Ledger) Spare(a Ask) int32 {
	if l.closing.refuses(a) || l.closing.shut || l.wait.hasOlder(a) {
		return 0
	}
	c := l.claims[a.Key]
	if c != nil && (c.state > Held || c.kept) {
		return 0
	}
	return l.fits(c, a)
}

// fits is the number of additional ranks for which the free room suffices; the
// claim may have some ranks already.
func (l *Ledger) fits(c *claim, a Ask) int32 {
	return min(fits(l.open(c), l.capacity.Total(), c, a), fitsGPUs(l.free.gpus, c, a))
}

// fitsGPUs is the number of additional ranks for which the GPUs suffice.
func fitsGPUs(gpus devices, c *claim, a Ask) int32 {
	switch {
	case a.Exclusive:
		return filch.Unbounded // of whole GPUs, the amount decides
	case c != nil && c.held > 0:
		return gpus.fits(0, a.Each.GPUs)
	}
	return gpus.fits(a.Base.GPUs, a.Each.GPUs)
}

func fits(free, total filch.Room, c *claim, a Ask) int32 {
	switch {
	case a.Exclusive && c != nil && c.held > 0:
		return total.Fits(a.Base, a.Each) - c.held
	case a.Exclusive:
		if free != total {
			return 0
		}
		return free.Fits(a.Base, a.Each)
	case c != nil && c.held > 0:
		return free.Fits(filch.Room{}, a.Each)
	}
	return free.Fits(a.Base, a.Each)
}

// Ask lends up to limit more ranks out of the free room, unless an older request
// waits here. With Wait the claim waits for the rest, and limit does not count. A
// repeated or older Round changes nothing. The answer goes to the asker, so Changed
// does not list the claim for this call.
func (l *Ledger) Ask(now time.Duration, a Ask, limit int32) Status {
	c := l.claims[a.Key]
	if c != nil && c.state <= Held && c.ask.Origin != a.Origin {
		// The claim belongs to the job's earlier origin, not yet known here to be
		// dead: the earlier rounds and lease mean nothing to the new origin.
		l.strip(c, c.held)
		l.drop(c)
		l.reports.touch(now, c)
		l.pump(now)
		c = nil
	}
	if c != nil && (c.state > Held || c.kept || a.Round <= c.ask.Round) {
		c.heard(now)
		return l.status(c)
	}
	spare := l.Spare(a)
	if c == nil && (l.closing.refuses(a) || (spare <= 0 || limit <= 0) && !a.Wait) {
		s := l.nothing(a.Key)
		s.Round, s.Older, s.Refused = a.Round, l.wait.hasOlder(a), l.closing.refuses(a)
		return s
	}
	if c == nil {
		if a.Wait && len(l.wait.claims) >= MaxWaiting {
			s := l.nothing(a.Key)
			s.Round, s.Refused = a.Round, true
			return s
		}
		c = l.claim(a)
	}
	c.ask.Want, c.ask.Round, c.ask.Wait, c.ask.Ends, c.ask.Takes = a.Want, a.Round, c.ask.Wait || a.Wait, a.Ends, a.Takes
	c.heard(now)
	switch k := min(spare, limit, a.Want-c.held); {
	case c.ask.Wait && !l.closing.refuses(c.ask):
		l.enqueue(now, c)
		l.pump(now)
	case k > 0:
		l.give(now, c, k)
	}
	l.reports.remove(c)
	c.version = l.reports.next() // also where only the place on the list is new
	s := l.status(c)
	if c.held == 0 && !c.queued {
		l.drop(c)
	}
	return s
}

// Take launches ranks at once, all or nothing, if they fit without waiting: the
// path of a job small enough for the job's own node.
func (l *Ledger) Take(now time.Duration, a Ask) (Loan, bool) {
	if a.Want <= 0 || l.claims[a.Key] != nil || l.Spare(a) < a.Want && !a.asTask(l) {
		return Loan{}, false
	}
	c := l.claim(a)
	l.give(now, c, a.Want)
	l.capacity.gather(&c.share, &l.free, a.Want)
	l.reports.remove(c)
	c.launched(now)
	c.state = Running
	if a.Task {
		l.tasks.since = now
		l.pump(now) // it may be a gang's turn now
	}
	return l.loan(c), true
}

// give moves room for k ranks from free to c.
func (l *Ledger) give(now time.Duration, c *claim, k int32) {
	room := c.ask.Each.Times(k)
	if c.held == 0 {
		room = room.Plus(c.ask.Base)
	}
	switch {
	case c.ask.Exclusive && c.held == 0:
		room = l.free.room
	case c.ask.Exclusive:
		room = filch.Room{}
	}
	if c.held == 0 {
		l.holds = append(l.holds, c)
		c.expires, c.got = now+HoldTerm, now
	}
	if c.state == Waiting {
		c.state = Held
	}
	c.held += k
	l.lender().lend(room, c.ask.Each, &c.share)
	l.reports.touch(now, c)
}

// lender is the share that grants are taken from.
func (l *Ledger) lender() *share {
	if mutantOversell {
		s := l.free.clone()
		return &s
	}
	return &l.free
}

// strip takes room for k ranks from c back to free; with the last rank also the
// room shared by all ranks.
func (l *Ledger) strip(c *claim, k int32) {
	if c.held == 0 || k <= 0 {
		return
	}
	k = min(k, c.held)
	if c.ask.Exclusive {
		k = c.held
	}
	room := c.ask.Each.Times(k)
	if k == c.held {
		l.Backfill.leave(c)
		room = c.room
	}
	c.held -= k
	if len(c.fills) > 0 {
		c.strip(room, &l.free)
	} else {
		c.giveBack(room, c.ask.Each, &l.free)
	}
	if c.held == 0 {
		l.holds = slices.DeleteFunc(l.holds, func(x *claim) bool { return x == c })
		if c.state != Waiting {
			c.state = Waiting
		}
	}
}

// pump gives the free room to the waiting claims, the oldest first. A younger claim
// gets nothing while an older claim is short, or big requests would starve.
func (l *Ledger) pump(now time.Duration) {
	for len(l.wait.claims) > 0 && !l.closing.drained() && !l.closing.shut {
		c := l.wait.claims[0]
		if mutantYoungFirst {
			c = l.wait.claims[len(l.wait.claims)-1]
		}
		if !l.serve(now, c) {
			return
		}
		l.wait.remove(c)
	}
}

// serve gives c as much as possible, and reports whether c is satisfied.
func (l *Ledger) serve(now time.Duration, c *claim) bool {
	if k := min(l.fits(c, c.ask), c.ask.Want-c.held); k > 0 {
		l.give(now, c, k)
	}
	if c.held < c.ask.Want {
		l.wound(now, c)
	}
	if c.held < c.ask.Want {
		l.Backfill.sweep()
	}
	return c.held >= c.ask.Want || c.ask.Exclusive && c.held > 0
}

// wound takes holds of younger tickets for c, the youngest first and no more than
// helps. The wounded claims wait for the lost room.
func (l *Ledger) wound(now time.Duration, c *claim) {
	var young []*claim
	reach, gpus := l.open(c), l.free.gpus.clone()
	kept := l.free.room.Minus(reach) // for a task, whichever claim is wounded
	fit := func() int32 {
		return min(fits(l.free.room.Minus(kept), l.capacity.Total(), c, c.ask), fitsGPUs(l.free.gpus, c, c.ask))
	}
	for _, h := range l.holds {
		if h.state == Held && !h.kept && c.ask.Ticket.Older(h.ask.Ticket) {
			young = append(young, h)
			reach = reach.Plus(h.room)
			gpus.plus(h.gpus)
		}
	}
	goal := min(fits(reach, l.capacity.Total(), c, c.ask), fitsGPUs(gpus, c, c.ask), c.ask.Want-c.held)
	if goal <= 0 {
		return
	}
	slices.SortFunc(young, func(a, b *claim) int { return byTicket(b, a) })
	for _, h := range young {
		if fit() >= goal {
			break
		}
		had := h.held
		for h.firm() > 0 && fit() < goal {
			l.strip(h, 1)
		}
		if h.held == had {
			continue
		}
		if mutantForgetWound {
			if h.held == 0 && !h.queued {
				l.drop(h)
			}
			continue
		}
		h.ask.Wait, h.ask.Want = true, max(h.ask.Want, had)
		l.enqueue(now, h)
		l.reports.touch(now, h)
	}
	k := min(goal, fit())
	if k > 0 {
		l.give(now, c, k)
	}
	for _, h := range young {
		if k < goal { // tasks have the rest
			l.Backfill.recall(h)
		}
	}
}

// Renew notes the origin's continued interest in a hold; false means there is no
// such lease.
func (l *Ledger) Renew(now time.Duration, k Key, lease filch.LeaseID) bool {
	c := l.find(k, lease)
	if c == nil {
		return false
	}
	c.heard(now)
	return true
}

// Asker is the origin of a claim; "" if there is none.
func (l *Ledger) Asker(k Key) filch.NodeName {
	if c := l.claims[k]; c != nil {
		return c.ask.Origin
	}
	return ""
}

// Release gives back a claim not yet launched: the claim under the lease, or with a
// zero lease any claim asked for up to the round, but none that is kept.
func (l *Ledger) Release(now time.Duration, k Key, lease filch.LeaseID, round uint32) bool {
	c := l.claims[k]
	if mutantReleaseBySlot && c == nil && len(l.holds) > 0 {
		c = l.holds[lease.Serial%uint64(len(l.holds))]
		lease = c.lease
		c.state = min(c.state, Held)
	}
	if c == nil || c.state > Held || lease.Serial != 0 && c.lease != lease || lease.Serial == 0 && (c.kept || c.ask.Round > round) {
		return false
	}
	if mutantLeak && c.held > 0 || mutantSpareLeak && c.kept {
		c.state, c.ask.Wait, c.kept = Stuck, false, false
		l.wait.remove(c)
		return true
	}
	l.strip(c, c.held)
	l.drop(c)
	l.reports.remove(c)
	l.pump(now)
	return true
}

// Forget drops all claims not yet launched by an origin's incarnations before the
// given one: the origin is gone, or has restarted without memory.
func (l *Ledger) Forget(now time.Duration, origin filch.NodeName, before uint64) {
	var gone []*claim
	for _, c := range l.claims { // in any order: sorted below
		if c.ask.Origin == origin && c.ask.Incarnation < before && c.state <= Held {
			gone = append(gone, c)
		}
	}
	slices.SortFunc(gone, byTicket)
	for _, c := range gone {
		l.strip(c, c.held)
		l.drop(c)
		l.reports.remove(c)
	}
	if len(gone) > 0 {
		l.pump(now)
	}
}
