package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// The longest waits before ends and tallies are sent while more are to come; the last
// ends of a node's work on a job go at once. Ends wait for a part of the mean length of
// tasks: few long tasks end within the least wait, and each proposal would carry few
// ends. Tallies wait longer in a large instance: all tallies go to the same record.
const (
	endsWaitMin  = 3 * time.Millisecond
	endsWaitMax  = 50 * time.Millisecond
	endsWaitPart = 2
	tallyWaitMin = 50 * time.Millisecond
	tallyWaitMax = time.Second
	tallyNodes   = 8 // nodes for whose tallies the least wait is enough
)

func (r *recorder) endsWait() time.Duration {
	return min(max(r.core.mover.length()/endsWaitPart, endsWaitMin), endsWaitMax)
}

func (r *recorder) tallyWait() time.Duration {
	return min(max(tallyWaitMin*time.Duration(r.core.cfg.Members.Working())/tallyNodes, tallyWaitMin), tallyWaitMax)
}

// recorder is the records with something to send, in the order in which their waits
// began. Waits change with the length of tasks, so that a later record may be due before
// the first, but no record waits for more than the longest wait.
type recorder struct {
	*turn
	core   *Core
	blocks []*blockBuf
	zones  []*zoneBuf
	unsaid int64 // ends not recorded
}

func (r *recorder) init(c *Core) { r.core, r.turn = c, &c.turn }

func (r *recorder) at() time.Duration {
	at := filch.Never
	if len(r.blocks) > 0 {
		at = r.blocks[0].due
	}
	for _, z := range r.zones {
		at = min(at, z.due)
	}
	return at
}

// records is a node's unsent ends, tallies and reports of a job.
type records struct {
	blocks map[int32]*blockBuf
	zones  map[int32]*zoneBuf
	unsaid int64  // ends not recorded
	tells  []tell // ends that the graph's leader did not receive, or did not acknowledge
}

func (r *records) owed() bool { return len(r.blocks) > 0 || len(r.zones) > 0 || len(r.tells) > 0 }

// blockBuf holds a block's ends until they are recorded.
type blockBuf struct {
	job    *job
	num    int32
	ends   []record.BlockOp
	due    time.Duration
	flying bool
	listed bool
}

// zoneBuf holds the tallies of blocks until their zone has them.
type zoneBuf struct {
	job    *job
	num    int32
	told   []record.ZoneOp
	due    time.Duration
	flying bool
	listed bool
}

// record adds a task's end to the ends to be recorded.
func (r *recorder) record(j *job, it item, t record.Task) {
	delete(j.queue.held, it.index)
	op := record.BlockOp{Kind: record.BlockEnd, Off: uint8(it.index % record.BlockSize), Task: t}
	op.Owner, op.Attempt, op.Crashes = r.core.self, it.attempt, it.crashes
	num := it.index / record.BlockSize
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
	r.unsaid++
	if !b.listed && !b.flying {
		b.listed, b.due = true, r.now+r.endsWait()
		r.blocks = append(r.blocks, b)
	}
}

// last reports whether only unsent ends and tallies of j are left here.
func (j *job) last() bool { return j.running == 0 && j.queue.empty() && j.queue.pending == 0 }

// flush sends the ends and tallies that are due.
func (r *recorder) flush() {
	for i := 0; i < len(r.blocks); {
		b := r.blocks[i]
		if b.due > r.now && !b.job.last() && len(b.ends) < record.BlockSize && !b.job.isGraph() {
			i++
			if i > 64 {
				break // the others are younger, and of no other job as a rule
			}
			continue
		}
		r.blocks = slices.Delete(r.blocks, i, i+1)
		b.listed = false
		r.sendEnds(b)
	}
	for i := 0; i < len(r.zones); {
		z := r.zones[i]
		if z.due > r.now && !(z.job.last() && len(z.job.records.blocks) == 0) && len(z.told) < record.ZoneBlocks {
			i++
			continue
		}
		r.zones = slices.Delete(r.zones, i, i+1)
		z.listed = false
		r.sendTally(z)
	}
}

func (j *job) isGraph() bool { return j.rec != nil && j.rec.Graph }

