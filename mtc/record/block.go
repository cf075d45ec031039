package record

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

func (b *Block) At(off uint8) *Task {
	i, ok := slices.BinarySearch(b.Offs, off)
	if !ok {
		b.Offs = slices.Insert(b.Offs, i, off)
		b.Tasks = slices.Insert(b.Tasks, i, Task{Attempt: FirstAttempt})
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

// ownersMany is the number of owners above which a map is worth its cost.
const ownersMany = 16

// owners numbers the owners of a record, so that the encoder writes each owner once.
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

func (w *Writer) owners(o *owners) {
	w.Uint(uint64(len(o.list)))
	for _, x := range o.list {
		w.Owner(x)
	}
}

// encodeOps is a delta: a list of operations, after the list of owners to which the
// operations refer by number; whole asks for the record in the reply.
func encodeOps(whole bool, o *owners, ops Writer) []byte {
	w := Writer{make([]byte, 0, len(ops.B)+32*len(o.list)+8)}
	w.Bool(whole)
	w.owners(o)
	w.B = append(w.B, ops.B...)
	return w.B
}

func (r *Reader) owners() []Owner {
	list := make([]Owner, r.Count(maxSpans, 2))
	for i := range list {
		list[i] = r.Owner()
	}
	return list
}

func (r *Reader) oneOf(list []Owner) Owner {
	i := r.Uint()
	if i >= uint64(len(list)) {
		r.Fail()
		return Owner{}
	}
	return list[i]
}

// Encode is the record's bytes.
func (b *Block) Encode() []byte {
	var o owners
	var body Writer
	body.B = make([]byte, 0, 16*len(b.Tasks))
	body.Uint(uint64(len(b.Tasks)))
	for i := range b.Tasks {
		t := &b.Tasks[i]
		body.U8(b.Offs[i])
		var flags uint64
		for k, f := range [...]bool{
			t.State != 0, t.Attempt != 1 || t.Hop != 0 || t.Crashes != 0, t.Owner != (Owner{}), t.Started,
			t.Extra != 0, t.Bytes != 0, t.Code != 0, t.Maybe, t.Cut, t.Take != 0,
		} {
			if f {
				flags |= 1 << k
			}
		}
		body.Uint(flags)
		if flags&1 != 0 {
			body.U8(uint8(t.State))
			body.Int(t.Began)
			body.Int(t.TookUS)
			body.Uint(o.number(t.By))
		}
		if flags&2 != 0 {
			body.Uint(uint64(t.Attempt))
			body.Uint(uint64(t.Hop))
			body.U8(t.Crashes)
		}
		if flags&4 != 0 {
			body.Uint(o.number(t.Owner))
		}
		if flags&16 != 0 {
			body.U8(t.Extra)
		}
		if flags&32 != 0 {
			body.Uint(uint64(t.Bytes))
		}
		if flags&64 != 0 {
			body.Int(int64(t.Code))
		}
		if t.Take != 0 {
			body.Uint(uint64(t.Take))
		}
	}
	w := Writer{make([]byte, 0, len(body.B)+32*len(o.list)+4)}
	w.owners(&o)
	w.B = append(w.B, body.B...)
	return w.B
}

// DecodeBlock reads a block's record; no bytes are the record of a block without entries.
func DecodeBlock(v []byte) (*Block, error) {
	if len(v) == 0 {
		return &Block{}, nil
	}
	r := NewReader(v)
	list := r.owners()
	n := r.Count(BlockSize, 2)
	b := &Block{Offs: make([]uint8, n), Tasks: make([]Task, n)}
	for i := range b.Tasks {
		b.Offs[i] = r.U8()
		if i > 0 && b.Offs[i] <= b.Offs[i-1] {
			r.Fail()
		}
		r.task(&b.Tasks[i], list)
	}
	return b, r.Done()
}

func (r *Reader) task(t *Task, list []Owner) {
	t.Attempt = FirstAttempt
	flags := r.UpTo(1<<10 - 1)
	if flags&1 != 0 {
		t.State = r.State()
		t.Began, t.TookUS = r.Int(), r.Int()
		t.By = r.oneOf(list)
		if !t.State.Final() {
			r.Fail()
		}
	}
	if flags&2 != 0 {
		t.Attempt = filch.Attempt(r.Index())
		t.Hop = r.U32()
		t.Crashes = r.U8()
	}
	if flags&4 != 0 {
		t.Owner = r.oneOf(list)
	}
	t.Started = flags&8 != 0
	if flags&16 != 0 {
		t.Extra = r.U8()
	}
	if flags&32 != 0 {
		t.Bytes = int64(r.UpTo(1<<62 - 1))
	}
	if flags&64 != 0 {
		t.Code = r.I32()
	}
	t.Maybe, t.Cut = flags&128 != 0, flags&256 != 0
	if flags&512 != 0 {
		t.Take = Take(r.Uint())
	}
}

// BlockOp is a proposed change of a block.
type BlockOp struct {
	Kind BlockOpKind
	Off  uint8
	To   uint8 // BlockTake: the last offset
	Once bool
	Task       // the fields that the kind needs; Owner is the proposing or receiving node
	From Owner // BlockTake and BlockMove: the owner before
	Most uint8 // BlockTake: number of crashes at which a task is lost
	Sure bool  // BlockTakeImplicit: a task without an entry was not started
	// Spare is for a BlockTake from an owner that may live: tasks that would be lost stay
	// with From.
	Spare bool
}

type BlockOpKind uint8

const (
	BlockEnd   BlockOpKind = iota + 1 // first writer wins
	BlockStart                        // commit of a start: attempt, hop, owner
	// BlockMove gives a task to Owner, if attempt and hop match and the task was not
	// started.
	BlockMove
	// BlockTake and BlockTakeImplicit give From's tasks in Off..To to Owner;
	// BlockTakeImplicit also gives the tasks without an owner.
	BlockTake
	BlockTakeImplicit
)

// EncodeBlockOps is a delta; whole asks for the record in the reply.
func EncodeBlockOps(ops []BlockOp, whole bool) []byte {
	var o owners
	body := Writer{make([]byte, 0, 24*len(ops))}
	body.Uint(uint64(len(ops)))
	for i := range ops {
		p := &ops[i]
		body.U8(uint8(p.Kind))
		body.U8(p.Off)
		body.Uint(uint64(p.Attempt))
		body.Uint(uint64(p.Hop))
		body.Uint(o.number(p.Owner))
		body.U8(p.Crashes)
		body.Bool(p.Maybe)
		switch p.Kind {
		case BlockEnd:
			body.U8(uint8(p.State))
			body.Int(int64(p.Code))
			body.Int(p.Began)
			body.Int(p.TookUS)
			body.Uint(uint64(p.Bytes))
			body.Bool(p.Cut)
		case BlockTake, BlockTakeImplicit:
			body.U8(p.To)
			body.Uint(o.number(p.From))
			body.U8(p.Most)
			body.Bool(p.Once)
			body.Bool(p.Sure)
			body.Bool(p.Spare)
			body.Uint(uint64(p.Take))
		case BlockMove:
			body.Uint(o.number(p.From))
		default:
			body.Bool(p.Once)
		}
	}
	return encodeOps(whole, &o, body)
}

func DecodeBlockOps(v []byte) (ops []BlockOp, whole bool, err error) {
	r := NewReader(v)
	whole = r.Bool()
	list := r.owners()
	ops = make([]BlockOp, r.Count(maxOps, 7))
	for i := range ops {
		p := &ops[i]
		p.Kind, p.Off = BlockOpKind(r.U8()), r.U8()
		p.Attempt, p.Hop = filch.Attempt(r.Index()), r.U32()
		p.Owner = r.oneOf(list)
		p.Crashes, p.Maybe = r.U8(), r.Bool()
		switch p.Kind {
		case BlockEnd:
			p.State, p.Code = r.State(), r.I32()
			p.Began, p.TookUS, p.Bytes, p.Cut = r.Int(), r.Int(), int64(r.UpTo(1<<62-1)), r.Bool()
			if !p.State.Final() {
				r.Fail()
			}
		case BlockTake, BlockTakeImplicit:
			p.To, p.From, p.Most, p.Once, p.Sure, p.Spare = r.U8(), r.oneOf(list), r.U8(), r.Bool(), r.Bool(), r.Bool()
			p.Take = Take(r.Uint())
		case BlockMove:
			p.From = r.oneOf(list)
		case BlockStart:
			p.Once = r.Bool()
		default:
			r.Fail()
		}
	}
	return ops, whole, r.Done()
}
