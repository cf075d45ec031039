package launcher

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// A job whose owner is dead is taken over by the home of its record: it raises
// the hop of the record, which nobody can do twice, and from then on no word of
// an older hop counts anywhere. A detached job goes on under its new owner, of
// an attached one the record says how it ended.

const (
	// sweepPause is how soon the records homed here are looked through after
	// something changed, and SweepEvery how often while an owner is missed.
	sweepPause = 100 * time.Millisecond
	SweepEvery = 2 * time.Second
	// ReclaimGrace is how long a launcher that was restarted, or is not known
	// yet, may take to claim its jobs.
	ReclaimGrace = 15 * time.Second
	// HeirWait is how long ranks of a detached job whose origin is dead wait
	// for the node that takes the job over.
	HeirWait = 30 * time.Second
	// FenceTerm is how long a node goes on with the ranks of detached jobs
	// after it last saw most of the others: as long as they wait until they
	// start anew what may still run here.
	FenceTerm = JobTerm
	// suspectTime is how long a node is silent before it is suspected.
	suspectTime = 2 * time.Second
)

// sweep is the home's care for jobs without an owner.
type sweep struct {
	at     time.Duration
	owners map[dht.Key]owner
	taking map[filch.JobID]bool
	unsure []claim // of which the store does not know whether they count
}

// claim says that this node is the owner of a job now.
type claim struct {
	entry *JobEntry
	was   filch.NodeName // its owner before
	value []byte         // the entry, encoded
}

// owner is who a record says decides about its job.
type owner struct {
	version     dht.Version
	name        filch.NodeName
	incarnation uint64
	missed      time.Duration // since then; Never: it is there
}

func (n *Node) sweepSoon(now time.Duration) {
	n.meta.sweep.at = min(n.meta.sweep.at, now+sweepPause)
}

// homesChanged takes in that other records are homed here now.
func (n *Node) homesChanged(now time.Duration) {
	n.sweepSoon(now)
	n.mirrorHomed(now)
	n.tasks(now).Rehomed(now)
}

// sweepJobs looks through the jobs homed here that have not ended.
func (n *Node) sweepJobs(now time.Duration, out *Outbox) {
	s := &n.meta.sweep
	s.at = filch.Never
	unsure := s.unsure
	s.unsure = nil
	for _, c := range unsure {
		n.claim(now, c)
	}
	old := s.owners
	s.owners = make(map[dht.Key]owner)
	for r := range n.meta.store.Homed(jobPrefix) {
		if r.Kind != KindJob || entryOver(r.Value) {
			continue
		}
		o, known := old[r.Key]
		if !known || o.version != r.Version {
			e, err := DecodeJobEntry(r.Value)
			if err != nil {
				note(out, noteError, 0, n.cfg.Name, "record %s makes no sense: %v", r.Key, err)
				continue
			}
			o = owner{version: r.Version, name: e.Owner, incarnation: e.Incarnation, missed: filch.Never}
		}
		dead, missing := n.ownerGone(&o, r.Key)
		switch {
		case !missing:
			o.missed = filch.Never
		case o.missed == filch.Never:
			o.missed = now
		}
		s.owners[r.Key] = o
		if !missing {
			continue
		}
		s.at = min(s.at, now+SweepEvery)
		if dead || now-o.missed >= ReclaimGrace {
			n.takeOver(now, r.Value, out)
		}
	}
}

// ownerGone reports whether the owner of a record is dead for sure, and whether
// it is at least not known to be there.
func (n *Node) ownerGone(o *owner, key dht.Key) (dead, missing bool) {
	if o.name == n.cfg.Name {
		id, _ := jobOfKey(key)
		return false, o.incarnation < n.cfg.Incarnation && n.jobs[id] == nil && n.meta.book.due[id] == nil
	}
	i := n.members.Find(o.name)
	if i < 0 {
		return false, true
	}
	m := n.members.At(i)
	if m.Standing >= stealer.Dead {
		return m.Incarnation >= o.incarnation, true
	}
	return false, m.Incarnation > o.incarnation
}

