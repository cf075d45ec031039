package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// When ends and tallies are sent off at the latest while there is more to come;
// what ends a node's work on a job goes at once. Ends wait for a part of the mean
// length of tasks: of long ones few end in the least time, and each word to the
// store is for few. Tallies wait for longer where there are many nodes: all of them
// go to one record.
const (
	endsWaitMin  = 3 * time.Millisecond
	endsWaitMax  = 50 * time.Millisecond
	endsWaitPart = 2
	tallyWaitMin = 50 * time.Millisecond
	tallyWaitMax = time.Second
	tallyNodes   = 8 // for whose tallies the least wait is enough
)

func (c *Core) endsWait() time.Duration {
	return min(max(c.policy.length()/endsWaitPart, endsWaitMin), endsWaitMax)
}

func (c *Core) tallyWait() time.Duration {
	return min(max(tallyWaitMin*time.Duration(c.members.up)/tallyNodes, tallyWaitMin), tallyWaitMax)
}

// dirty are the records with something to be sent, in the order in which that
// began. Waits change with the length of tasks, so that a later one may be due
// before the first, but no record waits for more than the longest wait.
type dirty struct {
	blocks []*blockBuf
	zones  []*zoneBuf
	unsaid int64 // ends not recorded
}

func (d *dirty) at() time.Duration {
	at := filch.Never
	if len(d.blocks) > 0 {
		at = d.blocks[0].due
	}
	for _, z := range d.zones {
		at = min(at, z.due)
	}
	return at
}

// records is what a node still has to say of a job.
type records struct {
	blocks map[int32]*blockBuf
	zones  map[int32]*zoneBuf
	unsaid int64  // ends not recorded
	tells  []tell // ends that a graph's steward was not told, or did not acknowledge
}

func (r *records) owed() bool { return len(r.blocks) > 0 || len(r.zones) > 0 || len(r.tells) > 0 }

// blockBuf holds a block's ends until they are recorded.
type blockBuf struct {
	job    *job
	num    int32
	ends   []blockOp
	due    time.Duration
	flying bool
	listed bool
}

// zoneBuf holds the tallies of blocks until their zone was told.
type zoneBuf struct {
	job    *job
	num    int32
	told   []zoneOp
	due    time.Duration
	flying bool
	listed bool
}

// record puts a task's end among those to be recorded.
func (c *Core) record(now time.Duration, j *job, it item, t Task, out *Out) {
	delete(j.queue.held, it.index)
	op := blockOp{kind: bEnd, off: uint8(it.index % BlockSize), Task: t}
	op.Owner, op.Attempt, op.Crashes = c.self, it.attempt, it.crashes
	num := it.index / BlockSize
	if j.records.blocks == nil {
		j.records.blocks = make(map[int32]*blockBuf)
	}
	b := j.records.blocks[num]
	if b == nil {
		b = &blockBuf{job: j, num: num}
		j.records.blocks[num] = b
	}
	b.ends = append(b.ends, op)
	j.records.unsaid++
	c.dirty.unsaid++
	if !b.listed && !b.flying {
		b.listed, b.due = true, now+c.endsWait()
		c.dirty.blocks = append(c.dirty.blocks, b)
	}
}

// last reports whether nothing of j is under way here but what is to be said.
func (j *job) last() bool { return j.running == 0 && j.queue.empty() && j.queue.pending == 0 }

// flush sends off what is due.
func (c *Core) flush(now time.Duration, out *Out) {
	for i := 0; i < len(c.dirty.blocks); {
		b := c.dirty.blocks[i]
		if b.due > now && !b.job.last() && len(b.ends) < BlockSize && !b.job.isGraph() {
			i++
			if i > 64 {
				break // the others are younger, and of no other job as a rule
			}
			continue
		}
		c.dirty.blocks = slices.Delete(c.dirty.blocks, i, i+1)
		b.listed = false
		c.sendEnds(b, out)
	}
	for i := 0; i < len(c.dirty.zones); {
		z := c.dirty.zones[i]
		if z.due > now && !(z.job.last() && len(z.job.records.blocks) == 0) && len(z.told) < zoneBlocks {
			i++
			continue
		}
		c.dirty.zones = slices.Delete(c.dirty.zones, i, i+1)
		z.listed = false
		c.sendTally(z, out)
	}
}

func (j *job) isGraph() bool { return j.rec != nil && j.rec.Graph }

