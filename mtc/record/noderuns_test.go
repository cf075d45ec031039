package record

import (
	"fmt"
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
)

// Nodes with consecutive numbers take one run, whatever their order was; the first node stays the
// first.
func TestNodeRuns(t *testing.T) {
	for _, c := range []struct {
		nodes []filch.NodeName
		want  string
	}{
		{nil, "[]"},
		{[]filch.NodeName{"n2"}, "[{n2 1}]"},
		{[]filch.NodeName{"n1", "n3", "n2"}, "[{n1 3}]"},
		{[]filch.NodeName{"n3", "n11", "n9", "n10", "n2"}, "[{n3 1} {n2 1} {n9 3}]"},
		{[]filch.NodeName{"c007", "c010", "c008", "c009"}, "[{c007 4}]"},
		{[]filch.NodeName{"c9", "c09"}, "[{c9 1} {c09 1}]"},
		{[]filch.NodeName{"login", "b", "a"}, "[{login 1} {a 1} {b 1}]"},
		{[]filch.NodeName{"n99999999999999999998", "n99999999999999999999"}, "[{n99999999999999999998 2}]"},
	} {
		runs := NodeRuns(c.nodes)
		if got := fmt.Sprint(runs); got != c.want {
			t.Errorf("%v: got %s, want %s", c.nodes, got, c.want)
		}
		got, more := NodesOf(runs)
		if len(c.nodes) > 0 && got[0] != c.nodes[0] {
			t.Errorf("%v: the first node is %s", c.nodes, got[0])
		}
		want := slices.Clone(c.nodes)
		slices.Sort(got)
		slices.Sort(want)
		if more != 0 || !slices.Equal(got, want) {
			t.Errorf("%v: got %v and %d more", c.nodes, got, more)
		}
	}
}

// Scattered nodes beyond the bound are counted; a block full of such gangs stays small.
func TestNodeRunsMany(t *testing.T) {
	var nodes []filch.NodeName
	for i := range 100 {
		nodes = append(nodes, filch.NodeName(fmt.Sprintf("n%d", 2*i)))
	}
	runs := NodeRuns(nodes)
	got, more := NodesOf(runs)
	if len(runs) != nodeRunsMax || !slices.Equal(got, nodes[:nodeRunsMax-1]) || int(more) != len(nodes)-nodeRunsMax+1 {
		t.Fatalf("%d nodes are %v", len(nodes), runs)
	}
	b := &Block{}
	for i := range BlockSize {
		b.Offs, b.Tasks = append(b.Offs, uint8(i)), append(b.Tasks, Task{State: filch.OK, Attempt: 1, Nodes: runs})
	}
	if n := len(b.Encode()); n > 32<<10 {
		t.Errorf("a block of gangs on %d scattered nodes has %d bytes", len(nodes), n)
	}
}

// The end of a gang brings its nodes to the record.
func TestEndHasNodes(t *testing.T) {
	runs := NodeRuns([]filch.NodeName{"n3", "n1", "n2"})
	op := BlockOp{Kind: BlockEnd, Off: 3, Task: Task{State: filch.OK, Attempt: 1, Owner: alice, Nodes: runs}}
	v, _, err := mergeBlock(nil, EncodeBlockOps([]BlockOp{op}, false))
	if err != nil {
		t.Fatal(err)
	}
	b, err := DecodeBlock(v)
	if err != nil || !slices.Equal(b.Find(3).Nodes, runs) {
		t.Errorf("got %+v, %v, want %v", b.Find(3), err, runs)
	}
}
