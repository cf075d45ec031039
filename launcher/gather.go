package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// MaxGathers bounds the jobs of an origin that gather at once: each keeps a
// little of every node in mind, and has a place on every wait list. Younger
// jobs stand in line here; they could not go first anyway.
const MaxGathers = 256

// line is the jobs of this origin that gather, and those that will.
type line struct {
	active int
	unsent int          // launches of gathered jobs that wait for their record, and may have to gather again
	last   filch.Ticket // the youngest that was let in
	jobs   []*job       // in the order of tickets
}

// standsInLine puts a job in line when too many older ones gather. Where younger
// ones do, the youngest of them takes its place there: the records of jobs that
// were submitted together are not kept in their order.
func (n *Node) standsInLine(now time.Duration, j *job, out *Outbox) bool {
	l := &n.line
	full := l.active+l.unsent >= MaxGathers
	switch {
	case !full && (len(l.jobs) == 0 || j.ticket.Older(l.last)):
		return false
	case full && l.active > 0 && j.ticket.Older(l.last):
		if y := n.youngestGather(); y != nil && j.ticket.Older(y.ticket) {
			n.letGo(now, y, nil, out)
			l.enter(y)
			return false
		}
	}
	l.enter(j)
	return true
}

// youngestGather is the youngest job that gathers, nil if none does.
func (n *Node) youngestGather() (y *job) {
	for _, j := range n.jobs { // any order: tickets differ
		if j.gather != nil && (y == nil || y.ticket.Older(j.ticket)) {
			y = j
		}
	}
	return y
}

// enter puts a job in line, once.
func (l *line) enter(j *job) {
	if !j.lined {
		j.lined = true
		i, _ := slices.BinarySearchFunc(l.jobs, j, func(a, b *job) int {
			if a.ticket.Older(b.ticket) {
				return -1
			}
			return 1
		})
		l.jobs = slices.Insert(l.jobs, i, j)
	}
}

// callNext lets the next in line begin, when there is one and a place.
func (n *Node) callNext(now time.Duration, out *Outbox) bool {
	l := &n.line
	for len(l.jobs) > 0 && l.active+l.unsent < MaxGathers {
		j := l.jobs[0]
		l.jobs[0] = nil
		l.jobs = l.jobs[1:]
		if !j.lined || n.jobs[j.id] != j {
			continue
		}
		j.lined = false
		if !n.local(now, j, out) {
			n.beginGather(now, j, out)
		}
		n.wakeJob(j, j.deadline())
		return true
	}
	return false
}

func (n *Node) endGather(j *job) {
	j.gather = nil
	n.line.active--
}

func (n *Node) beginGather(now time.Duration, j *job, out *Outbox) {
	if n.neverFits(&j.need) != nil {
		return // see park
	}
	var moves stealer.Moves
	n.line.active++
	if n.line.last.Older(j.ticket) {
		n.line.last = j.ticket
	}
	j.gather = stealer.NewGather(j.need, n.members, n.cfg.Name, n.cfg.Policy, n.draw())
	j.gather.Begin(now, &moves)
	n.move(j, moves, out)
}

// move sends what a gather wants sent.
func (n *Node) move(j *job, moves stealer.Moves, out *Outbox) {
	for _, b := range moves.Backs {
		n.send(b.To, &Release{Job: j.id, Attempt: j.attempt, Lease: b.Lease, Round: b.Round}, out)
	}
	for _, a := range moves.Asks {
		n.send(a.To, &Ask{
			Job: j.id, Attempt: j.attempt, Ticket: j.ticket, Incarnation: n.cfg.Incarnation,
			Base: j.need.Base, Each: j.need.Each, Exclusive: j.need.Exclusive,
			Half: a.Half, Wait: a.Wait, Want: a.Want, Round: a.Round, Takes: n.takes(j),
		}, out)
	}
}

func (n *Node) tickGather(now time.Duration, j *job, out *Outbox) {
	var moves stealer.Moves
	j.gather.Tick(now, &moves)
	n.move(j, moves, out)
	n.tryLaunch(now, j, out)
}

// asked is the victim's side of an Ask. Where it is late, or of an origin that forgot that
// it launched the attempt (see isOf), this node has a part of that: the origin hears of
// it. Granted to the second launch, the part would be ready for it, and run with the
// ranks and nodes of the first.
func (n *Node) asked(now time.Duration, from filch.NodeName, m *Ask, out *Outbox) {
	a := slots.Ask{
		Key: slots.Key{Job: m.Job, Attempt: m.Attempt}, Ticket: m.Ticket, Origin: from, Incarnation: m.Incarnation,
		Base: m.Base, Each: m.Each, Exclusive: m.Exclusive, Wait: m.Wait, Want: m.Want, Round: m.Round,
		Ends: m.Takes > 0 && n.cfg.Walltime.Fits(now, m.Takes),
	}
	if a.Want <= 0 || a.Want > MaxRanks || !sane(a.Base, a.Each) {
		return
	}
	if p := n.parts[a.Key]; p != nil && p.launch.Origin == from {
		n.report(now, p, out)
		return
	}
	limit := int32(slots.Unbounded)
	if m.Half && !m.Exclusive {
		limit = stealer.Half(n.ledger.Spare(a))
	}
	s := n.ledger.Ask(now, a, limit)
	n.send(from, n.grant(s), out)
}

