package mtc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/graph"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// inheritJob makes this node the leader of a job whose leader is gone.
func (c *Core) inheritJob(id filch.JobID, rec *record.Job, from record.Owner) {
	j := c.job(id)
	if j.leader != nil {
		return
	}
	c.note(noteInfo, id, "job %d is kept going here: %s is gone", id, from.Node)
	j.leader = newLeader(id, rec, nil)
	j.leader.orphan, j.leader.loading, j.leader.from = true, rec.Leveled(), from
	c.watchJob(j)
	c.onRecord(j, rec)
	if rec.Partial && !rec.Closed {
		c.note(noteWarn, id, "job %d is cancelled: %s died before all of it was submitted", id, from.Node)
		c.voidJob(j, filch.Cancelled)
	}
	c.whenKnown(j, func() {
		switch {
		case j.leader == nil:
		case j.rec.Graph:
			c.loadGraph(j)
		case j.rec.Ordered():
			j.leader.loadLengths(c, j)
		default:
			if c.openJob(j); j.void != 0 {
				c.inherit(j)
			}
		}
	})
}

// leaderHops is the distance between the hops of successive leaders, for tasks and ranges
// without a record: beyond all moves of the leader before. The old leader may live, and
// offer to a node a task that the node has from the new leader; at the same hop, the node
// would take the offer for a move that happened, and run the task again.
const leaderHops = 1 << 20

// firstHop is the first hop of tasks and ranges without a record.
func (j *job) firstHop() uint32 { return leaderHops * j.rec.Hop }

// inherit takes over a bag: zones without an owner belonged to the old leader.
func (c *Core) inherit(j *job) {
	l := j.leader
	if l.each != nil {
		c.step(j)
		return
	}
	first := l.total
	l.total, l.orphan = j.rec.Total, false
	for num, part := range record.Zones(first, l.total) {
		c.inheritZone(j, num, part[0], part[1])
	}
}

func (c *Core) inheritZone(j *job, num, lo, hi int32) {
	j.queue.pending++
	c.commits.lookup(record.KeyZone(j.id, num), record.RecordZone, func(a record.Answer) {
		j.queue.pending--
		z := &record.Zone{}
		if a.Status == record.AnswerDone {
			if d, err := record.DecodeZone(a.Value); err == nil {
				z = d
			}
		}
		for _, gap := range z.Gaps(lo, hi) {
			c.claim(j, num, gap)
		}
	})
}

// claim makes this node the owner of a gap, a range without an owner.
func (c *Core) claim(j *job, num int32, gap record.Span) {
	j.queue.pending++
	first, from := j.firstHop(), j.leader.from.Node
	op := record.ZoneOp{Kind: record.ZoneFront, Lo: gap.Lo, Hi: gap.Hi, Front: gap.Lo, Hop: first, Owner: c.self}
	c.commits.merge(record.KeyZone(j.id, num), record.RecordZone, record.EncodeZoneOps([]record.ZoneOp{op}, true), func(a record.Answer) {
		j.queue.pending--
		r, err := record.DecodeZoneReply(a.Value)
		if a.Status != record.AnswerDone || err != nil || r.Zone == nil {
			return
		}
		if i := r.Zone.Cover(gap.Lo, gap.Lo+1); i >= 0 && r.Zone.Spans[i].Owner == c.self {
			s := r.Zone.Spans[i]
			// With another hop, this node took the span from a dead owner, and queued the
			// span then.
			if s.Hop == first && s.Void == 0 {
				c.arrivals.Add(j.id, s.Lo, s.Hi, from, c.now)
				j.queue.Ranges.Add(policy.Range{Next: s.Lo, Hi: s.Hi, Front: s.Lo, Hop: s.Hop})
				c.active(j)
			}
			if s.Hi < gap.Hi {
				c.inheritZone(j, num, s.Hi, gap.Hi)
			}
		} else {
			// The old leader began the span at the last moment: the zone's home gives the
			// span away as a dead node's.
			c.out.Sweep = true
			c.inheritZone(j, num, gap.Lo, gap.Hi)
		}
		c.orders.obey(j)
		c.forget(j)
	})
}

