package mtc

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// leftover is what is to be queued of a job that began in an instance of
// before, once it may begin.
type leftover struct {
	ranges  []span // whole blocks that nobody touched
	items   []item
	skipped []int32 // of a graph: what they wait for did not end well
	bad     bool    // something did not
}

// restoredHop is the hop of a single task that was moved to its steward once.
const restoredHop = 1

// Restore goes on with a job that was settled; its number must be free. It is
// told as a submission is. A job that had ended gets its record back and no
// more.
func (c *Core) Restore(now time.Duration, r *Remnant, out *Out) error {
	if c.jobs[r.ID] != nil {
		return filch.Errorf(filch.Invalid, "job %d exists", r.ID)
	}
	rec := *r.Job
	rec.Steward, rec.Hop = c.self, 0
	if rec.Finished() {
		c.merge(KeyJob(r.ID), RecordJob, encodeJobOp(jobOp{kind: jCreate, job: &rec}), out, func(_ time.Duration, a Answer, out *Out) {
			t := Tell{Job: r.ID, What: TellAccepted, Total: rec.Total}
			if v, _, err := decodeJobReply(a.Value); a.Status != AnswerDone || err != nil || v != vDone {
				t.What, t.Error = TellRefused, filch.Errorf(filch.Unavailable, "cannot restore job %d: its number is taken", r.ID)
			}
			out.Tells = append(out.Tells, t)
		})
		return nil
	}
	g, err := r.graph()
	if err != nil {
		return err
	}
	l := &lead{after: slices.Clone(rec.After), graph: g, voidAt: filch.Never, away: map[int32]filch.NodeName{}, total: rec.Total}
	l.left = r.leftover(g == nil)
	if g != nil {
		l.tracker = NewTracker(g, r.Spec.OnFail)
		l.restoreGraph(r)
	}
	if rec.Zones = r.tallies(); rec.Finished() && rec.Ended == 0 {
		rec.Ended = c.wall(now)
	}
	j := c.job(r.ID)
	j.ticket, j.asked, j.spec, j.rec, j.lead, j.void = rec.Ticket, true, r.Spec, &rec, l, rec.Void
	c.putRemnant(j, r, out)
	c.settle(now, out)
	return nil
}

// graph reads a workflow's graph back from its payloads.
func (r *Remnant) graph() (*Graph, error) {
	if !r.Job.Graph {
		return nil, nil
	}
	parents := make([][]int32, r.Job.Total)
	for part, p := range r.lines { // any order: each by itself
		for k, off := range p.Offs {
			if i := part*PayloadSize + int32(off); i < r.Job.Total {
				node, err := DecodeGraphNode(p.Lines[k])
				if err != nil {
					return nil, filch.Errorf(filch.Invalid, "task %d.%d makes no sense: %s", r.ID, i, err.Error())
				}
				parents[i] = node.Parents
			}
		}
	}
	return NewGraph(int(r.Job.Total), func(i int) []int32 { return parents[i] })
}

// restoreGraph takes in the ends of a graph.
func (l *lead) restoreGraph(r *Remnant) {
	l.tried = make(map[int32]item, len(l.left.items))
	for _, it := range l.left.items {
		l.tried[it.index] = it
	}
	l.left.items = nil
	ended := make(map[int32]bool)
	var skipped []int32
	for _, num := range slices.Sorted(maps.Keys(r.tasks)) {
		b := r.tasks[num]
		for i := range b.Tasks {
			if t := &b.Tasks[i]; t.State != 0 {
				index := num*BlockSize + int32(b.Offs[i])
				ended[index] = true
				_, s := l.tracker.End(index, t.State, t.Bytes, t.By.Node)
				skipped = append(skipped, s...)
				l.left.bad = l.left.bad || t.State != filch.OK
			}
		}
	}
	l.left.skipped = slices.DeleteFunc(skipped, func(i int32) bool { return ended[i] })
}

// leftover is what has no end: blocks of which nothing is known as ranges, the
// rest of a bag, and whatever was tried, task by task.
func (r *Remnant) leftover(bag bool) *leftover {
	l := &leftover{}
	nums := slices.Sorted(maps.Keys(r.tasks))
	lo := int32(0)
	for _, num := range nums {
		at := num * BlockSize
		if bag && lo < at {
			l.ranges = append(l.ranges, span{next: lo, hi: at, front: lo})
		}
		lo = min(at+BlockSize, r.Job.Total)
		b := r.tasks[num]
		if bag {
			for i := at; i < lo; i++ {
				b.at(uint8(i - at))
			}
		}
		for i := range b.Tasks {
			if t := &b.Tasks[i]; t.State == 0 {
				l.items = append(l.items, item{
					index: at + int32(b.Offs[i]), attempt: t.Attempt, hop: restoredHop, crashes: t.Crashes, tracked: true, maybe: t.Maybe,
				})
			}
		}
	}
	if bag && lo < r.Job.Total {
		l.ranges = append(l.ranges, span{next: lo, hi: r.Job.Total, front: lo})
	}
	return l
}

