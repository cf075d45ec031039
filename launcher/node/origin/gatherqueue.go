package origin

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// MaxGathers bounds the gathering jobs of an origin: each job keeps some state for every
// node, and has a place on every wait list. Younger jobs stand in line at the origin;
// older jobs go first in any case.
const MaxGathers = 256

// gatherqueue holds the gathering jobs of this origin, and the jobs in line behind. At
// most MaxGathers jobs gather or wait for the record of their launch.
type gatherqueue struct {
	*joblist
	origin   starter
	recorder committer
	walltime *walltime
	spares   *spares

	active int
	unsent int          // gathered jobs whose launch waits for the record; may gather again
	last   filch.Ticket // the youngest admitted so far
	queue  []*job       // in the order of tickets
}

// starter launches jobs on the slots gathered.
type starter interface {
	local(t *local.Turn, j *job) bool
	launch(t *local.Turn, j *job, shares []stealer.Share, loan *slots.Loan)
	unlaunch(t *local.Turn, j *job)
	again(t *local.Turn, j *job)
	begin(t *local.Turn, j *job)
	keep(t *local.Turn, j *job)
}

// committer writes the record of a job of this origin to the store.
type committer interface {
	Commit(t *local.Turn, id filch.JobID, then func(*local.Turn))
}

// enqueue puts a job in line when too many older jobs gather, and reports whether the job
// is in line. If younger jobs gather, the youngest goes in line instead: the records of
// jobs submitted together are not stored in the order of the tickets.
func (q *gatherqueue) enqueue(t *local.Turn, j *job) bool {
	full := q.active+q.unsent >= MaxGathers
	switch {
	case !full && (len(q.queue) == 0 || j.ticket.Older(q.last)):
		return false
	case full && q.active > 0 && j.ticket.Older(q.last):
		if y := q.youngestGather(); y != nil && j.ticket.Older(y.ticket) {
			q.releaseHolds(t, y, nil)
			q.enter(y)
			return false
		}
	}
	q.enter(j)
	return true
}

// youngestGather returns the youngest gathering job, nil if no job gathers.
func (q *gatherqueue) youngestGather() (y *job) {
	for _, j := range q.jobs { // any order: tickets differ
		if j.gather != nil && (y == nil || y.ticket.Older(j.ticket)) {
			y = j
		}
	}
	return y
}

// enter puts a job in line, once.
func (l *gatherqueue) enter(j *job) {
	if !j.lined {
		j.lined = true
		i, _ := slices.BinarySearchFunc(l.queue, j, func(a, b *job) int {
			if a.ticket.Older(b.ticket) {
				return -1
			}
			return 1
		})
		l.queue = slices.Insert(l.queue, i, j)
	}
}

// Dequeue begins the next job in line if there is a free place, and reports whether a job
// began.
func (q *gatherqueue) Dequeue(t *local.Turn) bool {
	for len(q.queue) > 0 && q.active+q.unsent < MaxGathers {
		j := q.queue[0]
		q.queue[0] = nil
		q.queue = q.queue[1:]
		if !j.lined || q.jobs[j.id] != j {
			continue
		}
		j.lined = false
		if !q.origin.local(t, j) {
			q.beginGather(t, j)
		}
		q.wakeJob(j, j.deadline())
		return true
	}
	return false
}

func (q *gatherqueue) endGather(j *job) {
	j.gather = nil
	q.active--
}

func (q *gatherqueue) beginGather(t *local.Turn, j *job) {
	if q.spares.fewer(j); q.NeverFits(&j.need) != nil {
		return // see park
	}
	var moves stealer.Moves
	t.Event(j.event(events.JobGathers, int64(j.need.Ranks)))
	q.active++
	if q.last.Older(j.ticket) {
		q.last = j.ticket
	}
	j.gather = stealer.NewGather(j.need, q.Members, q.Cfg.Name, q.Cfg.Policy, q.Draw())
	j.gather.Begin(t.Now, &moves)
	q.move(t, j, moves)
}

// move sends the messages of a gather.
func (q *gatherqueue) move(t *local.Turn, j *job, moves stealer.Moves) {
	for _, b := range moves.Backs {
		t.Send(b.To, &launcher.Release{Job: j.id, Attempt: j.attempt, Lease: b.Lease, Round: b.Round})
	}
	for _, a := range moves.Asks {
		t.Send(a.To, &launcher.Ask{
			Job: j.id, Of: j.req.Of.Job, Attempt: j.attempt, Ticket: j.ticket, Incarnation: q.Cfg.Incarnation,
			Base: j.need.Base, Each: j.need.Each, Exclusive: j.need.Exclusive,
			Half: a.Half, Wait: a.Wait, Want: a.Want, Round: a.Round, Takes: q.walltime.takes(j), Lends: a.Lends,
		})
	}
	for _, w := range moves.Words {
		q.word(t, j, w)
	}
}

