package mtc

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Block is a block's record.
type Block struct {
	Offs  []uint8 // of the tasks, ascending
	Tasks []Task
}

// Find is the task at that offset, or nil.
func (b *Block) Find(off uint8) *Task {
	if i, ok := slices.BinarySearch(b.Offs, off); ok {
		return &b.Tasks[i]
	}
	return nil
}

func (b *Block) at(off uint8) *Task {
	i, ok := slices.BinarySearch(b.Offs, off)
	if !ok {
		b.Offs = slices.Insert(b.Offs, i, off)
		b.Tasks = slices.Insert(b.Tasks, i, Task{Attempt: firstAttempt})
	}
	return &b.Tasks[i]
}

// Tally counts the ends.
func (b *Block) Tally() (t Tally) {
	for i := range b.Tasks {
		t.add(b.Tasks[i].State, 1)
	}
	return t
}

// ownersMany are worth a map.
const ownersMany = 16

// owners numbers the owners of a record, so that each is written once.
type owners struct {
	list []Owner
	last int
	at   map[Owner]int // once the list is long
}

func (o *owners) number(w Owner) uint64 {
	if o.last < len(o.list) && o.list[o.last] == w {
		return uint64(o.last)
	}
	if o.at != nil {
		if i, ok := o.at[w]; ok {
			o.last = i
			return uint64(i)
		}
	} else if o.last = slices.Index(o.list, w); o.last >= 0 {
		return uint64(o.last)
	}
	o.last = len(o.list)
	o.list = append(o.list, w)
	if o.at != nil {
		o.at[w] = o.last
	} else if len(o.list) > ownersMany {
		o.at = make(map[Owner]int, 4*ownersMany)
		for i, x := range o.list {
			o.at[x] = i
		}
	}
	return uint64(o.last)
}

func (w *writer) owners(o *owners) {
	w.uint(uint64(len(o.list)))
	for _, x := range o.list {
		w.owner(x)
	}
}

// encodeOps is a delta: a list of operations, after the owners that it names by number; whole
// asks for the record in the reply.
func encodeOps(whole bool, o *owners, ops writer) []byte {
	w := writer{make([]byte, 0, len(ops.b)+32*len(o.list)+8)}
	w.bool(whole)
	w.owners(o)
	w.b = append(w.b, ops.b...)
	return w.b
}

func (r *reader) owners() []Owner {
	list := make([]Owner, r.count(maxSpans, 2))
	for i := range list {
		list[i] = r.owner()
	}
	return list
}

func (r *reader) oneOf(list []Owner) Owner {
	i := r.uint()
	if i >= uint64(len(list)) {
		r.fail()
		return Owner{}
	}
	return list[i]
}

// Encode is the record's bytes.
func (b *Block) Encode() []byte {
	var o owners
	var body writer
	body.b = make([]byte, 0, 16*len(b.Tasks))
	body.uint(uint64(len(b.Tasks)))
	for i := range b.Tasks {
		t := &b.Tasks[i]
		body.u8(b.Offs[i])
		var flags uint64
		for k, f := range [...]bool{
			t.State != 0, t.Attempt != 1 || t.Hop != 0 || t.Crashes != 0, t.Owner != (Owner{}), t.Started,
			t.Extra != 0, t.Bytes != 0, t.Code != 0, t.Maybe, t.Cut, t.Take != 0,
		} {
			if f {
				flags |= 1 << k
			}
		}
		body.uint(flags)
		if flags&1 != 0 {
			body.u8(uint8(t.State))
			body.int(t.Began)
			body.int(t.TookUS)
			body.uint(o.number(t.By))
		}
		if flags&2 != 0 {
			body.uint(uint64(t.Attempt))
			body.uint(uint64(t.Hop))
			body.u8(t.Crashes)
		}
		if flags&4 != 0 {
			body.uint(o.number(t.Owner))
		}
		if flags&16 != 0 {
			body.u8(t.Extra)
		}
		if flags&32 != 0 {
			body.uint(uint64(t.Bytes))
		}
		if flags&64 != 0 {
			body.int(int64(t.Code))
		}
		if t.Take != 0 {
			body.uint(uint64(t.Take))
		}
	}
	w := writer{make([]byte, 0, len(body.b)+32*len(o.list)+4)}
	w.owners(&o)
	w.b = append(w.b, body.b...)
	return w.b
}

