package mtc

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Span is a part of a zone in one hand. Indices count from the job's first.
type Span struct {
	Lo, Hi int32
	Front  int32 // at and above it nothing was started by its owner
	Hop    uint32
	Owner  Owner
	Void   filch.State // an end that all of it has without having been started; else 0
	Take   take        // as [Task.Take]
}

// Zone is a zone's record. What no span covers belongs to the job's steward.
type Zone struct {
	Spans  []Span // by Lo, never overlapping
	Blocks []BlockTally
	full   bool // nothing of it may change hands
}

// A zone of so many spans or bytes is full: what is left of a record's room is for
// the fronts, ends and cancels of those who have a part of it. It stays full, as a
// move that was refused for it must not be done later.
const (
	zoneSpans = 4096
	zoneBytes = 160 << 10
)

// BlockTally is what a block told its zone.
type BlockTally struct {
	Block int32
	Tally
}

// Tally is the sum of the blocks and of what ended without a start.
func (z *Zone) Tally() (t Tally) {
	for _, b := range z.Blocks {
		t = t.Plus(b.Tally)
	}
	for _, s := range z.Spans {
		t.add(s.Void, s.Hi-s.Lo)
	}
	return t
}

// Encode is the record's bytes.
func (z *Zone) Encode() []byte {
	var o owners
	body := writer{make([]byte, 0, 12*len(z.Spans)+8*len(z.Blocks)+8)}
	body.uint(uint64(len(z.Spans)))
	for _, s := range z.Spans {
		body.uint(uint64(s.Lo))
		body.uint(uint64(s.Hi - s.Lo))
		body.uint(uint64(s.Front))
		body.uint(uint64(s.Hop))
		body.uint(o.number(s.Owner))
		if s.Take == 0 {
			body.u8(uint8(s.Void))
			continue
		}
		body.u8(uint8(s.Void) | spanTaken)
		body.uint(uint64(s.Take))
	}
	body.uint(uint64(len(z.Blocks)))
	for _, b := range z.Blocks {
		body.uint(uint64(b.Block))
		body.tally(b.Tally)
	}
	w := writer{make([]byte, 0, len(body.b)+32*len(o.list)+4)}
	w.owners(&o)
	w.b = append(w.b, body.b...)
	return w.b
}

// DecodeZone reads a zone's record.
func DecodeZone(v []byte) (*Zone, error) {
	z := &Zone{}
	if len(v) == 0 {
		return z, nil
	}
	r := reader{b: v}
	list := r.owners()
	z.Spans = make([]Span, r.count(maxSpans, 6))
	last := int32(0)
	for i := range z.Spans {
		s := &z.Spans[i]
		s.Lo = r.index()
		s.Hi = int32(min(uint64(s.Lo)+r.upTo(ZoneSize), MaxTasks))
		s.Front, s.Hop, s.Owner = r.index(), r.u32(), r.oneOf(list)
		s.Void, s.Take = r.void()
		if s.Lo < last || s.Hi <= s.Lo || s.Front < s.Lo || s.Front > s.Hi {
			r.fail()
		}
		last = s.Hi
	}
	z.Blocks = make([]BlockTally, r.count(zoneBlocks, 7))
	for i := range z.Blocks {
		z.Blocks[i] = BlockTally{r.index(), r.tally()}
		if i > 0 && z.Blocks[i].Block <= z.Blocks[i-1].Block {
			r.fail()
		}
	}
	return z, r.done()
}

// spanTaken is added to the end of a span that has a take, which follows.
const spanTaken = 1 << 7

func (r *reader) void() (s filch.State, k take) {
	v := r.u8()
	if v&spanTaken != 0 {
		k = take(r.uint())
	}
	if s = filch.State(v &^ spanTaken); s > filch.Cancelled {
		r.fail()
	}
	return s, k
}

// zoneOp is one change that is proposed for a zone.
type zoneOp struct {
	kind   zoneKind
	lo, hi int32
	front  int32
	hop    uint32
	who    Owner // who asks or gets it
	from   Owner
	void   filch.State
	tally  BlockTally
	take   take // zLose
}

type zoneKind uint8

const (
	zFront zoneKind = iota + 1 // who begins below front, in the part that is its own or nobody's yet
	zMove                      // lo..hi of from, at that hop, is who's
	zLose                      // all of from is who's
	zVoid                      // lo..hi ended without a start
	zTally                     // what a block told
)

