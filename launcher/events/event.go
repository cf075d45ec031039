package events

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/varint"
)

// Limits of the texts of an event, in bytes. A longer text is cut.
const (
	MaxReason = 256
	MaxPeer   = 63
)

// Event is one event of a node. A field that the kind does not have is zero.
type Event struct {
	UnixNS int64  // by the clock of the node
	Seq    uint64 // counts the events of a launcher, from 1
	Count  int64
	Peer   filch.NodeName
	Reason string
	Job    filch.JobID
	Task   int32 // the first task, by its number for people
	Tasks  int32 // how many tasks with consecutive numbers; 0 without a task
	Try    filch.Attempt
	Code   int32
	Kind   Kind
	State  filch.State
}

// Append adds e to a list of events of one turn of a node. Tasks with consecutive numbers
// that begin, end or move in a turn become one event: a turn may start thousands of tasks
// that take no time. Append looks at the last few events only.
func Append(list []Event, e Event) []Event {
	if e.Tasks > 0 {
		for i := len(list) - 1; i >= max(0, len(list)-lookBack); i-- {
			if list[i].joins(&e) {
				list[i].Tasks += e.Tasks
				return list
			}
		}
	}
	return append(list, e)
}

// lookBack is how many events of a turn [Append] compares: a begin, an end, a move, and
// one more for a second job.
const lookBack = 4

// joins reports whether the tasks of b come right behind those of a, with all else alike.
func (a *Event) joins(b *Event) bool {
	return a.Task+a.Tasks == b.Task && a.Kind == b.Kind && a.Tasks > 0 && a.Job == b.Job && a.Try == b.Try &&
		a.Code == b.Code && a.State == b.State && a.Peer == b.Peer && a.Reason == b.Reason && a.Count == b.Count
}

// Cut returns a text of at most limit bytes, without half a character.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "")
}

// AppendTo appends the encoding of e to b: the kind, a set of the fields that are not zero,
// the time and the number, and then these fields in the order of [field].
func (e *Event) AppendTo(b []byte) []byte {
	c, v := varint.Encoder(b), *e
	v.Peer, v.Reason = filch.NodeName(Cut(string(e.Peer), MaxPeer)), Cut(e.Reason, MaxReason)
	v.layout(&c)
	return c.B
}

// layout visits the fields of e in the order of the encoding.
func (e *Event) layout(c *varint.Coder) {
	c.Byte((*uint8)(&e.Kind))
	set := field(c.UpTo(uint64(e.set()), math.MaxUint64))
	e.UnixNS = c.Signed(e.UnixNS)
	c.Uint(&e.Seq)
	if set&fieldJob != 0 {
		small(c, &e.Job)
	}
	if set&fieldTask != 0 {
		small(c, &e.Task)
		small(c, &e.Tasks)
		c.Require(e.Tasks != 0)
	}
	if set&fieldTry != 0 {
		small(c, &e.Try)
	}
	if set&fieldState != 0 {
		c.Byte((*uint8)(&e.State))
	}
	if set&fieldCode != 0 {
		small(c, &e.Code)
	}
	if set&fieldPeer != 0 {
		c.Text((*string)(&e.Peer), MaxPeer)
	}
	if set&fieldCount != 0 {
		e.Count = c.Signed(e.Count)
	}
	if set&fieldReason != 0 {
		c.Text(&e.Reason, MaxReason)
	}
}

// set returns the fields of e that are not zero.
func (e *Event) set() (set field) {
	for _, f := range [...]struct {
		is bool
		of field
	}{
		{e.Job != 0, fieldJob},
		{e.Tasks != 0, fieldTask},
		{e.Try != 0, fieldTry},
		{e.State != 0, fieldState},
		{e.Code != 0, fieldCode},
		{e.Peer != "", fieldPeer},
		{e.Count != 0, fieldCount},
		{e.Reason != "", fieldReason},
	} {
		if f.is {
			set |= f.of
		}
	}
	return set
}

// minBytes is the length of the shortest encoding of an event.
const minBytes = 4

// Decode decodes a row of events, as [Event.AppendTo] encodes them one after the other. An
// event of an unknown kind is kept: a newer launcher may know the kind.
func Decode(b []byte) ([]Event, error) {
	c := varint.Decoder(b)
	list := make([]Event, 0, min(len(b)/(2*minBytes), maxHint))
	for c.Left() > 0 {
		var e Event
		if e.layout(&c); c.Bad {
			break
		}
		list = append(list, e)
	}
	if c.Bad {
		return nil, fmt.Errorf("event %d of %d bytes makes no sense", len(list), len(b))
	}
	return list, nil
}

// maxHint bounds the memory that Decode takes in advance.
const maxHint = 4096

// small visits a signed number of 32 bits.
func small[T ~int32](c *varint.Coder, p *T) {
	v := c.Signed(int64(*p))
	if v != int64(int32(v)) {
		c.Fail()
	}
	*p = T(v)
}

// Time is the time of the event, by the clock of its node.
func (e *Event) Time() time.Time { return time.Unix(0, e.UnixNS) }
