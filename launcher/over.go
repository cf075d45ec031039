package launcher

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// runOver ends an attempt of which nothing is left anywhere: the job starts
// again where that was asked for or where it never began, else it is over.
func (n *Node) runOver(now time.Duration, j *job, out *Outbox) {
	r := j.run
	switch {
	case r.gate && (j.clock.gates < MaxGates || j.step != nil):
		j.clock.gates++
		n.again(now, j, out)
	case r.lost && !r.halt.user && j.req.Policy.Requeue && r.cause.Kind == CauseNodeLost && j.clock.losses < MaxAttempts-1:
		j.clock.losses++
		n.tell(j, Ending{Job: j.id, Text: r.cause.Text + "; starting again"}, out)
		n.requeue(now, j, out)
	default:
		if r.gate && r.cause.Kind == CauseNone {
			r.cause = verdict{Cause{Kind: CauseOurs, Rank: -1, Text: fmt.Sprintf("cannot launch job %d: %s, %d times", j.id, r.halt.reason, MaxGates)}, filch.ExitOurs}
		}
		if r.going && !r.told && r.tally.ended > 0 {
			n.tellStarted(now, j, out)
		}
		n.bury(now, j, j.verdict(), out)
	}
}

// again starts another attempt under the same ticket.
func (n *Node) again(now time.Duration, j *job, out *Outbox) {
	gone := j.seatRecords()
	j.pastNodes()
	j.run, j.state = nil, filch.Waiting
	j.attempt++
	n.begin(now, j, out)
	out.Records = append(out.Records, gone...)
}

// verdict is how a run ended.
func (j *job) verdict() EndRecord {
	r := j.run
	t, v := &r.tally, r.cause
	if v.Kind == CauseNone {
		v = t.told
	}
	if v.Kind == CauseNone && t.ended < j.need.Ranks {
		v = verdict{Cause{Kind: CauseOurs, Rank: -1, Text: fmt.Sprintf("the ends of %d of %d ranks are not known", j.need.Ranks-t.ended, j.need.Ranks)}, filch.ExitOurs}
	}
	if v.Kind == CauseNone {
		v.Rank = -1
	}
	state := stateOf(v.Kind)
	if v.Kind == CauseAbort && v.code == 0 {
		state = filch.OK
	}
	if t.refs > 1 {
		v.Text += fmt.Sprintf(" (and on %d more nodes)", t.refs-1)
	}
	e := EndRecord{State: state, Code: v.code, Cause: v.Cause, Ranks: t.list, Bad: t.bad}
	if j.req.Policy.HighestRC {
		e.Code = t.srun
		if e.Code == 0 && v.Kind != CauseNone {
			e.Code = 1
		}
	}
	return e
}

// bury ends a job: its client hears the end, and a bounded memory keeps it for
// those who ask later.
func (n *Node) bury(now time.Duration, j *job, e EndRecord, out *Outbox) {
	last := Ended{Job: j.id, State: e.State, Code: e.Code, Cause: e.Cause, Ranks: e.Ranks, Bad: e.Bad}
	n.dismiss(now, j, e, last, out)
}

// dismiss ends a job with that last event.
func (n *Node) dismiss(now time.Duration, j *job, e EndRecord, last Event, out *Outbox) {
	n.tell(j, last, out)
	j.state = e.State
	info := j.info(now, n.cfg.Name, &e)
	n.markEnd(now, j, info)
	n.learnRun(now, j, &info, &e, out)
	n.remember(now, j, info, e, out)
	out.Records = append(out.Records, j.seatRecords()...)
	delete(n.jobs, j.id)
	n.endWatch(now, j)
	n.dropClient(j, out)
	n.stepOver(now, j, out)
	n.guestsOver(j, out)
}