// loadGraph reads a graph back from its payloads, and then the recorded ends.
func (c *Core) loadGraph(j *job) {
	n := j.rec.Total
	nodes := make([]record.GraphNode, n)
	parts := j.rec.Payloads()
	left := parts
	for part := range parts {
		c.commits.lookup(record.KeyPayload(j.id, part), record.RecordPayload, func(a record.Answer) {
			p, err := record.DecodePayload(a.Value)
			if a.Status != record.AnswerDone || err != nil {
				c.note(noteWarn, j.id, "payloads %d of workflow %d are gone: %v", part, j.id, err)
			} else {
				p.GraphNodes(part, nodes)
			}
			if left--; left > 0 || j.leader == nil || j.leader.graph != nil {
				return
			}
			g, err := graph.Of(nodes)
			if err != nil {
				c.note(noteWarn, j.id, "workflow %d cannot be read back: %v", j.id, err)
				return
			}
			j.leader.take(c, g, nodes, j.spec.OnFail)
			c.readBlocks(j)
		})
	}
}

// loadLengths reads the lengths of a bag back, and then the recorded ends.
func (l *leader) loadLengths(c *Core, j *job) {
	c.lookUp(before.LengthsOf(j.id, j.rec), func(_ *before.Look, answers []record.Answer) {
		if gone := l.each.Loaded(answers); gone > 0 {
			c.note(noteWarn, j.id, "%d of %d records with the lengths of job %d are gone: their tasks start last", gone, len(answers), j.id)
		}
		if j.leader == l {
			c.readBlocks(j)
		}
	})
}

// readBlocks reads the recorded ends of a job that the leader did not receive: the
// leader is new, or the reporting node died.
func (c *Core) readBlocks(j *job) {
	l, left := j.leader, j.rec.Blocks()
	for num := range j.rec.Blocks() {
		l.reads.blocks++
		c.commits.lookup(record.KeyBlock(j.id, num), record.RecordBlock, func(a record.Answer) {
			l.reads.blocks--
			if j.leader == nil || j.leader.tracker == nil && j.leader.each == nil {
				return
			}
			if b, err := record.DecodeBlock(a.Value); a.Status == record.AnswerDone && err == nil && j.leader.each != nil {
				j.leader.each.Read(num, b, j.leader.from)
			} else if a.Status == record.AnswerDone && err == nil {
				c.readBlock(j, num, b)
			}
			if left--; left == 0 && j.leader != nil && !j.leader.open {
				j.leader.loading = false
				c.openJob(j)
			}
		})
	}
}

func (c *Core) readBlock(j *job, num int32, b *record.Block) {
	var ends []message.ToldEnd
	for k, off := range b.Offs {
		t := &b.Tasks[k]
		i := num*record.BlockSize + int32(off)
		switch {
		case t.State != 0 && mutants.HeirEnds:
		case t.State != 0:
			ends = append(ends, message.ToldEnd{Index: i, State: t.State, Bytes: t.Bytes, Took: t.Ran(), By: t.By.Node})
		case t.Owner != (record.Owner{}) && t.Owner != c.self && t.Owner != j.leader.from:
			// The record's home moves the task if this owner is dead too.
			j.leader.away[i] = t.Owner.Node
		}
	}
	c.ledEnds(j, ends)
}

// mindEnds reads the ends of a graph again where the job's record has counted more ends
// than the leader received, for [policy.SpreadAgain]. The store may accept an end after the
// death of the recording node and after the leader's reading of the records at that
// death: no node reports such an end to the leader.
func (c *Core) mindEnds(j *job) {
	l := j.leader
	if l == nil || l.tracker == nil || !l.open || mutants.ToldOnce {
		return
	}
	switch {
	case j.rec.Tally().Sum() <= l.tracker.Known():
		l.reads.at = 0
		return
	case l.reads.at == 0: // the report of an end may come after its count
	case l.reads.at > c.now:
		return
	case l.reads.blocks == 0:
		c.readBlocks(j)
	}
	l.reads.at = c.now + policy.SpreadAgain
	c.waits.at = min(c.waits.at, l.reads.at)
}

// inheritTask makes this node the owner of a ready task that the old leader may have
// started.
func (f *failover) inheritTask(j *job, it queue.Item) {
	if _, elsewhere := j.leader.away[it.Index]; elsewhere {
		return
	}
	f.takePart(j, it.Index, it.Index+1, j.leader.from, true)
}
