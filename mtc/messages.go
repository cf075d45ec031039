package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Message travels between the cores of two nodes. Handlers are idempotent: the
// network drops, repeats, delays and reorders.
type Message interface{ kind() messageKind }

type messageKind uint8

const (
	mLoadAsk messageKind = iota + 1
	mLoad
	mSteal
	mOffer
	mDone
	mNews
	mVoid
	mTold
	mToldAck
	mGrown
)

// LoadAsk asks how many tasks could be stolen by a node with those means.
type LoadAsk struct {
	Round uint32
	Means
}

// CapWord says how many more tasks of a capped job a node could run.
type CapWord struct {
	Job  filch.JobID
	Idle int32
}

// LoadSay answers it: the length of the shared queue.
type LoadSay struct {
	Round uint32
	Load  int64
}

// Steal asks for half of that. Ask numbers the asks of a thief's life.
type Steal struct {
	Ask uint64
	Means
}

// Offer names what the receiver may have: nothing of it is its own before it
// committed the move. Xfer numbers the offers of a victim's life.
type Offer struct {
	Life   uint64 // incarnation of the victim
	Xfer   uint64
	Ask    uint64 // 0: work given without being asked for
	Ranges []RangeItem
	Tasks  []TaskItem
}

// RangeItem is a part of a bag that nobody touched.
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
	Inputs    []Input
}

// Done ends a transfer: all of it is the thief's, or the victim looks itself
// what is left to it.
type Done struct {
	Life uint64 // of the victim
	Xfer uint64
	All  bool
}

// News says that there is work to steal.
type News struct{ Load int64 }

// Void says that what was not started of a job never is.
type Void struct {
	Job   filch.JobID
	State filch.State
}

// Told tells a graph's steward of committed ends.
type Told struct {
	Job    filch.JobID
	Serial uint64
	Ends   []ToldEnd
}

// ToldEnd is one of them.
type ToldEnd struct {
	Index int32
	State filch.State
	Bytes int64
	By    filch.NodeName
}

// ToldAck says that they were taken in.
type ToldAck struct {
	Job    filch.JobID
	Serial uint64
}

// Grown tells a bag's steward that it has more tasks.
type Grown struct{ Job filch.JobID }

func (*LoadAsk) kind() messageKind { return mLoadAsk }
func (*LoadSay) kind() messageKind { return mLoad }
func (*Steal) kind() messageKind   { return mSteal }
func (*Offer) kind() messageKind   { return mOffer }
func (*Done) kind() messageKind    { return mDone }
func (*News) kind() messageKind    { return mNews }
func (*Void) kind() messageKind    { return mVoid }
func (*Told) kind() messageKind    { return mTold }
func (*ToldAck) kind() messageKind { return mToldAck }
func (*Grown) kind() messageKind   { return mGrown }

// Bounds of a message.
const (
	MaxMessage = 1 << 20
	offerTasks = 1024                       // single tasks in an offer
	offerRange = 64                         // ranges in an offer
	offerSpace = MaxMessage - offerRange*32 // for its single tasks: one of a workflow has many inputs
	maxInputs  = 4096
	capWords   = 64 // capped jobs that a thief speaks of
	toldMax    = 1024
)

// EncodeMessage is a message's bytes.
func EncodeMessage(m Message) []byte {
	w := writer{[]byte{uint8(m.kind())}}
	switch m := m.(type) {
	case *LoadAsk:
		w.uint(uint64(m.Round))
		w.means(&m.Means)
	case *LoadSay:
		w.uint(uint64(m.Round))
		w.uint(uint64(m.Load))
	case *Steal:
		w.uint(m.Ask)
		w.means(&m.Means)
	case *Offer:
		w.offer(m)
	case *Done:
		w.uint(m.Life)
		w.uint(m.Xfer)
		w.bool(m.All)
	case *News:
		w.uint(uint64(m.Load))
	case *Void:
		w.int(int64(m.Job))
		w.u8(uint8(m.State))
	case *Told:
		w.int(int64(m.Job))
		w.uint(m.Serial)
		w.uint(uint64(len(m.Ends)))
		for _, e := range m.Ends {
			w.uint(uint64(e.Index))
			w.u8(uint8(e.State))
			w.uint(uint64(e.Bytes))
			w.string(string(e.By))
		}
	case *ToldAck:
		w.int(int64(m.Job))
		w.uint(m.Serial)
	case *Grown:
		w.int(int64(m.Job))
	}
	return w.b
}

func (w *writer) means(m *Means) {
	w.uint(uint64(m.Left))
	w.uint(uint64(len(m.Caps)))
	for _, k := range m.Caps {
		w.int(int64(k.Job))
		w.uint(uint64(k.Idle))
	}
}

