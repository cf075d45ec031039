package node_test

import (
	"encoding/binary"
	"testing"

	"github.com/filch-hpc/filch/launcher/node/records"
)

// TestFirstBlocksAreNoRace has nodes begin at once, each of which wants a block of
// job ids from one counter. With a lookup and a compare-and-swap each, what is said
// grew with the square of the nodes, and on a network that loses a tenth the last
// of 41 nodes had no id after 87 s (seed 68 of testbed/sim/instance).
func TestFirstBlocksAreNoRace(t *testing.T) {
	const nodes, most = 64, 56
	w := newNet(t, nodes, 1)
	if w.words > nodes*most {
		t.Errorf("the stores of %d nodes that began at once said %d words, want at most %d for each node", nodes, w.words, most)
	}
	for _, name := range w.names {
		if w.submit(name, 1, gang(1)) == 0 {
			t.Errorf("%s has no number for a job 5 s after it began", name)
		}
	}
}

func TestMergeIDs(t *testing.T) {
	block := func(vs ...uint64) (b []byte) {
		for _, v := range vs {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	for _, x := range []struct {
		name       string
		old, delta []byte
		first      uint64 // 0: refused
		next       uint64
	}{
		{"the first", nil, block(1, 32), 1, 33},
		{"the next", block(33), block(1, 64), 33, 97},
		{"above what a node knows", block(33), block(5000, 32), 5000, 5032},
		{"no count", block(33), block(1, 0), 0, 0},
		{"too many at once", block(33), block(1, records.BlockMax+1), 0, 0},
		{"a tail", block(33), block(1, 32, 7), 0, 0},
		{"nothing", block(33), nil, 0, 0},
		{"a record that makes no sense", []byte{0x80}, block(1, 32), 0, 0},
		{"none left", block(1<<31 - 2), block(1, 32), 0, 0},
		{"the last of jobs", block(1<<30 - 33), block(1, 32), 1<<30 - 33, 1<<30 - 1},
		{"jobs at the ids of gangs", block(1<<30 - 32), block(1, 32), 0, 0},
		{"jobs into the ids of gangs", block(1<<30 - 1), block(1, 1), 0, 0},
		{"a floor at the ids of gangs", block(33), block(1<<30-1, 32), 0, 0},
		{"the first of gangs", nil, block(1<<30, 32), 1 << 30, 1<<30 + 32},
		{"the next of gangs", block(1<<30 + 32), block(1<<30, 32), 1<<30 + 32, 1<<30 + 64},
		{"no gangs left", block(1<<31 - 1 - records.BlockMax), block(1<<30, 32), 0, 0},
	} {
		value, reply, err := records.MergeIDs(x.old, x.delta)
		if x.first == 0 {
			if err == nil {
				t.Errorf("%s: took %v", x.name, reply)
			}
			continue
		}
		first, _ := binary.Uvarint(reply)
		next, _ := binary.Uvarint(value)
		if err != nil || first != x.first || next != x.next {
			t.Errorf("%s: first %d, next %d, %v; want %d, %d", x.name, first, next, err, x.first, x.next)
		}
	}
}
