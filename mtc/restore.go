package mtc

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/graph"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// leftover is the tasks to queue of a job from an earlier instance, once the job may
// begin.
type leftover struct {
	ranges  []span // whole blocks without a started task
	items   []item
	skipped []int32 // of a graph: tasks whose parents did not end well
	bad     bool    // a task did not end well
}

// restoredHop is the hop of a single task that was moved to its leader once.
const restoredHop = 1

// Restore goes on with a settled job of an earlier instance; the job's number must be
// free. The clients receive the same news as for a submission. For a finished job,
// Restore writes the record and no more.
func (c *Core) Restore(now time.Duration, r *queue.RecoveredJob, out *Out) error {
	c.enter(now, out)
	if c.jobs[r.ID] != nil {
		return filch.Errorf(filch.Invalid, "job %d exists", r.ID)
	}
	rec := *r.Job
	rec.Leader, rec.Hop = c.self, 0
	if rec.Finished() {
		c.commits.merge(record.KeyJob(r.ID), record.RecordJob, record.EncodeJobOp(record.JobOp{Kind: record.JobCreate, Job: &rec}), func(a Answer) {
			t := Tell{Job: r.ID, What: TellAccepted, Total: rec.Total}
			if v, _, err := record.DecodeJobReply(a.Value); a.Status != AnswerDone || err != nil || v != record.VerdictDone {
				t.What, t.Error = TellRefused, filch.Errorf(filch.Unavailable, "cannot restore job %d: its number is taken", r.ID)
			}
			c.out.Tells = append(c.out.Tells, t)
		})
		return nil
	}
	g, err := graphOf(r)
	if err != nil {
		return err
	}
	l := &leader{after: prerequisites{jobs: slices.Clone(rec.After)}, graph: g, voidAt: filch.Never, away: map[int32]filch.NodeName{}, total: rec.Total}
	l.left = leftoverOf(r, g == nil)
	if g != nil {
		l.tracker = NewTracker(g, r.Spec.OnFail)
		l.restoreGraph(r)
	}
	if rec.Zones = r.Tallies(); rec.Finished() && rec.Ended == 0 {
		rec.Ended = c.wall(now)
	}
	j := c.job(r.ID)
	j.ticket, j.view.asked, j.spec, j.rec, j.leader, j.void = rec.Ticket, true, r.Spec, &rec, l, rec.Void
	c.putRecovered(j, r)
	c.settle()
	return nil
}

// graphOf reads a workflow's graph back from its payloads.
func graphOf(r *queue.RecoveredJob) (*graph.Graph, error) {
	if !r.Job.Graph {
		return nil, nil
	}
	parents := make([][]int32, r.Job.Total)
	for part, p := range r.Lines { // any order: each part by itself
		for k, off := range p.Offs {
			if i := part*record.PayloadSize + int32(off); i < r.Job.Total {
				node, err := record.DecodeGraphNode(p.Lines[k])
				if err != nil {
					return nil, filch.Errorf(filch.Invalid, "task %d.%d makes no sense: %s", r.ID, i, err.Error())
				}
				parents[i] = node.Parents
			}
		}
	}
	return graph.New(int(r.Job.Total), func(i int) []int32 { return parents[i] })
}

// restoreGraph takes in the ends of a graph.
func (l *leader) restoreGraph(r *queue.RecoveredJob) {
	l.tried = make(map[int32]item, len(l.left.items))
	for _, it := range l.left.items {
		l.tried[it.index] = it
	}
	l.left.items = nil
	ended := make(map[int32]bool)
	var skipped []int32
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		b := r.Blocks[num]
		for i := range b.Tasks {
			if t := &b.Tasks[i]; t.State != 0 {
				index := num*record.BlockSize + int32(b.Offs[i])
				ended[index] = true
				_, s := l.tracker.End(index, t.State, t.Bytes, t.By.Node)
				skipped = append(skipped, s...)
				l.left.bad = l.left.bad || t.State != filch.OK
			}
		}
	}
	l.left.skipped = slices.DeleteFunc(skipped, func(i int32) bool { return ended[i] })
}

