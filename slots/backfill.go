package slots

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Backfill lets tasks use slots of holds while the origins of the holds still gather. The
// slots stay in the hold: a task is inside of the hold, as a step is inside of a job. A
// recall names the tasks to be stopped; the ledger asks for a recall when the hold is
// launched, when an older claim wants the room, and when the origin says that the job could
// start.
type Backfill struct {
	ledger *Ledger
	room   filch.Room // of all tasks let through
	apart  filch.Room // the part of those whose hold is gone: used counts these tasks
	adrift []*fill    // these tasks
	called []uint64   // recalled since the last call of Recalled
}

// fill is the part of a hold that a task uses.
type fill struct {
	share
	id     uint64
	from   *claim // nil: the hold is gone
	called bool
	timed  bool // let through until an expected start
}

// lending is the permission of a claim's origin to let tasks through.
type lending struct {
	on     bool
	round  uint32        // of the word of the origin
	starts time.Duration // when the job is expected to start; 0: not known
	since  time.Duration // when the last expected start was over
	said   bool          // the origin will hear soon that there are tasks in the hold
}

// Gap is the room that tasks may borrow at the moment, with the room that tasks borrowed
// already, and what is known of the job that holds the room.
type Gap struct {
	Room   filch.Room
	Since  time.Duration // when the job got the first of its slots here, or did not start as expected
	Starts time.Duration // when the job is expected to start; 0: not known
}

// Permit takes in whether tasks may use the hold of a claim, and when the origin expects to
// start, 0 if unknown. Without the permission, the tasks in the hold are recalled. Of two
// words, the word with the higher round counts.
func (b *Backfill) Permit(now time.Duration, k Key, lease filch.LeaseID, round uint32, on bool, starts time.Duration) {
	c := b.ledger.find(k, lease)
	if c == nil || c.state != Held || c.kept || round < c.lends.round {
		return
	}
	since := c.lends.since
	if old := c.lends.starts; old <= now {
		since = max(since, old)
	}
	c.lends = lending{on: on, round: round, starts: starts, since: since, said: on && c.lends.said}
	if !on {
		b.recall(c)
	}
}

// Gap is the room of the hold with the most slots to lend.
func (b *Backfill) Gap() Gap {
	g, c := Gap{Room: b.room}, b.lender()
	if c != nil {
		rest := c.rest()
		g.Since, g.Starts = max(c.got, c.lends.since), c.lends.starts
		g.Room.Add(&rest.room)
	}
	g.Room.GPUs = 0 // a part of a GPU does not find back into its rank
	return g
}

// lender is the hold with the most slots to lend; nil without one.
func (b *Backfill) lender() (best *claim) {
	if b.ledger.closing.draining || b.ledger.closing.shut {
		return nil
	}
	most := int32(0)
	for _, c := range b.ledger.holds {
		if c.state == Held && c.lends.on {
			if n := c.room.Slots - c.filled().Slots; n > most {
				best, most = c, n
			}
		}
	}
	return best
}

// Take lets a task through; id names the task in a recall.
func (b *Backfill) Take(now time.Duration, id uint64, each filch.Room) (TaskLoan, bool) {
	c := b.lender()
	if c == nil || each.GPUs > 0 || each.Slots < 1 {
		return TaskLoan{}, false
	}
	rest := c.rest()
	if rest.fits(filch.Room{}, each) < 1 {
		return TaskLoan{}, false
	}
	n := TaskLoan{}
	rest.lend(each, each, &n.share)
	n.fill = &fill{share: n.share.clone(), id: id, from: c, timed: c.lends.starts > now}
	c.fills = append(c.fills, n.fill)
	b.room.Add(&each)
	if !c.lends.said {
		c.lends.said, c.prompt = true, min(c.prompt, now+promptMin)
	}
	return n, true
}

// Recalled lists the tasks to be stopped that became so since the last call.
func (b *Backfill) Recalled(buf []uint64) []uint64 {
	buf = append(buf, b.called...)
	b.called = b.called[:0]
	return buf
}

// Recalled reports whether the task was recalled.
func (n *TaskLoan) Recalled() bool { return n.fill != nil && n.fill.called }

// Borrowed reports whether the room is part of a hold, or was.
func (n *TaskLoan) Borrowed() bool { return n.fill != nil }

// recall recalls the tasks in a hold.
func (b *Backfill) recall(c *claim) {
	for _, f := range c.fills {
		b.call(f)
	}
}

func (b *Backfill) call(f *fill) {
	if !f.called && !mutantNoRecall && !(mutantTrustLimits && f.timed) {
		f.called = true
		b.called = append(b.called, f.id)
	}
}

// end takes in the end of a task, and reports whether its room is the hold's again. The
// room of a task that leaves processes or steps behind leaves the hold, and the caller ends
// the task as any other.
func (b *Backfill) end(now time.Duration, n *TaskLoan, left bool) (back bool) {
	f := n.fill
	if f.from != nil && (left || n.lent != nil && len(n.lent.subs) > 0) {
		b.evict(now, f)
	}
	b.room.Sub(&f.room)
	c := f.from
	if c == nil {
		b.apart.Sub(&f.room)
		b.adrift = slices.DeleteFunc(b.adrift, func(o *fill) bool { return o == f })
		return false
	}
	c.fills = slices.DeleteFunc(c.fills, func(o *fill) bool { return o == f })
	if !c.lends.on { // the origin waits for the room
		b.ledger.reports.touch(now, c)
	}
	return true
}