// jobOfKey is the job whose record has that key.
func jobOfKey(key dht.Key) (id filch.JobID, ok bool) {
	digits, ok := strings.CutPrefix(string(key), jobPrefix)
	if !ok {
		return 0, false
	}
	for _, c := range []byte(digits) {
		if c < '0' || c > '9' || id > 1<<27 {
			return 0, false
		}
		id = id*10 + filch.JobID(c-'0')
	}
	return id, id > 0
}

// takeOver makes this node the owner of a job whose owner is gone.
func (n *Node) takeOver(now time.Duration, value []byte, out *Outbox) {
	e, err := DecodeJobEntry(value)
	s := &n.meta.sweep
	if err != nil || e.ended() || s.taking[e.Info.ID] || n.jobs[e.Info.ID] != nil || mutantNoHeir {
		return
	}
	id, was := e.Info.ID, e.Owner
	if s.taking == nil {
		s.taking = make(map[filch.JobID]bool)
	}
	s.taking[id] = true
	e.Hop++
	e.Owner, e.Incarnation, e.Seq, e.Info.Origin = n.cfg.Name, n.cfg.Incarnation, 1, n.cfg.Name
	if e.Resume == nil {
		e.lostWith(was)
	} else {
		e.Resume.Shared.Hop = e.Hop
	}
	v, err := EncodeJobEntry(e)
	if err != nil {
		delete(s.taking, id)
		return
	}
	n.claim(now, claim{e, was, v})
}

// claim writes that this node is the owner of a job. Where the store does not know
// whether it says so, it is asked again: a record that says so later would have an
// owner who does not know of the job.
func (n *Node) claim(now time.Duration, c claim) {
	e, s := c.entry, &n.meta.sweep
	op := dht.Op{Code: dht.OpMerge, Key: jobKey(e.Info.ID), Kind: KindJob, Value: c.value}
	n.ask(now, []dht.Op{op}, mergeWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		switch r := &rs[0]; {
		case r.Outcome == dht.Unknown && e.Incarnation == n.cfg.Incarnation:
			s.unsure = append(s.unsure, c)
			s.at = min(s.at, now+SweepEvery)
		case !e.counts(r) || e.Resume == nil:
			delete(s.taking, e.Info.ID)
			n.sweepSoon(now)
		default:
			note(out, noteWarn, e.Info.ID, n.cfg.Name, "taking the job over from %s, which is lost", c.was)
			n.fetchOrder(now, e)
		}
	})
}

// counts reports whether a takeover happened, by the answer to it. One that comes
// with the entry itself has a cancel that was recorded just before.
func (e *JobEntry) counts(r *dht.Result) bool {
	if r.Outcome != dht.Done || len(r.Value) == 0 {
		return r.Outcome == dht.Done
	}
	now, err := DecodeJobEntry(r.Value)
	if err != nil || !now.same(e) || now.ended() {
		return false
	}
	e.Cancel = now.Cancel
	return true
}

// lostWith is the end of an attached job whose origin is dead: its client was
// there.
func (e *JobEntry) lostWith(origin filch.NodeName) {
	c := int32(filch.ExitNodeLost)
	e.Info.Origin, e.Info.Code, e.Info.State = origin, &c, filch.Lost.String()
	e.Info.Cause = fmt.Sprintf("node %s, where the job was submitted, is lost", origin)
	e.Info.Tasks.rest(filch.Lost)
}

// fetchOrder reads the order of a job that was taken over, all pieces at once, and
// goes on with the job.
func (n *Node) fetchOrder(now time.Duration, e *JobEntry) {
	var ops []dht.Op
	for i := range e.Orders {
		ops = append(ops, dht.Op{Code: dht.OpLookup, Key: orderKey(e.Info.ID, i), Kind: dht.KindRegister, Consistent: true})
	}
	if len(ops) == 0 {
		n.ask(now, []dht.Op{{Code: dht.OpLookup, Key: jobKey(e.Info.ID)}}, StoreWait,
			func(now time.Duration, _ []dht.Result, out *Outbox) { n.inherit(now, e, nil, nil, out) })
		return
	}
	n.ask(now, ops, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		var order []byte
		for i := range rs {
			switch rs[i].Outcome {
			case dht.Done:
				order = append(order, rs[i].Value...)
			case dht.Absent:
				n.inherit(now, e, nil, filch.Errorf(filch.Internal, "cannot go on with job %d: piece %d of %d of its order is lost", e.Info.ID, i, len(rs)), out)
				return
			default:
				n.fetchOrder(now, e)
				return
			}
		}
		n.inherit(now, e, order, nil, out)
	})
}