// tallies are those of the zones.
func (r *Remnant) tallies() (list []ZoneTally) {
	for _, num := range slices.Sorted(maps.Keys(r.tasks)) {
		t := r.tasks[num].Tally()
		if t.Sum() == 0 {
			continue
		}
		zone := num / zoneBlocks
		if n := len(list); n == 0 || list[n-1].Zone != zone {
			list = append(list, ZoneTally{Zone: zone})
		}
		z := &list[len(list)-1]
		z.Tally = z.Plus(t)
	}
	return list
}

// putRemnant writes the records of a job that goes on, the job's last.
func (c *Core) putRemnant(j *job, r *Remnant, out *Out) {
	l := j.lead
	part := func(_ time.Duration, a Answer, out *Out) {
		if a.Status != AnswerDone {
			c.refuse(j, "a record of it could not be written", out)
			return
		}
		if l.parts--; l.parts == 0 && c.jobs[j.id] == j {
			c.createJob(j, out)
		}
	}
	put := func(key string, kind RecordKind, delta []byte) {
		l.parts++
		c.merge(key, kind, delta, out, part)
	}
	put(KeySpec(j.id), RecordFact, j.spec.Encode())
	for _, num := range slices.Sorted(maps.Keys(r.lines)) {
		put(KeyPayload(j.id, num), RecordPayload, r.lines[num].Encode())
	}
	zones := make(map[int32][]zoneOp)
	for _, num := range slices.Sorted(maps.Keys(r.tasks)) {
		b := r.tasks[num]
		ops := make([]blockOp, 0, len(b.Tasks))
		for i := range b.Tasks {
			ops = append(ops, c.restoreOp(b.Offs[i], &b.Tasks[i]))
		}
		put(KeyBlock(j.id, num), RecordBlock, encodeBlockOps(ops, false))
		zones[num/zoneBlocks] = c.restoreZone(zones[num/zoneBlocks], j, num, b)
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		if ops := zones[zone]; len(ops) > 0 {
			put(KeyZone(j.id, zone), RecordZone, encodeZoneOps(ops, false))
		}
	}
}

// restoreOp makes a record say of a task what the remnant says.
func (c *Core) restoreOp(off uint8, t *Task) blockOp {
	op := blockOp{kind: bEnd, off: off, Task: *t}
	if op.Owner = t.By; t.State == 0 {
		op.kind, op.Owner = bMove, c.self
	}
	return op
}

// restoreZone adds what a zone is to say of a block: how many ended, and of a
// bag that all of it may have been touched, and is its steward's.
func (c *Core) restoreZone(ops []zoneOp, j *job, num int32, b *Block) []zoneOp {
	if t := b.Tally(); t.Sum() > 0 {
		ops = append(ops, zoneOp{kind: zTally, tally: BlockTally{num, t}})
	}
	if j.lead.graph != nil {
		return ops
	}
	lo, hi := num*BlockSize, min((num+1)*BlockSize, j.rec.Total)
	if n := len(ops); n > 0 {
		for k := n - 1; k >= max(n-2, 0); k-- {
			if ops[k].kind == zFront && ops[k].hi == lo {
				ops[k].hi, ops[k].front = hi, hi
				return ops
			}
		}
	}
	return append(ops, zoneOp{kind: zFront, lo: lo, hi: hi, front: hi, who: c.self})
}

// requeue queues what is left of a job of before.
func (c *Core) requeue(now time.Duration, j *job, out *Out) {
	left := j.lead.left
	if left == nil {
		return
	}
	j.lead.left = nil
	for _, s := range left.ranges {
		j.queue.addRange(s)
	}
	for _, it := range left.items {
		j.queue.held[it.index] = stamp{it.index, it.attempt, it.hop}
		j.queue.shared.push(it)
	}
	for _, i := range left.skipped {
		c.record(now, j, item{index: i, attempt: firstAttempt}, Task{State: filch.Skipped}, out)
	}
	if left.bad && j.spec.OnFail == FailStop && !j.lead.failing && j.void == 0 {
		j.lead.failing = true
		c.voidJob(now, j, filch.Skipped, out)
	}
	c.active(j)
}
