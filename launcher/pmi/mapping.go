package pmi

import (
	"fmt"
	"strings"
)

// Mapping encodes which ranks share a node, as the value of PMI_process_mapping:
// (vector,(first node,nodes,ranks of each),...), the ranks in order. Nodes[r] is the
// index of the node of rank r. The result is "" for a text longer than the 673 bytes that
// MPICH can take: ranks then compare host names, which is correct but costs a get of
// every rank from every rank.
func Mapping(nodes []int32) string {
	var b strings.Builder
	b.WriteString("(vector")
	if n, per, ok := cyclic(nodes); ok {
		fmt.Fprintf(&b, ",(0,%d,%d)", n, per)
	} else {
		for i := 0; i < len(nodes); {
			n, per := stretch(nodes[i:])
			fmt.Fprintf(&b, ",(%d,%d,%d)", nodes[i], n, per)
			i += n * per
			if b.Len() > maxMapping {
				return ""
			}
		}
	}
	b.WriteString(")")
	if b.Len() > maxMapping || len(nodes) == 0 {
		return ""
	}
	return b.String()
}

// stretch is how many nodes in a row, and how many ranks on each, begin nodes.
func stretch(nodes []int32) (n, per int) {
	run := func(at int, node int32) int {
		i := at
		for i < len(nodes) && nodes[i] == node {
			i++
		}
		return i - at
	}
	per = run(0, nodes[0])
	n = 1
	for n*per < len(nodes) && run(n*per, nodes[0]+int32(n)) == per {
		n++
	}
	return n, per
}

// cyclic reports whether nodes is 0..n-1 with per ranks each, again and again:
// a list of blocks is repeated until all ranks are placed.
func cyclic(nodes []int32) (n, per int, ok bool) {
	if len(nodes) == 0 || nodes[0] != 0 {
		return 0, 0, false
	}
	n, per = stretch(nodes)
	for r, node := range nodes {
		if int(node) != r/per%n {
			return 0, 0, false
		}
	}
	return n, per, true
}
