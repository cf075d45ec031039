package message

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Message travels between the cores of two nodes. Handlers are idempotent: the
// network drops, repeats, delays and reorders.
type Message interface {
	Kind() Kind
	fields(c *record.Codec)
}

// Kind is the first byte of a message.
type Kind uint8

const (
	KindLoadAsk Kind = iota + 1
	KindLoad
	KindSteal
	KindOffer
	KindDone
	KindNews
	KindVoid
	KindTold
	KindToldAck
	KindGrown
	KindOrdered
	KindOrderedAck
	KindCopySay
	KindCopyAnswer
	kindWorkAsk
	kindWorkSay
)

// LoadAsk asks for the number of tasks that a node with these means could steal.
type LoadAsk struct {
	Round uint32
	Means
}

// CapWord is how many tokens of a capped job, or of a license, a node has idle or saw free.
type CapWord struct {
	Job     filch.JobID // 0: of the license
	License string
	Idle    int32
}

// LoadSay answers a [LoadAsk] with the number of stealable tasks, and the class of the
// first.
type LoadSay struct {
	Round uint32
	Load  int64
	Class int32
}

// WorkAsk asks for what a node has to do: the asker places tasks, or gives tasks away.
type WorkAsk struct{}

// WorkSay answers a [WorkAsk].
type WorkSay struct{ policy.Load }

// Steal asks for half of the stealable tasks. Ask numbers the asks of a thief's
// incarnation.
type Steal struct {
	Ask uint64
	Means
}

// Offer names tasks that the receiver may take: the receiver owns a task only after the
// commit of its move. Xfer numbers the offers of a victim's incarnation.
type Offer struct {
	Life   uint64 // incarnation of the victim
	Xfer   uint64
	Ask    uint64 // 0: a gift without an ask
	Ranges []RangeItem
	// Last is set if the nodes from the receiver through Last, in the order of names, share the ranges.
	Last   filch.NodeName
	Tasks  []TaskItem
	Copies []CopyItem // of tasks that stay with the victim
	// Usual is how long the tasks of an offer for held slots usually take, which are of one
	// job; 0: not known.
	Usual time.Duration
}

// Stolen is the job of the first task that a thief asked for; 0: the offer is a gift.
func (m *Offer) Stolen() filch.JobID {
	switch {
	case m.Ask == 0:
	case len(m.Ranges) > 0:
		return m.Ranges[0].Job
	case len(m.Tasks) > 0:
		return m.Tasks[0].Job
	}
	return 0
}

// RangeItem is a part of a bag without a started task.
type RangeItem struct {
	Job    filch.JobID
	Lo, Hi int32
	Hop    uint32
}

// TaskItem is a single task.
type TaskItem struct {
	Job       filch.JobID
	Index     int32
	Attempt   filch.Attempt
	Hop       uint32
	Crashes   uint8
	Recalls   uint8
	Maybe     bool
	Need      int32 // the number of its need plus 1; 0: not known
	Dedicated bool
	Level     time.Duration // bottom level; 0: unknown
	Bytes     int64         // of its inputs
	Inputs    []policy.Input
}

// Done ends a transfer. If All is set the thief has all tasks of the offer; else the
// victim checks which tasks are still its own.
type Done struct {
	Life uint64 // of the victim
	Xfer uint64
	All  bool
}

// News reports work to steal, the class of the first task, and where the work began.
type News struct {
	Load   int64
	Class  int32
	Source filch.NodeName
}

// Void reports that tasks of a job not started yet will never start.
type Void struct {
	Job   filch.JobID
	State filch.State
}

// Told reports committed ends to a graph's leader.
type Told struct {
	Job    filch.JobID
	Serial uint64
	Rate   int64 // bandwidth that the teller measured, in bytes per second; 0: none
	Ends   []ToldEnd
}

// ToldEnd is a committed end of a task.
type ToldEnd struct {
	Index int32
	State filch.State
	Bytes int64
	Took  time.Duration // of an end as OK: how long the task ran; 0: unknown
	By    filch.NodeName
}

// ToldAck acknowledges a [Told].
type ToldAck struct {
	Job    filch.JobID
	Serial uint64
}

// Grown notifies a bag's leader of more tasks.
type Grown struct{ Job filch.JobID }

// Ordered tells a node of the orders about a job, up to a serial: see [record.Orders].
type Ordered struct {
	Job    filch.JobID
	Serial uint32
}

// OrderedAck states that a node has the orders, or does not know the job.
type OrderedAck struct {
	Job    filch.JobID
	Serial uint32
}

func (*LoadAsk) Kind() Kind { return KindLoadAsk }
func (*LoadSay) Kind() Kind { return KindLoad }
func (*Steal) Kind() Kind   { return KindSteal }
func (*Offer) Kind() Kind   { return KindOffer }
func (*Done) Kind() Kind    { return KindDone }
func (*News) Kind() Kind    { return KindNews }
func (*Void) Kind() Kind    { return KindVoid }
func (*Told) Kind() Kind    { return KindTold }
func (*ToldAck) Kind() Kind { return KindToldAck }
func (*Grown) Kind() Kind   { return KindGrown }

