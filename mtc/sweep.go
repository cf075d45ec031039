package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// sweepAgain is how often a node looks through the records whose home it is,
// while somebody's tasks may have to be given to somebody else.
const sweepAgain = 2 * time.Second

// sweeps is when that is due, and until when it goes on after the last death:
// homes move, and a death is not heard of everywhere at once.
type sweeps struct {
	at     time.Duration
	until  time.Duration
	asked  bool                             // by this Core; else homes changed
	retold bool                             // tallies were told again since the last death
	unseen map[filch.NodeName]time.Duration // owners' nodes that were never seen here, since when they are missed
}

const (
	sweepFor    = 20 * time.Second
	rehomePause = 100 * time.Millisecond
	unseenGrace = 15 * time.Second // as long as jobs of ranks wait for their owner
)

// Rehomed takes in that other records are homed here now. Nobody may be left who
// saw their owners die: all nodes may have been started again.
func (c *Core) Rehomed(now time.Duration) {
	if mutantNoLose {
		return
	}
	c.sweeps.at = min(c.sweeps.at, now+rehomePause)
	c.sweeps.retold = false
}

// gone reports whether an owner is dead, or at least gone. A node that was never seen here may yet
// come, in another life; after a while it is taken for dead.
func (c *Core) gone(now time.Duration, o Owner) bool {
	s := &c.sweeps
	if o == (Owner{}) || c.members.find(o.Node) != nil {
		return c.members.dead(o) || c.members.gone(o)
	}
	since, known := s.unseen[o.Node]
	if !known {
		since = now
		s.unseen[o.Node] = since
	}
	if now-since < unseenGrace {
		s.at = min(s.at, since+unseenGrace)
		return false
	}
	return !mutantNoLose
}

// seen takes in that a node is there for the first time.
func (c *Core) seen(now time.Duration, n filch.NodeName) {
	if _, missed := c.sweeps.unseen[n]; missed {
		delete(c.sweeps.unseen, n)
		c.Rehomed(now)
	}
}

// died begins what the death of a node's life asks for.
func (c *Core) died(now time.Duration, o Owner, out *Out) {
	if mutantNoLose {
		return
	}
	c.sweeps.until = now + sweepFor
	c.sweeps.at = now + sweepAgain
	c.sweeps.asked, c.sweeps.retold = true, false
	out.Sweep = true
	c.victimDied(now, o, out)
	for _, j := range c.sortedJobs() {
		switch {
		case j.lead != nil && j.lead.graph != nil && j.lead.open:
			c.readBlocks(j, out)
		case j.rec != nil && j.rec.Steward == o && (j.follow || len(j.records.tells) > 0):
			c.waits.at = min(c.waits.at, now+toldAgain)
		}
	}
}

// Homed takes in the records whose home this node is. What a dead node owns
// goes to this node, by an operation at the record, and tallies that may have
// died with their teller are told again.
func (c *Core) Homed(now time.Duration, list []Stored, out *Out) {
	retell := !c.sweeps.asked || !c.sweeps.retold || now+sweepAgain >= c.sweeps.until
	for i := range list {
		p, ok := parseKey(list[i].Key)
		if !ok {
			continue
		}
		switch p.what {
		case 0:
			c.homedJob(now, p.job, list[i].Value, out)
		case 'z':
			c.homedZone(now, p, list[i].Value, retell, out)
		case 'b':
			c.homedBlock(now, p, list[i].Value, retell, out)
		case 'k':
			c.homedCap(now, p, list[i].Value, out)
		}
	}
	c.sweeps.asked, c.sweeps.retold = false, true
	if now < c.sweeps.until {
		c.sweeps.at = min(c.sweeps.at, now+sweepAgain)
	}
	c.settle(now, out)
}

