package varint

import "encoding/binary"

// Coder walks over the fields of a layout. An encoder appends the fields to B, a decoder
// takes the fields off the front of B. So a layout is written once, as a function that
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
		switch {
		case !c.Encodes:
			*p = c.Uvarint()
		case *p < 0x80: // most are
			c.B = append(c.B, byte(*p))
		default:
			c.B = binary.AppendUvarint(c.B, *p)
		}
	}
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
		c.B = binary.AppendUvarint(c.B, uint64(n))
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

// Text visits a string of at most limit bytes.
func (c *Coder) Text(p *string, limit int) {
	if c.Encodes {
		c.B = AppendBytes(c.B, *p)
	} else {
		*p = string(c.Reader.Bytes(limit))
	}
}

// Require refuses the input of a decoder unless ok.
func (c *Coder) Require(ok bool) { c.Bad = c.Bad || !ok && !c.Encodes }

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
