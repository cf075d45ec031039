package dht

import (
	"errors"

	"github.com/filch-hpc/filch/varint"
)

// Kind is the kind of a record: it selects the rule for merging deltas.
type Kind uint8

// The built-in kinds; users of the store register higher kinds.
const (
	KindRegister Kind = iota + 1 // bytes, replaced as a whole by OpSwap
	KindList                     // byte strings in the order of arrival; see [DecodeList]
	_                            // not in use
	KindFree                     // the first kind free for users of the store
)

// Merge is the rule of a kind. Merge is pure, and merging a delta twice is the same
// as once; the order of deltas does not change the final value. old is nil if there
// is no record. The reply goes to the issuer of the operation.
type Merge func(old, delta []byte) (value, reply []byte, err error)

// Kinds are the rules by kind.
type Kinds map[Kind]Merge

var errList = errors.New("malformed list")

// DecodeList splits a record of KindList. The elements share memory with value.
func DecodeList(value []byte) ([][]byte, error) {
	var all [][]byte
	for d := (varint.Reader{B: value}); d.Left() > 0; {
		e := d.Bytes(d.Left())
		if d.Bad {
			return nil, errList
		}
		all = append(all, e)
	}
	return all, nil
}
