// Package varint writes and reads the parts of messages, records and entries on disks:
// numbers as varints, strings with their length in front. A [Reader] refuses
// incomplete input, and no input makes a Reader allocate.
package varint

import "encoding/binary"

// Reader takes fields off the front of B; Bad is set once a field did not fit.
type Reader struct {
	B   []byte
	Bad bool
}

// Byte takes one byte.
func (r *Reader) Byte() uint8 {
	if len(r.B) == 0 {
		r.Bad = true
		return 0
	}
	v := r.B[0]
	r.B = r.B[1:]
	return v
}

// Flag takes one byte: 0 is false.
func (r *Reader) Flag() bool { return r.Byte() != 0 }

// Uvarint takes one number.
func (r *Reader) Uvarint() uint64 {
	if len(r.B) > 0 && r.B[0] < 0x80 { // most are
		v := r.B[0]
		r.B = r.B[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Varint takes one signed number.
func (r *Reader) Varint() int64 {
	v, n := binary.Varint(r.B)
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.B = r.B[n:]
	return v
}

// Fail refuses the input: every further field reads as zero.
func (r *Reader) Fail() { r.Bad, r.B = true, nil }

// Count reads the number of elements of at least size bytes each.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(len(r.B)/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads the encoding of [AppendBytes], of at most limit bytes. The result
// shares memory with B.
func (r *Reader) Bytes(limit int) []byte {
	n := r.Uvarint()
	if n > uint64(limit) || n > uint64(len(r.B)) {
		r.Fail()
		return nil
	}
	f := r.B[:n:n]
	r.B = r.B[n:]
	return f
}

// AppendBytes appends the length of s and s.
func AppendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// AppendUvarints appends numbers.
func AppendUvarints(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.AppendUvarint(b, v)
	}
	return b
}