func encodeZoneOps(ops []zoneOp, whole bool) []byte {
	var o owners
	body := writer{make([]byte, 0, 24*len(ops))}
	body.uint(uint64(len(ops)))
	for i := range ops {
		p := &ops[i]
		body.u8(uint8(p.kind))
		if p.kind == zTally {
			body.uint(uint64(p.tally.Block))
			body.tally(p.tally.Tally)
			continue
		}
		body.uint(uint64(p.lo))
		body.uint(uint64(p.hi))
		body.uint(uint64(p.front))
		body.uint(uint64(p.hop))
		body.uint(o.number(p.who))
		body.uint(o.number(p.from))
		body.u8(uint8(p.void))
		if p.kind == zLose {
			body.uint(uint64(p.take))
		}
	}
	return encodeOps(whole, &o, body)
}

func decodeZoneOps(v []byte) (ops []zoneOp, whole bool, err error) {
	r := reader{b: v}
	whole = r.bool()
	list := r.owners()
	ops = make([]zoneOp, r.count(maxOps, 8))
	for i := range ops {
		p := &ops[i]
		p.kind = zoneKind(r.u8())
		switch p.kind {
		case zTally:
			p.tally = BlockTally{r.index(), r.tally()}
		case zFront, zMove, zLose, zVoid:
			p.lo, p.hi, p.front, p.hop = r.index(), r.index(), r.index(), r.u32()
			p.who, p.from, p.void = r.oneOf(list), r.oneOf(list), r.state()
			if p.kind == zLose {
				p.take = take(r.uint())
			} else if p.lo >= p.hi || p.hi-p.lo > ZoneSize {
				r.fail()
			}
		default:
			r.fail()
		}
	}
	return ops, whole, r.done()
}

type zoneReply struct {
	verdicts []verdict
	tally    Tally
	taken    []takenSpan // by this very delta, now or before
	zone     *Zone
}

// takenSpan is a span as it is after a zLose took it.
type takenSpan struct {
	op            int // of the delta
	lo, hi, front int32
	hop           uint32
}

func decodeZoneReply(v []byte) (p zoneReply, err error) {
	r := reader{b: v}
	p.verdicts = r.verdicts()
	p.tally = r.tally()
	p.taken = make([]takenSpan, r.count(maxSpans, 5))
	for i := range p.taken {
		p.taken[i] = takenSpan{int(r.upTo(maxOps)), r.index(), r.index(), r.index(), r.u32()}
	}
	if r.bool() && !r.bad {
		p.zone, err = DecodeZone(r.b)
		return p, err
	}
	return p, r.done()
}

func mergeZone(old, delta []byte) (val, reply []byte, err error) {
	z, err := DecodeZone(old)
	if err != nil {
		return nil, nil, err
	}
	ops, whole, err := decodeZoneOps(delta)
	if err != nil {
		return nil, nil, err
	}
	if len(old) == 0 && len(ops) == 0 {
		return nil, nil, errAbsent // its job was dropped: a new zone would never be removed
	}
	z.full = len(z.Spans) >= zoneSpans || len(old) >= zoneBytes
	verdicts := make([]byte, len(ops))
	var taken []takenSpan
	for i := range ops {
		if ops[i].kind == zLose {
			taken = z.lose(taken, i, &ops[i])
			continue
		}
		verdicts[i] = byte(z.apply(&ops[i]))
	}
	z.join()
	val = z.Encode()
	w := writer{}
	w.uint(uint64(len(taken)))
	for _, s := range taken {
		w.uint(uint64(s.op))
		w.uint(uint64(s.lo))
		w.uint(uint64(s.hi))
		w.uint(uint64(s.front))
		w.uint(uint64(s.hop))
	}
	return val, replyTo(verdicts, z.Tally(), w.b, val, whole), nil
}

func (z *Zone) apply(p *zoneOp) verdict {
	switch p.kind {
	case zTally:
		i, ok := slices.BinarySearchFunc(z.Blocks, p.tally.Block, func(b BlockTally, n int32) int { return int(b.Block - n) })
		if !ok {
			if len(z.Blocks) >= zoneBlocks {
				return vInvalid
			}
			z.Blocks = slices.Insert(z.Blocks, i, p.tally)
		} else if p.tally.Sum() > z.Blocks[i].Sum() || mutantTallyBack {
			z.Blocks[i] = p.tally
		}
		return vDone
	}
	if p.kind == zFront {
		return z.advance(p)
	}
	i := z.cover(p.lo, p.hi)
	if i < 0 && z.free(p.lo, p.hi) {
		if len(z.Spans) >= maxSpans-2 || z.full && p.kind == zMove {
			return vInvalid
		}
		// What nobody touched belongs to the steward, who is from in a move.
		owner := p.who
		if p.kind == zMove {
			owner = p.from
		}
		i = z.insert(Span{Lo: p.lo, Hi: p.hi, Front: p.lo, Hop: p.hop, Owner: owner})
	}
	if i < 0 || z.Spans[i].Void != 0 && p.kind != zVoid {
		return vOther
	}
	return z.change(i, p)
}

