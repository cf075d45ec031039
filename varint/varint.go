// Package varint writes and reads the parts of messages, records and entries on disks:
// numbers as varints, strings with their length in front. A [Reader] refuses
// incomplete input, and no input makes a Reader allocate.
package varint

import "encoding/binary"

// Reader reads the fields of B in order; Bad is set once a field did not fit. A Reader
// counts the bytes read and leaves B alone: the change of a slice costs more than a field.
type Reader struct {
	B   []byte
	at  int // in B, of the next byte to read
	Bad bool
}

// Left returns the number of bytes not yet read.
func (r *Reader) Left() int { return len(r.B) - r.at }

// Tail returns the bytes not yet read.
func (r *Reader) Tail() []byte { return r.B[r.at:] }

// Byte reads one byte.
func (r *Reader) Byte() uint8 {
	if r.at >= len(r.B) {
		r.Fail()
		return 0
	}
	r.at++
	return r.B[r.at-1]
}

// Flag reads one byte: 0 is false.
func (r *Reader) Flag() bool { return r.Byte() != 0 }

// Uvarint reads one number.
func (r *Reader) Uvarint() uint64 {
	if r.at < len(r.B) && r.B[r.at] < 0x80 { // most are
		r.at++
		return uint64(r.B[r.at-1])
	}
	return r.long()
}

// long reads a number of any length.
func (r *Reader) long() uint64 {
	v, n := binary.Uvarint(r.B[r.at:])
	if n <= 0 {
		r.Fail()
		return 0
	}
	r.at += n
	return v
}

// Varint reads one signed number.
func (r *Reader) Varint() int64 {
	v := r.Uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// Fail refuses the input: every further field reads as zero.
func (r *Reader) Fail() { *r = Reader{Bad: true} }

// Count reads the number of elements of at least size bytes each.
func (r *Reader) Count(size int) int {
	n := r.Uvarint()
	if n > uint64(r.Left()/size) {
		r.Fail()
		return 0
	}
	return int(n)
}

// Bytes reads the encoding of [AppendBytes], of at most limit bytes. The result
// shares memory with B.
func (r *Reader) Bytes(limit int) []byte {
	n := r.Uvarint()
	if n > uint64(limit) || n > uint64(r.Left()) {
		r.Fail()
		return nil
	}
	r.at += int(n)
	return r.B[r.at-int(n) : r.at : r.at]
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
