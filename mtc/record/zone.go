package record

import (
	"github.com/filch-hpc/filch"
)

// Span is a part of a zone with a single owner. Indices count from the job's first task.
type Span struct {
	Lo, Hi int32
	Front  int32 // from here on the owner has started no task
	Hop    uint32
	Owner  Owner
	Void   filch.State // end of all of the span's tasks, without a start; else 0
	Take   Take        // as [Task.Take]
}

// Zone is a zone's record. Indices outside all spans belong to the job's leader.
type Zone struct {
	Spans  []Span // by Lo, never overlapping
	Blocks []BlockTally
	full   bool // no part of the zone may change its owner
}

// A zone of so many spans or bytes is full: the rest of the record's space is for the
// fronts, ends and cancels of the owners. A full zone stays full, since a move that was
// refused for lack of space must not succeed later.
const (
	zoneSpans = 4096
	zoneBytes = 160 << 10
)

// BlockTally is a block's tally as reported to the zone.
type BlockTally struct {
	Block int32
	Tally
}

// Tally is the sum of the blocks' tallies and of the tasks that ended without a start.
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
	body := Writer{make([]byte, 0, 12*len(z.Spans)+8*len(z.Blocks)+8)}
	body.Uint(uint64(len(z.Spans)))
	for _, s := range z.Spans {
		body.Uint(uint64(s.Lo))
		body.Uint(uint64(s.Hi - s.Lo))
		body.Uint(uint64(s.Front))
		body.Uint(uint64(s.Hop))
		body.Uint(o.number(s.Owner))
		if s.Take == 0 {
			body.U8(uint8(s.Void))
			continue
		}
		body.U8(uint8(s.Void) | spanTaken)
		body.Uint(uint64(s.Take))
	}
	body.Uint(uint64(len(z.Blocks)))
	for _, b := range z.Blocks {
		body.Uint(uint64(b.Block))
		body.tally(b.Tally)
	}
	w := Writer{make([]byte, 0, len(body.B)+32*len(o.list)+4)}
	w.owners(&o)
	w.B = append(w.B, body.B...)
	return w.B
}

// DecodeZone reads a zone's record.
func DecodeZone(v []byte) (*Zone, error) {
	z := &Zone{}
	if len(v) == 0 {
		return z, nil
	}
	r := NewReader(v)
	list := r.owners()
	z.Spans = make([]Span, r.Count(maxSpans, 6))
	last := int32(0)
	for i := range z.Spans {
		s := &z.Spans[i]
		s.Lo = r.Index()
		s.Hi = int32(min(uint64(s.Lo)+r.UpTo(ZoneSize), MaxTasks))
		s.Front, s.Hop, s.Owner = r.Index(), r.U32(), r.oneOf(list)
		s.Void, s.Take = r.void()
		if s.Lo < last || s.Hi <= s.Lo || s.Front < s.Lo || s.Front > s.Hi {
			r.Fail()
		}
		last = s.Hi
	}
	z.Blocks = make([]BlockTally, r.Count(ZoneBlocks, 7))
	for i := range z.Blocks {
		z.Blocks[i] = BlockTally{r.Index(), r.tally()}
		if i > 0 && z.Blocks[i].Block <= z.Blocks[i-1].Block {
			r.Fail()
		}
	}
	return z, r.Done()
}

// spanTaken is a flag in the end byte of a span: the span has a take, which follows.
const spanTaken = 1 << 7

func (r *Reader) void() (s filch.State, k Take) {
	v := r.U8()
	if v&spanTaken != 0 {
		k = Take(r.Uint())
	}
	if s = filch.State(v &^ spanTaken); s > filch.Cancelled {
		r.Fail()
	}
	return s, k
}

// ZoneOp is a proposed change of a zone.
type ZoneOp struct {
	Kind   ZoneOpKind
	Lo, Hi int32
	Front  int32
	Hop    uint32
	Owner  Owner // the proposing or receiving node
	From   Owner
	Void   filch.State
	Tally  BlockTally
	Take   Take // ZoneLose
}

type ZoneOpKind uint8

const (
	// ZoneFront commits that Owner starts below Front, in its own span or in a part
	// without an owner.
	ZoneFront      ZoneOpKind = iota + 1
	ZoneMove                  // Lo..Hi of From, at Hop, becomes Owner's
	ZoneLose                  // all spans of From become Owner's
	ZoneVoid                  // Lo..Hi ended without a start
	ZoneBlockTally            // the tally of a block
)

func EncodeZoneOps(ops []ZoneOp, whole bool) []byte {
	var o owners
	body := Writer{make([]byte, 0, 24*len(ops))}
	body.Uint(uint64(len(ops)))
	for i := range ops {
		p := &ops[i]
		body.U8(uint8(p.Kind))
		if p.Kind == ZoneBlockTally {
			body.Uint(uint64(p.Tally.Block))
			body.tally(p.Tally.Tally)
			continue
		}
		body.Uint(uint64(p.Lo))
		body.Uint(uint64(p.Hi))
		body.Uint(uint64(p.Front))
		body.Uint(uint64(p.Hop))
		body.Uint(o.number(p.Owner))
		body.Uint(o.number(p.From))
		body.U8(uint8(p.Void))
		if p.Kind == ZoneLose {
			body.Uint(uint64(p.Take))
		}
	}
	return encodeOps(whole, &o, body)
}

func DecodeZoneOps(v []byte) (ops []ZoneOp, whole bool, err error) {
	r := NewReader(v)
	whole = r.Bool()
	list := r.owners()
	ops = make([]ZoneOp, r.Count(maxOps, 8))
	for i := range ops {
		p := &ops[i]
		p.Kind = ZoneOpKind(r.U8())
		switch p.Kind {
		case ZoneBlockTally:
			p.Tally = BlockTally{r.Index(), r.tally()}
		case ZoneFront, ZoneMove, ZoneLose, ZoneVoid:
			p.Lo, p.Hi, p.Front, p.Hop = r.Index(), r.Index(), r.Index(), r.U32()
			p.Owner, p.From, p.Void = r.oneOf(list), r.oneOf(list), r.State()
			if p.Kind == ZoneLose {
				p.Take = Take(r.Uint())
			} else if p.Lo >= p.Hi || p.Hi-p.Lo > ZoneSize {
				r.Fail()
			}
		default:
			r.Fail()
		}
	}
	return ops, whole, r.Done()
}