// DecodeBlock reads a block's record; no bytes are the record of a block that
// nothing was written of.
func DecodeBlock(v []byte) (*Block, error) {
	if len(v) == 0 {
		return &Block{}, nil
	}
	r := reader{b: v}
	list := r.owners()
	n := r.count(BlockSize, 2)
	b := &Block{Offs: make([]uint8, n), Tasks: make([]Task, n)}
	for i := range b.Tasks {
		b.Offs[i] = r.u8()
		if i > 0 && b.Offs[i] <= b.Offs[i-1] {
			r.fail()
		}
		r.task(&b.Tasks[i], list)
	}
	return b, r.done()
}

func (r *reader) task(t *Task, list []Owner) {
	t.Attempt = firstAttempt
	flags := r.upTo(1<<10 - 1)
	if flags&1 != 0 {
		t.State = r.state()
		t.Began, t.TookUS = r.int(), r.int()
		t.By = r.oneOf(list)
		if !t.State.Final() {
			r.fail()
		}
	}
	if flags&2 != 0 {
		t.Attempt = filch.Attempt(r.index())
		t.Hop = r.u32()
		t.Crashes = r.u8()
	}
	if flags&4 != 0 {
		t.Owner = r.oneOf(list)
	}
	t.Started = flags&8 != 0
	if flags&16 != 0 {
		t.Extra = r.u8()
	}
	if flags&32 != 0 {
		t.Bytes = int64(r.upTo(1<<62 - 1))
	}
	if flags&64 != 0 {
		t.Code = r.i32()
	}
	t.Maybe, t.Cut = flags&128 != 0, flags&256 != 0
	if flags&512 != 0 {
		t.Take = take(r.uint())
	}
}

// blockOp is one change that is proposed for a block.
type blockOp struct {
	kind blockKind
	off  uint8
	to   uint8 // bTake: the last offset
	once bool
	Task       // what each kind needs of it; Owner is who asks or gets it
	from Owner // bTake and bMove: who had them
	most uint8 // bTake: crashes that are one too many
	sure bool  // bTakeImplicit: what is not in the record was not started
	// bTake: from may live, so that what would be lost stays its own
	spare bool
}

type blockKind uint8

const (
	bEnd   blockKind = iota + 1 // first writer wins
	bStart                      // commit of a start: attempt, hop, owner
	bMove                       // to owner, if attempt and hop are what they were and it was not started
	bTake                       // all of from's, and with implicit all untouched ones in off..to, are owner's now
	bTakeImplicit
)

// encodeBlockOps is a delta; whole asks for the record in the reply.
func encodeBlockOps(ops []blockOp, whole bool) []byte {
	var o owners
	body := writer{make([]byte, 0, 24*len(ops))}
	body.uint(uint64(len(ops)))
	for i := range ops {
		p := &ops[i]
		body.u8(uint8(p.kind))
		body.u8(p.off)
		body.uint(uint64(p.Attempt))
		body.uint(uint64(p.Hop))
		body.uint(o.number(p.Owner))
		body.u8(p.Crashes)
		body.bool(p.Maybe)
		switch p.kind {
		case bEnd:
			body.u8(uint8(p.State))
			body.int(int64(p.Code))
			body.int(p.Began)
			body.int(p.TookUS)
			body.uint(uint64(p.Bytes))
			body.bool(p.Cut)
		case bTake, bTakeImplicit:
			body.u8(p.to)
			body.uint(o.number(p.from))
			body.u8(p.most)
			body.bool(p.once)
			body.bool(p.sure)
			body.bool(p.spare)
			body.uint(uint64(p.Take))
		case bMove:
			body.uint(o.number(p.from))
		default:
			body.bool(p.once)
		}
	}
	return encodeOps(whole, &o, body)
}

