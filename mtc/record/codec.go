package record

import (
	"errors"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/varint"
)

// Bounds of the decoders.
const (
	MaxNodeName = 63      // bytes of a node's name
	MaxBlob     = 1 << 20 // bytes of any field
	maxOps      = 4096    // operations in a delta
	maxSpans    = 1 << 14 // spans of a zone, and owners of a record
	maxHolders  = 4096    // nodes with tokens of a cap
	maxAmount   = 1<<62 - 1
	maxMicros   = maxAmount / uint64(time.Microsecond)
)

var ErrMalformed = errors.New("malformed record or message")

// Codec visits the fields of a layout, as a [varint.Coder], and numbers the owners that the
// layout refers to.
type Codec struct {
	varint.Coder
	owners owners
}

// Reading reads the fields of v.
func Reading(v []byte) Codec { return Codec{Coder: varint.Decoder(v)} }

// Writing writes fields of about size bytes.
func Writing(size int) Codec { return Codec{Coder: varint.Encoder(make([]byte, 0, size))} }

// Done is the error of a Codec that should have read all of its bytes.
func (c *Codec) Done() error {
	if c.Bad || !c.Encodes && c.Left() > 0 {
		return ErrMalformed
	}
	return nil
}

// Facts packs at most eight facts into a byte, the first as the lowest bit, and returns the
// bits; for a reader, the bits that were read.
func (c *Codec) Facts(facts ...bool) (bits uint8) {
	for k, is := range facts {
		if is {
			bits |= 1 << k
		}
	}
	U8(c, &bits)
	c.Require(bits>>len(facts) == 0)
	return bits
}

// State is the state of a task or job.
func (c *Codec) State(v *filch.State) {
	*v = filch.State(c.UpTo(uint64(*v), uint64(filch.Cancelled)))
}

// Owner is an owner, written out.
func (c *Codec) Owner(v *Owner) {
	Text(c, &v.Node, MaxNodeName)
	Number(c, &v.Incarnation)
}

func (c *Codec) ticket(v *filch.Ticket) {
	Int32(c, &v.Class)
	Int(c, &v.UnixNS)
	Int32(c, &v.Job)
}

// copied is bytes, copied; none are nil.
func (c *Codec) copied(v *[]byte, limit int) {
	if c.Bytes(v, limit); !c.Encodes {
		*v = append([]byte(nil), *v...)
	}
}

// usage is what a task or a job used; the time in microseconds, the peak in KiB, with a
// bit for a bound.
func (c *Codec) usage(u *filch.Usage) {
	c.micros(&u.User)
	c.micros(&u.System)
	peak := uint64(u.PeakBytes) >> 10 << 1
	if u.AtMost {
		peak |= 1
	}
	peak = c.UpTo(peak, maxAmount>>10<<1|1)
	u.PeakBytes, u.AtMost = int64(peak>>1)<<10, peak&1 != 0
}

// someUsage is a usage that is there.
func (c *Codec) someUsage(u **filch.Usage) {
	if !c.Encodes {
		*u = new(filch.Usage)
	}
	c.usage(*u)
}

func (c *Codec) micros(d *time.Duration) {
	*d = time.Duration(c.UpTo(uint64(*d/time.Microsecond), maxMicros)) * time.Microsecond
}

// whole is a record that was asked for, nil if not.
func (c *Codec) whole(v *[]byte) {
	is := *v != nil
	if c.Flag(&is); is {
		c.Rest(v)
	}
}

// Count is a number of elements of at least size bytes each.
func (c *Codec) Count(n, limit, size int) int {
	if n = c.Coder.Count(n, size); n > limit {
		c.Fail()
		return 0
	}
	return n
}

func U8[T ~uint8](c *Codec, v *T) {
	b := uint8(*v)
	c.Byte(&b)
	*v = T(b)
}

func Number[T ~uint64](c *Codec, v *T) { *v = T(c.UpTo(uint64(*v), 1<<64-1)) }

func U32[T ~uint32](c *Codec, v *T) { *v = T(c.UpTo(uint64(*v), 1<<32-1)) }

func Int[T ~int64](c *Codec, v *T) { *v = T(c.Signed(int64(*v))) }

// Amount is a number from 0 on.
func Amount[T ~int64](c *Codec, v *T) { *v = T(c.UpTo(uint64(*v), maxAmount)) }

// Index is a task's index, or a number of tasks.
func Index[T ~int32](c *Codec, v *T) { *v = T(c.UpTo(uint64(*v), MaxTasks)) }

func Int32[T ~int32](c *Codec, v *T) {
	n := c.Signed(int64(*v))
	if n != int64(int32(n)) {
		c.Fail()
		n = 0
	}
	*v = T(n)
}

func Text[T ~string](c *Codec, v *T, limit int) {
	s := string(*v)
	c.Text(&s, limit)
	*v = T(s)
}

// List is a list of at most limit elements of at least size bytes each.
func List[T any](c *Codec, list *[]T, limit, size int, fields func(*T, *Codec)) {
	if n := c.Count(len(*list), limit, size); !c.Encodes {
		*list = make([]T, n)
	}
	for i := range *list {
		fields(&(*list)[i], c)
	}
}
