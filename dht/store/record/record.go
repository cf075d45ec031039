package record

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/varint"
)

// OwnSeq marks the identities that a store chose itself. Their numbers are the numbers of
// the store's operations, which show the operations already answered. An identity from a
// caller with this mark is refused: such an operation would be forgotten, or mistaken for
// another operation, while the caller still repeats it.
const OwnSeq = 1 << 63

// Record is one version of the data under a key. A record is immutable: replicas and
// messages share records.
type Record struct {
	Stamp   dht.Version // of this version, contents or not; replicas keep the highest
	Version dht.Version // of the last change of the contents
	Kind    dht.Kind
	Gone    bool          // removed; kept so that late operations find the removal
	Keep    time.Duration // how long a removed record is kept
	Value   []byte
	recent  []byte // the last operations that changed the record, see appendRecent
	// The reply of the operation that makes this version, if the reply is to be
	// remembered; not part of the record.
	reply []byte
	// The encoded record, as in messages and on the disk; Value and recent are parts of
	// Image.
	Image []byte
}

// Bounds of a record's memory of the last operations.
const (
	// maxRecent: more operations may be under way on one key at a time. A retry of an
	// operation that the record has forgotten is answered with Unknown; a merge is
	// carried out again, and must tolerate the repetition.
	maxRecent = 32
	maxMarks  = 16 // callers with a mark of how far their operations were forgotten
	// keptReply is the largest reply that a record stores, for a merge whose repetition
	// would give a different reply; keptReplies is the limit for all stored replies of a
	// record. A retry of an operation with a larger or older reply is answered from the
	// present record.
	keptReply   = 16 << 10
	keptReplies = 32 << 10
	recentMax   = keptReplies + 16<<10

	// MaxImage is the largest size of [Record.Image].
	MaxImage = dht.MaxValue + recentMax
)

// New returns the record with its image.
func New(r Record) *Record {
	c := varint.Encoder(make([]byte, 0, 48+len(r.recent)+len(r.Value)))
	r.code(&c)
	at := len(c.B)
	b := append(c.B, r.Value...)
	r.recent = b[at-len(r.recent) : at : at]
	r.Value = b[at:len(b):len(b)]
	r.Image, r.reply = b, nil
	return &r
}

// Decode decodes an image. The record keeps the image.
func Decode(image []byte) (*Record, bool) {
	c := varint.Decoder(image)
	r := &Record{Image: image}
	r.code(&c)
	r.Value = c.Tail()
	if c.Bad || r.Stamp.Epoch == 0 || len(r.Value) > dht.MaxValue || !checkRecent(r.recent) {
		return nil, false
	}
	return r, true
}

// code visits everything but the value, which is the rest of the image.
func (r *Record) code(c *varint.Coder) {
	dht.CodeVersion(c, &r.Stamp)
	dht.CodeVersion(c, &r.Version)
	c.Byte((*uint8)(&r.Kind))
	if c.Flag(&r.Gone); r.Gone {
		dht.CodeDuration(c, &r.Keep)
	}
	c.Bytes(&r.recent, c.Left())
}

// answered is an operation that a record remembers.
type answered struct {
	node        []byte
	incarnation uint64
	seq         uint64
	version     dht.Version
	reply       []byte // nil: the same merge, repeated, has the same reply
}

func (a *answered) is(id dht.OpID) bool {
	return a.seq == id.Seq && a.incarnation == id.Incarnation && string(a.node) == string(id.Node)
}

// marks reports whether a is not an operation but a mark: the record has forgotten the
// operations of the caller up to the number seq.
func (a *answered) marks() bool { return a.version == dht.Version{} }

// covers reports whether a mark covers an operation. Callers and stores number their
// operations apart.
func (a *answered) covers(node []byte, incarnation, seq uint64) bool {
	return seq <= a.seq && (seq^a.seq)&OwnSeq == 0 && a.incarnation == incarnation && string(a.node) == string(node)
}

// nextRecent takes the first remembered operation off b.
func nextRecent(b []byte) (a answered, rest []byte, ok bool) {
	c := varint.Decoder(b)
	a.code(&c)
	return a, c.Tail(), !c.Bad
}

func (a *answered) append(b []byte) []byte {
	c := varint.Encoder(b)
	a.code(&c)
	return c.B
}

func (a *answered) code(c *varint.Coder) {
	c.Bytes(&a.node, filch.MaxNodeName)
	c.Uint(&a.incarnation, &a.seq)
	dht.CodeVersion(c, &a.version)
	kept := a.reply != nil
	if c.Flag(&kept); kept {
		c.Bytes(&a.reply, keptReply)
	}
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

// findRecent finds a remembered operation. forgotten reports that the record has no entry
// and the operation may have been carried out.
func findRecent(b []byte, id dht.OpID) (a answered, found, forgotten bool) {
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

// Remember adds the operation that made r to the operations that the version before, nil
// for none, remembers. over reports the operations whose callers have their answers.
func (r *Record) Remember(old *Record, id dht.OpID, over func(node []byte, incarnation, seq uint64) bool) {
	var recent []byte
	if old != nil {
		recent = old.recent
	}
	r.recent = appendRecent(recent, answered{[]byte(id.Node), id.Incarnation, id.Seq, r.Version, r.reply}, over)
}

// appendRecent adds an operation, without the operations whose callers are known to have
// their answers. If there are too many, the oldest is replaced by a mark.
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

// mark records that an operation was forgotten, and with this operation all earlier
// operations of the caller, of which the record has no entry.
func mark(marks []answered, a answered) []answered {
	a.version, a.reply = dht.Version{}, nil
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