func decodeBlockOps(v []byte) (ops []blockOp, whole bool, err error) {
	r := reader{b: v}
	whole = r.bool()
	list := r.owners()
	ops = make([]blockOp, r.count(maxOps, 7))
	for i := range ops {
		p := &ops[i]
		p.kind, p.off = blockKind(r.u8()), r.u8()
		p.Attempt, p.Hop = filch.Attempt(r.index()), r.u32()
		p.Owner = r.oneOf(list)
		p.Crashes, p.Maybe = r.u8(), r.bool()
		switch p.kind {
		case bEnd:
			p.State, p.Code = r.state(), r.i32()
			p.Began, p.TookUS, p.Bytes, p.Cut = r.int(), r.int(), int64(r.upTo(1<<62-1)), r.bool()
			if !p.State.Final() {
				r.fail()
			}
		case bTake, bTakeImplicit:
			p.to, p.from, p.most, p.once, p.sure, p.spare = r.u8(), r.oneOf(list), r.u8(), r.bool(), r.bool(), r.bool()
			p.Take = take(r.uint())
		case bMove:
			p.from = r.oneOf(list)
		case bStart:
			p.once = r.bool()
		default:
			r.fail()
		}
	}
	return ops, whole, r.done()
}

// blockReply is the answer to a delta.
type blockReply struct {
	verdicts []verdict
	tally    Tally
	taken    []byte // offsets of the tasks that this very delta took from somebody, now or before
	block    *Block // when the whole was asked for
}

func decodeBlockReply(v []byte) (p blockReply, err error) {
	r := reader{b: v}
	p.verdicts = r.verdicts()
	p.tally = r.tally()
	p.taken = r.bytes(BlockSize)
	if r.bool() && !r.bad {
		p.block, err = DecodeBlock(r.b)
		return p, err
	}
	return p, r.done()
}

func (r *reader) verdicts() []verdict {
	v := r.view(maxOps)
	list := make([]verdict, len(v))
	for i := range v {
		list[i] = verdict(v[i])
	}
	return list
}

func mergeBlock(old, delta []byte) (val, reply []byte, err error) {
	b, err := DecodeBlock(old)
	if err != nil {
		return nil, nil, err
	}
	ops, whole, err := decodeBlockOps(delta)
	if err != nil {
		return nil, nil, err
	}
	verdicts := make([]byte, len(ops))
	var taken []byte
	for i := range ops {
		verdicts[i] = byte(b.apply(&ops[i], &taken))
	}
	slices.Sort(taken)
	taken = slices.Compact(taken)
	val = b.Encode()
	w := writer{}
	w.bytes(taken)
	return val, replyTo(verdicts, b.Tally(), w.b, val, whole), nil
}

// replyTo is what a merge answers: what became of each operation, the tally, what
// was taken, and where it is asked for the whole record.
func replyTo(verdicts []byte, t Tally, taken, val []byte, whole bool) []byte {
	w := writer{}
	w.bytes(verdicts)
	w.tally(t)
	w.b = append(w.b, taken...)
	w.bool(whole)
	if whole {
		w.b = append(w.b, val...)
	}
	return w.b
}

func (b *Block) apply(p *blockOp, taken *[]byte) verdict {
	switch p.kind {
	case bEnd:
		return b.end(p)
	case bStart:
		return b.start(p)
	case bMove:
		return b.move(p)
	default:
		return b.take(p, taken)
	}
}

