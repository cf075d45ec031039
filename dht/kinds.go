package dht

import (
	"encoding/binary"
	"errors"
)

// Kind is what a record is: it says how deltas are merged into it.
type Kind uint8

// The built-in kinds; higher ones are registered by who uses the store.
const (
	KindRegister Kind = iota + 1 // bytes, replaced as a whole by OpSwap
	KindList                     // byte strings in the order in which they came; see [DecodeList]
	_                            // not in use
	KindFree                     // the first kind that is free for others
)

// Merge is the rule of a kind. It is pure, and old joined with the same delta
// twice is the same as once; in whatever order deltas come, the end is the
// same. old is nil when there is no record. The reply goes to who merged.
type Merge func(old, delta []byte) (value, reply []byte, err error)

// Kinds are the rules by kind.
type Kinds map[Kind]Merge

var errList = errors.New("malformed list")

// DecodeList takes a record of KindList apart. The elements share memory with
// it.
func DecodeList(value []byte) ([][]byte, error) {
	var all [][]byte
	for d := (decoder{b: value}); len(d.b) > 0; {
		e := d.bytes(len(d.b))
		if d.bad {
			return nil, errList
		}
		all = append(all, e)
	}
	return all, nil
}

func appendElement(value, e []byte) []byte {
	out := make([]byte, 0, len(value)+len(e)+4)
	return appendBytes(append(out, value...), e)
}

// recordKey is where the disk has a record; the other entries have names of
// their own.
const recordKey = "r/"

func markerKey(sh Shard) string { return "m/" + string(binary.BigEndian.AppendUint16(nil, uint16(sh))) }