func (c *Core) homedJob(now time.Duration, id filch.JobID, v []byte, out *Out) {
	rec, err := DecodeJob(v)
	if err != nil || rec.Finished() || !c.gone(now, rec.Steward) {
		return
	}
	from := rec.Steward
	if rec.Partial && !rec.Closed && c.members.gone(from) {
		return // without it the job is cancelled: when it is dead
	}
	op := jobOp{kind: jLose, from: from, who: c.self}
	c.merge(KeyJob(id), RecordJob, encodeJobOp(op), out, func(now time.Duration, a Answer, out *Out) {
		_, rec, err := decodeJobReply(a.Value)
		if a.Status != AnswerDone || err != nil || rec == nil || rec.Steward != c.self || rec.Finished() {
			return
		}
		c.inheritJob(now, id, rec, from, out)
	})
}

// homedZone takes the spans of dead owners, and tells the job of its tally.
func (c *Core) homedZone(now time.Duration, p place, v []byte, retell bool, out *Out) {
	z, err := DecodeZone(v)
	if err != nil {
		return
	}
	var ops []zoneOp
	for _, s := range z.Spans {
		if s.Void == 0 && !z.ended(s) && c.gone(now, s.Owner) &&
			!slices.ContainsFunc(ops, func(p zoneOp) bool { return p.from == s.Owner }) {
			ops = append(ops, zoneOp{kind: zLose, from: s.Owner, who: c.self, take: take(c.serial())})
		}
	}
	j := c.job(p.job)
	if t := z.Tally(); retell && t.Sum() > 0 {
		c.zoneDue(j.zoneBuf(p.number), now)
	}
	if len(ops) == 0 {
		c.forget(j, out)
		return
	}
	j.queue.pending++
	c.whenKnown(now, j, out, func(now time.Duration, out *Out) {
		ops = slices.DeleteFunc(ops, func(op zoneOp) bool { return !c.gone(now, op.from) }) // meanwhile refuted
		if len(ops) == 0 {
			j.queue.pending--
			return
		}
		c.merge(KeyZone(p.job, p.number), RecordZone, encodeZoneOps(ops, false), out, func(now time.Duration, a Answer, out *Out) {
			j.queue.pending--
			r, err := decodeZoneReply(a.Value)
			if err == nil && !j.over {
				for _, s := range r.taken {
					c.adoptSpan(now, j, s, ops[s.op].from, out)
				}
			}
			c.forget(j, out)
		})
	})
}

// ended reports whether all blocks of a span are full of ends.
func (z *Zone) ended(s Span) bool {
	for b := s.Lo / BlockSize; b*BlockSize < s.Hi; b++ {
		i, ok := slices.BinarySearchFunc(z.Blocks, b, func(t BlockTally, n int32) int { return int(t.Block - n) })
		if !ok || z.Blocks[i].Sum() < BlockSize {
			return false
		}
	}
	return true
}

// adoptSpan queues a span of a dead owner: what nobody started as a range, what
// may have been started task by task.
func (c *Core) adoptSpan(now time.Duration, j *job, s takenSpan, from Owner, out *Out) {
	note(out, noteInfo, j.id, "tasks %d to %d of job %d go on here: %s is gone", s.lo, s.hi-1, j.id, from.Node)
	if s.front < s.hi {
		j.queue.addRange(span{next: s.front, hi: s.hi, front: s.front, hop: s.hop})
		c.active(j)
	}
	for lo := s.lo; lo < s.front; {
		hi := min(s.front, (lo/BlockSize+1)*BlockSize)
		op := blockOp{
			kind: bTakeImplicit, off: uint8(lo % BlockSize), to: uint8((hi - 1) % BlockSize),
			from: from, once: j.spec.Once && !mutantHeirOnce, most: j.spec.crashes(), sure: j.spec.sure(),
		}
		op.Owner = c.self
		c.takeBlock(j, lo/BlockSize, op, out)
		lo = hi
	}
	if j.void != 0 {
		c.void(now, j, j.void, out)
	}
}

// takeBlock takes tasks of a dead owner, and queues those that are ours then.
func (c *Core) takeBlock(j *job, num int32, op blockOp, out *Out) {
	j.queue.pending++
	op.Take = take(c.serial())
	op.spare = c.members.mayLive(op.from) && !mutantGoneLoses
	c.merge(KeyBlock(j.id, num), RecordBlock, encodeBlockOps([]blockOp{op}, true), out, func(now time.Duration, a Answer, out *Out) {
		j.queue.pending--
		p, err := decodeBlockReply(a.Value)
		if a.Status != AnswerDone || err != nil || p.block == nil {
			c.forget(j, out)
			return
		}
		c.tallied(now, j, BlockTally{num, p.tally})
		c.adoptBlock(now, j, num, p.block, p.taken, op.from, out)
		c.forget(j, out)
	})
}