// sendEnds records the ends of a block. At most one such proposal of a block is under
// way: later ends go with the next.
func (r *recorder) sendEnds(b *blockBuf) {
	ends := b.ends
	if len(ends) > record.BlockSize {
		ends = ends[:record.BlockSize]
	}
	n := len(ends)
	b.flying = true
	graph := b.job.isGraph()
	r.core.commits.merge(record.KeyBlock(b.job.id, b.num), record.RecordBlock, record.EncodeBlockOps(ends, graph), func(a Answer) {
		j := b.job
		p, err := record.DecodeBlockReply(a.Value)
		if a.Status != AnswerDone || err != nil {
			r.note(noteWarn, j.id, "the ends of %d tasks of job %d could not be recorded", n, j.id)
		}
		if graph && p.Block != nil {
			r.core.tell(j, b.num, b.ends[:n], p.Block)
		}
		b.ends = slices.Delete(b.ends, 0, n)
		b.flying = false
		j.records.unsaid -= int64(n)
		r.unsaid -= int64(n)
		r.tallied(j, record.BlockTally{Block: b.num, Tally: p.Tally})
		if len(b.ends) == 0 {
			delete(j.records.blocks, b.num)
			r.core.forget(j)
			return
		}
		b.listed, b.due = true, r.now+r.endsWait()
		r.blocks = append(r.blocks, b)
	})
}

// zoneBuf returns the buffer for a zone of the job, and makes the buffer if there is none
// yet.
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

// tallied keeps a block's tally for its zone.
func (r *recorder) tallied(j *job, t record.BlockTally) {
	if t.Sum() == 0 {
		return
	}
	z := j.zoneBuf(t.Block / record.ZoneBlocks)
	op := record.ZoneOp{Kind: record.ZoneBlockTally, Tally: t}
	if i := slices.IndexFunc(z.told, func(o record.ZoneOp) bool { return o.Kind == record.ZoneBlockTally && o.Tally.Block == t.Block }); i >= 0 {
		if z.told[i].Tally.Sum() < t.Sum() {
			z.told[i] = op
		}
	} else {
		z.told = append(z.told, op)
	}
	r.zoneDue(z, r.now+r.tallyWait())
}

// endedBefore sends the tally of a block where a task that was to begin or to move here
// has ended before: the node that recorded the end may have died before it sent the
// tally.
func (r *recorder) endedBefore(j *job, num int32, p *record.BlockReply) {
	if !j.over && slices.Contains(p.Verdicts, record.VerdictEnded) {
		r.tallied(j, record.BlockTally{Block: num, Tally: p.Tally})
	}
}

func (r *recorder) zoneDue(z *zoneBuf, due time.Duration) {
	if !z.listed && !z.flying {
		z.listed, z.due = true, due
		r.zones = append(r.zones, z)
	}
}

// sendTally sends the tallies of blocks to a zone, and then the zone's tally to the job.
func (r *recorder) sendTally(z *zoneBuf) {
	z.flying = true
	ops := z.told
	z.told = nil
	r.core.commits.merge(record.KeyZone(z.job.id, z.num), record.RecordZone, record.EncodeZoneOps(ops, false), func(a Answer) {
		p, err := record.DecodeZoneReply(a.Value)
		if (a.Status != AnswerDone || err != nil) && len(ops) > 0 {
			r.note(noteWarn, z.job.id, "the tally of a zone of job %d could not be recorded", z.job.id)
		}
		r.sendZone(z, p.Tally)
	})
}

func (r *recorder) sendZone(z *zoneBuf, t record.Tally) {
	op := record.JobOp{Kind: record.JobZoneTally, Tally: record.ZoneTally{Zone: z.num, Tally: t}, At: r.core.wall(r.now)}
	r.core.commits.merge(record.KeyJob(z.job.id), record.RecordJob, record.EncodeJobOp(op), func(a Answer) {
		j := z.job
		z.flying = false
		if _, rec, err := record.DecodeJobReply(a.Value); err == nil && rec != nil {
			r.core.onRecord(j, rec)
		}
		if len(z.told) > 0 {
			r.zoneDue(z, r.now+r.tallyWait())
			return
		}
		delete(j.records.zones, z.num)
		r.core.forget(j)
	})
}
