package message

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Message travels between the cores of two nodes. Handlers are idempotent: the
// network drops, repeats, delays and reorders.
type Message interface{ Kind() Kind }

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
)

// LoadAsk asks for the number of tasks that a node with these means could steal.
type LoadAsk struct {
	Round uint32
	Means
}

// CapWord is how many more tasks of a capped job a node could run.
type CapWord struct {
	Job  filch.JobID
	Idle int32
}

// LoadSay answers a [LoadAsk] with the number of stealable tasks.
type LoadSay struct {
	Round uint32
	Load  int64
}

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
	Tasks  []TaskItem
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
	Maybe     bool
	Dedicated bool
	Bytes     int64 // of its inputs
	Inputs    []policy.Input
}

// Done ends a transfer. If All is set the thief has all tasks of the offer; else the
// victim checks which tasks are still its own.
type Done struct {
	Life uint64 // of the victim
	Xfer uint64
	All  bool
}

// News reports work to steal.
type News struct{ Load int64 }

// Void reports that tasks of a job not started yet will never start.
type Void struct {
	Job   filch.JobID
	State filch.State
}

// Told reports committed ends to a graph's leader.
type Told struct {
	Job    filch.JobID
	Serial uint64
	Ends   []ToldEnd
}

// ToldEnd is a committed end of a task.
type ToldEnd struct {
	Index int32
	State filch.State
	Bytes int64
	By    filch.NodeName
}

// ToldAck acknowledges a [Told].
type ToldAck struct {
	Job    filch.JobID
	Serial uint64
}

// Grown notifies a bag's leader of more tasks.
type Grown struct{ Job filch.JobID }

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

// Bounds of a message.
const (
	Max            = 1 << 20
	OfferTasksMax  = 1024 // single tasks in an offer
	OfferRangesMax = 64   // ranges in an offer
	// OfferSpace is for the single tasks: a workflow's task may have many inputs.
	OfferSpace  = Max - OfferRangesMax*32
	CapWordsMax = 64 // capped jobs in a thief's means
	toldMax     = 1024
)

// Encode is a message's bytes.
func Encode(m Message) []byte {
	w := record.Writer{B: []byte{uint8(m.Kind())}}
	switch m := m.(type) {
	case *LoadAsk:
		w.Uint(uint64(m.Round))
		putMeans(&w, &m.Means)
	case *LoadSay:
		w.Uint(uint64(m.Round))
		w.Uint(uint64(m.Load))
	case *Steal:
		w.Uint(m.Ask)
		putMeans(&w, &m.Means)
	case *Offer:
		putOffer(&w, m)
	case *Done:
		w.Uint(m.Life)
		w.Uint(m.Xfer)
		w.Bool(m.All)
	case *News:
		w.Uint(uint64(m.Load))
	case *Void:
		w.Int(int64(m.Job))
		w.U8(uint8(m.State))
	case *Told:
		w.Int(int64(m.Job))
		w.Uint(m.Serial)
		w.Uint(uint64(len(m.Ends)))
		for _, e := range m.Ends {
			w.Uint(uint64(e.Index))
			w.U8(uint8(e.State))
			w.Uint(uint64(e.Bytes))
			w.String(string(e.By))
		}
	case *ToldAck:
		w.Int(int64(m.Job))
		w.Uint(m.Serial)
	case *Grown:
		w.Int(int64(m.Job))
	}
	return w.B
}

func putMeans(w *record.Writer, m *Means) {
	w.Uint(uint64(m.Left))
	w.Uint(uint64(len(m.Caps)))
	for _, k := range m.Caps {
		w.Int(int64(k.Job))
		w.Uint(uint64(k.Idle))
	}
}

func takeMeans(r *record.Reader) Means {
	left := time.Duration(r.UpTo(1<<62 - 1))
	list := make([]CapWord, r.Count(CapWordsMax, 2))
	for i := range list {
		list[i] = CapWord{filch.JobID(r.I32()), r.Index()}
	}
	return Means{list, left}
}

