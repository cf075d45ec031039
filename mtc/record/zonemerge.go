package record

import "slices"

type zoneReply struct {
	Verdicts []Verdict
	Tally    Tally
	Taken    []TakenSpan // spans that this delta took, now or at an earlier merge
	Zone     *Zone
}

// TakenSpan is a span after a ZoneLose took the span.
type TakenSpan struct {
	Op            int // index in the delta
	Lo, Hi, Front int32
	Hop           uint32
}

func (s *TakenSpan) fields(c *Codec) {
	s.Op = int(c.UpTo(uint64(s.Op), maxOps))
	Index(c, &s.Lo)
	Index(c, &s.Hi)
	Index(c, &s.Front)
	U32(c, &s.Hop)
}

// fields are the reply's, with the bytes of the record if the delta asked for the record.
func (p *zoneReply) fields(c *Codec, record *[]byte) {
	List(c, &p.Verdicts, maxOps, 1, (*Verdict).fields)
	p.Tally.fields(c)
	List(c, &p.Taken, maxSpans, 5, (*TakenSpan).fields)
	c.whole(record)
}

func DecodeZoneReply(v []byte) (p zoneReply, err error) {
	c, record := Reading(v), []byte(nil)
	p.fields(&c, &record)
	if err = c.Done(); err == nil && record != nil {
		p.Zone, err = DecodeZone(record)
	}
	return p, err
}

func mergeZone(old, delta []byte) (val, reply []byte, err error) {
	z, err := DecodeZone(old)
	if err != nil {
		return nil, nil, err
	}
	ops, whole, err := DecodeZoneOps(delta)
	if err != nil {
		return nil, nil, err
	}
	if len(old) == 0 && len(ops) == 0 {
		// The zone's job was dropped: a new zone would never be removed.
		return nil, nil, errAbsent
	}
	z.full = len(z.Spans) >= zoneSpans || len(old) >= zoneBytes
	r := zoneReply{Verdicts: make([]Verdict, len(ops))}
	for i := range ops {
		if ops[i].Kind == ZoneLose {
			r.Taken = z.lose(r.Taken, i, &ops[i])
			continue
		}
		r.Verdicts[i] = z.apply(&ops[i])
	}
	z.join()
	r.Tally = z.Tally()
	val = z.Encode()
	c := Writing(32)
	r.fields(&c, asked(whole, &val))
	return val, c.B, nil
}

func (z *Zone) apply(p *ZoneOp) Verdict {
	switch p.Kind {
	case ZoneBlockTally:
		i, ok := slices.BinarySearchFunc(z.Blocks, p.Tally.Block, func(b BlockTally, n int32) int { return int(b.Block - n) })
		if !ok {
			if len(z.Blocks) >= ZoneBlocks {
				return VerdictInvalid
			}
			z.Blocks = slices.Insert(z.Blocks, i, p.Tally)
		} else if p.Tally.Sum() > z.Blocks[i].Sum() || mutantTallyBack {
			z.Blocks[i] = p.Tally
		}
		return VerdictDone
	}
	if p.Kind == ZoneFront {
		return z.advance(p)
	}
	i := z.Cover(p.Lo, p.Hi)
	if i < 0 && z.free(p.Lo, p.Hi) {
		if len(z.Spans) >= maxSpans-2 || z.full && p.Kind == ZoneMove {
			return VerdictInvalid
		}
		// A part without an owner belongs to the leader, which is From in a move.
		owner := p.Owner
		if p.Kind == ZoneMove {
			owner = p.From
		}
		i = z.insert(Span{Lo: p.Lo, Hi: p.Hi, Front: p.Lo, Hop: p.Hop, Owner: owner})
	}
	if i < 0 || z.Spans[i].Void != 0 && p.Kind != ZoneVoid {
		return VerdictOther
	}
	return z.change(i, p)
}

// lostHops is the step of the hop when a dead owner's work goes to another node. A move
// is a step of 1. If the dead owner lives after all and moves the work to the node that
// has the work since, the record does not take the move for a repeat of an earlier move.
const lostHops = 2