// sendEnds records what ended in a block. There is one such proposal of a block
// at a time: what ends meanwhile goes with the next.
func (c *Core) sendEnds(b *blockBuf, out *Out) {
	ends := b.ends
	if len(ends) > BlockSize {
		ends = ends[:BlockSize]
	}
	n := len(ends)
	b.flying = true
	graph := b.job.isGraph()
	c.merge(KeyBlock(b.job.id, b.num), RecordBlock, encodeBlockOps(ends, graph), out, func(now time.Duration, a Answer, out *Out) {
		j := b.job
		p, err := decodeBlockReply(a.Value)
		if a.Status != AnswerDone || err != nil {
			note(out, noteWarn, j.id, "the ends of %d tasks of job %d could not be recorded", n, j.id)
		}
		if graph && p.block != nil {
			c.tell(now, j, b.num, b.ends[:n], p.block, out)
		}
		b.ends = slices.Delete(b.ends, 0, n)
		b.flying = false
		j.records.unsaid -= int64(n)
		c.dirty.unsaid -= int64(n)
		c.tallied(now, j, BlockTally{b.num, p.tally})
		if len(b.ends) == 0 {
			delete(j.records.blocks, b.num)
			c.forget(j, out)
			return
		}
		b.listed, b.due = true, now+c.endsWait()
		c.dirty.blocks = append(c.dirty.blocks, b)
	})
}

// zoneBuf is what a zone of the job is to be told; made if there is nothing yet.
func (j *job) zoneBuf(num int32) *zoneBuf {
	z := j.records.zones[num]
	if z == nil {
		if j.records.zones == nil {
			j.records.zones = make(map[int32]*zoneBuf)
		}
		z = &zoneBuf{job: j, num: num}
		j.records.zones[num] = z
	}
	return z
}

// tallied keeps what a zone is to be told of a block.
func (c *Core) tallied(now time.Duration, j *job, t BlockTally) {
	if t.Sum() == 0 {
		return
	}
	z := j.zoneBuf(t.Block / zoneBlocks)
	op := zoneOp{kind: zTally, tally: t}
	if i := slices.IndexFunc(z.told, func(o zoneOp) bool { return o.kind == zTally && o.tally.Block == t.Block }); i >= 0 {
		if z.told[i].tally.Sum() < t.Sum() {
			z.told[i] = op
		}
	} else {
		z.told = append(z.told, op)
	}
	c.zoneDue(z, now+c.tallyWait())
}

// endedBefore tells the tally of a block where a task has its end that was to begin or
// to move here: the node that recorded the end may have died before it told the tally.
func (c *Core) endedBefore(now time.Duration, j *job, num int32, p *blockReply) {
	if !j.over && slices.Contains(p.verdicts, vEnded) {
		c.tallied(now, j, BlockTally{num, p.tally})
	}
}

func (c *Core) zoneDue(z *zoneBuf, due time.Duration) {
	if !z.listed && !z.flying {
		z.listed, z.due = true, due
		c.dirty.zones = append(c.dirty.zones, z)
	}
}

// sendTally tells a zone of its blocks, and then the job of the zone.
func (c *Core) sendTally(z *zoneBuf, out *Out) {
	z.flying = true
	ops := z.told
	z.told = nil
	c.merge(KeyZone(z.job.id, z.num), RecordZone, encodeZoneOps(ops, false), out, func(now time.Duration, a Answer, out *Out) {
		p, err := decodeZoneReply(a.Value)
		if (a.Status != AnswerDone || err != nil) && len(ops) > 0 {
			note(out, noteWarn, z.job.id, "the tally of a zone of job %d could not be recorded", z.job.id)
		}
		c.sendZone(now, z, p.tally, out)
	})
}

func (c *Core) sendZone(now time.Duration, z *zoneBuf, t Tally, out *Out) {
	op := jobOp{kind: jTally, tally: ZoneTally{z.num, t}, at: c.wall(now)}
	c.merge(KeyJob(z.job.id), RecordJob, encodeJobOp(op), out, func(now time.Duration, a Answer, out *Out) {
		j := z.job
		z.flying = false
		if _, rec, err := decodeJobReply(a.Value); err == nil && rec != nil {
			c.sawRecord(now, j, rec, out)
		}
		if len(z.told) > 0 {
			c.zoneDue(z, now+c.tallyWait())
			return
		}
		delete(j.records.zones, z.num)
		c.forget(j, out)
	})
}
