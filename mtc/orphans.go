package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/ends"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// failover takes the tasks of dead nodes over, at the homes of their records.
type failover struct {
	*turn
	core *Core
	policy.Sweeps
	remains queue.Remains
}

func (f *failover) init(c *Core) {
	f.core, f.turn = c, &c.turn
	f.Sweeps = policy.NewSweeps()
	f.remains = queue.NewRemains()
}

// Rehomed takes in that other records have their home here now. All nodes that saw the
// records' owners die may be gone: the whole instance may have been started again.
func (c *Core) Rehomed(now time.Duration) {
	c.enter(now, c.out)
	if mutants.NoLose {
		return
	}
	c.failover.Sweeps.Rehomed(now)
}

// gone reports whether an owner is dead, or at least gone.
func (f *failover) gone(o record.Owner) bool {
	return f.Gone(o, f.core.cfg.Members, f.now) && (!mutants.NoLose || f.core.cfg.Members.Get(o.Node) != nil)
}

// onDeath begins the failover after the death of a node's incarnation.
func (f *failover) onDeath(o record.Owner) {
	if mutants.NoLose {
		return
	}
	f.Died(f.now)
	f.out.Sweep = true
	f.core.victim.onDeath(o)
	if !f.core.cfg.Members.MayLive(o) {
		f.core.copies.Died(o)
	}
	for _, j := range f.core.sortedJobs() {
		switch {
		case j.leader != nil && j.leader.graph != nil && j.leader.open:
			f.core.readBlocks(j)
		case j.rec != nil && j.rec.Leader == o && (j.follow || j.pending.Tells()):
			f.core.waits.at = min(f.core.waits.at, f.now+ends.ToldAgain)
		}
	}
}

// Homed takes in the records homed at this node. Ranges and tasks of a dead node go to
// this node, by an operation at the record, and the node sends tallies again that may
// have died with their reporter.
func (c *Core) Homed(now time.Duration, list []record.Stored, out *Out) {
	c.enter(now, out)
	retell := c.failover.Swept(now)
	for i := range list {
		p, ok := record.ParseKey(list[i].Key)
		if !ok {
			continue
		}
		switch p.What {
		case 0:
			c.failover.homedJob(p.Job, list[i].Value)
		case 'z':
			c.failover.homedZone(p, list[i].Value, retell)
		case 'b':
			c.failover.homedBlock(p, list[i].Value, retell)
		case 'k':
			c.failover.homedCap(p, list[i].Value)
		}
	}
	c.settle()
}

func (f *failover) homedJob(id filch.JobID, v []byte) {
	rec, err := record.DecodeJob(v)
	if err != nil || rec.Finished() || !f.gone(rec.Leader) {
		return
	}
	from := rec.Leader
	if rec.Partial && !rec.Closed && f.core.cfg.Members.Gone(from) {
		return // a new leader would cancel the job: wait for the old one's death
	}
	op := record.JobOp{Kind: record.JobLose, From: from, To: f.core.self}
	f.core.commits.merge(record.KeyJob(id), record.RecordJob, record.EncodeJobOp(op), func(a record.Answer) {
		_, rec, err := record.DecodeJobReply(a.Value)
		if a.Status != record.AnswerDone || err != nil || rec == nil || rec.Leader != f.core.self || rec.Finished() {
			return
		}
		f.core.inheritJob(id, rec, from)
	})
}

// homedZone takes the spans of dead owners, and reports the zone's tally to the job.
func (f *failover) homedZone(p record.Key, v []byte, retell bool) {
	z, err := record.DecodeZone(v)
	if err != nil {
		return
	}
	var ops []record.ZoneOp
	for _, o := range z.Owners(f.gone) {
		ops = append(ops, record.ZoneOp{Kind: record.ZoneLose, From: o, Owner: f.core.self, Take: record.Take(f.core.commits.Serial())})
	}
	j := f.core.job(p.Job)
	if t := z.Tally(); retell && t.Sum() > 0 {
		f.core.recorder.Retell(j, p.Number)
	}
	if len(ops) == 0 {
		f.core.forget(j)
		return
	}
	j.queue.pending++
	f.core.whenKnown(j, func() {
		// Some of the owners may be known to be alive meanwhile.
		ops = slices.DeleteFunc(ops, func(op record.ZoneOp) bool { return !f.gone(op.From) })
		if len(ops) == 0 {
			j.queue.pending--
			return
		}
		f.core.commits.merge(record.KeyZone(p.Job, p.Number), record.RecordZone, record.EncodeZoneOps(ops, false), func(a record.Answer) {
			j.queue.pending--
			r, err := record.DecodeZoneReply(a.Value)
			if err == nil && !j.over {
				for _, s := range r.Taken {
					f.adoptSpan(j, s, ops[s.Op].From)
				}
			}
			f.core.forget(j)
		})
	})
}

// adoptSpan queues a span of a dead owner: the part that no node started as a range, the
// part that may have been started task by task.
func (f *failover) adoptSpan(j *job, s record.TakenSpan, from record.Owner) {
	f.note(noteInfo, j.id, "tasks %d to %d of job %d go on here: %s is gone", s.Lo, s.Hi-1, j.id, from.Node)
	if s.Front < s.Hi {
		j.queue.Ranges.Add(policy.Range{Next: s.Front, Hi: s.Hi, Front: s.Front, Hop: s.Hop})
		f.core.arrivals.Add(j.id, s.Front, s.Hi, from.Node, f.now)
		f.core.active(j)
	}
	f.takePart(j, s.Lo, s.Front, from, j.spec.CommitsStarts())
	f.core.orders.obey(j)
}