// word renews a hold, and tells the lender whether tasks may use the hold.
func (q *gatherqueue) word(t *local.Turn, j *job, w stealer.Word) {
	r := launcher.Renewal{Job: j.id, Attempt: j.attempt, Index: -1, Lease: w.Lease, Round: w.Round, Lends: w.Lends, Starts: w.Starts}
	t.Send(w.To, &launcher.Renew{Incarnation: q.Cfg.Incarnation, Leases: []launcher.Renewal{r}})
}

func (q *gatherqueue) tickGather(t *local.Turn, j *job) {
	var moves stealer.Moves
	j.gather.Tick(t.Now, &moves)
	q.move(t, j, moves)
	q.tryLaunch(t, j)
}

// OnGrant handles a Grant at the origin. If the job no longer gathers, the origin
// releases the lease. A Grant without news asks whether the lease is still wanted.
func (q *gatherqueue) OnGrant(t *local.Turn, from filch.NodeName, m *launcher.Grant) {
	j := q.jobs[m.Job]
	if q.spares.onGrant(t, from, m) {
		return
	}
	if j == nil || j.attempt != m.Attempt || j.gather == nil {
		// A launch in kept room uses leases of earlier attempts.
		used := j != nil && j.run != nil && j.run.uses(from, m.Lease)
		if (m.Held+m.Lent > 0 || m.Waiting) && m.Lease.Serial != 0 && !used {
			t.Send(from, &launcher.Release{Job: m.Job, Attempt: m.Attempt, Lease: m.Lease})
		}
		if j != nil && (j.attempt == m.Attempt || used) && j.run != nil && j.run.unsent != nil && j.run.unsent.losesSlots(from, m) {
			q.origin.unlaunch(t, j)
			q.origin.again(t, j)
			q.wakeJob(j, j.deadline())
		}
		return
	}
	var moves stealer.Moves
	news := j.gather.Granted(t.Now, from, stealer.Grant{
		Lease: m.Lease, Held: m.Held, Version: m.Version, Round: m.Round, Waiting: m.Waiting,
		Refused: m.Refused, Older: m.Older, Free: m.Free, Holder: m.Holder, Holds: m.Holds, Lacks: m.Lacks,
		Lent: m.Lent, Fill: m.Fill, Fills: m.Fills, Frees: m.Frees,
	}, &moves)
	if !news && m.Held+m.Lent > 0 && j.gather.Has(from, m.Lease) {
		q.word(t, j, j.gather.Word(t.Now, from))
	}
	q.move(t, j, moves)
	q.tryLaunch(t, j)
	q.wakeJob(j, j.deadline())
}

// tryLaunch launches a job once enough slots are held. The launch locks the holds: behind
// the gate, a hold can no longer be wounded. If a hold was wounded before the launch
// came, the origin gives the attempt up, and the job gathers again under its old ticket.
func (q *gatherqueue) tryLaunch(t *local.Turn, j *job) {
	if j.gather == nil {
		return
	}
	if shares, spares, ok := j.gather.Placed(); ok {
		q.launchRest(t, j, shares, spares)
	}
}

// launchRest launches a job on the shares, keeps the spare nodes and releases the other leases
// of the job.
func (q *gatherqueue) launchRest(t *local.Turn, j *job, shares, spares []stealer.Share) {
	back := j.gather.Rest(slices.Concat(shares, spares))
	q.endGather(j)
	q.spares.hold(t, j, spares)
	q.origin.launch(t, j, shares, nil)
	for _, b := range back {
		t.Send(b.To, &launcher.Release{Job: j.id, Attempt: j.attempt, Lease: b.Lease, Round: b.Round})
	}
}

// releaseHolds releases all that an attempt gathered, except on the nodes in used.
func (q *gatherqueue) releaseHolds(t *local.Turn, j *job, used []stealer.Share) {
	if j.gather == nil {
		return
	}
	for _, b := range j.gather.Rest(used) {
		t.Send(b.To, &launcher.Release{Job: j.id, Attempt: j.attempt, Lease: b.Lease, Round: b.Round})
	}
	q.endGather(j)
}
