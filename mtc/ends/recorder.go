package ends

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// The longest waits before ends and tallies are sent while more are to come; the last
// ends of a node's work on a job go at once. Ends wait for a part of the mean length of
// tasks: few long tasks end within the least wait, and each proposal would carry few
// ends. Tallies wait longer in a large instance: all tallies go to the same record.
const (
	endsWaitMin  = 3 * time.Millisecond
	endsWaitPart = 2
	tallyWaitMin = 50 * time.Millisecond
	tallyWaitMax = time.Second
	tallyNodes   = 8 // nodes for whose tallies the least wait is enough
)

func (r *Recorder) endsWait() time.Duration {
	return min(max(r.node.Length()/endsWaitPart, endsWaitMin), r.bounds.EndsWait)
}

func (r *Recorder) tallyWait() time.Duration {
	return min(max(tallyWaitMin*time.Duration(r.node.Working())/tallyNodes, tallyWaitMin), tallyWaitMax)
}

// Recorder is the records with something to send, in the order in which their waits
// began. Waits change with the length of tasks, so that a later record may be due before
// the first, but no record waits for more than the longest wait.
type Recorder struct {
	node   Node
	bounds policy.Bounds
	blocks []*block
	zones  []*zone
	unsaid int64 // ends not recorded
	spare  [][]record.BlockOp
}

// sparesMax bounds the empty lists of ends that a Recorder keeps, for the next blocks: a
// full list has some 50 KB.
const sparesMax = 4

// New makes a Recorder with nothing to send.
func New(n Node, b policy.Bounds) Recorder { return Recorder{node: n, bounds: b} }

// Unsaid is the number of ends that are not recorded.
func (r *Recorder) Unsaid() int64 { return r.unsaid }

// At is when [Recorder.Flush] is due.
func (r *Recorder) At() time.Duration {
	at := filch.Never
	if len(r.blocks) > 0 {
		at = r.blocks[0].due
	}
	for _, z := range r.zones {
		at = min(at, z.due)
	}
	return at
}

// End adds a task's end to the ends to be recorded.
func (r *Recorder) End(j Job, it queue.Item, t record.Task) {
	p, op, num := j.Pending(), r.op(&it, t), it.Index/record.BlockSize
	if p.blocks == nil {
		p.blocks = make(map[int32]*block)
	}
	b := p.blocks[num]
	if b == nil {
		b = &block{job: j, num: num}
		if n := len(r.spare); n > 0 {
			b.ends, r.spare = r.spare[n-1], r.spare[:n-1]
		}
		p.blocks[num] = b
	}
	b.ends = append(b.ends, op)
	p.unsaid++
	r.unsaid++
	if !b.listed && !b.flying {
		b.listed, b.due = true, r.node.Now()+r.endsWait()
		r.blocks = append(r.blocks, b)
	}
}

func (r *Recorder) op(it *queue.Item, t record.Task) record.BlockOp {
	op := record.BlockOp{Kind: record.BlockEnd, Off: uint8(it.Index % record.BlockSize), Task: t}
	op.Owner, op.Attempt, op.Crashes, op.Recalls = r.node.Self(), it.Attempt, it.Crashes, it.Recalls
	return op
}

// EndCopy records the good end of a copy at once, and calls then with the record of the task:
// another end may be recorded before. The record is nil if nothing is left of the job.
func (r *Recorder) EndCopy(j Job, it queue.Item, t record.Task, then func(k *record.Task)) {
	ops, num := []record.BlockOp{r.op(&it, t)}, it.Index/record.BlockSize
	r.node.Merge(record.KeyBlock(j.ID(), num), record.RecordBlock, record.EncodeBlockOps(ops, true), func(a record.Answer) {
		p, err := record.DecodeBlockReply(a.Value)
		if a.Status != record.AnswerDone || err != nil || p.Block == nil {
			then(nil)
			return
		}
		if j.Graph() {
			r.told(j, num, ops, p.Block)
		}
		r.Tallied(j, record.BlockTally{Block: num, Tally: p.Tally})
		then(p.Block.Find(ops[0].Off))
	})
}

