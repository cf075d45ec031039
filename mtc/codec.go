package mtc

import (
	"encoding/binary"
	"errors"

	"github.com/filch-hpc/filch"
)

// Bounds of what is decoded.
const (
	maxName    = 63      // bytes of a node's name
	maxBlob    = 1 << 20 // bytes of any field
	maxOps     = 4096    // operations in one delta
	maxSpans   = 1 << 14 // spans of a zone, and owners of a record
	maxHolders = 4096    // nodes that hold tokens of one cap
)

var errMalformed = errors.New("malformed record or message")

// writer appends varints and strings.
type writer struct{ b []byte }

func (w *writer) u8(v uint8)      { w.b = append(w.b, v) }
func (w *writer) uint(v uint64)   { w.b = binary.AppendUvarint(w.b, v) }
func (w *writer) int(v int64)     { w.b = binary.AppendVarint(w.b, v) }
func (w *writer) bytes(v []byte)  { w.uint(uint64(len(v))); w.b = append(w.b, v...) }
func (w *writer) string(v string) { w.uint(uint64(len(v))); w.b = append(w.b, v...) }
func (w *writer) owner(o Owner)   { w.string(string(o.Node)); w.uint(o.Incarnation) }
func (w *writer) ticket(t filch.Ticket) {
	w.int(int64(t.Class))
	w.int(t.UnixNS)
	w.int(int64(t.Job))
}

func (w *writer) bool(v bool) {
	if v {
		w.u8(1)
	} else {
		w.u8(0)
	}
}

// reader takes them off again; bad once set stays, and everything reads as zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) fail() { r.bad, r.b = true, nil }

func (r *reader) u8() uint8 {
	if len(r.b) == 0 {
		r.fail()
		return 0
	}
	v := r.b[0]
	r.b = r.b[1:]
	return v
}

func (r *reader) bool() bool { return r.u8() != 0 }

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) int() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

// upTo is a number that must not be above limit.
func (r *reader) upTo(limit uint64) uint64 {
	v := r.uint()
	if v > limit {
		r.fail()
		return 0
	}
	return v
}

// index is a task's index or a bound of a range.
func (r *reader) index() int32 { return int32(r.upTo(MaxTasks)) }

// count is a number of elements that take at least size bytes each.
func (r *reader) count(limit, size int) int {
	n := r.upTo(uint64(limit))
	if n > uint64(len(r.b)/size) {
		r.fail()
		return 0
	}
	return int(n)
}

// view is a slice of what is being read; it is copied where it is kept.
func (r *reader) view(limit int) []byte {
	n := r.upTo(uint64(limit))
	if n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	v := r.b[:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes(limit int) []byte {
	v := r.view(limit)
	if len(v) == 0 {
		return nil
	}
	return append([]byte(nil), v...)
}

func (r *reader) owner() Owner {
	return Owner{Node: filch.NodeName(r.view(maxName)), Incarnation: r.uint()}
}

func (r *reader) ticket() filch.Ticket {
	return filch.Ticket{Class: r.i32(), UnixNS: r.int(), Job: filch.JobID(r.i32())}
}

func (r *reader) i32() int32 {
	v := r.int()
	if v != int64(int32(v)) {
		r.fail()
		return 0
	}
	return int32(v)
}

func (r *reader) u32() uint32 { return uint32(r.upTo(1<<32 - 1)) }

func (r *reader) state() filch.State { return filch.State(r.upTo(uint64(filch.Cancelled))) }

func (r *reader) done() error {
	if r.bad || len(r.b) != 0 {
		return errMalformed
	}
	return nil
}