// adoptBlock queues the single tasks of a block that were taken just now.
func (c *Core) adoptBlock(now time.Duration, j *job, num int32, b *Block, taken []byte, from Owner, out *Out) {
	if j.over {
		return
	}
	var lost []ToldEnd
	queued, gone := 0, 0
	for _, off := range taken {
		t := b.Find(off)
		if t == nil {
			continue
		}
		i := num*BlockSize + int32(off)
		if t.State == filch.Lost {
			gone++
		}
		if t.State == filch.Lost && j.isGraph() {
			lost = append(lost, ToldEnd{Index: i, State: t.State, By: t.By.Node})
		}
		at := stamp{i, t.Attempt, t.Hop}
		if t.State != 0 || t.Owner != c.self || t.Started {
			continue
		}
		j.queue.held[i] = at
		it := item{index: i, attempt: t.Attempt, hop: t.Hop, crashes: t.Crashes, tracked: true, maybe: t.Maybe}
		if j.lead != nil && j.lead.tracker != nil {
			it.inputs = j.lead.tracker.Inputs(i)
			delete(j.lead.away, i)
		}
		j.queue.shared.push(it)
		queued++
	}
	if queued > 0 && !j.isGraph() {
		note(out, noteInfo, j.id, "%d tasks of job %d from %d on go on here: %s is gone", queued, j.id, num*BlockSize, from.Node)
	}
	if gone > 0 {
		note(out, noteWarn, j.id, "%d tasks of job %d from %d on were started and are lost: %s is gone", gone, j.id, num*BlockSize, from.Node)
	}
	if len(lost) > 0 {
		c.tellLost(now, j, lost, out)
	}
	c.active(j)
	if j.void != 0 {
		c.void(now, j, j.void, out)
	}
}

func (c *Core) tellLost(now time.Duration, j *job, lost []ToldEnd, out *Out) {
	if j.lead != nil {
		c.ledEnds(now, j, lost, out)
		return
	}
	r := &j.records
	r.tells = append(r.tells, tell{serial: c.serial(), ends: lost, at: now})
	c.waits.at = min(c.waits.at, now)
}

// homedBlock takes single tasks of dead owners, and tells the zone its tally.
func (c *Core) homedBlock(now time.Duration, p place, v []byte, retell bool, out *Out) {
	b, err := DecodeBlock(v)
	if err != nil {
		return
	}
	j := c.job(p.job)
	if retell {
		c.tallied(now, j, BlockTally{p.number, b.Tally()})
	}
	var dead []Owner
	for i := range b.Tasks {
		t := &b.Tasks[i]
		if t.State == 0 && t.Owner != (Owner{}) && c.gone(now, t.Owner) && !slices.Contains(dead, t.Owner) {
			dead = append(dead, t.Owner)
		}
	}
	for _, o := range dead {
		j.queue.pending++
		c.whenKnown(now, j, out, func(now time.Duration, out *Out) {
			j.queue.pending--
			if !c.gone(now, o) {
				return
			}
			op := blockOp{kind: bTake, to: BlockSize - 1, from: o, once: j.spec.Once, most: j.spec.crashes()}
			op.Owner = c.self
			c.takeBlock(j, p.number, op, out)
		})
	}
	c.forget(j, out)
}

func (c *Core) homedCap(now time.Duration, p place, v []byte, out *Out) {
	r, err := DecodeCap(v)
	if err != nil {
		return
	}
	for _, h := range r.Holders {
		// What one that is gone holds may still be in use: no more may be than the cap.
		if h.Held+h.Want > 0 && c.gone(now, h.Owner) && !c.members.gone(h.Owner) {
			c.merge(KeyCap(p.job), RecordCap, capOp{limit: r.Limit, who: h.Owner, lose: true}.encode(), out, func(time.Duration, Answer, *Out) {})
		}
	}
}