// evict takes the room of a task out of the task's hold for good: the task goes on, and the
// hold waits for the lost room.
func (b *Backfill) evict(now time.Duration, f *fill) {
	c := f.from
	had := c.held
	b.part(c, f)
	c.fills = slices.DeleteFunc(c.fills, func(o *fill) bool { return o == f })
	b.shrink(c)
	c.ask.Wait, c.ask.Want = true, max(c.ask.Want, had)
	b.ledger.enqueue(now, c)
	b.ledger.reports.touch(now, c)
}

// part moves the room of a task from the task's hold to the node's tasks.
func (b *Backfill) part(c *claim, f *fill) {
	c.share.minus(&f.share)
	b.ledger.tasks.used.plus(&f.share)
	b.apart.Add(&f.room)
	b.adrift = append(b.adrift, f)
	f.from = nil
}

// leave makes the tasks in a hold ordinary tasks, before the hold is launched or given back:
// until a job waits for their room.
func (b *Backfill) leave(c *claim) {
	for _, f := range c.fills {
		b.part(c, f)
	}
	c.fills = nil
}

// sweep recalls the tasks that lost their hold: a job waits for room here.
func (b *Backfill) sweep() {
	for _, f := range b.adrift {
		b.call(f)
	}
}

// shrink leaves a hold that lost a part of its room whole ranks, and frees the rest.
func (b *Backfill) shrink(c *claim) {
	l, k := b.ledger, int32(0)
	if !c.ask.Exclusive {
		k = min(c.held, c.fits(c.ask.Base, c.ask.Each))
	}
	room := c.room
	if k > 0 {
		room = room.Minus(c.ask.Base.Plus(c.ask.Each.Times(k)))
	}
	c.giveBack(room, c.ask.Each, &l.free)
	if c.held = k; k == 0 {
		l.holds = slices.DeleteFunc(l.holds, func(x *claim) bool { return x == c })
		c.state = Waiting
	}
}

// filled is the room that tasks have of a hold.
func (c *claim) filled() (r filch.Room) {
	for _, f := range c.fills {
		r.Add(&f.room)
	}
	return r
}

// rest is a hold without the room that tasks have of the hold.
func (c *claim) rest() share {
	if len(c.fills) == 0 {
		return c.share.clone()
	}
	s := c.share.clone()
	for _, f := range c.fills {
		s.minus(&f.share)
	}
	return s
}

// firm is the number of ranks of a claim whose room no task uses.
func (c *claim) firm() int32 {
	switch {
	case len(c.fills) == 0:
		return c.held
	case c.ask.Exclusive:
		return 0
	}
	rest := c.rest()
	return min(c.held, rest.fits(c.ask.Base, c.ask.Each))
}

// strip takes room of a hold that no task uses back to free.
func (c *claim) strip(room filch.Room, free *share) {
	rest, back := c.rest(), share{slots: make(set, len(free.slots)), gpus: make(devices, len(free.gpus))}
	rest.giveBack(room, c.ask.Each, &back)
	c.share.minus(&back)
	free.plus(&back)
}

// others is the room of the tasks that were not let through.
func (b *Backfill) others() filch.Room { return b.ledger.tasks.held().Minus(b.apart) }

// Fills describes the tasks in the hold of a job.
func (b *Backfill) Fills(k Key, each func(id uint64)) {
	if c := b.ledger.claims[k]; c != nil {
		for _, f := range c.fills {
			each(f.id)
		}
	}
}

// Slots is the slots of holds that tasks use.
func (b *Backfill) Slots() int32 { return b.room.Slots - b.apart.Slots }

// Occupant is room in use, and the latest time at which the use ends: 0 if not known.
type Occupant struct {
	Room filch.Room
	Ends time.Duration
}

// Frees is when at the latest the ranks that a claim lacks find room here, if tasks occupy
// the rest of this node; 0 if nobody knows.
func (b *Backfill) Frees(now time.Duration, k Key, tasks []Occupant) time.Duration {
	c := b.ledger.claims[k]
	if c == nil || c.state > Held {
		return 0
	}
	all := slices.Clone(tasks)
	for _, o := range b.ledger.holds {
		if o != c && o.state > Held {
			all = append(all, Occupant{o.room, o.ends})
		}
	}
	return frees(now, b.ledger, c, all)
}

func frees(now time.Duration, l *Ledger, c *claim, all []Occupant) time.Duration {
	all = slices.DeleteFunc(all, func(o Occupant) bool { return o.Ends <= now })
	slices.SortStableFunc(all, func(a, o Occupant) int { return cmp.Compare(a.Ends, o.Ends) })
	free, lacks := l.free.room, c.ask.Want-c.held
	for i := range all {
		free.Add(&all[i].Room)
		if fits(free, l.Total(), c, c.ask) >= lacks {
			return all[i].Ends
		}
	}
	return 0
}

// check panics if a task is not inside of its hold, or shares its room with another.
func (b *Backfill) check() {
	room := b.apart
	for _, c := range b.ledger.holds {
		used := share{}
		for _, f := range c.fills {
			switch {
			case c.state != Held || f.from != c:
				panic("slots: a task is let through in a claim that is no hold")
			case !f.inside(c.share) || f.meets(used):
				panic("slots: a task has slots outside of its hold, or of another task")
			}
			used.plus(&f.share)
			room.Add(&f.room)
		}
	}
	if room != b.room {
		panic("slots: the room of the tasks that were let through is not the sum")
	}
}