func (*Ordered) Kind() Kind    { return KindOrdered }
func (*OrderedAck) Kind() Kind { return KindOrderedAck }
func (*CopySay) Kind() Kind    { return KindCopySay }
func (*CopyAnswer) Kind() Kind { return KindCopyAnswer }
func (*WorkAsk) Kind() Kind    { return kindWorkAsk }
func (*WorkSay) Kind() Kind    { return kindWorkSay }

// Bounds of a message.
const (
	Max            = 1 << 20
	OfferTasksMax  = policy.OfferMax // single tasks in an offer
	OfferRangesMax = 64              // ranges in an offer
	OfferCopiesMax = 16              // copies in an offer
	LengthsMax     = 16              // kinds of tasks in a thief's means
	// OfferSpace is for the single tasks: a workflow's task may have many inputs.
	OfferSpace  = Max - OfferRangesMax*32
	CapWordsMax = 64 // capped jobs, and licenses, in a thief's means
	toldMax     = 1024
)

// kinds are the names of the messages, and a message of each kind to read into.
var kinds = [...]struct {
	name string
	make func() Message
}{
	KindLoadAsk: {"mtc.LoadAsk", func() Message { return &LoadAsk{} }},
	KindLoad:    {"mtc.LoadSay", func() Message { return &LoadSay{} }},
	KindSteal:   {"mtc.Steal", func() Message { return &Steal{} }},
	KindOffer:   {"mtc.Offer", func() Message { return &Offer{} }},
	KindDone:    {"mtc.Done", func() Message { return &Done{} }},
	KindNews:    {"mtc.News", func() Message { return &News{} }},
	KindVoid:    {"mtc.Void", func() Message { return &Void{} }},
	KindTold:    {"mtc.Told", func() Message { return &Told{} }},
	KindToldAck: {"mtc.ToldAck", func() Message { return &ToldAck{} }},
	KindGrown:   {"mtc.Grown", func() Message { return &Grown{} }},

	KindOrdered:    {"mtc.Ordered", func() Message { return &Ordered{} }},
	KindOrderedAck: {"mtc.OrderedAck", func() Message { return &OrderedAck{} }},
	KindCopySay:    {"mtc.CopySay", func() Message { return &CopySay{} }},
	KindCopyAnswer: {"mtc.CopyAnswer", func() Message { return &CopyAnswer{} }},
	kindWorkAsk:    {"mtc.WorkAsk", func() Message { return &WorkAsk{} }},
	kindWorkSay:    {"mtc.WorkSay", func() Message { return &WorkSay{} }},
}

func known(v []byte) bool { return len(v) > 0 && int(v[0]) < len(kinds) && kinds[v[0]].make != nil }

// Encode is a message's bytes.
func Encode(m Message) []byte {
	kind, c := uint8(m.Kind()), record.Writing(16)
	c.Byte(&kind)
	m.fields(&c)
	return c.B
}

// Decode reads a message and refuses bytes that [Encode] does not make.
func Decode(v []byte) (Message, error) {
	if len(v) > Max || !known(v) {
		return nil, record.ErrMalformed
	}
	m, c := kinds[v[0]].make(), record.Reading(v[1:])
	m.fields(&c)
	return m, c.Done()
}

// Name is the name of the message in v.
func Name(v []byte) string {
	if !known(v) {
		return "mtc.?"
	}
	return kinds[v[0]].name
}

func (m *LoadAsk) fields(c *record.Codec) {
	record.U32(c, &m.Round)
	m.Means.fields(c)
}

func (m *LoadSay) fields(c *record.Codec) {
	record.U32(c, &m.Round)
	record.Amount(c, &m.Load)
	record.Int32(c, &m.Class)
}

func (*WorkAsk) fields(*record.Codec) {}

func (m *WorkSay) fields(c *record.Codec) {
	record.Index(c, &m.Slots)
	record.Index(c, &m.Free)
	record.Amount(c, &m.Work)
	record.Amount(c, &m.Rate)
}

func (m *Steal) fields(c *record.Codec) {
	record.Number(c, &m.Ask)
	m.Means.fields(c)
}

func (m *Means) fields(c *record.Codec) {
	record.Amount(c, &m.Left)
	c.Room(&m.Free)
	record.List(c, &m.Caps, CapWordsMax, 2, (*CapWord).fields)
	flags := c.Facts(m.Better, m.Fill.Held())
	m.Better = flags&meansBetter != 0
	record.Int32(c, &m.Class)
	c.Require(m.Better || m.Class == 0)
	record.List(c, &m.Lengths, LengthsMax, 3, (*Length).fields)
	if flags&meansFill != 0 {
		record.Amount(c, &m.Fill.Limit)
		record.Amount(c, &m.Fill.Usual)
		c.Require(m.Fill.Held() && !m.Better)
	}
}

// Flags of a thief's means.
const (
	meansBetter = 1 << iota
	meansFill
)