func (r *reader) means() Means {
	left := time.Duration(r.upTo(1<<62 - 1))
	list := make([]CapWord, r.count(capWords, 2))
	for i := range list {
		list[i] = CapWord{filch.JobID(r.i32()), r.index()}
	}
	return Means{list, left}
}

func (w *writer) offer(m *Offer) {
	w.uint(m.Life)
	w.uint(m.Xfer)
	w.uint(m.Ask)
	w.uint(uint64(len(m.Ranges)))
	for _, r := range m.Ranges {
		w.int(int64(r.Job))
		w.uint(uint64(r.Lo))
		w.uint(uint64(r.Hi))
		w.uint(uint64(r.Hop))
	}
	w.uint(uint64(len(m.Tasks)))
	for i := range m.Tasks {
		t := &m.Tasks[i]
		w.int(int64(t.Job))
		w.uint(uint64(t.Index))
		w.uint(uint64(t.Attempt))
		w.uint(uint64(t.Hop))
		w.u8(t.Crashes)
		w.bool(t.Maybe)
		w.bool(t.Dedicated)
		w.uint(uint64(t.Bytes))
		w.uint(uint64(len(t.Inputs)))
		for _, in := range t.Inputs {
			w.uint(uint64(in.Parent))
			w.string(string(in.Node))
			w.uint(uint64(in.Bytes))
		}
	}
}

var messageNames = [...]string{
	mLoadAsk: "mtc.LoadAsk", mLoad: "mtc.LoadSay", mSteal: "mtc.Steal", mOffer: "mtc.Offer", mDone: "mtc.Done",
	mNews: "mtc.News", mVoid: "mtc.Void", mTold: "mtc.Told", mToldAck: "mtc.ToldAck", mGrown: "mtc.Grown",
}

// MessageName is what the message in v is called.
func MessageName(v []byte) string {
	if len(v) == 0 || int(v[0]) >= len(messageNames) || messageNames[v[0]] == "" {
		return "mtc.?"
	}
	return messageNames[v[0]]
}

// DecodeMessage reads a message; it refuses what no [EncodeMessage] made.
func DecodeMessage(v []byte) (Message, error) {
	if len(v) > MaxMessage {
		return nil, errMalformed
	}
	r := reader{b: v}
	var m Message
	switch messageKind(r.u8()) {
	case mLoadAsk:
		m = &LoadAsk{r.u32(), r.means()}
	case mLoad:
		m = &LoadSay{r.u32(), int64(r.upTo(1 << 62))}
	case mSteal:
		m = &Steal{r.uint(), r.means()}
	case mOffer:
		m = r.offer()
	case mDone:
		m = &Done{r.uint(), r.uint(), r.bool()}
	case mNews:
		m = &News{int64(r.upTo(1 << 62))}
	case mVoid:
		m = &Void{filch.JobID(r.i32()), r.state()}
	case mTold:
		t := &Told{Job: filch.JobID(r.i32()), Serial: r.uint()}
		t.Ends = make([]ToldEnd, r.count(toldMax, 4))
		for i := range t.Ends {
			t.Ends[i] = ToldEnd{r.index(), r.state(), int64(r.upTo(1<<62 - 1)), filch.NodeName(r.view(maxName))}
		}
		m = t
	case mToldAck:
		m = &ToldAck{filch.JobID(r.i32()), r.uint()}
	case mGrown:
		m = &Grown{filch.JobID(r.i32())}
	default:
		return nil, errMalformed
	}
	return m, r.done()
}

func (r *reader) offer() *Offer {
	m := &Offer{Life: r.uint(), Xfer: r.uint(), Ask: r.uint()}
	m.Ranges = make([]RangeItem, r.count(offerRange, 4))
	for i := range m.Ranges {
		m.Ranges[i] = RangeItem{filch.JobID(r.i32()), r.index(), r.index(), r.u32()}
		if m.Ranges[i].Lo >= m.Ranges[i].Hi {
			r.fail()
		}
	}
	m.Tasks = make([]TaskItem, r.count(offerTasks, 9))
	for i := range m.Tasks {
		t := &m.Tasks[i]
		t.Job, t.Index, t.Attempt = filch.JobID(r.i32()), r.index(), filch.Attempt(r.index())
		t.Hop, t.Crashes, t.Maybe, t.Dedicated = r.u32(), r.u8(), r.bool(), r.bool()
		t.Bytes = int64(r.upTo(1<<62 - 1))
		t.Inputs = make([]Input, r.count(maxInputs, 3))
		for k := range t.Inputs {
			t.Inputs[k] = Input{r.index(), filch.NodeName(r.view(maxName)), int64(r.upTo(1<<62 - 1))}
		}
	}
	return m
}
