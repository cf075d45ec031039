package pmi

import (
	"encoding/binary"

	"github.com/filch-hpc/filch"
)

// kind is a kind of frame between keepers. Kinds cross the wire: append only.
type kind uint8

const (
	kindAck    kind = iota // nothing but the acknowledgment in the header
	kindUp                 // a subtree's part of a fence; the pairs may come in several frames
	kindDown               // a fence is complete; likewise
	kindAsk                // will your ranks ever enter this fence?
	kindStuck              // no: some ranks wait for a rank that has left
	kindName               // a question to the root: publish, unpublish, look up
	kindAnswer             // the root's answer
	kindParcel             // a piece of a parcel, see [Paths]
)

// codecVersion is the first byte of a frame; another version is malformed.
const codecVersion = 1

// headerBytes: version, kind, sequence number, acknowledgment.
const headerBytes = 10

// message is the content of a frame after the header. The kind decides which fields
// matter.
type message struct {
	kind  kind
	fence uint32 // up, down, ask
	last  bool   // up, down: no more pairs follow
	count counts // up, stuck
	pairs []byte // up, down: validated by decode

	node    int32 // the asking node, in a question and in its answer
	id      uint32
	op      nameOp
	service string
	port    string
	msg     string

	from, to int32 // parcel; last and data as well
	data     []byte
}

// counts counts the ranks of a subtree by their state in a fence, once no rank is still
// to come.
type counts struct {
	in  int32      // entered the fence
	out int32      // can never enter the fence
	who filch.Rank // a rank counted in out, when there is any; -1 not known
	why gone
}

// gone is the way a rank left.
type gone uint8

const (
	goneFresh  gone = iota // never spoke
	goneInited             // between init and finalize
	goneFinal              // after finalize
	goneNode               // with all ranks of its node
	goneEnd
)

func (g gone) String() string {
	switch g {
	case goneFresh:
		return "ended before MPI_Init"
	case goneFinal:
		return "has already passed MPI_Finalize"
	case goneNode:
		return "has ended"
	}
	return "ended without MPI_Finalize"
}

func (c counts) add(d counts) counts {
	if c.out == 0 && d.out > 0 {
		c.who, c.why = d.who, d.why
	}
	c.in += d.in
	c.out += d.out
	return c
}

func (m message) encode() []byte {
	var b []byte
	be := binary.BigEndian
	switch m.kind {
	case kindUp:
		b = make([]byte, 0, 18+len(m.pairs))
		b = appendBool(be.AppendUint32(b, m.fence), m.last)
		b = appendCounts(b, m.count)
		b = append(b, m.pairs...)
	case kindDown:
		b = make([]byte, 0, 5+len(m.pairs))
		b = appendBool(be.AppendUint32(b, m.fence), m.last)
		b = append(b, m.pairs...)
	case kindAsk:
		b = be.AppendUint32(b, m.fence)
	case kindStuck:
		b = appendCounts(b, m.count)
	case kindParcel:
		b = make([]byte, 0, 9+len(m.data))
		b = be.AppendUint32(be.AppendUint32(b, uint32(m.from)), uint32(m.to))
		b = append(appendBool(b, m.last), m.data...)
	case kindName, kindAnswer:
		b = be.AppendUint32(b, uint32(m.node))
		b = append(be.AppendUint32(b, m.id), byte(m.op))
		b = appendString(b, m.service)
		b = appendString(b, m.port)
		b = appendString(b, m.msg)
	}
	return b
}

func appendBool(b []byte, v bool) []byte {
	if v {
		return append(b, 1)
	}
	return append(b, 0)
}

func appendCounts(b []byte, c counts) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(c.in))
	b = binary.BigEndian.AppendUint32(b, uint32(c.out))
	b = binary.BigEndian.AppendUint32(b, uint32(c.who))
	return append(b, byte(c.why))
}

func appendString(b []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(b, uint16(len(s))), s...)
}

