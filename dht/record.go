package dht

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch"
)

// record is one version of what is held under a key. It is immutable: replicas
// share it, and so do messages.
type record struct {
	stamp   Version // of this version of the record, contents or not; replicas keep the highest
	version Version // of the last change of the contents
	kind    Kind
	gone    bool          // removed; kept so that what comes late finds it removed
	keep    time.Duration // of one that is gone
	value   []byte
	recent  []byte // the last operations that changed it, see appendRecent
	image   []byte // all of it, as messages and disk have it; value and recent are parts of it
}

// maxRecent bounds the remembered operations of a record: more are under way
// on one key at a time only if callers give up without an answer.
const maxRecent = 32

// newRecord makes a record with its image.
func newRecord(r record) *record {
	b := make([]byte, 0, 48+len(r.recent)+len(r.value))
	b = binary.AppendUvarint(b, r.stamp.Epoch)
	b = binary.AppendUvarint(b, r.stamp.Seq)
	b = binary.AppendUvarint(b, r.version.Epoch)
	b = binary.AppendUvarint(b, r.version.Seq)
	b = append(b, byte(r.kind))
	b = appendBool(b, r.gone)
	if r.gone {
		b = binary.AppendUvarint(b, uint64(r.keep))
	}
	b = binary.AppendUvarint(b, uint64(len(r.recent)))
	b = append(b, r.recent...)
	at := len(b)
	b = append(b, r.value...)
	r.recent = b[at-len(r.recent) : at : at]
	r.value = b[at:len(b):len(b)]
	r.image = b
	return &r
}

// decodeRecord reads an image, which it keeps.
func decodeRecord(image []byte) (*record, bool) {
	d := decoder{b: image}
	r := &record{image: image}
	r.stamp = d.version()
	r.version = d.version()
	r.kind = Kind(d.u8())
	r.gone = d.flag()
	if r.gone {
		r.keep = time.Duration(min(d.uvarint(), uint64(filch.Never)))
	}
	r.recent = d.bytes(len(d.b))
	r.value = d.b
	if d.bad || r.stamp.Epoch == 0 || len(r.value) > MaxValue || !checkRecent(r.recent) {
		return nil, false
	}
	return r, true
}

// answered is an operation that a record remembers.
type answered struct {
	node        []byte
	incarnation uint64
	seq         uint64
	version     Version
}

func (a *answered) is(id OpID) bool {
	return a.seq == id.Seq && a.incarnation == id.Incarnation && string(a.node) == string(id.Node)
}

// nextRecent takes the first remembered operation off b.
func nextRecent(b []byte) (a answered, rest []byte, ok bool) {
	d := decoder{b: b}
	a.node = d.bytes(maxNodeName)
	a.incarnation, a.seq = d.uvarint(), d.uvarint()
	a.version = d.version()
	return a, d.b, !d.bad
}

func checkRecent(b []byte) bool {
	n := 0
	for len(b) > 0 {
		_, rest, ok := nextRecent(b)
		if n++; !ok || n > maxRecent {
			return false
		}
		b = rest
	}
	return true
}

func findRecent(b []byte, id OpID) (Version, bool) {
	for len(b) > 0 {
		a, rest, ok := nextRecent(b)
		if !ok {
			break
		}
		if a.is(id) {
			return a.version, true
		}
		b = rest
	}
	return Version{}, false
}

// appendRecent remembers one more operation, without those whose callers are
// known to have their answers, and the oldest if there are too many.
func appendRecent(old []byte, id OpID, v Version, over func(node []byte, incarnation, seq uint64) bool) []byte {
	out := make([]byte, 0, len(old)+len(id.Node)+16)
	var ends [maxRecent + 1]int
	n := 0
	for b := old; len(b) > 0; {
		a, rest, ok := nextRecent(b)
		if !ok {
			break
		}
		if !over(a.node, a.incarnation, a.seq) {
			out = append(out, b[:len(b)-len(rest)]...)
			n++
			ends[n] = len(out)
		}
		b = rest
	}
	if n == maxRecent {
		out = out[ends[1]:]
	}
	out = binary.AppendUvarint(out, uint64(len(id.Node)))
	out = append(out, id.Node...)
	out = binary.AppendUvarint(out, id.Incarnation)
	out = binary.AppendUvarint(out, id.Seq)
	out = binary.AppendUvarint(out, v.Epoch)
	return binary.AppendUvarint(out, v.Seq)
}

// decoder takes fields off the front; bad once one did not fit.
type decoder struct {
	b   []byte
	bad bool
}

func (d *decoder) u8() uint8 {
	if len(d.b) == 0 {
		d.bad = true
		return 0
	}
	v := d.b[0]
	d.b = d.b[1:]
	return v
}

func (d *decoder) flag() bool { return d.u8() != 0 }

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.bad, d.b = true, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

// count reads the number of things that take at least size bytes each.
func (d *decoder) count(size int) int {
	n := d.uvarint()
	if n > uint64(len(d.b)/size) {
		d.bad, d.b = true, nil
		return 0
	}
	return int(n)
}

func (d *decoder) bytes(limit int) []byte {
	n := d.uvarint()
	if n > uint64(limit) || n > uint64(len(d.b)) {
		d.bad, d.b = true, nil
		return nil
	}
	f := d.b[:n:n]
	d.b = d.b[n:]
	return f
}

func (d *decoder) version() Version { return Version{d.uvarint(), d.uvarint()} }

func appendBytes[T ~string | ~[]byte](b []byte, s T) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendVersion(b []byte, v Version) []byte {
	b = binary.AppendUvarint(b, v.Epoch)
	return binary.AppendUvarint(b, v.Seq)
}