// takePart takes the tasks from lo up to and without hi that a dead owner had; sure: it started
// none without a commit.
func (f *failover) takePart(j *job, lo, hi int32, from record.Owner, sure bool) {
	for num, part := range record.BlocksOf(lo, hi) {
		op := record.BlockOp{
			Kind: record.BlockTakeImplicit, Off: uint8(part[0] % record.BlockSize), To: uint8((part[1] - 1) % record.BlockSize),
			From: from, Once: j.spec.Once && !mutants.HeirOnce, Most: j.spec.Crashes(), Sure: sure,
		}
		op.Owner = f.core.self
		f.takeBlock(j, num, op)
	}
}

// takeBlock takes tasks of a dead owner, and queues the tasks that became ours.
func (f *failover) takeBlock(j *job, num int32, op record.BlockOp) {
	j.queue.pending++
	op.Take = record.Take(f.core.commits.Serial())
	op.Spare = f.core.cfg.Members.MayLive(op.From) && !mutants.GoneLoses || j.spec.Gangs() && f.waitFor(op.From) > f.now
	f.core.commits.merge(record.KeyBlock(j.id, num), record.RecordBlock, record.EncodeBlockOps([]record.BlockOp{op}, true), func(a record.Answer) {
		j.queue.pending--
		p, err := record.DecodeBlockReply(a.Value)
		if a.Status != record.AnswerDone || err != nil || p.Block == nil {
			f.core.forget(j)
			return
		}
		f.core.recorder.Tallied(j, record.BlockTally{Block: num, Tally: p.Tally})
		if j.spec.Gangs() {
			f.remains.SetAstray(j.id, num, p.Block, op.From)
		}
		f.adoptBlock(j, num, p.Block, p.Taken, op.From)
		f.core.forget(j)
	})
}

// adoptBlock queues the single tasks of a block that takeBlock took.
func (f *failover) adoptBlock(j *job, num int32, b *record.Block, taken []byte, from record.Owner) {
	if j.over {
		return
	}
	items, lost := queue.Adopted(num, b, taken, f.core.self)
	for _, it := range items {
		it.Since = queue.Stamp(f.now)
		f.core.arrivals.Add(j.id, it.Index, it.Index+1, from.Node, f.now)
		if j.leader != nil && j.leader.tracker != nil {
			it.Inputs, it.Level = j.leader.tracker.Inputs(it.Index), j.leader.plan.Level(it.Index)
			delete(j.leader.away, it.Index)
		} else if j.leader != nil && j.leader.each != nil {
			it.Level = j.leader.each.Level(it.Index)
		}
		// The need of the task is not known here.
		if j.spec.Gangs() && (it.Maybe || it.Crashes > 0) {
			f.rest(j, it, from)
			continue
		}
		if j.queue.Hold(&it); f.core.mover.Kind.Asks() && j.Graph() && !mutants.TakerKeeps {
			f.core.mover.place(j, it)
			continue
		}
		j.queue.Shared.Push(it)
	}
	if len(items) > 0 && !j.Graph() {
		f.note(noteInfo, j.id, "%d tasks of job %d from %d on go on here: %s is gone", len(items), j.id, num*record.BlockSize, from.Node)
	}
	if len(lost) > 0 {
		f.note(noteWarn, j.id, "%d tasks of job %d from %d on were started and are lost: %s is gone", len(lost), j.id, num*record.BlockSize, from.Node)
		f.core.recorder.Lost(j, lost, from.Node)
	}
	f.core.active(j)
	f.core.orders.obey(j)
}

// homedBlock takes single tasks of dead owners, and reports the block's tally to the
// zone.
func (f *failover) homedBlock(p record.Key, v []byte, retell bool) {
	b, err := record.DecodeBlock(v)
	if err != nil {
		return
	}
	j := f.core.job(p.Job)
	if retell {
		f.core.recorder.Tallied(j, record.BlockTally{Block: p.Number, Tally: b.Tally()})
	}
	for _, o := range b.Owners(f.gone) {
		j.queue.pending++
		f.core.whenKnown(j, func() {
			j.queue.pending--
			if !f.gone(o) {
				return
			}
			op := record.BlockOp{Kind: record.BlockTake, To: record.BlockSize - 1, From: o, Once: j.spec.Once, Most: j.spec.Crashes()}
			op.Owner = f.core.self
			f.takeBlock(j, p.Number, op)
		})
	}
	f.core.forget(j)
}

func (f *failover) homedCap(p record.Key, v []byte) {
	r, err := record.DecodeCap(v)
	if err != nil {
		return
	}
	for _, h := range r.Holders {
		// A node that is gone may still use its tokens: at most the cap may be in use.
		if h.Held+h.Want > 0 && f.gone(h.Owner) && !f.core.cfg.Members.Gone(h.Owner) {
			key := record.KeyCap(p.Job)
			if p.License != "" {
				key = record.KeyLicense(p.License)
			}
			f.core.commits.merge(key, record.RecordCap, record.CapOp{Limit: r.Limit, Owner: h.Owner, Deed: record.CapLose}.Encode(), func(record.Answer) {})
		}
	}
}
