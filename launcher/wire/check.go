package wire

import (
	"encoding/binary"
	"fmt"
)

// Limits of [Check].
const (
	// MaxDepth of containers; our own records nest seven deep.
	MaxDepth = 32
	// MaxElements of one body, containers included. A launch of 10,000 nodes
	// has about 100,000.
	MaxElements = 1_000_000
)

// Check walks one msgpack value without allocating and without recursion. After Check,
// no length in b exceeds the number of bytes after the length, so a decoder allocates
// in proportion to len(b), and no deeper than MaxDepth. Extension types are refused:
// filch has none.
func Check(b []byte) error {
	w := walker{rest: b}
	w.owed[0] = 1
	depth, seen := 0, 0
	for {
		for w.owed[depth] == 0 {
			if depth == 0 {
				if len(w.rest) != 0 {
					return fmt.Errorf("msgpack refused: %d bytes after the value", len(w.rest))
				}
				return nil
			}
			depth--
		}
		w.owed[depth]--
		if seen++; seen > MaxElements {
			return fmt.Errorf("msgpack refused: more than %d elements", MaxElements)
		}
		children, err := w.token()
		if err != nil {
			return err
		}
		if children == 0 {
			continue
		}
		if depth++; depth > MaxDepth {
			return fmt.Errorf("msgpack refused: nested deeper than %d", MaxDepth)
		}
		w.owed[depth] = children
	}
}

type walker struct {
	rest []byte
	owed [MaxDepth + 2]int // number of values still to come at each depth
}

// token takes one token off w.rest and returns the number of values in the token.
func (w *walker) token() (children int, err error) {
	if len(w.rest) == 0 {
		return 0, fmt.Errorf("msgpack refused: cut off")
	}
	c := w.rest[0]
	w.rest = w.rest[1:]
	skip := 0
	switch {
	case c <= 0x7f || c >= 0xe0: // small integers
	case c == 0xc0 || c == 0xc2 || c == 0xc3: // nil, false, true
	case c <= 0x8f:
		children = 2 * int(c&0x0f)
	case c <= 0x9f:
		children = int(c & 0x0f)
	case c <= 0xbf:
		skip = int(c & 0x1f)
	case c >= 0xc4 && c <= 0xc6: // bin 8, 16, 32
		skip, err = w.length(1 << (c - 0xc4))
	case c >= 0xd9 && c <= 0xdb: // str 8, 16, 32
		skip, err = w.length(1 << (c - 0xd9))
	case c == 0xca: // float 32
		skip = 4
	case c == 0xcb: // float 64
		skip = 8
	case c >= 0xcc && c <= 0xcf: // uint 8, 16, 32, 64
		skip = 1 << (c - 0xcc)
	case c >= 0xd0 && c <= 0xd3: // int 8, 16, 32, 64
		skip = 1 << (c - 0xd0)
	case c == 0xdc || c == 0xdd: // array 16, 32
		children, err = w.length(2 << (c - 0xdc))
	case c == 0xde || c == 0xdf: // map 16, 32
		children, err = w.length(2 << (c - 0xde))
		children *= 2
	default:
		return 0, fmt.Errorf("msgpack refused: token 0x%02x", c)
	}
	if err != nil {
		return 0, err
	}
	// Each child takes a byte at least.
	if skip > len(w.rest) || children > len(w.rest) {
		return 0, fmt.Errorf("msgpack refused: token 0x%02x claims %d, %d bytes are left", c, max(skip, children), len(w.rest))
	}
	w.rest = w.rest[skip:]
	return children, nil
}

// length reads a big-endian length of n bytes and refuses a length beyond the rest.
func (w *walker) length(n int) (int, error) {
	if len(w.rest) < n {
		return 0, fmt.Errorf("msgpack refused: cut off in a length")
	}
	var v uint64
	switch n {
	case 1:
		v = uint64(w.rest[0])
	case 2:
		v = uint64(binary.BigEndian.Uint16(w.rest))
	case 4:
		v = uint64(binary.BigEndian.Uint32(w.rest))
	}
	w.rest = w.rest[n:]
	if v > uint64(len(w.rest)) {
		return 0, fmt.Errorf("msgpack refused: length %d, %d bytes are left", v, len(w.rest))
	}
	return int(v), nil
}
