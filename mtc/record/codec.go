package record

import (
	"encoding/binary"
	"errors"

	"github.com/filch-hpc/filch"
)

// Bounds of the decoders.
const (
	MaxNodeName = 63      // bytes of a node's name
	MaxBlob     = 1 << 20 // bytes of any field
	maxOps      = 4096    // operations in a delta
	maxSpans    = 1 << 14 // spans of a zone, and owners of a record
	maxHolders  = 4096    // nodes with tokens of a cap
	maxAmount   = 1<<62 - 1
)

var ErrMalformed = errors.New("malformed record or message")

// Codec writes fields as varints and strings, or reads the fields that it wrote. So a
// layout is a single function that names its fields in the order of their bytes.
//
// A reading Codec checks bounds. After an error Bad stays set, and every field reads as
// zero.
type Codec struct {
	B      []byte // written so far, or to read
	at     int    // in B, of the next byte to read
	Reads  bool
	Bad    bool
	owners owners
}

// Reading reads the fields of v.
func Reading(v []byte) Codec { return Codec{B: v, Reads: true} }

// writing writes fields of about size bytes.
func writing(size int) Codec { return Codec{B: make([]byte, 0, size)} }

func (c *Codec) Fail() { c.Bad, c.B, c.at = true, nil, 0 }

// Check fails a reading Codec unless ok.
func (c *Codec) Check(ok bool) {
	if c.Reads && !ok {
		c.Fail()
	}
}

// Done is the error of a Codec that should have read all of its bytes.
func (c *Codec) Done() error {
	if c.Bad || c.at < len(c.B) {
		return ErrMalformed
	}
	return nil
}

func (c *Codec) byte(v uint8) uint8 {
	if !c.Reads {
		c.B = append(c.B, v)
		return v
	}
	if c.at >= len(c.B) {
		c.Fail()
		return 0
	}
	c.at++
	return c.B[c.at-1]
}

// upTo is a number of at most limit. Most numbers have one byte.
func (c *Codec) upTo(v, limit uint64) uint64 {
	if !c.Reads {
		if v < 1<<7 {
			c.B = append(c.B, byte(v))
		} else {
			c.B = binary.AppendUvarint(c.B, v)
		}
		return v
	}
	n := 1
	if c.at < len(c.B) && c.B[c.at] < 1<<7 {
		v = uint64(c.B[c.at])
	} else {
		v, n = binary.Uvarint(c.B[c.at:])
	}
	if n <= 0 || v > limit {
		c.Fail()
		return 0
	}
	c.at += n
	return v
}

func (c *Codec) signed(v int64) int64 {
	if !c.Reads {
		c.B = binary.AppendVarint(c.B, v)
		return v
	}
	v, n := binary.Varint(c.B[c.at:])
	if n <= 0 {
		c.Fail()
		return 0
	}
	c.at += n
	return v
}

// next is the next n bytes of the input.
func (c *Codec) next(n uint64) []byte {
	if n > uint64(len(c.B)-c.at) {
		c.Fail()
		return nil
	}
	c.at += int(n)
	return c.B[c.at-int(n) : c.at]
}

func (c *Codec) Bool(v *bool) {
	n := uint8(0)
	if *v {
		n = 1
	}
	*v = c.byte(n) != 0
}

// State is the state of a task or job.
func (c *Codec) State(v *filch.State) {
	if c.Reads {
		*v = filch.State(c.upTo(0, uint64(filch.Cancelled)))
		return
	}
	c.byte(uint8(*v))
}

// Owner is an owner, written out.
func (c *Codec) Owner(v *Owner) {
	Text(c, &v.Node, MaxNodeName)
	Uint(c, &v.Incarnation)
}

func (c *Codec) ticket(v *filch.Ticket) {
	Int32(c, &v.Class)
	Int(c, &v.UnixNS)
	Int32(c, &v.Job)
}

// Rest is the bytes up to the end. Read bytes belong to the input.
func (c *Codec) Rest(v *[]byte) {
	if c.Reads {
		*v, c.at = c.B[c.at:], len(c.B)
		return
	}
	c.B = append(c.B, *v...)
}

// Bytes are bytes, copied; none are nil.
func (c *Codec) Bytes(v *[]byte, limit int) {
	n := c.upTo(uint64(len(*v)), uint64(limit))
	if c.Reads {
		*v = append([]byte(nil), c.next(n)...)
		return
	}
	c.B = append(c.B, *v...)
}

// whole is a record that was asked for, nil if not.
func (c *Codec) whole(v *[]byte) {
	is := *v != nil
	if c.Bool(&is); is {
		c.Rest(v)
	}
}

// Count is a number of elements of at least size bytes each.
func (c *Codec) Count(n, limit, size int) int {
	n = int(c.upTo(uint64(n), uint64(limit)))
	if c.Reads && n > (len(c.B)-c.at)/size {
		c.Fail()
		return 0
	}
	return n
}

func U8[T ~uint8](c *Codec, v *T) { *v = T(c.byte(uint8(*v))) }

func Uint[T ~uint64](c *Codec, v *T) { *v = T(c.upTo(uint64(*v), 1<<64-1)) }

func U32[T ~uint32](c *Codec, v *T) { *v = T(c.upTo(uint64(*v), 1<<32-1)) }

func Int[T ~int64](c *Codec, v *T) { *v = T(c.signed(int64(*v))) }

// Amount is a number from 0 on.
func Amount[T ~int64](c *Codec, v *T) { *v = T(c.upTo(uint64(*v), maxAmount)) }

// Index is a task's index, or a number of tasks.
func Index[T ~int32](c *Codec, v *T) { *v = T(c.upTo(uint64(*v), MaxTasks)) }

func Int32[T ~int32](c *Codec, v *T) {
	n := c.signed(int64(*v))
	if n != int64(int32(n)) {
		c.Fail()
		n = 0
	}
	*v = T(n)
}

func Text[T ~string](c *Codec, v *T, limit int) {
	n := c.upTo(uint64(len(*v)), uint64(limit))
	if c.Reads {
		*v = T(c.next(n))
		return
	}
	c.B = append(c.B, *v...)
}

// List is a list of at most limit elements of at least size bytes each.
func List[T any](c *Codec, list *[]T, limit, size int, fields func(*T, *Codec)) {
	if n := c.Count(len(*list), limit, size); c.Reads {
		*list = make([]T, n)
	}
	for i := range *list {
		fields(&(*list)[i], c)
	}
}