// lose gives all of From's spans to Owner.
func (z *Zone) lose(taken []TakenSpan, op int, p *ZoneOp) []TakenSpan {
	for i := range z.Spans {
		s := &z.Spans[i]
		again := p.Take.again(s.Take) && s.Owner == p.Owner
		switch {
		case s.Void != 0 || !again && s.Owner != p.From:
			continue
		case !again:
			s.Owner, s.Take = p.Owner, p.Take
			s.Hop += lostHops
		}
		taken = append(taken, TakenSpan{op, s.Lo, s.Hi, s.Front, s.Hop})
	}
	return taken
}

func (z *Zone) insert(s Span) int {
	i, _ := slices.BinarySearchFunc(z.Spans, s.Lo, func(s Span, n int32) int { return int(s.Lo - n) })
	z.Spans = slices.Insert(z.Spans, i, s)
	return i
}

// advance moves the front of the span around lo, or makes a span of the free part from lo
// on. Thieves may have taken the end of the span meanwhile.
func (z *Zone) advance(p *ZoneOp) Verdict {
	i := z.Cover(p.Lo, p.Lo+1)
	if i < 0 {
		hi := p.Hi
		for k := range z.Spans {
			if lo := z.Spans[k].Lo; lo > p.Lo {
				hi = min(hi, lo)
			}
		}
		if len(z.Spans) >= maxSpans-2 {
			return VerdictInvalid
		}
		i = z.insert(Span{Lo: p.Lo, Hi: hi, Front: p.Lo, Hop: p.Hop, Owner: p.Owner})
	}
	s := &z.Spans[i]
	if s.Owner != p.Owner || s.Hop != p.Hop || s.Void != 0 {
		return VerdictOther
	}
	s.Front, s.Take = min(max(s.Front, p.Front), s.Hi), 0
	return VerdictDone
}

// change applies p to p.Lo..p.Hi of span i.
func (z *Zone) change(i int, p *ZoneOp) Verdict {
	s := &z.Spans[i]
	switch p.Kind {
	case ZoneMove:
		// The victim vouches that no task of this part was started: the victim froze the
		// part, and thaws the part only under another hop.
		if s.Owner == p.Owner && s.Hop == p.Hop+1 {
			return VerdictDone
		}
		if s.Owner != p.From || s.Hop != p.Hop {
			return VerdictOther
		}
		if z.full {
			return VerdictInvalid
		}
		s = z.carve(i, p.Lo, p.Hi)
		s.Owner, s.Hop, s.Front, s.Take = p.Owner, p.Hop+1, min(max(p.Front, p.Lo), p.Hi), 0
	case ZoneVoid:
		if s.Void != 0 {
			return VerdictDone
		}
		// An owner that was called dead may have the span again, at another hop: the
		// owner's state of the first hop does not tell which tasks were started since.
		if s.Owner != p.Owner || s.Hop != p.Hop {
			return VerdictOther
		}
		s = z.carve(i, p.Lo, p.Hi)
		s.Void, s.Front, s.Take = p.Void, s.Hi, 0
	}
	return VerdictDone
}

// Cover is the index of the span around all of lo..hi, or -1.
func (z *Zone) Cover(lo, hi int32) int {
	for i := range z.Spans {
		if s := &z.Spans[i]; s.Lo <= lo && hi <= s.Hi {
			return i
		}
	}
	return -1
}

// free reports whether no span overlaps lo..hi.
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

// join merges neighboring spans with the same end. Other neighbors stay apart: an owner
// identifies a span by its first index and hop.
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

// Ended reports whether all blocks of a span are full of ends.
func (z *Zone) Ended(s Span) bool {
	for b := s.Lo / BlockSize; b*BlockSize < s.Hi; b++ {
		i, ok := slices.BinarySearchFunc(z.Blocks, b, func(t BlockTally, n int32) int { return int(t.Block - n) })
		if !ok || z.Blocks[i].Sum() < BlockSize {
			return false
		}
	}
	return true
}

// Gaps are the parts of lo..hi in no span.
func (z *Zone) Gaps(lo, hi int32) (gaps []Span) {
	for _, s := range z.Spans {
		if s.Lo > lo && lo < hi {
			gaps = append(gaps, Span{Lo: lo, Hi: min(s.Lo, hi)})
		}
		lo = max(lo, s.Hi)
	}
	if lo < hi {
		gaps = append(gaps, Span{Lo: lo, Hi: hi})
	}
	return gaps
}