// inherit goes on with a job that was taken over.
func (n *Node) inherit(now time.Duration, e *JobEntry, order []byte, fault *filch.Error, out *Outbox) {
	id, r := e.Info.ID, e.Resume
	delete(n.meta.sweep.taking, id)
	r.Request.Order = order
	need, err := needOf(r.Request)
	if n.jobs[id] != nil || err != nil || r.Job != id || r.Attempt <= 0 {
		return
	}
	n.meta.block.saw(id)
	j := n.newJob(now-r.Waited, id, r.Request, need, r.Ticket.UnixNS)
	j.attempt, j.ticket, j.waited = r.Attempt, r.Ticket, r.Waited
	j.kept = kept{hop: e.Hop, seq: e.Seq, orders: e.Orders, earlier: r.Shared.Earlier, cancel: e.Cancel}
	j.clock.losses = r.Shared.Losses
	n.bePatient(j)
	if r.Arbiter != "" {
		j.step = &step{arbiter: r.Arbiter, again: now + RepeatMin, wait: RepeatMin, granted: len(r.Nodes) > 0}
	}
	runs := len(r.Nodes) > 0 && !mutantHeirAnew
	if !runs {
		n.keep(now, j, out)
	}
	switch {
	case runs:
		j.req.Policy.Requeue = j.req.Policy.Requeue && fault == nil
		n.inheritRun(now, j, e, out)
	case fault != nil:
	case j.step != nil:
		n.askStep(j, out)
	case len(r.Shared.Lost) > 0:
		n.fenceAgain(now, j, r.Shared.Lost, out)
	default:
		j.attempt++
		n.begin(now, j, out)
	}
	if n.jobs[id] != j {
		return
	}
	switch {
	case e.Cancel != nil:
		n.cancelBy(now, j, e.Cancel.Signal, e.Cancel.By, out)
	case fault != nil && j.run == nil:
		n.refuse(now, j, fault, out)
	}
	if n.jobs[id] == j {
		n.mark(now, j, BookPause)
		n.wakeJob(j, j.deadline())
	}
}

// inheritRun goes on with what runs of a job that was taken over.
func (n *Node) inheritRun(now time.Duration, j *job, e *JobEntry, out *Outbox) {
	r := e.Resume
	r.Shared.Unsure = !r.Going // the record may be of just before, and ranks may have run
	n.rejoin(now, j, r, r.Shared.Done, out)
	if j.run == nil || j.attempt != r.Attempt {
		return
	}
	// How long it has run since the record was written is not known.
	j.run.at.began, j.run.at.resumed = now-time.Duration(e.Info.Elapsed*float64(time.Second)), true
	n.keep(now, j, out)
	for _, p := range j.run.parts { // their nodes have forgotten them
		out.Records = append(out.Records, Record{Key: j.seatKey(int(p.Index)), Part: p})
	}
	n.seatsOfDead(now, j, out)
}

// seatsOfDead gives up the ranks of a job on nodes that are dead.
func (n *Node) seatsOfDead(now time.Duration, j *job, out *Outbox) {
	for _, at := range slices.Clone(j.run.launch.Nodes) {
		i := n.members.Find(at.Node)
		if i < 0 || n.jobs[j.id] != j || j.run == nil {
			continue
		}
		if m := n.members.At(i); m.Standing >= stealer.Dead {
			n.seatsLost(now, j, at.Node, deadText(m.Standing), out)
		}
	}
}

// askSeat has a participant tell all that it knows: to the node that took the
// job over, where that happened.
func (n *Node) askSeat(j *job, i int, out *Outbox) {
	to := j.run.launch.Nodes[i].Node
	if j.kept.hop > 0 {
		n.send(to, &TakeOver{Job: j.id, Attempt: j.attempt, Index: int32(i), Hop: j.kept.hop}, out)
		return
	}
	n.send(to, &ProgressAck{Job: j.id, Attempt: j.attempt, Index: int32(i), Again: true}, out)
}