func (k *CapWord) fields(c *record.Codec) {
	record.Int32(c, &k.Job)
	if k.Job == 0 {
		record.Text(c, &k.License, filch.MaxLabel)
	}
	record.Index(c, &k.Idle)
}

func (m *Offer) fields(c *record.Codec) {
	record.Number(c, &m.Life)
	record.Number(c, &m.Xfer)
	record.Number(c, &m.Ask)
	record.List(c, &m.Ranges, OfferRangesMax, 4, (*RangeItem).fields)
	record.List(c, &m.Tasks, OfferTasksMax, 9, (*TaskItem).fields)
	record.List(c, &m.Copies, OfferCopiesMax, 10, (*CopyItem).fields)
	record.Amount(c, &m.Usual)
	record.Text(c, &m.Last, record.MaxNodeName)
}

func (r *RangeItem) fields(c *record.Codec) {
	record.Int32(c, &r.Job)
	record.Index(c, &r.Lo)
	record.Index(c, &r.Hi)
	record.U32(c, &r.Hop)
	c.Require(r.Lo < r.Hi)
}

// Flags of a single task.
const (
	taskMaybe = 1 << iota
	taskNeed
	taskRecalls
)

func (t *TaskItem) fields(c *record.Codec) {
	record.Int32(c, &t.Job)
	record.Index(c, &t.Index)
	record.Index(c, &t.Attempt)
	record.U32(c, &t.Hop)
	record.U8(c, &t.Crashes)
	flags := c.Facts(t.Maybe, t.Need > 0, t.Recalls > 0)
	if t.Maybe = flags&taskMaybe != 0; flags&taskNeed != 0 {
		record.Index(c, &t.Need)
		c.Require(t.Need > 0)
	}
	if flags&taskRecalls != 0 {
		record.U8(c, &t.Recalls)
		c.Require(t.Recalls > 0)
	}
	c.Flag(&t.Dedicated)
	record.Amount(c, &t.Level)
	record.Amount(c, &t.Bytes)
	record.List(c, &t.Inputs, record.MaxInputs, 3, inputFields)
}

func inputFields(in *policy.Input, c *record.Codec) {
	record.Index(c, &in.Parent)
	record.Text(c, &in.Node, record.MaxNodeName)
	record.Amount(c, &in.Bytes)
}

func (m *Done) fields(c *record.Codec) {
	record.Number(c, &m.Life)
	record.Number(c, &m.Xfer)
	c.Flag(&m.All)
}

func (m *News) fields(c *record.Codec) {
	record.Amount(c, &m.Load)
	record.Int32(c, &m.Class)
	record.Text(c, &m.Source, record.MaxNodeName)
}

func (m *Void) fields(c *record.Codec) {
	record.Int32(c, &m.Job)
	c.State(&m.State)
}

func (m *Told) fields(c *record.Codec) {
	record.Int32(c, &m.Job)
	record.Number(c, &m.Serial)
	record.Amount(c, &m.Rate)
	record.List(c, &m.Ends, toldMax, 5, (*ToldEnd).fields)
}

func (e *ToldEnd) fields(c *record.Codec) {
	record.Index(c, &e.Index)
	c.State(&e.State)
	record.Amount(c, &e.Bytes)
	record.Amount(c, &e.Took)
	record.Text(c, &e.By, record.MaxNodeName)
}

func (m *ToldAck) fields(c *record.Codec) {
	record.Int32(c, &m.Job)
	record.Number(c, &m.Serial)
}

func (m *Grown) fields(c *record.Codec) { record.Int32(c, &m.Job) }

func (m *Ordered) fields(c *record.Codec) {
	record.Int32(c, &m.Job)
	record.U32(c, &m.Serial)
}

func (m *OrderedAck) fields(c *record.Codec) {
	record.Int32(c, &m.Job)
	record.U32(c, &m.Serial)
}

// Means are a thief's means to run tasks: its free room, its tokens, and the time until
// its node is taken away; 0: the node stays. With Better, the thief has tasks of Class, and
// wants only tasks of a better class.
type Means struct {
	Free   filch.Room
	Caps   []CapWord
	Left   time.Duration
	Better bool
	Class  int32
	// Lengths are of tasks that may have copies.
	Lengths []Length
	// Fill bounds the tasks that the thief may take. If set, Free is room of slots held for a
	// gang: see [policy.Gap].
	Fill policy.Fill
}

// ByBlock yields tasks by the block of their records, in the order of the first of each.
func ByBlock(tasks []TaskItem) iter.Seq2[record.Key, []TaskItem] {
	return func(yield func(record.Key, []TaskItem) bool) {
		groups := make(map[record.Key][]TaskItem)
		var order []record.Key
		for _, t := range tasks {
			k := record.Key{What: 'b', Job: t.Job, Number: t.Index / record.BlockSize}
			if groups[k] == nil {
				order = append(order, k)
			}
			groups[k] = append(groups[k], t)
		}
		for _, k := range order {
			if !yield(k, groups[k]) {
				return
			}
		}
	}
}