// remember keeps the end of a job for those who ask later, and on the disk for a
// client that has not heard of it when this launcher dies.
func (n *Node) remember(now time.Duration, j *job, info JobInfo, e EndRecord, out *Outbox) {
	for _, id := range n.past.add(info, e) {
		out.Records = append(out.Records, Record{Key: recordKey(id)})
	}
	switch {
	case j.req.Detach || j.seen.here:
		n.keepEnd(j, e, out)
	case j.clock.reclaim != filch.Never:
		n.keepEnd(j, e, out)
		n.birth.unheard, n.birth.forgets = append(n.birth.unheard, j.id), now+ReclaimWait
	default:
		out.Records = append(out.Records, Record{Key: recordKey(j.id)})
	}
}

// MaxUnheard bounds the ended jobs of one client whose records are kept for the
// case that the launcher dies before the client heard of them.
const MaxUnheard = 16

// dropClient forgets which client a job has. That of an attached job may not
// have heard its end yet: the record of that goes with the client, or when
// enough later jobs of it ended.
func (n *Node) dropClient(j *job, out *Outbox) {
	c, drop := j.seen.client, j.id
	if j.seen.here && !j.req.Detach {
		drop = n.heardLongAgo(c)
		if drop == 0 {
			return
		}
		out.Records = append(out.Records, Record{Key: recordKey(drop)})
	}
	ids := slices.DeleteFunc(n.clients[c], func(id filch.JobID) bool { return id == drop })
	if len(ids) == 0 {
		delete(n.clients, c)
		return
	}
	n.clients[c] = ids
}

// heardLongAgo is the first of a client's ended jobs when there are too many.
func (n *Node) heardLongAgo(c ClientID) filch.JobID {
	first, k := filch.JobID(0), 0
	for _, id := range n.clients[c] {
		if n.jobs[id] == nil {
			k++
			if first == 0 {
				first = id
			}
		}
	}
	if k <= MaxUnheard {
		return 0
	}
	return first
}

// MaxPast and MaxPastBytes bound the jobs that are remembered after their
// end, the oldest going first.
const (
	MaxPast      = 2000
	MaxPastBytes = 1 << 20
)

// past is the jobs that ended.
type past struct {
	ring  []ended
	first int // the oldest
	bytes int
	index map[filch.JobID]int
}

type ended struct {
	info  JobInfo
	end   EndRecord
	bytes int
}

// add remembers a job and returns the detached ones that it forgot for it:
// their records are to go.
func (p *past) add(i JobInfo, e EndRecord) (forgot []filch.JobID) {
	if p.index == nil {
		p.index = make(map[filch.JobID]int)
	}
	x := ended{info: i, end: e, bytes: sizeOf(&i, &e)}
	p.bytes += x.bytes
	p.index[i.ID] = len(p.ring)
	p.ring = append(p.ring, x)
	for len(p.ring)-p.first > MaxPast || p.bytes > MaxPastBytes && len(p.ring)-p.first > 1 {
		old := &p.ring[p.first]
		p.bytes -= old.bytes
		if old.info.Detached && old.info.ID != 0 {
			forgot = append(forgot, old.info.ID)
		}
		delete(p.index, old.info.ID)
		*old = ended{}
		p.first++
	}
	if p.first > 64 && p.first > len(p.ring)/2 {
		p.ring = slices.Delete(p.ring, 0, p.first)
		for id := range p.index { // in any order: each is moved alike
			p.index[id] -= p.first
		}
		p.first = 0
	}
	return forgot
}

// sizeOf is about what an ended job takes in memory.
func sizeOf(i *JobInfo, e *EndRecord) int {
	k := 512 + len(i.Name) + len(i.Cause) + 24*len(i.Nodes)
	for r := range e.Ranks {
		k += 160 + len(e.Ranks[r].Text)
	}
	return k
}

// forget drops a job that turned out not to have ended so.
func (p *past) forget(id filch.JobID) {
	i, ok := p.index[id]
	if !ok {
		return
	}
	delete(p.index, id)
	p.bytes -= p.ring[i].bytes
	p.ring[i] = ended{}
}

func (p *past) find(id filch.JobID) *ended {
	if i, ok := p.index[id]; ok {
		return &p.ring[i]
	}
	return nil
}
