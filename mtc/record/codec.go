package record

import (
	"encoding/binary"
	"errors"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/varint"
)

// Bounds of the decoders.
const (
	MaxNodeName = 63      // bytes of a node's name
	MaxBlob     = 1 << 20 // bytes of any field
	maxOps      = 4096    // operations in a delta
	maxSpans    = 1 << 14 // spans of a zone, and owners of a record
	maxHolders  = 4096    // nodes with tokens of a cap
)

var ErrMalformed = errors.New("malformed record or message")

// Writer appends varints and strings.
type Writer struct{ B []byte }

func (w *Writer) U8(v uint8)      { w.B = append(w.B, v) }
func (w *Writer) Uint(v uint64)   { w.B = binary.AppendUvarint(w.B, v) }
func (w *Writer) Int(v int64)     { w.B = binary.AppendVarint(w.B, v) }
func (w *Writer) Bytes(v []byte)  { w.Uint(uint64(len(v))); w.B = append(w.B, v...) }
func (w *Writer) String(v string) { w.Uint(uint64(len(v))); w.B = append(w.B, v...) }
func (w *Writer) Owner(o Owner)   { w.String(string(o.Node)); w.Uint(o.Incarnation) }
func (w *Writer) ticket(t filch.Ticket) {
	w.Int(int64(t.Class))
	w.Int(t.UnixNS)
	w.Int(int64(t.Job))
}

func (w *Writer) Bool(v bool) {
	if v {
		w.U8(1)
	} else {
		w.U8(0)
	}
}

// Reader reads the values that a Writer wrote. After an error Bad stays set, and every
// value reads as zero.
type Reader struct{ varint.Reader }

// NewReader returns a Reader of b.
func NewReader(b []byte) Reader { return Reader{varint.Reader{B: b}} }

func (r *Reader) U8() uint8    { return r.Byte() }
func (r *Reader) Bool() bool   { return r.Flag() }
func (r *Reader) Uint() uint64 { return r.Uvarint() }
func (r *Reader) Int() int64   { return r.Varint() }

// UpTo reads a number of at most limit.
func (r *Reader) UpTo(limit uint64) uint64 {
	v := r.Uint()
	if v > limit {
		r.Fail()
		return 0
	}
	return v
}

// Index is a task's index or a bound of a range.
func (r *Reader) Index() int32 { return int32(r.UpTo(MaxTasks)) }

// Count reads a number of elements of at least size bytes each.
func (r *Reader) Count(limit, size int) int {
	n := r.Reader.Count(size)
	if n > limit {
		r.Fail()
		return 0
	}
	return n
}

// View is a slice of the input; a caller that keeps the slice must copy the bytes.
func (r *Reader) View(limit int) []byte { return r.Reader.Bytes(limit) }

func (r *Reader) Bytes(limit int) []byte {
	v := r.View(limit)
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (r *Reader) Owner() Owner {
	return Owner{Node: filch.NodeName(r.View(MaxNodeName)), Incarnation: r.Uint()}
}

func (r *Reader) ticket() filch.Ticket {
	return filch.Ticket{Class: r.I32(), UnixNS: r.Int(), Job: filch.JobID(r.I32())}
}

func (r *Reader) I32() int32 {
	v := r.Int()
	if v != int64(int32(v)) {
		r.Fail()
		return 0
	}
	return int32(v)
}

func (r *Reader) U32() uint32 { return uint32(r.UpTo(1<<32 - 1)) }

func (r *Reader) State() filch.State { return filch.State(r.UpTo(uint64(filch.Cancelled))) }

func (r *Reader) Done() error {
	if r.Bad || len(r.B) != 0 {
		return ErrMalformed
	}
	return nil
}