// Flush sends the ends and tallies that are due.
func (r *Recorder) Flush() {
	for i := 0; i < len(r.blocks); {
		b := r.blocks[i]
		if b.due > r.node.Now() && !b.job.Last() && len(b.ends) < r.bounds.Ends && !b.job.Graph() {
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
		if z.due > r.node.Now() && !(z.job.Last() && len(z.job.Pending().blocks) == 0) && len(z.told) < record.ZoneBlocks {
			i++
			continue
		}
		r.zones = slices.Delete(r.zones, i, i+1)
		z.listed = false
		r.sendTally(z)
	}
}

// sendEnds records the ends of a block. At most one such proposal of a block is under
// way: later ends go with the next.
func (r *Recorder) sendEnds(b *block) {
	ends := b.ends
	if len(ends) > r.bounds.Ends {
		ends = ends[:r.bounds.Ends]
	}
	n := len(ends)
	b.flying = true
	graph := b.job.Graph()
	r.node.Merge(record.KeyBlock(b.job.ID(), b.num), record.RecordBlock, record.EncodeBlockOps(ends, graph), func(a record.Answer) {
		j := b.job
		p, err := record.DecodeBlockReply(a.Value)
		if a.Status != record.AnswerDone || err != nil {
			r.node.Warn(j.ID(), "the ends of %d tasks of job %d could not be recorded", n, j.ID())
		}
		if graph && p.Block != nil {
			r.told(j, b.num, b.ends[:n], p.Block)
		}
		b.ends = slices.Delete(b.ends, 0, n)
		b.flying = false
		j.Pending().unsaid -= int64(n)
		r.unsaid -= int64(n)
		r.Tallied(j, record.BlockTally{Block: b.num, Tally: p.Tally})
		if len(b.ends) == 0 {
			if len(r.spare) < sparesMax && cap(b.ends) <= 2*record.BlockSize {
				r.spare = append(r.spare, b.ends)
			}
			b.ends = nil
			delete(j.Pending().blocks, b.num)
			j.Forget()
			return
		}
		b.listed, b.due = true, r.node.Now()+r.endsWait()
		r.blocks = append(r.blocks, b)
	})
}

// Tallied keeps a block's tally for its zone.
func (r *Recorder) Tallied(j Job, t record.BlockTally) {
	if t.Sum() == 0 {
		return
	}
	z := zoneOf(j, t.Block/record.ZoneBlocks)
	op := record.ZoneOp{Kind: record.ZoneBlockTally, Tally: t}
	if i := slices.IndexFunc(z.told, func(o record.ZoneOp) bool { return o.Kind == record.ZoneBlockTally && o.Tally.Block == t.Block }); i >= 0 {
		if z.told[i].Tally.Sum() < t.Sum() {
			z.told[i] = op
		}
	} else {
		z.told = append(z.told, op)
	}
	r.zoneDue(z, r.node.Now()+r.tallyWait())
}

// EndedBefore sends the tally of a block where a task that was to begin or to move here
// has ended before: the node that recorded the end may have died before it sent the
// tally.
func (r *Recorder) EndedBefore(j Job, num int32, p *record.BlockReply) {
	if !j.Over() && slices.Contains(p.Verdicts, record.VerdictEnded) {
		r.Tallied(j, record.BlockTally{Block: num, Tally: p.Tally})
	}
}

// Void ends a part of a zone without starts, by an operation that goes with the tallies.
func (r *Recorder) Void(j Job, num int32, op record.ZoneOp) {
	z := zoneOf(j, num)
	z.told = append(z.told, op)
	r.zoneDue(z, r.node.Now())
}

// Retell sends the tally of a zone to the job once more: the sender may have died.
func (r *Recorder) Retell(j Job, num int32) { r.zoneDue(zoneOf(j, num), r.node.Now()) }

func (r *Recorder) zoneDue(z *zone, due time.Duration) {
	if !z.listed && !z.flying {
		z.listed, z.due = true, due
		r.zones = append(r.zones, z)
	}
}

// sendTally sends the tallies of blocks to a zone, and then the zone's tally to the job.
func (r *Recorder) sendTally(z *zone) {
	z.flying = true
	ops := z.told
	z.told = nil
	r.node.Merge(record.KeyZone(z.job.ID(), z.num), record.RecordZone, record.EncodeZoneOps(ops, false), func(a record.Answer) {
		p, err := record.DecodeZoneReply(a.Value)
		if (a.Status != record.AnswerDone || err != nil) && len(ops) > 0 {
			r.node.Warn(z.job.ID(), "the tally of a zone of job %d could not be recorded", z.job.ID())
		}
		r.sendZone(z, p.Tally)
	})
}

func (r *Recorder) sendZone(z *zone, t record.Tally) {
	op := record.JobOp{Kind: record.JobZoneTally, Tally: record.ZoneTally{Zone: z.num, Tally: t}, At: r.node.Wall(), Began: z.job.Pending().Began()}
	r.node.Merge(record.KeyJob(z.job.ID()), record.RecordJob, record.EncodeJobOp(op), func(a record.Answer) {
		j := z.job
		z.flying = false
		if _, rec, err := record.DecodeJobReply(a.Value); err == nil && rec != nil {
			j.Recorded(rec)
		}
		if len(z.told) > 0 {
			r.zoneDue(z, r.node.Now()+r.tallyWait())
			return
		}
		delete(j.Pending().zones, z.num)
		j.Forget()
	})
}
