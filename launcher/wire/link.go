package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/filch-hpc/filch"
)

// Hello is the first frame of either end of a stream.
type Hello struct {
	Role  string // client, keeper, launcher
	Build string // of the binary, for people
	Ident string // of a keeper with a job: the job's attempt, else ""
	PID   int32
}

var helloMagic = []byte("filch")

// EncodeHello makes the body of a [KindHello] frame: the magic, the version as
// two bytes, and the rest in the encoding of that version.
func EncodeHello(h Hello) ([]byte, error) {
	b := append([]byte(nil), helloMagic...)
	b = binary.BigEndian.AppendUint16(b, Version)
	return appendValue(b, h)
}

// DecodeHello refuses another version with an error that names both versions.
func DecodeHello(b []byte) (Hello, error) {
	var h Hello
	rest, ok := bytes.CutPrefix(b, helloMagic)
	if !ok || len(rest) < 2 {
		return h, filch.Errorf(filch.Invalid, "the peer does not speak filch's protocol")
	}
	if v := binary.BigEndian.Uint16(rest); v != Version {
		return h, filch.Errorf(filch.Invalid, "the peer speaks wire version %d, this is version %d", v, Version).
			WithHint("use one build of filch on all nodes; `filch version` shows it")
	}
	return h, Unmarshal(rest[2:], &h)
}

// EncodeRefusal makes the body of a [KindRefusal] frame.
func EncodeRefusal(text, hint string) []byte {
	b := append([]byte(text), 0)
	b = append(b, hint...)
	return b[:min(len(b), MaxHello)]
}

// DecodeRefusal is the inverse of [EncodeRefusal].
func DecodeRefusal(b []byte) *filch.Error {
	text, hint, _ := bytes.Cut(b, []byte{0})
	return &filch.Error{Kind: filch.Denied, Text: string(text), Hint: string(hint)}
}

// Signal asks for a signal to be sent to every rank of a job, or for the job to be
// cancelled with Sig first. Job 0 is the client's own job.
type Signal struct {
	Job filch.JobID
	Sig int32
}

// Reattach continues a run on a new connection, after the launcher was restarted. Seen
// is how far the client has each node's output.
type Reattach struct {
	Job  filch.JobID
	Seen []Mark
}

// Mark is a place in the output of the node with the given index.
type Mark struct {
	Index  int32
	Offset uint64
}

// Query is a request to a launcher; see [VerbNodes] and the other verbs.
type Query struct {
	Verb string
	Args []string
}

// Answer ends a query: JSON in the form of the verb, or an error.
type Answer struct {
	JSON []byte
	Err  *filch.Error
}

// Parts returns the encoding of the answer in parts, as for [Conn.WriteRaw]: JSON is a
// part of its own, and not copied.
func (a Answer) Parts() (head, data, tail []byte, err error) {
	head = binary.BigEndian.AppendUint32([]byte{answerFields, packedBin32}, uint32(len(a.JSON)))
	tail = []byte{packedNil}
	if a.Err != nil {
		tail, err = Marshal(a.Err)
	}
	return head, a.JSON, tail, err
}

// DecodeAnswer decodes an answer. JSON is a view of b if the sender used [Answer.Parts].
func DecodeAnswer(b []byte) (a Answer, err error) {
	const head = 1 + 5
	if len(b) > head && b[0] == answerFields && b[1] == packedBin32 {
		if n := int(binary.BigEndian.Uint32(b[2:])); n < len(b)-head {
			a.JSON = b[head : head+n : head+n]
			if tail := b[head+n:]; len(tail) != 1 || tail[0] != packedNil {
				err = Unmarshal(tail, &a.Err)
			}
			return a, err
		}
	}
	err = Unmarshal(b, &a)
	return a, err
}

// Bytes of msgpack in an answer.
const (
	answerFields = 0x92 // an array of two
	packedNil    = 0xc0
	packedBin32  = 0xc6
)

// Warn is a line for the user of a run.
type Warn struct{ Text string }

// DecodeQuery decodes a query and refuses a query with too long a verb or too many
// arguments.
func DecodeQuery(b []byte) (Query, error) {
	var q Query
	if err := Unmarshal(b, &q); err != nil {
		return q, err
	}
	if len(q.Verb) > maxVerb || len(q.Args) > maxArgs {
		return q, fmt.Errorf("query refused: verb of %d bytes with %d arguments", len(q.Verb), len(q.Args))
	}
	return q, nil
}

const (
	maxVerb = 32
	maxArgs = 4096
)