// sane reports whether ranks may take that much: something, and nothing less
// than nothing.
func sane(base, each Room) bool {
	return base.Slots >= 0 && base.MemBytes >= 0 && base.GPUs >= 0 &&
		each.Slots >= 0 && each.MemBytes >= 0 && each.GPUs >= 0 && (base.Slots > 0 || each.Slots > 0)
}

// grant is what the origin of a claim is told.
func (n *Node) grant(s slots.Status) *Grant {
	g := &Grant{
		Job: s.Key.Job, Attempt: s.Key.Attempt, Lease: s.Lease, Held: s.Held, Version: s.Version,
		Round: s.Round, Waiting: s.Waiting, Refused: s.Refused, Older: s.Older, Free: n.ledger.Free().Slots,
	}
	if s.Waiting || s.Held == 0 {
		g.Holder, g.Holds = n.ledger.InTheWay(s.Key)
		if job, held := n.tasksInTheWay(); held > g.Holds {
			g.Holder, g.Holds = job, held
		}
	}
	return g
}

// granted is the origin's side. A grant for a job that no longer gathers is
// given back; one that is no news asks whether it is still wanted.
func (n *Node) granted(now time.Duration, from filch.NodeName, m *Grant, out *Outbox) {
	j := n.jobs[m.Job]
	if j == nil || j.attempt != m.Attempt || j.gather == nil {
		used := j != nil && j.attempt == m.Attempt && j.run != nil && j.run.uses(from, m.Lease)
		if (m.Held > 0 || m.Waiting) && m.Lease.Serial != 0 && !used {
			n.send(from, &Release{Job: m.Job, Attempt: m.Attempt, Lease: m.Lease}, out)
		}
		if j != nil && j.attempt == m.Attempt && j.run != nil && j.run.unsent != nil && j.run.unsent.wounded(from, m) {
			n.unlaunch(now, j, out)
			n.again(now, j, out)
			n.wakeJob(j, j.deadline())
		}
		return
	}
	var moves stealer.Moves
	news := j.gather.Granted(now, from, stealer.Grant{
		Lease: m.Lease, Held: m.Held, Version: m.Version, Round: m.Round, Waiting: m.Waiting,
		Refused: m.Refused, Older: m.Older, Free: m.Free, Holder: m.Holder, Holds: m.Holds,
	}, &moves)
	if !news && m.Held > 0 && j.gather.Has(from, m.Lease) {
		n.send(from, &Renew{Incarnation: n.cfg.Incarnation, Leases: []Renewal{{Job: m.Job, Attempt: m.Attempt, Index: -1, Lease: m.Lease}}}, out)
	}
	n.move(j, moves, out)
	n.tryLaunch(now, j, out)
	n.wakeJob(j, j.deadline())
}

// tryLaunch launches when enough is held. The launch is the lock: behind its
// gate a hold can be wounded no more, and where one was before the launch came
// the attempt is given up and the job gathers anew under its old ticket.
func (n *Node) tryLaunch(now time.Duration, j *job, out *Outbox) {
	if j.gather == nil {
		return
	}
	if shares, ok := j.gather.Ready(); ok {
		n.launchRest(now, j, shares, out)
	}
}

// launchRest launches on the shares and gives the rest back.
func (n *Node) launchRest(now time.Duration, j *job, shares []stealer.Share, out *Outbox) {
	back := j.gather.Rest(shares)
	n.endGather(j)
	n.launch(now, j, shares, nil, out)
	for _, b := range back {
		n.send(b.To, &Release{Job: j.id, Attempt: j.attempt, Lease: b.Lease, Round: b.Round}, out)
	}
}

// letGo gives back all that an attempt gathered, except what nodes in used run.
func (n *Node) letGo(now time.Duration, j *job, used []stealer.Share, out *Outbox) {
	if j.gather == nil {
		return
	}
	for _, b := range j.gather.Rest(used) {
		n.send(b.To, &Release{Job: j.id, Attempt: j.attempt, Lease: b.Lease, Round: b.Round}, out)
	}
	n.endGather(j)
}

// renewed takes in which leases an origin still wants. One of a launched job
// that is not known here is said to be gone.
func (n *Node) renewed(now time.Duration, from filch.NodeName, m *Renew, out *Outbox) {
	for _, r := range m.Leases {
		k := slots.Key{Job: r.Job, Attempt: r.Attempt}
		if r.Index < 0 {
			n.ledger.Renew(now, k, r.Lease)
			continue
		}
		if p := n.parts[k]; p != nil {
			if p.heeds(from) {
				n.heard(now, p)
			}
			continue
		}
		if r.Lease.Incarnation < n.cfg.Incarnation && now < n.birth.began+AdoptGrace {
			continue // a keeper may still turn up
		}
		n.send(from, &Progress{
			Job: r.Job, Attempt: r.Attempt, Index: r.Index, Lease: r.Lease, Phase: PhaseDone, Cause: CauseNodeLost,
			Err: *filch.Errorf(filch.NodeLost, "%s has no ranks of job %d", n.cfg.Name, r.Job),
		}, out)
	}
}
