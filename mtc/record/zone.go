package record

import (
	"iter"
	"slices"

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

// Owners are the owners of tasks without an end for which is holds, each once.
func (z *Zone) Owners(is func(o Owner) bool) (list []Owner) {
	for _, s := range z.Spans {
		if s.Void == 0 && !z.Ended(s) && is(s.Owner) && !slices.Contains(list, s.Owner) {
			list = append(list, s.Owner)
		}
	}
	return list
}

// spanTaken is a flag in the end byte of a span: the span has a take, which follows.
const spanTaken = 1 << 7

func (s *Span) fields(c *Codec) {
	Index(c, &s.Lo)
	s.Hi = s.Lo + int32(c.UpTo(uint64(s.Hi-s.Lo), ZoneSize))
	Index(c, &s.Front)
	U32(c, &s.Hop)
	c.oneOf(&s.Owner)
	end := uint8(s.Void)
	if s.Take != 0 {
		end |= spanTaken
	}
	if U8(c, &end); end&spanTaken != 0 {
		Number(c, &s.Take)
	}
	s.Void = filch.State(end &^ spanTaken)
	c.Require(s.Hi <= MaxTasks && s.Void <= filch.Cancelled)
}

func (b *BlockTally) fields(c *Codec) {
	Index(c, &b.Block)
	b.Tally.fields(c)
}

func (z *Zone) fields(c *Codec) {
	List(c, &z.Spans, maxSpans, 6, (*Span).fields)
	last := int32(0)
	for _, s := range z.Spans {
		c.Require(s.Lo >= last && s.Hi > s.Lo && s.Front >= s.Lo && s.Front <= s.Hi)
		last = s.Hi
	}
	List(c, &z.Blocks, ZoneBlocks, 7, (*BlockTally).fields)
	for i := range z.Blocks {
		c.Require(i == 0 || z.Blocks[i].Block > z.Blocks[i-1].Block)
	}
}

// Encode is the record's bytes.
func (z *Zone) Encode() []byte {
	c := Writing(12*len(z.Spans) + 8*len(z.Blocks) + 8)
	z.fields(&c)
	return c.owned()
}

// DecodeZone reads a zone's record; no bytes are the record of a zone without entries.
func DecodeZone(v []byte) (*Zone, error) {
	c, z := Reading(v), &Zone{}
	if len(v) > 0 {
		c.ownerList(&c.owners.list)
		z.fields(&c)
	}
	return z, c.Done()
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

func (p *ZoneOp) fields(c *Codec) {
	switch U8(c, &p.Kind); p.Kind {
	case ZoneBlockTally:
		p.Tally.fields(c)
		return
	case ZoneFront, ZoneMove, ZoneLose, ZoneVoid:
	default:
		c.Fail()
	}
	Index(c, &p.Lo)
	Index(c, &p.Hi)
	Index(c, &p.Front)
	U32(c, &p.Hop)
	c.oneOf(&p.Owner)
	c.oneOf(&p.From)
	c.State(&p.Void)
	if p.Kind == ZoneLose {
		Number(c, &p.Take)
	} else {
		c.Require(p.Lo < p.Hi && p.Hi-p.Lo <= ZoneSize)
	}
}

// EncodeZoneOps is a delta; whole asks for the record in the reply.
func EncodeZoneOps(ops []ZoneOp, whole bool) []byte {
	return encodeOps(ops, whole, 8, (*ZoneOp).fields)
}

func DecodeZoneOps(v []byte) (ops []ZoneOp, whole bool, err error) {
	return decodeOps(v, 8, (*ZoneOp).fields)
}

// Zones yields, for each zone with some of the tasks from lo to hi, the zone's number with
// the first and the bound of these tasks.
func Zones(lo, hi int32) iter.Seq2[int32, [2]int32] { return parts(lo, hi, ZoneSize) }

// BlocksOf is as [Zones], for each block.
func BlocksOf(lo, hi int32) iter.Seq2[int32, [2]int32] { return parts(lo, hi, BlockSize) }

func parts(lo, hi, size int32) iter.Seq2[int32, [2]int32] {
	return func(yield func(int32, [2]int32) bool) {
		for lo < hi {
			num := lo / size
			end := min(hi, (num+1)*size)
			if !yield(num, [2]int32{lo, end}) {
				return
			}
			lo = end
		}
	}
}