// leftoverOf is the tasks without an end: unknown blocks as ranges, the rest of a bag,
// and all tried tasks as single tasks.
func leftoverOf(r *queue.RecoveredJob, bag bool) *leftover {
	l := &leftover{}
	nums := slices.Sorted(maps.Keys(r.Blocks))
	lo := int32(0)
	for _, num := range nums {
		at := num * record.BlockSize
		if bag && lo < at {
			l.ranges = append(l.ranges, span{next: lo, hi: at, front: lo})
		}
		lo = min(at+record.BlockSize, r.Job.Total)
		b := r.Blocks[num]
		if bag {
			for i := at; i < lo; i++ {
				b.At(uint8(i - at))
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

// putRecovered writes the records of a recovered job, the job's record last.
func (c *Core) putRecovered(j *job, r *queue.RecoveredJob) {
	l := j.leader
	part := func(a Answer) {
		if a.Status != AnswerDone {
			c.refuse(j, "a record of it could not be written")
			return
		}
		if l.parts--; l.parts == 0 && c.jobs[j.id] == j {
			c.createJob(j)
		}
	}
	put := func(key string, kind record.RecordKind, delta []byte) {
		l.parts++
		c.commits.merge(key, kind, delta, part)
	}
	put(record.KeySpec(j.id), record.RecordFact, j.spec.Encode())
	for _, num := range slices.Sorted(maps.Keys(r.Lines)) {
		put(record.KeyPayload(j.id, num), record.RecordPayload, r.Lines[num].Encode())
	}
	zones := make(map[int32][]record.ZoneOp)
	for _, num := range slices.Sorted(maps.Keys(r.Blocks)) {
		b := r.Blocks[num]
		ops := make([]record.BlockOp, 0, len(b.Tasks))
		for i := range b.Tasks {
			ops = append(ops, restoreOp(c.self, b.Offs[i], &b.Tasks[i]))
		}
		put(record.KeyBlock(j.id, num), record.RecordBlock, record.EncodeBlockOps(ops, false))
		zones[num/record.ZoneBlocks] = c.restoreZone(zones[num/record.ZoneBlocks], j, num, b)
	}
	for _, zone := range slices.Sorted(maps.Keys(zones)) {
		if ops := zones[zone]; len(ops) > 0 {
			put(record.KeyZone(j.id, zone), record.RecordZone, record.EncodeZoneOps(ops, false))
		}
	}
}

// restoreOp makes a record's task equal to the recovered task.
func restoreOp(self record.Owner, off uint8, t *record.Task) record.BlockOp {
	op := record.BlockOp{Kind: record.BlockEnd, Off: off, Task: *t}
	if op.Owner = t.By; t.State == 0 {
		op.Kind, op.Owner = record.BlockMove, self
	}
	return op
}

// restoreZone adds the operations of a block's zone: the number of ended tasks, and for a
// bag a front: the leader owns the block, and all of its tasks may have been started.
func (c *Core) restoreZone(ops []record.ZoneOp, j *job, num int32, b *record.Block) []record.ZoneOp {
	if t := b.Tally(); t.Sum() > 0 {
		ops = append(ops, record.ZoneOp{Kind: record.ZoneBlockTally, Tally: record.BlockTally{Block: num, Tally: t}})
	}
	if j.leader.graph != nil {
		return ops
	}
	lo, hi := num*record.BlockSize, min((num+1)*record.BlockSize, j.rec.Total)
	if n := len(ops); n > 0 {
		for k := n - 1; k >= max(n-2, 0); k-- {
			if ops[k].Kind == record.ZoneFront && ops[k].Hi == lo {
				ops[k].Hi, ops[k].Front = hi, hi
				return ops
			}
		}
	}
	return append(ops, record.ZoneOp{Kind: record.ZoneFront, Lo: lo, Hi: hi, Front: hi, Owner: c.self})
}

// requeue queues the remaining tasks of a recovered job.
func (c *Core) requeue(j *job) {
	left := j.leader.left
	if left == nil {
		return
	}
	j.leader.left = nil
	for _, s := range left.ranges {
		j.queue.addRange(s)
	}
	for _, it := range left.items {
		j.queue.held[it.index] = stamp{it.index, it.attempt, it.hop}
		j.queue.shared.Push(it)
	}
	for _, i := range left.skipped {
		c.recorder.record(j, item{index: i, attempt: record.FirstAttempt}, record.Task{State: filch.Skipped})
	}
	if left.bad && j.spec.OnFail == record.FailStop && !j.leader.failing && j.void == 0 {
		j.leader.failing = true
		c.voidJob(j, filch.Skipped)
	}
	c.active(j)
	c.orders.obey(j)
}