// end records an end: the first writer wins, later ones are counted.
func (b *Block) end(p *blockOp) verdict {
	t := b.at(p.off)
	if t.State != 0 && !mutantLastWriter {
		if t.State == p.State && t.Attempt == p.Attempt && t.By == p.Owner && t.Began == p.Began {
			return vDone
		}
		if t.Extra < 255 && p.State != filch.Lost {
			t.Extra++
		}
		return vEnded
	}
	t.State, t.Code, t.Began, t.TookUS, t.Bytes, t.Cut, t.By = p.State, p.Code, p.Began, p.TookUS, p.Bytes, p.Cut, p.Owner
	t.Attempt = max(t.Attempt, p.Attempt)
	t.Crashes = max(t.Crashes, p.Crashes)
	t.Maybe, t.Take = t.Maybe || p.Maybe, 0
	return vDone
}

// start commits that owner begins an attempt, which nobody else may then.
func (b *Block) start(p *blockOp) verdict {
	t := b.at(p.off)
	// A node that was called gone may have the same task from before, too.
	mine := t.Started && t.Owner == p.Owner && t.Attempt == p.Attempt && t.Hop == p.Hop
	switch {
	case t.State != 0:
		return vEnded
	case mine:
		return vDone
	case t.Started && p.once && !mutantStartTwice:
		return vOther
	case t.behind(p.Attempt, p.Hop):
		return vOther
	case p.Attempt == t.Attempt && t.Started:
		return vOther
	case t.Owner != (Owner{}) && t.Owner != p.Owner:
		return vOther // it was taken from the one that asks
	}
	t.Attempt, t.Hop, t.Owner, t.Started, t.Take = p.Attempt, p.Hop, p.Owner, true, 0
	t.Crashes = max(t.Crashes, p.Crashes)
	return vDone
}

// move gives a task that was not started to another owner.
func (b *Block) move(p *blockOp) verdict {
	t := b.at(p.off)
	switch {
	case t.State != 0:
		return vEnded
	case t.Attempt == p.Attempt && t.Hop == p.Hop+1 && t.Owner == p.Owner:
		return vDone
	case p.Attempt > t.Attempt: // a retry that its owner has not begun
		if t.Owner != (Owner{}) && t.Owner != p.from {
			return vOther
		}
	case t.Attempt != p.Attempt || t.Hop != p.Hop || t.Started:
		return vOther
	}
	t.Attempt, t.Hop, t.Owner, t.Started, t.Take = p.Attempt, p.Hop+1, p.Owner, false, 0
	t.Crashes = max(t.Crashes, p.Crashes)
	t.Maybe = t.Maybe || p.Maybe
	return vDone
}

// take gives all that from has in this block to owner, and with it what the
// range's dead owner may have started without a word. A start that was committed
// counts as a crash; a task that runs once and was started is lost. One that was
// not committed may not have happened, and counts for nothing: the next one of
// its task, and all others, are committed.
func (b *Block) take(p *blockOp, taken *[]byte) verdict {
	for off := int(p.off); off <= int(p.to); off++ {
		t := b.Find(uint8(off))
		if t == nil {
			if p.kind == bTake {
				continue
			}
			t = b.at(uint8(off))
		}
		if p.Take.again(t.Take) && t.Owner == p.Owner {
			*taken = append(*taken, uint8(off)) // it is said again
			continue
		}
		implicit := t.Owner == (Owner{}) && p.kind == bTakeImplicit
		if t.State != 0 || !implicit && (t.Owner != p.from || p.from == (Owner{})) {
			continue
		}
		if p.spare && t.Started && (p.once || t.Crashes+1 >= p.most) {
			continue
		}
		*taken = append(*taken, uint8(off))
		maybe := implicit && !p.sure
		tried := t.Started || maybe && mutantCountMaybe
		t.Owner, t.Started, t.Maybe, t.Take = p.Owner, false, t.Maybe || maybe, p.Take
		if !tried {
			t.Hop += lostHops
			continue
		}
		if t.Crashes < 255 {
			t.Crashes++
		}
		if p.once || t.Crashes >= p.most {
			t.State, t.Code, t.By = filch.Lost, filch.ExitNodeLost, p.from
			continue
		}
		t.Attempt++
		t.Hop = 0
	}
	return vDone
}
