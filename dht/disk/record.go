package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

// Limits of an entry. A key is a name; a value may be a launcher's whole record
// of a job, whose frames end at 16 MiB.
const (
	maxKey   = 1024
	maxValue = 17 << 20
)

// headBytes is the length of a record before its key: mark, checksum of the
// head, checksum of the body, sequence number, length of the value, of the key,
// flags.
const headBytes = 4 + 4 + 4 + 8 + 4 + 2 + 2

// mark begins every record: a search for the mark finds the next record after
// damage. The mark is not text and no run of equal bytes, and no shift of the mark
// overlaps the mark.
var mark = []byte{0xf1, 0x1c, 0x4e, 0x0d}

// flagRemoval marks a record removing the key.
const flagRemoval = 1

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// An Entry is a key with a value, or with nil as the value the removal of the key.
// The log refers to key and value until the entry is written; the caller must not
// change them after Append.
type Entry struct {
	Key   string
	Value []byte
}

func (e *Entry) check() error {
	if e.Key == "" || len(e.Key) > maxKey {
		return fmt.Errorf("cannot keep an entry whose key has %d bytes: 1 to %d", len(e.Key), maxKey)
	}
	if len(e.Value) > maxValue {
		return fmt.Errorf("cannot keep %d bytes under one key: the limit is %d", len(e.Value), maxValue)
	}
	return nil
}

// recordBytes is the length of an entry's record.
func recordBytes(e *Entry) int64 { return headBytes + int64(len(e.Key)) + int64(len(e.Value)) }

// appendRecord appends the record of an entry.
func appendRecord(b []byte, salt uint32, seq uint64, e *Entry) []byte {
	at := len(b)
	flags := uint16(0)
	if e.Value == nil {
		flags = flagRemoval
	}
	b = append(b, mark...)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = binary.BigEndian.AppendUint64(b, seq)
	b = binary.BigEndian.AppendUint32(b, uint32(len(e.Value)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.Key)))
	b = binary.BigEndian.AppendUint16(b, flags)
	b = append(b, e.Key...)
	b = append(b, e.Value...)
	r := b[at:]
	binary.BigEndian.PutUint32(r[8:], crc32.Update(salt, castagnoli, r[headBytes:]))
	binary.BigEndian.PutUint32(r[4:], crc32.Update(salt, castagnoli, r[8:headBytes]))
	return b
}

// head is the head of a record, after its checksum was verified.
type head struct {
	body   uint32 // checksum
	seq    uint64
	value  int
	key    int
	remove bool
}

func (h head) bytes() int { return headBytes + h.key + h.value }

// readHead reads a whole head.
func readHead(b []byte, salt uint32) (head, bool) {
	if len(b) < headBytes || !bytes.HasPrefix(b, mark) ||
		crc32.Update(salt, castagnoli, b[8:headBytes]) != binary.BigEndian.Uint32(b[4:]) {
		return head{}, false
	}
	h := head{
		body:  binary.BigEndian.Uint32(b[8:]),
		seq:   binary.BigEndian.Uint64(b[12:]),
		value: int(binary.BigEndian.Uint32(b[20:])),
		key:   int(binary.BigEndian.Uint16(b[24:])),
	}
	flags := binary.BigEndian.Uint16(b[26:])
	h.remove = flags == flagRemoval
	ok := h.key > 0 && h.key <= maxKey && h.value <= maxValue && flags <= flagRemoval && (!h.remove || h.value == 0)
	return h, ok
}

// record is a record read by a scanner. The bytes are valid until the scanner's
// next call.
type record struct {
	seq    uint64
	at     int64
	key    []byte
	value  []byte
	remove bool
}

func (r *record) bytes() int64 { return headBytes + int64(len(r.key)) + int64(len(r.value)) }

// entry is the record as appended.
func (r *record) entry() Entry {
	e := Entry{Key: string(r.key), Value: r.value}
	if r.remove {
		e.Value = nil
	}
	return e
}
