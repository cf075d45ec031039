package varint

import (
	"encoding/binary"
	"math"
)

// Coder walks over the fields of a layout. An encoder appends the fields to B, a decoder
// reads the fields of B. So a layout is written once, as a function that
// visits its fields in order. The fields of an encoder are only read.
type Coder struct {
	Reader
	Encodes bool
}

// Encoder returns a Coder that appends to b.
func Encoder(b []byte) Coder { return Coder{Reader{B: b}, true} }

// Decoder returns a Coder that reads b.
func Decoder(b []byte) Coder { return Coder{Reader: Reader{B: b}} }

// Uint visits numbers.
func (c *Coder) Uint(fields ...*uint64) {
	for _, p := range fields {
		*p = c.UpTo(*p, math.MaxUint64)
	}
}

// UpTo visits a number of at most limit.
func (c *Coder) UpTo(v, limit uint64) uint64 {
	switch {
	case !c.Encodes:
		if v = c.Uvarint(); v > limit {
			c.Fail()
			return 0
		}
	case v < 0x80: // most are
		c.B = append(c.B, byte(v))
	default:
		c.B = binary.AppendUvarint(c.B, v)
	}
	return v
}

// Signed visits a signed number.
func (c *Coder) Signed(v int64) int64 {
	if c.Encodes {
		c.UpTo(uint64(v<<1)^uint64(v>>63), math.MaxUint64)
		return v
	}
	return c.Varint()
}

// Byte visits a byte.
func (c *Coder) Byte(p *uint8) {
	if c.Encodes {
		c.B = append(c.B, *p)
	} else {
		*p = c.Reader.Byte()
	}
}

// Flag visits a flag that has a byte of its own.
func (c *Coder) Flag(p *bool) {
	if c.Encodes {
		c.Flags(p)
	} else {
		*p = c.Reader.Flag()
	}
}

// Flags visits up to eight flags in a byte, the first in the lowest bit.
func (c *Coder) Flags(fields ...*bool) {
	var all uint8
	if c.Encodes {
		for i, p := range fields {
			if *p {
				all |= 1 << i
			}
		}
	}
	c.Byte(&all)
	if !c.Encodes {
		for i, p := range fields {
			*p = all&(1<<i) != 0
		}
	}
}

// Count visits a number of elements of at least size bytes each, and returns the number.
func (c *Coder) Count(n, size int) int {
	if c.Encodes {
		c.UpTo(uint64(n), math.MaxUint64)
		return n
	}
	return c.Reader.Count(size)
}

// Bytes visits a field of at most limit bytes. A decoded field shares memory with the
// input.
func (c *Coder) Bytes(p *[]byte, limit int) {
	if c.Encodes {
		c.B = AppendBytes(c.B, *p)
	} else {
		*p = c.Reader.Bytes(limit)
	}
}

// Rest visits the bytes up to the end. Decoded bytes share memory with the input.
func (c *Coder) Rest(p *[]byte) {
	if c.Encodes {
		c.B = append(c.B, *p...)
	} else {
		*p, c.at = c.Tail(), len(c.B)
	}
}

// Text visits a string of at most limit bytes.
func (c *Coder) Text(p *string, limit int) {
	if c.Encodes {
		c.B = AppendBytes(c.B, *p)
	} else {
		*p = string(c.Reader.Bytes(limit))
	}
}

// Require refuses the input of a decoder unless ok.
func (c *Coder) Require(ok bool) {
	if !ok && !c.Encodes {
		c.Fail()
	}
}

// Slice visits elements of at least size bytes each, with their number in front.
func Slice[T any](c *Coder, s *[]T, size int, element func(*T)) {
	Elements(c, s, c.Count(len(*s), size), element)
}

// Elements visits n elements. A decoder makes the slice, nil for no element, and stops at
// malformed input.
func Elements[T any](c *Coder, s *[]T, n int, element func(*T)) {
	if !c.Encodes && n > 0 && !c.Bad {
		*s = make([]T, n)
	}
	for i := 0; i < n && !c.Bad; i++ {
		element(&(*s)[i])
	}
}