// takenOver is the participant's side: who has the highest hop is its origin.
func (n *Node) takenOver(now time.Duration, from filch.NodeName, m *TakeOver, out *Outbox) {
	k := slots.Key{Job: m.Job, Attempt: m.Attempt}
	p := n.parts[k]
	if p == nil {
		if now < n.birth.began+AdoptGrace {
			return // a keeper may still turn up
		}
		n.send(from, &Progress{
			Job: m.Job, Attempt: m.Attempt, Index: m.Index, Phase: PhaseDone, Cause: CauseNodeLost,
			Err: *filch.Errorf(filch.NodeLost, "%s has no ranks of job %d", n.cfg.Name, m.Job),
		}, out)
		return
	}
	if m.Hop < p.flags.hop || m.Hop == p.flags.hop && from != p.launch.Origin {
		return
	}
	if m.Hop > p.flags.hop {
		l := *p.launch
		l.Origin, l.Hop = from, m.Hop
		p.launch, p.flags.hop, p.flags.orphan = &l, m.Hop, false
		p.have, p.level, p.sigs, p.flags.voice = 0, 0, 0, 0
	}
	n.heard(now, p)
	n.report(now, p, out)
	n.wakePart(p, min(p.until, p.again, p.pull))
}

// heeds reports whether the words of a node about a part count.
func (p *part) heeds(from filch.NodeName) bool {
	return p.flags.hop == 0 || from == p.launch.Origin || mutantHopless
}

// inherits reports whether a part is kept for a node that takes its job over.
func (p *part) inherits() bool { return p.handsOn() && !p.over() }

// handsOn reports whether another node takes the job of a part over when its
// origin is dead.
func (p *part) handsOn() bool { return p.launch.Detach }

// SawMajority reports whether this node sees more than half of the members of
// the roster, or there are not enough of them to tell.
func (n *Node) SawMajority() bool {
	all, up := 0, 0
	n.meta.store.EachMember(func(name filch.NodeName) {
		all++
		if name == n.cfg.Name {
			up++
		} else if i := n.members.Find(name); i >= 0 && n.members.At(i).Standing.Answers() {
			up++
		}
	})
	return all < 3 || 2*up > all
}

// inTouch reports whether this node sees most of the others; one that was started
// again under ranks of detached jobs must know who they are.
func (n *Node) inTouch() bool {
	return n.SawMajority() && (!n.meta.fence.anew || n.meta.store.Status().Known)
}

// fence is since when this node is cut off from most of the others.
type fence struct {
	cut, at time.Duration
	anew    bool // it was started again under ranks of detached jobs
}

// watchMajority notes when this node loses sight of most of the others, and
// sees them again.
func (n *Node) watchMajority(now time.Duration) {
	f := &n.meta.fence
	switch {
	case n.inTouch():
		f.cut, f.at = filch.Never, filch.Never
	case f.cut == filch.Never:
		f.cut, f.at = now, now+leaseInTouch
	}
}

// fenceOff ends the ranks here of detached jobs: the others have waited until
// then to start them anew, or to say that they are lost.
func (n *Node) fenceOff(out *Outbox) {
	n.meta.fence.at = filch.Never
	if n.inTouch() || mutantNoFenceOff {
		n.meta.fence.cut = filch.Never
		return
	}
	for _, p := range n.sortedParts() {
		if p.inherits() && p.level == 0 {
			note(out, noteWarn, p.key.Job, n.cfg.Name, "cut off from most nodes for %s: ending the ranks here", FenceTerm)
			p.fault = fault{cause: CauseNodeLost, err: *filch.Errorf(filch.NodeLost, "%s was cut off from most nodes for %s", n.cfg.Name, FenceTerm)}
			n.stop(p, sigTerm, p.launch.KillWait, "this node is cut off from most others", out)
		}
	}
}

// hopeful reports whether the ranks of a detached job go on although their
// origin was silent for longer than its lease: it is there, or another will be.
func (n *Node) hopeful(p *part) bool { return n.alive(p.launch.Origin) }
