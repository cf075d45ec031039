package dht

import (
	"encoding/binary"
	"slices"
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
	reply   []byte // of the operation that makes it, if it is to be remembered; not part of the record
	image   []byte // all of it, as messages and disk have it; value and recent are parts of it
}

// Bounds of what a record remembers of the last operations that changed it.
const (
	// maxRecent: more may be under way on one key at a time. What is forgotten before
	// it is repeated is answered with unknown; a merge is done again, and must bear it.
	maxRecent = 32
	maxMarks  = 16 // callers of which it remembers how far it has forgotten
	// keptReply is the size of an answer that is remembered, if the same merge
	// once more would have another; keptReplies that of all of a record. An
	// operation whose answer is larger, or older, is answered with what the record
	// says then.
	keptReply   = 16 << 10
	keptReplies = 32 << 10
	recentMax   = keptReplies + 16<<10
)

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
	r.image, r.reply = b, nil
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
	reply       []byte // nil: the same merge once more has the same
}

func (a *answered) is(id OpID) bool {
	return a.seq == id.Seq && a.incarnation == id.Incarnation && string(a.node) == string(id.Node)
}

// marks reports whether a is no operation but a mark: those of its caller up to its
// number were forgotten.
func (a *answered) marks() bool { return a.version == Version{} }

// covers reports whether a mark is about an operation. Callers and stores number
// theirs apart.
func (a *answered) covers(node []byte, incarnation, seq uint64) bool {
	return seq <= a.seq && (seq^a.seq)&ownSeq == 0 && a.incarnation == incarnation && string(a.node) == string(node)
}

// nextRecent takes the first remembered operation off b.
func nextRecent(b []byte) (a answered, rest []byte, ok bool) {
	d := decoder{b: b}
	a.node = d.bytes(maxNodeName)
	a.incarnation, a.seq = d.uvarint(), d.uvarint()
	a.version = d.version()
	if d.flag() {
		a.reply = d.bytes(keptReply)
	}
	return a, d.b, !d.bad
}

func (a *answered) append(b []byte) []byte {
	b = appendBytes(b, a.node)
	b = appendVersion(appendUvarints(b, a.incarnation, a.seq), a.version)
	b = appendBool(b, a.reply != nil)
	if a.reply != nil {
		b = appendBytes(b, a.reply)
	}
	return b
}

func checkRecent(b []byte) bool {
	n := 0
	for len(b) > 0 {
		_, rest, ok := nextRecent(b)
		if n++; !ok || n > maxRecent+maxMarks {
			return false
		}
		b = rest
	}
	return true
}

// findRecent finds what is remembered of an operation; forgotten: nothing, and it
// may have been carried out.
func findRecent(b []byte, id OpID) (a answered, found, forgotten bool) {
	for len(b) > 0 {
		a, rest, ok := nextRecent(b)
		switch {
		case !ok:
			return answered{}, false, forgotten
		case a.marks():
			forgotten = forgotten || a.covers([]byte(id.Node), id.Incarnation, id.Seq)
		case a.is(id):
			return a, true, false
		}
		b = rest
	}
	return answered{}, false, forgotten
}

// appendRecent remembers one more operation, without those whose callers are
// known to have their answers. If there are too many the oldest goes, and a mark
// stays of it.
func appendRecent(old []byte, last answered, over func(node []byte, incarnation, seq uint64) bool) []byte {
	var all [maxRecent + 1]answered
	var marks []answered
	n, replies := 0, len(last.reply)
	for b := old; len(b) > 0 && n < maxRecent; {
		a, rest, ok := nextRecent(b)
		if !ok {
			break
		}
		switch {
		case over(a.node, a.incarnation, a.seq):
		case a.marks():
			marks = append(marks, a)
		default:
			all[n] = a
			n++
			replies += len(a.reply)
		}
		b = rest
	}
	all[n] = last
	first := 0
	if n == maxRecent {
		first = 1
		replies -= len(all[0].reply)
		marks = mark(marks, all[0])
	}
	out := make([]byte, 0, len(old)+len(last.node)+len(last.reply)+40)
	for i := range marks {
		out = marks[i].append(out)
	}
	for i := first; i <= n; i++ {
		if replies > keptReplies && i < n {
			replies -= len(all[i].reply)
			all[i].reply = nil
		}
		out = all[i].append(out)
	}
	return out
}

// mark notes that an operation is forgotten, and with it, of which is not known
// more, those of its caller before.
func mark(marks []answered, a answered) []answered {
	a.version, a.reply = Version{}, nil
	marks = slices.DeleteFunc(marks, func(m answered) bool {
		if a.covers(m.node, m.incarnation, m.seq) {
			return true
		}
		if m.covers(a.node, a.incarnation, a.seq) {
			a.seq = m.seq
			return true
		}
		return false
	})
	if len(marks) == maxMarks {
		marks = marks[1:]
	}
	return append(marks, a)
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
