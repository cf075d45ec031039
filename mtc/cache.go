package mtc

import (
	"slices"
	"time"
)

// payloadAhead are the records of payloads that are fetched before they are
// needed, and payloadKeep those that are kept.
const (
	payloadAhead = 32
	payloadKeep  = 256
)

// payloads are the lines of a job that are here.
type payloads struct {
	parts  map[int32]*Payload // nil: asked for
	order  []int32            // of arrival
	absent []absence          // to be asked for again
}

// take is the line of a task, nil where it has none.
func (p *payloads) take(index int32) []byte {
	part := p.parts[index/PayloadSize]
	if part == nil {
		return nil
	}
	line, _ := part.Line(uint8(index % PayloadSize))
	return line
}

// lineIs says where the line of a task is.
type lineIs uint8

const (
	lineAway lineIs = iota // not here yet
	lineHere               // or the task has none
	lineGone               // it will never come
)

// payload says where the line of a task is, and fetches it and the next ones
// where it is not here.
func (c *Core) payload(now time.Duration, j *job, index int32, out *Out) lineIs {
	if !j.spec.Payloads {
		return lineHere
	}
	first := index / PayloadSize
	last := first
	if len(j.queue.ranges) > 0 {
		if s := &j.queue.ranges[0]; s.next <= index+1 && index < s.hi {
			last = min(first+payloadAhead, (s.hi-1)/PayloadSize)
		}
	}
	for part := first; part <= last; part++ {
		c.fetch(j, part, out)
	}
	for _, h := range [...]*heap{&j.queue.dedicated, &j.queue.shared} {
		for i := range min(len(h.list), payloadKeep/4) {
			c.fetch(j, h.list[i].index/PayloadSize, out)
		}
	}
	p := j.payloads.parts[first]
	if p == nil {
		return lineAway
	}
	line, ok := p.Line(uint8(index % PayloadSize))
	switch {
	case !ok: // fetched before the line was added
		j.payloads.parts[first] = nil
		j.payloads.order = slices.DeleteFunc(j.payloads.order, func(n int32) bool { return n == first })
		c.missing(now, j, first)
		return lineAway
	case len(line) == 0:
		return lineGone
	}
	j.payloads.found(first)
	return lineHere
}

// has keeps a record of lines that was read.
func (p *payloads) has(part int32, d *Payload) {
	p.parts[part] = d
	p.order = append(p.order, part)
	for len(p.order) > payloadKeep {
		p.found(p.order[0])
		delete(p.parts, p.order[0])
		p.order = slices.Delete(p.order, 0, 1)
	}
}

// found ends the search for what was missing in a record of lines.
func (p *payloads) found(part int32) {
	if len(p.absent) > 0 {
		p.absent = slices.DeleteFunc(p.absent, func(a absence) bool { return a.part == part })
	}
}

func (c *Core) fetch(j *job, part int32, out *Out) {
	p := &j.payloads
	if _, ok := p.parts[part]; ok {
		return
	}
	if p.parts == nil {
		p.parts = make(map[int32]*Payload)
	}
	p.parts[part] = nil
	c.lookup(KeyPayload(j.id, part), RecordPayload, out, func(now time.Duration, a Answer, _ *Out) {
		d, err := DecodePayload(a.Value)
		if a.Status != AnswerDone || err != nil {
			// Not written yet, by who adds them.
			c.missing(now, j, part)
			return
		}
		p.has(part, d)
	})
}

// tokens are those of a capped job that this node holds.
type tokens struct {
	held   int32
	seq    uint32
	asking bool
	spare  int32         // that nobody held when last heard of
	wait   time.Duration // doubling, while there are none
	at     time.Duration // when to ask again
	back   time.Duration // when idle ones are given back
}

// The wait of a node that got no token.
const (
	tokenWait    = 2 * time.Millisecond
	tokenWaitMax = 500 * time.Millisecond
)

// token reports whether one more task of a capped job may run here. Tokens are
// asked for as they are needed, in one word that says how many are held in all.
func (c *Core) token(now time.Duration, j *job, out *Out) bool {
	t := &j.tokens
	if j.running < t.held {
		return true
	}
	if t.held >= j.spec.Cap {
		return false // the next one that ends makes room
	}
	if t.asking {
		return false
	}
	if now < t.at {
		c.waits.at = min(c.waits.at, t.at)
		return false
	}
	want := j.running + int32(min(j.queue.shareable()+int64(len(j.queue.dedicated.list)), int64(c.slotsFor(j))))
	c.holdTokens(j, max(want, 1), out)
	return false
}

// slotsFor is how many more tasks of j have room here.
func (c *Core) slotsFor(j *job) int32 {
	n := c.room.Slots - c.used.Slots
	if j.spec.Each.Slots > 1 {
		n /= j.spec.Each.Slots
	}
	return max(n, 0)
}

// holdTokens says how many tokens this node wants to hold in all. What it gives
// back it holds no more from the moment it says so.
func (c *Core) holdTokens(j *job, want int32, out *Out) {
	t := &j.tokens
	want = min(want, j.spec.Cap)
	t.asking = true
	// The record remembers the last word of this life, also where the job was
	// forgotten here meanwhile.
	t.seq = uint32(c.commits.last) + 1
	t.held = min(t.held, want)
	op := capOp{limit: j.spec.Cap, who: c.self, seq: t.seq, want: want}
	c.merge(KeyCap(j.id), RecordCap, op.encode(), out, func(now time.Duration, a Answer, out *Out) {
		t.asking = false
		r, err := DecodeCap(a.Value)
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
			t.wait, t.at = 0, now
		} else {
			t.wait = min(max(2*t.wait, tokenWait), tokenWaitMax)
			t.at = now + t.wait
		}
		if j.queue.empty() && (j.running == 0 || t.held > j.running) {
			c.lingerTokens(now, j)
			c.forget(j, out)
		}
	})
}

// lingerTokens keeps tokens that nothing here needs for a moment, in which the
// node may steal something to use them for.
func (c *Core) lingerTokens(now time.Duration, j *job) {
	if j.tokens.held > 0 {
		j.tokens.back = now + tokenLinger
		c.waits.at = min(c.waits.at, j.tokens.back)
	}
}

// allLate reports whether nothing that is queued of a job can finish here.
func (c *Core) allLate(now time.Duration, j *job) bool {
	q := &j.queue
	return j.spec != nil && len(q.cooling) == 0 && !(q.startable() && c.mayStart(now, j))
}

// lateTokens has tokens given back that came too late to be used here.
func (c *Core) lateTokens(now time.Duration, j *job) {
	if j.tokens.held > j.running && j.tokens.back <= now && c.allLate(now, j) {
		c.lingerTokens(now, j)
	}
}

const tokenLinger = 20 * time.Millisecond

// spareTokens gives back what nothing here needs for a while: tasks that cannot
// finish here need none, and those who could run them do.
func (c *Core) spareTokens(now time.Duration, j *job, out *Out) {
	t := &j.tokens
	if t.held <= j.running || t.asking || !j.queue.empty() && !c.allLate(now, j) {
		return
	}
	if t.back > now {
		c.waits.at = min(c.waits.at, t.back)
		return
	}
	c.holdTokens(j, j.running, out)
}