func putOffer(w *record.Writer, m *Offer) {
	w.Uint(m.Life)
	w.Uint(m.Xfer)
	w.Uint(m.Ask)
	w.Uint(uint64(len(m.Ranges)))
	for _, r := range m.Ranges {
		w.Int(int64(r.Job))
		w.Uint(uint64(r.Lo))
		w.Uint(uint64(r.Hi))
		w.Uint(uint64(r.Hop))
	}
	w.Uint(uint64(len(m.Tasks)))
	for i := range m.Tasks {
		t := &m.Tasks[i]
		w.Int(int64(t.Job))
		w.Uint(uint64(t.Index))
		w.Uint(uint64(t.Attempt))
		w.Uint(uint64(t.Hop))
		w.U8(t.Crashes)
		w.Bool(t.Maybe)
		w.Bool(t.Dedicated)
		w.Uint(uint64(t.Bytes))
		w.Uint(uint64(len(t.Inputs)))
		for _, in := range t.Inputs {
			w.Uint(uint64(in.Parent))
			w.String(string(in.Node))
			w.Uint(uint64(in.Bytes))
		}
	}
}

var names = [...]string{
	KindLoadAsk: "mtc.LoadAsk", KindLoad: "mtc.LoadSay", KindSteal: "mtc.Steal", KindOffer: "mtc.Offer", KindDone: "mtc.Done",
	KindNews: "mtc.News", KindVoid: "mtc.Void", KindTold: "mtc.Told", KindToldAck: "mtc.ToldAck", KindGrown: "mtc.Grown",
}

// Name is the name of the message in v.
func Name(v []byte) string {
	if len(v) == 0 || int(v[0]) >= len(names) || names[v[0]] == "" {
		return "mtc.?"
	}
	return names[v[0]]
}

// Decode reads a message and refuses bytes that [Encode] does not make.
func Decode(v []byte) (Message, error) {
	if len(v) > Max {
		return nil, record.ErrMalformed
	}
	r := record.NewReader(v)
	var m Message
	switch Kind(r.U8()) {
	case KindLoadAsk:
		m = &LoadAsk{r.U32(), takeMeans(&r)}
	case KindLoad:
		m = &LoadSay{r.U32(), int64(r.UpTo(1 << 62))}
	case KindSteal:
		m = &Steal{r.Uint(), takeMeans(&r)}
	case KindOffer:
		m = takeOffer(&r)
	case KindDone:
		m = &Done{r.Uint(), r.Uint(), r.Bool()}
	case KindNews:
		m = &News{int64(r.UpTo(1 << 62))}
	case KindVoid:
		m = &Void{filch.JobID(r.I32()), r.State()}
	case KindTold:
		t := &Told{Job: filch.JobID(r.I32()), Serial: r.Uint()}
		t.Ends = make([]ToldEnd, r.Count(toldMax, 4))
		for i := range t.Ends {
			t.Ends[i] = ToldEnd{r.Index(), r.State(), int64(r.UpTo(1<<62 - 1)), filch.NodeName(r.View(record.MaxNodeName))}
		}
		m = t
	case KindToldAck:
		m = &ToldAck{filch.JobID(r.I32()), r.Uint()}
	case KindGrown:
		m = &Grown{filch.JobID(r.I32())}
	default:
		return nil, record.ErrMalformed
	}
	return m, r.Done()
}

func takeOffer(r *record.Reader) *Offer {
	m := &Offer{Life: r.Uint(), Xfer: r.Uint(), Ask: r.Uint()}
	m.Ranges = make([]RangeItem, r.Count(OfferRangesMax, 4))
	for i := range m.Ranges {
		m.Ranges[i] = RangeItem{filch.JobID(r.I32()), r.Index(), r.Index(), r.U32()}
		if m.Ranges[i].Lo >= m.Ranges[i].Hi {
			r.Fail()
		}
	}
	m.Tasks = make([]TaskItem, r.Count(OfferTasksMax, 9))
	for i := range m.Tasks {
		t := &m.Tasks[i]
		t.Job, t.Index, t.Attempt = filch.JobID(r.I32()), r.Index(), filch.Attempt(r.Index())
		t.Hop, t.Crashes, t.Maybe, t.Dedicated = r.U32(), r.U8(), r.Bool(), r.Bool()
		t.Bytes = int64(r.UpTo(1<<62 - 1))
		t.Inputs = make([]policy.Input, r.Count(record.MaxInputs, 3))
		for k := range t.Inputs {
			t.Inputs[k] = policy.Input{Parent: r.Index(), Node: filch.NodeName(r.View(record.MaxNodeName)), Bytes: int64(r.UpTo(1<<62 - 1))}
		}
	}
	return m
}

// Means are a thief's means to run tasks: its tokens, and the time until its node is
// taken away; 0: the node stays.
type Means struct {
	Caps []CapWord
	Left time.Duration
}