// decode reads the content of a frame of kind k. Everything is checked here: counts are
// not negative, strings and pairs within their limits, nothing left over.
func decode(k kind, b []byte) (message, bool) {
	m := message{kind: k}
	r := reader{b: b, ok: true}
	switch k {
	case kindAck:
	case kindUp:
		m.fence, m.last = r.u32(), r.bool()
		m.count = r.counts()
		m.pairs = r.pairs()
	case kindDown:
		m.fence, m.last = r.u32(), r.bool()
		m.pairs = r.pairs()
	case kindAsk:
		m.fence = r.u32()
	case kindStuck:
		m.count = r.counts()
	case kindParcel:
		m.from, m.to, m.last = r.i32(), r.i32(), r.bool()
		m.data = r.take(min(len(r.b), maxChunk))
	case kindName, kindAnswer:
		m.node, m.id, m.op = r.i32(), r.u32(), nameOp(r.u8())
		m.service, m.port, m.msg = r.string(), r.string(), r.string()
		r.ok = r.ok && m.op < opEnd
	default:
		return m, false
	}
	return m, r.ok && len(r.b) == 0
}

// reader takes fields off b; ok turns false for good at the first missing or invalid
// field.
type reader struct {
	b  []byte
	ok bool
}

func (r *reader) take(n int) []byte {
	if !r.ok || len(r.b) < n {
		r.ok = false
		return make([]byte, min(n, 8))
	}
	b := r.b[:n]
	r.b = r.b[n:]
	return b
}

func (r *reader) u8() uint8   { return r.take(1)[0] }
func (r *reader) u32() uint32 { return binary.BigEndian.Uint32(r.take(4)) }

func (r *reader) i32() int32 {
	v := int32(r.u32())
	r.ok = r.ok && v >= 0
	return v
}

func (r *reader) bool() bool {
	v := r.u8()
	r.ok = r.ok && v <= 1
	return v == 1
}

func (r *reader) counts() counts {
	c := counts{in: r.i32(), out: r.i32(), who: filch.Rank(int32(r.u32())), why: gone(r.u8())}
	r.ok = r.ok && c.why < goneEnd && c.who >= -1
	return c
}

func (r *reader) string() string {
	n := int(binary.BigEndian.Uint16(r.take(2)))
	if n > maxValue {
		r.ok = false
	}
	if !r.ok {
		return ""
	}
	return string(r.take(n))
}

// pairs takes the rest, when the rest is a whole number of valid pairs.
func (r *reader) pairs() []byte {
	if !r.ok {
		return nil
	}
	all := r.b
	for b := all; len(b) > 0; {
		_, n := firstPair(b)
		if n == 0 {
			r.ok = false
			return nil
		}
		b = b[n:]
	}
	r.ok = len(all) <= maxChunk
	r.b = nil
	return all
}

// firstPair reads a pair and returns the length in bytes; 0 for an invalid pair.
func firstPair(b []byte) (pair, int) {
	if len(b) < pairOverhead {
		return pair{}, 0
	}
	k := int(binary.BigEndian.Uint16(b))
	v := int(binary.BigEndian.Uint16(b[2:]))
	n := pairOverhead + k + v
	if k == 0 || k > maxKey || v > maxValue || len(b) < n {
		return pair{}, 0
	}
	return pair{string(b[pairOverhead : pairOverhead+k]), string(b[pairOverhead+k : n])}, n
}

// chunks is a list of pairs, encoded and cut into frames.
type chunks struct {
	list  [][]byte
	bytes int
}

func (c *chunks) add(p pair) {
	var b []byte
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.key)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(p.val)))
	c.append(append(append(b, p.key...), p.val...))
}

// append joins b, a whole number of pairs, to the last chunk when both fit in a frame.
// append keeps no reference to b.
func (c *chunks) append(b []byte) {
	c.bytes += len(b)
	if n := len(c.list); n > 0 && len(c.list[n-1])+len(b) <= maxChunk {
		c.list[n-1] = append(c.list[n-1], b...)
		return
	}
	c.list = append(c.list, append([]byte(nil), b...))
}
