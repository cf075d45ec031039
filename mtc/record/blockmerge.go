package record

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// BlockReply is the answer to a delta.
type BlockReply struct {
	Verdicts []Verdict
	Tally    Tally
	Taken    []byte // offsets of tasks that this delta took, now or at an earlier merge
	Block    *Block // if the delta asked for the whole record
}

func (v *Verdict) fields(c *Codec) { U8(c, v) }

// fields are the reply's, with the bytes of the record if the delta asked for the record.
func (p *BlockReply) fields(c *Codec, record *[]byte) {
	List(c, &p.Verdicts, maxOps, 1, (*Verdict).fields)
	p.Tally.fields(c)
	c.copied(&p.Taken, BlockSize)
	c.whole(record)
}

func DecodeBlockReply(v []byte) (p BlockReply, err error) {
	c, record := Reading(v), []byte(nil)
	p.fields(&c, &record)
	if err = c.Done(); err == nil && record != nil {
		p.Block, err = DecodeBlock(record)
	}
	return p, err
}

func mergeBlock(old, delta []byte) (val, reply []byte, err error) {
	b, err := DecodeBlock(old)
	if err != nil {
		return nil, nil, err
	}
	ops, whole, err := DecodeBlockOps(delta)
	if err != nil {
		return nil, nil, err
	}
	b.grow(len(ops))
	r := BlockReply{Verdicts: make([]Verdict, len(ops))}
	for i := range ops {
		r.Verdicts[i] = b.apply(&ops[i], &r.Taken)
	}
	slices.Sort(r.Taken)
	r.Taken, r.Tally = slices.Compact(r.Taken), b.Tally()
	val = b.Encode()
	c := Writing(32)
	r.fields(&c, asked(whole, &val))
	return val, c.B, nil
}

// asked is the record if a delta asked for the record, else nil.
func asked(whole bool, val *[]byte) *[]byte {
	if whole {
		return val
	}
	return new([]byte)
}

func (b *Block) apply(p *BlockOp, taken *[]byte) Verdict {
	switch p.Kind {
	case BlockEnd:
		return b.end(p)
	case BlockStart:
		return b.start(p)
	case BlockMove:
		return b.move(p)
	default:
		return b.take(p, taken)
	}
}

// end records an end: the first writer wins, later ends are counted.
func (b *Block) end(p *BlockOp) Verdict {
	t := b.At(p.Off)
	if t.State != 0 && !mutantLastWriter {
		if t.State == p.State && t.Attempt == p.Attempt && t.By == p.Owner && t.Began == p.Began {
			return VerdictDone
		}
		if t.Extra < 255 && p.State != filch.Lost && p.State != filch.Skipped {
			t.Extra++
		}
		if p.Began != 0 {
			t.startedBy(p.Owner)
		}
		return VerdictEnded
	}
	if t.Started && t.Owner != p.Owner {
		t.startedBy(t.Owner)
	}
	t.State, t.Code, t.Began, t.TookUS, t.Bytes, t.Cut, t.By = p.State, p.Code, p.Began, p.TookUS, p.Bytes, p.Cut, p.Owner
	t.Attempt = max(t.Attempt, p.Attempt)
	t.Crashes, t.Recalls = max(t.Crashes, p.Crashes), max(t.Recalls, p.Recalls)
	t.Maybe, t.Take, t.Usage, t.Stages = t.Maybe || p.Maybe, 0, p.Usage, p.Stages
	t.Copy, t.Rivals, t.Nodes, t.Slots = p.Copy, p.Rivals, p.Nodes, p.Slots
	return VerdictDone
}

// start commits that Owner begins an attempt; no other node may begin the attempt then.
func (b *Block) start(p *BlockOp) Verdict {
	t := b.At(p.Off)
	// A node that was called gone may also have the same task from before.
	mine := t.Started && t.Owner == p.Owner && t.Attempt == p.Attempt && t.Hop == p.Hop
	switch {
	case t.State != 0:
		return VerdictEnded
	case mine:
		return VerdictDone
	case t.Started && p.Once && !mutantStartTwice:
		return VerdictOther
	case t.behind(p.Attempt, p.Hop):
		return VerdictOther
	case p.Attempt == t.Attempt && t.Started:
		return VerdictOther
	case t.Owner != (Owner{}) && t.Owner != p.Owner:
		return VerdictOther // another node took the task from the proposer
	}
	t.Attempt, t.Hop, t.Owner, t.Started, t.Take = p.Attempt, p.Hop, p.Owner, true, 0
	t.Crashes, t.Recalls = max(t.Crashes, p.Crashes), max(t.Recalls, p.Recalls)
	return VerdictDone
}

// move gives a task to another owner, if the task was not started.
func (b *Block) move(p *BlockOp) Verdict {
	t := b.At(p.Off)
	switch {
	case t.State != 0:
		return VerdictEnded
	case t.Attempt == p.Attempt && t.Hop == p.Hop+1 && t.Owner == p.Owner:
		return VerdictDone
	case p.Attempt > t.Attempt: // a retry that its owner has not started
		if t.Owner != (Owner{}) && t.Owner != p.From {
			return VerdictOther
		}
		t.startedBy(p.From)
	case t.Attempt != p.Attempt || t.Hop != p.Hop || t.Started:
		return VerdictOther
	}
	t.Attempt, t.Hop, t.Owner, t.Started, t.Take = p.Attempt, p.Hop+1, p.Owner, false, 0
	t.Crashes, t.Recalls = max(t.Crashes, p.Crashes), max(t.Recalls, p.Recalls)
	t.Maybe = t.Maybe || p.Maybe
	return VerdictDone
}

// take gives all of From's tasks in this block to Owner. BlockTakeImplicit adds the tasks
// of the range that the range's dead owner may have started without a commit. A committed
// start counts as a crash; a started task with Once is lost. A start without a commit may
// not have happened, and counts for nothing: the next start of the task, and every later
// start, is committed.
func (b *Block) take(p *BlockOp, taken *[]byte) Verdict {
	for off := int(p.Off); off <= int(p.To); off++ {
		t := b.Find(uint8(off))
		if t == nil {
			if p.Kind == BlockTake {
				continue
			}
			t = b.At(uint8(off))
		}
		if p.Take.again(t.Take) && t.Owner == p.Owner {
			*taken = append(*taken, uint8(off)) // the take is repeated
			continue
		}
		implicit := t.Owner == (Owner{}) && p.Kind == BlockTakeImplicit
		if t.State != 0 || !implicit && (t.Owner != p.From || p.From == (Owner{})) {
			continue
		}
		if p.Spare && t.Started && (p.Once || t.Crashes+1 >= p.Most) {
			continue
		}
		*taken = append(*taken, uint8(off))
		maybe := implicit && !p.Sure
		tried := t.Started || maybe && mutantCountMaybe
		if t.Started || maybe {
			t.startedBy(p.From)
		}
		t.Owner, t.Started, t.Maybe, t.Take = p.Owner, false, t.Maybe || maybe, p.Take
		if !tried {
			t.Hop += lostHops
			continue
		}
		if t.Crashes < 255 {
			t.Crashes++
		}
		if p.Once || t.Crashes >= p.Most {
			t.State, t.Code, t.By = filch.Lost, filch.ExitNodeLost, p.From
			continue
		}
		t.Attempt++
		t.Hop = 0
	}
	return VerdictDone
}