// lostHops is how far a hop goes on when a dead owner's work goes to another. A
// move is one: that of a dead owner which lives after all, to the node that has
// its work since, is no repeat of one that happened.
const lostHops = 2

// lose gives all of from's spans to who.
func (z *Zone) lose(taken []takenSpan, op int, p *zoneOp) []takenSpan {
	for i := range z.Spans {
		s := &z.Spans[i]
		again := p.take.again(s.Take) && s.Owner == p.who
		switch {
		case s.Void != 0 || !again && s.Owner != p.from:
			continue
		case !again:
			s.Owner, s.Take = p.who, p.take
			s.Hop += lostHops
		}
		taken = append(taken, takenSpan{op, s.Lo, s.Hi, s.Front, s.Hop})
	}
	return taken
}

func (z *Zone) insert(s Span) int {
	i, _ := slices.BinarySearchFunc(z.Spans, s.Lo, func(s Span, n int32) int { return int(s.Lo - n) })
	z.Spans = slices.Insert(z.Spans, i, s)
	return i
}

// advance moves the front of the span around lo, or makes one of what is free
// from lo on. The end of the span may have been stolen meanwhile.
func (z *Zone) advance(p *zoneOp) verdict {
	i := z.cover(p.lo, p.lo+1)
	if i < 0 {
		hi := p.hi
		for k := range z.Spans {
			if lo := z.Spans[k].Lo; lo > p.lo {
				hi = min(hi, lo)
			}
		}
		if len(z.Spans) >= maxSpans-2 {
			return vInvalid
		}
		i = z.insert(Span{Lo: p.lo, Hi: hi, Front: p.lo, Hop: p.hop, Owner: p.who})
	}
	s := &z.Spans[i]
	if s.Owner != p.who || s.Hop != p.hop || s.Void != 0 {
		return vOther
	}
	s.Front, s.Take = min(max(s.Front, p.front), s.Hi), 0
	return vDone
}

// change does p to the part of span i that p names.
func (z *Zone) change(i int, p *zoneOp) verdict {
	s := &z.Spans[i]
	switch p.kind {
	case zMove:
		// That nothing of it was started is the victim's word: it froze this
		// part, and thaws it only under another hop.
		if s.Owner == p.who && s.Hop == p.hop+1 {
			return vDone
		}
		if s.Owner != p.from || s.Hop != p.hop {
			return vOther
		}
		if z.full {
			return vInvalid
		}
		s = z.carve(i, p.lo, p.hi)
		s.Owner, s.Hop, s.Front, s.Take = p.who, p.hop+1, min(max(p.front, p.lo), p.hi), 0
	case zVoid:
		if s.Void != 0 {
			return vDone
		}
		// An owner that was called dead may have it again, at another hop: what it
		// knows of the first does not say which of it was started since.
		if s.Owner != p.who || s.Hop != p.hop {
			return vOther
		}
		s = z.carve(i, p.lo, p.hi)
		s.Void, s.Front, s.Take = p.void, s.Hi, 0
	}
	return vDone
}

// cover is the index of the span that has all of lo..hi, or -1.
func (z *Zone) cover(lo, hi int32) int {
	for i := range z.Spans {
		if s := &z.Spans[i]; s.Lo <= lo && hi <= s.Hi {
			return i
		}
	}
	return -1
}

// free reports whether no span has a part of lo..hi.
func (z *Zone) free(lo, hi int32) bool {
	for i := range z.Spans {
		if s := &z.Spans[i]; s.Lo < hi && lo < s.Hi {
			return false
		}
	}
	return true
}

// carve makes lo..hi of span i a span of its own.
func (z *Zone) carve(i int, lo, hi int32) *Span {
	s := z.Spans[i]
	var parts []Span
	at := 0
	if s.Lo < lo {
		a := s
		a.Hi, a.Front = lo, min(s.Front, lo)
		parts = append(parts, a)
		at = 1
	}
	b := s
	b.Lo, b.Hi, b.Front = lo, hi, min(max(s.Front, lo), hi)
	parts = append(parts, b)
	if hi < s.Hi {
		c := s
		c.Lo, c.Front = hi, max(s.Front, hi)
		parts = append(parts, c)
	}
	z.Spans = slices.Replace(z.Spans, i, i+1, parts...)
	return &z.Spans[i+at]
}

// join makes one span of neighbors that ended in the same way. Others stay
// apart: their first index and hop are how an owner knows them again.
func (z *Zone) join() {
	out := z.Spans[:0]
	for _, s := range z.Spans {
		if n := len(out); n > 0 && s.Void != 0 && out[n-1].Void == s.Void && out[n-1].Hi == s.Lo {
			out[n-1].Hi, out[n-1].Front = s.Hi, s.Hi
			continue
		}
		out = append(out, s)
	}
	z.Spans = out
}
