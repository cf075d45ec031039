// Package ring keeps the last events of a launcher in memory, for the clients that ask.
//
// The ring is the only queue between a launcher and its readers: a reader has a place in
// the ring, and a reader who is too slow finds that the ring has dropped events at that
// place. So readers cost no memory, and [Ring.Add] never waits.
package ring

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/events"
)

// maxBytes bounds the memory of a ring, with the texts of the events.
const maxBytes = 2 << 20

// chunkEvents is the number of events that are allocated together: an idle launcher has
// one chunk.
const chunkEvents = 256

const eventBytes = int(unsafe.Sizeof(events.Event{}))

// Ring keeps events. Any goroutine may call the methods. The zero Ring is empty.
type Ring struct {
	life uint64

	mu     sync.Mutex // guards the fields below
	chunks []*chunk   // the oldest first
	spare  *chunk     // dropped last, for use again
	bytes  int        // of all chunks and texts
	last   uint64     // number of the last event
	news   chan struct{}
}

// chunk holds consecutive events.
type chunk struct {
	n     int
	texts int // bytes
	list  [chunkEvents]events.Event
}

// New makes the ring of a launcher; life is the incarnation of the launcher, and
// distinguishes its numbers from those of the launcher before.
func New(life uint64) *Ring { return &Ring{life: life} }

// Add adds events of one moment, and numbers them. The oldest events go when the memory is
// used up. Add changes the list.
func (r *Ring) Add(unixNS int64, list []events.Event) {
	if len(list) == 0 {
		return
	}
	r.mu.Lock()
	for i := range list {
		e := &list[i]
		r.last++
		e.UnixNS, e.Seq = unixNS, r.last
		e.Peer, e.Reason = filch.NodeName(events.Cut(string(e.Peer), events.MaxPeer)), events.Cut(e.Reason, events.MaxReason)
		c := r.room()
		c.list[c.n] = *e
		c.n++
		size := len(e.Peer) + len(e.Reason)
		c.texts += size
		r.bytes += size
	}
	for r.bytes > maxBytes && len(r.chunks) > 1 {
		r.drop()
	}
	news := r.news
	r.news = nil
	r.mu.Unlock()
	if news != nil {
		close(news)
	}
}

// room returns a chunk with space for an event.
func (r *Ring) room() *chunk {
	if n := len(r.chunks); n > 0 && r.chunks[n-1].n < chunkEvents {
		return r.chunks[n-1]
	}
	for r.bytes+eventBytes*chunkEvents > maxBytes && len(r.chunks) > 0 {
		r.drop()
	}
	c := r.spare
	r.spare = nil
	if c == nil {
		c = new(chunk)
	}
	r.chunks = append(r.chunks, c)
	r.bytes += eventBytes * chunkEvents
	return c
}

// drop drops the oldest chunk.
func (r *Ring) drop() {
	c := r.chunks[0]
	r.bytes -= eventBytes*chunkEvents + c.texts
	clear(c.list[:c.n])
	c.n, c.texts = 0, 0
	r.spare = c
	copy(r.chunks, r.chunks[1:])
	r.chunks[len(r.chunks)-1] = nil
	r.chunks = r.chunks[:len(r.chunks)-1]
}

// Filter chooses events; the zero Filter takes all.
type Filter struct {
	Job   filch.JobID // 0: all, with those without a job
	Since int64       // Unix time in nanoseconds
}

func (f *Filter) takes(e *events.Event) bool {
	return (f.Job == 0 || e.Job == f.Job) && e.UnixNS >= f.Since
}

// Part is a part of the ring.
type Part struct {
	Data []byte // see [events.Decode]
	Next string // the place behind the part
	Lost uint64 // events that were dropped before the part, since the given place
	More bool   // the ring has more events behind the part
	Life uint64 // of the launcher
}

// Read returns the events after a place, at most about limit bytes; "" is the oldest event,
// and Now the end of the ring. A place of an earlier launcher of the node is the oldest
// event.
func (r *Ring) Read(place string, limit int, f Filter) (p Part, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at, lost, err := r.find(place)
	if err != nil {
		return p, err
	}
	p.Lost, p.Life = lost, r.life
	for i := len(r.chunks) - r.behind(at); i < len(r.chunks); i++ {
		c := r.chunks[i]
		k := 0
		if first := c.list[0].Seq; at > first {
			k = int(at - first)
		}
		for ; k < c.n; k++ {
			if len(p.Data) >= limit {
				p.More = true
				p.Next = r.place(c.list[k].Seq)
				return p, nil
			}
			if f.takes(&c.list[k]) {
				p.Data = c.list[k].AppendTo(p.Data)
			}
		}
	}
	p.Next = r.place(r.last + 1)
	return p, nil
}

// behind returns the number of chunks from the chunk with an event to the last chunk.
func (r *Ring) behind(seq uint64) (k int) {
	for i := len(r.chunks) - 1; i >= 0; i-- {
		c := r.chunks[i]
		if c.list[c.n-1].Seq < seq {
			return k
		}
		k++
	}
	return k
}

// Now is the place behind the last event.
const Now = "now"

// find returns the number of the first event at a place, and how many events are lost
// there.
func (r *Ring) find(place string) (at, lost uint64, err error) {
	oldest := r.last + 1
	if len(r.chunks) > 0 {
		oldest = r.chunks[0].list[0].Seq
	}
	switch place {
	case "":
		return oldest, 0, nil
	case Now:
		return r.last + 1, 0, nil
	}
	life, seq, ok := strings.Cut(place, ".")
	l, err1 := strconv.ParseUint(life, 16, 64)
	n, err2 := strconv.ParseUint(seq, 10, 64)
	if !ok || err1 != nil || err2 != nil {
		return 0, 0, fmt.Errorf("%q is no place among events", events.Cut(place, maxPlace))
	}
	if l != r.life {
		return oldest, oldest - 1, nil
	}
	if n < oldest {
		return oldest, oldest - n, nil
	}
	return min(n, r.last+1), 0, nil
}

// maxPlace bounds the text of a place, in bytes.
const maxPlace = 40

func (r *Ring) place(seq uint64) string {
	return strconv.FormatUint(r.life, 16) + "." + strconv.FormatUint(seq, 10)
}

// Await returns a channel that closes at the next event.
func (r *Ring) Await() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.news == nil {
		r.news = make(chan struct{})
	}
	return r.news
}

// Bytes returns the memory of the ring.
func (r *Ring) Bytes() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.bytes
}
