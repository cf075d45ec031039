package record

import (
	"slices"
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

// grow makes space for n tasks more at once: an entry is large, and 256 insertions would
// copy the entries eight times.
func (b *Block) grow(n int) {
	n = min(n, BlockSize-len(b.Tasks))
	b.Offs, b.Tasks = slices.Grow(b.Offs, n), slices.Grow(b.Tasks, n)
}

// Tally counts the ends, and adds up what their tasks used.
func (b *Block) Tally() (t Tally) {
	for i := range b.Tasks {
		t.add(b.Tasks[i].State, 1)
		if u := b.Tasks[i].Usage; u != nil {
			t.Usage = t.Usage.Plus(*u)
		}
		t.Cut = t.Cut || b.Tasks[i].Cut
	}
	return t
}

// Owners are the owners of tasks without an end for which is holds, each once.
func (b *Block) Owners(is func(o Owner) bool) (list []Owner) {
	for i := range b.Tasks {
		if t := &b.Tasks[i]; t.State == 0 && t.Owner != (Owner{}) && is(t.Owner) && !slices.Contains(list, t.Owner) {
			list = append(list, t.Owner)
		}
	}
	return list
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

// oneOf is an owner, as a number in the list of owners.
func (c *Codec) oneOf(v *Owner) {
	if c.Encodes {
		c.UpTo(c.owners.number(*v), maxAmount)
		return
	}
	i := c.UpTo(0, maxAmount)
	if i >= uint64(len(c.owners.list)) {
		c.Fail()
		return
	}
	*v = c.owners.list[i]
}

func (c *Codec) ownerList(list *[]Owner) {
	if n := c.Count(len(*list), maxSpans, 2); !c.Encodes {
		*list = make([]Owner, n)
	}
	for i := range *list {
		c.Owner(&(*list)[i])
	}
}

// owned is the written bytes of a record after the list of owners to which the bytes
// refer.
func (c *Codec) owned() []byte {
	all := Writing(len(c.B) + 32*len(c.owners.list) + 4)
	all.ownerList(&c.owners.list)
	return append(all.B, c.B...)
}

// A delta is a list of operations after the list of their owners; whole asks for the
// record in the reply.
func encodeOps[T any](ops []T, whole bool, size int, fields func(*T, *Codec)) []byte {
	c := Writing(24 * len(ops))
	List(&c, &ops, maxOps, size, fields)
	all := Writing(len(c.B) + 32*len(c.owners.list) + 8)
	all.Flag(&whole)
	all.ownerList(&c.owners.list)
	return append(all.B, c.B...)
}

func decodeOps[T any](v []byte, size int, fields func(*T, *Codec)) (ops []T, whole bool, err error) {
	c := Reading(v)
	c.Flag(&whole)
	c.ownerList(&c.owners.list)
	List(&c, &ops, maxOps, size, fields)
	return ops, whole, c.Done()
}

func (b *Block) fields(c *Codec) {
	if n := c.Count(len(b.Tasks), BlockSize, 2); !c.Encodes {
		b.Offs, b.Tasks = make([]uint8, n), make([]Task, n)
	}
	for i := range b.Tasks {
		U8(c, &b.Offs[i])
		c.Require(i == 0 || b.Offs[i] > b.Offs[i-1])
		b.Tasks[i].fields(c)
	}
}

// The fields of a task that a block's record has; the other fields are as in a task that
// no node has tried.
const (
	taskEnd = 1 << iota
	taskTries
	taskOwner
	taskStarted
	taskExtra
	taskBytes
	taskCode
	taskMaybe
	taskCut
	taskTake
	taskUsage
	taskRecalls
	taskEarlier
	taskStages
	taskCopy
	taskRivals
	taskNodes
	taskAll = taskNodes<<1 - 1
)

func (t *Task) present() (flags uint64) {
	for k, is := range [...]bool{
		t.State != 0, t.Attempt != FirstAttempt || t.Hop != 0 || t.Crashes != 0, t.Owner != (Owner{}), t.Started,
		t.Extra != 0, t.Bytes != 0, t.Code != 0, t.Maybe, t.Cut, t.Take != 0, t.Usage != nil, t.Recalls > 0,
		len(t.Earlier) > 0, t.Stages != nil, t.Copy, len(t.Rivals) > 0, len(t.Nodes) > 0,
	} {
		if is {
			flags |= 1 << k
		}
	}
	return flags
}

func (t *Task) fields(c *Codec) {
	flags := uint64(0)
	if c.Encodes {
		flags = t.present()
	}
	flags = c.UpTo(flags, taskAll)
	slotted := false
	if flags&taskEnd != 0 {
		slotted = c.endState(&t.State, t.Slots.Count > 0)
		Int(c, &t.Began)
		Int(c, &t.TookUS)
		c.oneOf(&t.By)
		c.Require(t.State.Final())
	}
	if flags&taskTries != 0 {
		Index(c, &t.Attempt)
		U32(c, &t.Hop)
		U8(c, &t.Crashes)
	} else {
		t.Attempt = FirstAttempt
	}
	if flags&taskOwner != 0 {
		c.oneOf(&t.Owner)
	}
	if flags&taskExtra != 0 {
		U8(c, &t.Extra)
	}
	if flags&taskBytes != 0 {
		Amount(c, &t.Bytes)
	}
	if flags&taskCode != 0 {
		Int32(c, &t.Code)
	}
	if flags&taskTake != 0 {
		Number(c, &t.Take)
	}
	if flags&taskUsage != 0 {
		c.someUsage(&t.Usage)
	}
	if flags&taskRecalls != 0 {
		U8(c, &t.Recalls)
	}
	if flags&taskEarlier != 0 {
		List(c, &t.Earlier, earlierMax, 1, func(o *Owner, c *Codec) { c.oneOf(o) })
	}
	if flags&taskStages != 0 {
		c.stages(&t.Stages)
	}
	if flags&taskRivals != 0 {
		rivals(c, &t.Rivals)
	}
	if flags&taskNodes != 0 {
		nodeRuns(c, &t.Nodes)
	}
	if slotted {
		slots(c, &t.Slots)
	}
	t.Started, t.Maybe, t.Cut, t.Copy = flags&taskStarted != 0, flags&taskMaybe != 0, flags&taskCut != 0, flags&taskCopy != 0
}

// Encode is the record's bytes.
func (b *Block) Encode() []byte {
	c := Writing(16 * len(b.Tasks))
	b.fields(&c)
	return c.owned()
}

// DecodeBlock reads a block's record; no bytes are the record of a block without entries.
func DecodeBlock(v []byte) (*Block, error) {
	c, b := Reading(v), &Block{}
	if len(v) > 0 {
		c.ownerList(&c.owners.list)
		b.fields(&c)
	}
	return b, c.Done()
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

func (p *BlockOp) fields(c *Codec) {
	U8(c, &p.Kind)
	U8(c, &p.Off)
	Index(c, &p.Attempt)
	U32(c, &p.Hop)
	c.oneOf(&p.Owner)
	U8(c, &p.Crashes)
	p.past(c)
	switch p.Kind {
	case BlockEnd:
		c.State(&p.State)
		Int32(c, &p.Code)
		Int(c, &p.Began)
		Int(c, &p.TookUS)
		Amount(c, &p.Bytes)
		p.more(c)
		c.Require(p.State.Final())
	case BlockTake, BlockTakeImplicit:
		U8(c, &p.To)
		c.oneOf(&p.From)
		U8(c, &p.Most)
		c.Flag(&p.Once)
		c.Flag(&p.Sure)
		c.Flag(&p.Spare)
		Number(c, &p.Take)
	case BlockMove:
		c.oneOf(&p.From)
	case BlockStart:
		c.Flag(&p.Once)
	default:
		c.Fail()
	}
}

// Flags of the past of a task.
const (
	pastMaybe   = 1 << iota
	pastRecalls // their number follows
)

// past is what few tasks have behind them.
func (p *BlockOp) past(c *Codec) {
	flags := c.Facts(p.Maybe, p.Recalls > 0)
	if p.Maybe = flags&pastMaybe != 0; flags&pastRecalls != 0 {
		U8(c, &p.Recalls)
		c.Require(p.Recalls > 0)
	}
}

// Flags in the last byte of a BlockEnd.
const (
	endCut   = 1 << iota
	endUsage // the usage follows
	endStages
	endCopy
	endRivals
	endNodes
	endSlots
)

// more is the last byte of a BlockEnd, and the fields that only some ends have.
func (p *BlockOp) more(c *Codec) {
	flags := c.Facts(p.Cut, p.Usage != nil, p.Stages != nil, p.Copy, len(p.Rivals) > 0, len(p.Nodes) > 0, p.Slots.Count > 0)
	p.Cut, p.Copy = flags&endCut != 0, flags&endCopy != 0
	if flags&endUsage != 0 {
		c.someUsage(&p.Usage)
	}
	if flags&endStages != 0 {
		c.stages(&p.Stages)
	}
	if flags&endRivals != 0 {
		rivals(c, &p.Rivals)
	}
	if flags&endNodes != 0 {
		nodeRuns(c, &p.Nodes)
	}
	if flags&endSlots != 0 {
		slots(c, &p.Slots)
	}
}

// EncodeBlockOps is a delta; whole asks for the record in the reply.
func EncodeBlockOps(ops []BlockOp, whole bool) []byte {
	return encodeOps(ops, whole, 7, (*BlockOp).fields)
}

func DecodeBlockOps(v []byte) (ops []BlockOp, whole bool, err error) {
	return decodeOps(v, 7, (*BlockOp).fields)
}
