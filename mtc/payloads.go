package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// payloadAhead bounds the payload records that are fetched ahead of need, and payloadKeep
// the payload records that the node keeps.
const (
	payloadAhead = 32
	payloadKeep  = 256
)

// payloads are the lines of a job that are here.
type payloads struct {
	parts  map[int32]*record.Payload // nil: not received yet
	order  []int32                   // of arrival
	absent []absence                 // to be looked up again
}

// take is the line of a task, nil if the task has none.
func (p *payloads) take(index int32) []byte {
	part := p.parts[index/record.PayloadSize]
	if part == nil {
		return nil
	}
	line, _ := part.Line(uint8(index % record.PayloadSize))
	return line
}

// lineIs is the state of a task's line.
type lineIs uint8

const (
	lineAway lineIs = iota // not here yet
	lineHere               // or the task has none
	lineGone               // the line will never come
)

// payload returns the state of a task's line. If the line is away, payload fetches the
// line and the next lines.
func (c *Core) payload(j *job, index int32) lineIs {
	if !j.spec.Payloads {
		return lineHere
	}
	first := index / record.PayloadSize
	last := first
	if len(j.queue.ranges) > 0 {
		if s := &j.queue.ranges[0]; s.next <= index+1 && index < s.hi {
			last = min(first+payloadAhead, (s.hi-1)/record.PayloadSize)
		}
	}
	for part := first; part <= last; part++ {
		c.fetch(j, part)
	}
	for _, h := range [...]*heap{&j.queue.dedicated, &j.queue.shared} {
		for i := range min(len(*h), payloadKeep/4) {
			c.fetch(j, (*h)[i].index/record.PayloadSize)
		}
	}
	p := j.payloads.parts[first]
	if p == nil {
		return lineAway
	}
	line, ok := p.Line(uint8(index % record.PayloadSize))
	switch {
	case !ok: // fetched before the line was added
		j.payloads.parts[first] = nil
		j.payloads.order = slices.DeleteFunc(j.payloads.order, func(n int32) bool { return n == first })
		c.missing(j, first)
		return lineAway
	case len(line) == 0:
		return lineGone
	}
	j.payloads.found(first)
	return lineHere
}

// has keeps a payload record that was read.
func (p *payloads) has(part int32, d *record.Payload) {
	p.parts[part] = d
	p.order = append(p.order, part)
	for len(p.order) > payloadKeep {
		p.found(p.order[0])
		delete(p.parts, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
}

// found ends the search for a missing line in a payload record.
func (p *payloads) found(part int32) {
	if len(p.absent) > 0 {
		p.absent = slices.DeleteFunc(p.absent, func(a absence) bool { return a.part == part })
	}
}

func (c *Core) fetch(j *job, part int32) {
	p := &j.payloads
	if _, ok := p.parts[part]; ok {
		return
	}
	if p.parts == nil {
		p.parts = make(map[int32]*record.Payload)
	}
	p.parts[part] = nil
	c.commits.lookup(record.KeyPayload(j.id, part), record.RecordPayload, func(a Answer) {
		d, err := record.DecodePayload(a.Value)
		if a.Status != AnswerDone || err != nil {
			// Its adder has not written the record yet.
			c.missing(j, part)
			return
		}
		p.has(part, d)
	})
}

// tokens are this node's tokens of a capped job.
type tokens struct {
	held   int32
	seq    uint32
	asking bool
	spare  int32         // free tokens at the last answer
	wait   time.Duration // doubling, while there are none
	at     time.Duration // when to ask again
	back   time.Duration // when to give idle tokens back
}

// The wait of a node that got no token.
const (
	tokenWait    = 2 * time.Millisecond
	tokenWaitMax = 500 * time.Millisecond
)

// token reports whether another task of a capped job may run here. A node asks for tokens
// as needed, in a single operation with the total number wanted.
func (c *Core) token(j *job) bool {
	t := &j.tokens
	if j.running < t.held {
		return true
	}
	if t.held >= j.spec.Cap {
		return false // the next end of a task frees a token
	}
	if t.asking {
		return false
	}
	if c.now < t.at {
		c.waits.at = min(c.waits.at, t.at)
		return false
	}
	want := j.running + int32(min(j.queue.shareable()+int64(len(j.queue.dedicated)), int64(c.slotsFor(j))))
	c.holdTokens(j, max(want, 1))
	return false
}

// slotsFor is how many more tasks of j have room here.
func (c *Core) slotsFor(j *job) int32 {
	n := c.exec.room.Slots - c.exec.used.Slots
	if j.spec.Each.Slots > 1 {
		n /= j.spec.Each.Slots
	}
	return max(n, 0)
}

// holdTokens sets the total number of tokens that this node wants. From the moment of the
// request, the node no longer holds the tokens that it gives back.
func (c *Core) holdTokens(j *job, want int32) {
	t := &j.tokens
	want = min(want, j.spec.Cap)
	t.asking = true
	// The record remembers the last request of this incarnation, also if the node forgot
	// the job meanwhile.
	t.seq = uint32(c.commits.last) + 1
	t.held = min(t.held, want)
	op := record.CapOp{Limit: j.spec.Cap, Owner: c.self, Seq: t.seq, Want: want}
	c.commits.merge(record.KeyCap(j.id), record.RecordCap, op.Encode(), func(a Answer) {
		t.asking = false
		r, err := record.DecodeCap(a.Value)
		if a.Status != AnswerDone || err != nil {
			return
		}
		had := t.held
		for _, h := range r.Holders {
			if h.Owner == c.self {
				t.held = h.Held
			}
		}
		t.spare = r.Free()
		if t.held > had {
			t.wait, t.at = 0, c.now
		} else {
			t.wait = min(max(2*t.wait, tokenWait), tokenWaitMax)
			t.at = c.now + t.wait
		}
		if j.queue.empty() && (j.running == 0 || t.held > j.running) {
			c.lingerTokens(j)
			c.forget(j)
		}
	})
}

// lingerTokens keeps unneeded tokens for tokenLinger, in which the node may steal tasks
// to use the tokens.
func (c *Core) lingerTokens(j *job) {
	if j.tokens.held > 0 {
		j.tokens.back = c.now + tokenLinger
		c.waits.at = min(c.waits.at, j.tokens.back)
	}
}

// allLate reports whether none of a job's queued tasks can finish here.
func (c *Core) allLate(j *job) bool {
	q := &j.queue
	return j.spec != nil && len(q.cooling) == 0 && !(q.startable() && c.mayStart(j))
}

// lateTokens gives tokens back that came too late for the tasks here.
func (c *Core) lateTokens(j *job) {
	if j.tokens.held > j.running && j.tokens.back <= c.now && c.allLate(j) {
		c.lingerTokens(j)
	}
}

const tokenLinger = 20 * time.Millisecond

// spareTokens gives back tokens that this node has not needed for a while: tasks that
// cannot finish here need none, and nodes that could run the tasks do.
func (c *Core) spareTokens(j *job) {
	t := &j.tokens
	if t.held <= j.running || t.asking || !j.queue.empty() && !c.allLate(j) {
		return
	}
	if t.back > c.now {
		c.waits.at = min(c.waits.at, t.back)
		return
	}
	c.holdTokens(j, j.running)
}
