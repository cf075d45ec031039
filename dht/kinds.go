package dht

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"slices"
)

// Kind is what a record is: it says how deltas are merged into it.
type Kind uint8

// The built-in kinds; higher ones are registered by who uses the store.
const (
	KindRegister Kind = iota + 1 // bytes, replaced as a whole by OpSwap
	KindList                     // byte strings in the order in which they came; see [DecodeList]
	KindTable                    // cells by name; see [EncodeTable]
	KindFree                     // the first kind that is free for others
)

// Merge is the rule of a kind. It is pure, and old joined with the same delta
// twice is the same as once; in whatever order deltas come, the end is the
// same. old is nil when there is no record. The reply goes to who merged.
type Merge func(old, delta []byte) (value, reply []byte, err error)

// Kinds are the rules by kind.
type Kinds map[Kind]Merge

var (
	errTable = errors.New("malformed table")
	errList  = errors.New("malformed list")
)

// Cell of a record of KindTable. First cells keep the first value written,
// others the greatest, compared by length and then by bytes.
type Cell struct {
	Name  string
	First bool
	Value []byte
}

// EncodeTable lays out cells, no two of the same name, as the delta of OpMerge
// on KindTable.
func EncodeTable(cells []Cell) []byte {
	cells = slices.Clone(cells)
	slices.SortFunc(cells, func(a, b Cell) int { return cmp.Compare(a.Name, b.Name) })
	var b []byte
	for _, c := range cells {
		b = appendCell(b, c)
	}
	return b
}

func appendCell(b []byte, c Cell) []byte {
	b = appendBytes(b, c.Name)
	b = appendBool(b, c.First)
	return appendBytes(b, c.Value)
}

// DecodeTable takes a record of KindTable apart, by name. The values share
// memory with it.
func DecodeTable(value []byte) ([]Cell, error) {
	var cells []Cell
	for d := (decoder{b: value}); len(d.b) > 0; {
		c := Cell{Name: string(d.bytes(len(d.b))), First: d.flag(), Value: d.bytes(len(d.b))}
		if d.bad || len(cells) > 0 && cells[len(cells)-1].Name >= c.Name {
			return nil, errTable
		}
		cells = append(cells, c)
	}
	return cells, nil
}

// mergeTable is the rule of KindTable; its reply are the cells named in delta
// as they are now.
func mergeTable(old, delta []byte) (value, reply []byte, err error) {
	have, err := DecodeTable(old)
	if err != nil {
		return nil, nil, err
	}
	more, err := DecodeTable(delta)
	if err != nil {
		return nil, nil, err
	}
	for len(have) > 0 || len(more) > 0 {
		switch {
		case len(more) == 0 || len(have) > 0 && have[0].Name < more[0].Name:
			value = appendCell(value, have[0])
			have = have[1:]
		case len(have) == 0 || more[0].Name < have[0].Name:
			value, reply = appendCell(value, more[0]), appendCell(reply, more[0])
			more = more[1:]
		default:
			c := have[0]
			if !c.First && greater(more[0].Value, c.Value) {
				c.Value = more[0].Value
			}
			value, reply = appendCell(value, c), appendCell(reply, c)
			have, more = have[1:], more[1:]
		}
	}
	return value, reply, nil
}

func greater(a, b []byte) bool {
	return cmp.Or(cmp.Compare(len(a), len(b)), bytes.Compare(a, b)) > 0
}

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
