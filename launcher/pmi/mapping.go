package pmi

import (
	"errors"
	"fmt"
	"strconv"
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

var errMapping = errors.New("not a process mapping")

// ParseMapping returns the node of each of size ranks.
func ParseMapping(s string, size int) ([]int32, error) {
	body, ok := strings.CutPrefix(s, "(vector")
	if !ok {
		return nil, errMapping
	}
	body, ok = strings.CutSuffix(body, ")")
	if !ok || body == "" {
		return nil, errMapping
	}
	type block struct{ first, n, per int }
	var blocks []block
	for body != "" {
		rest, ok := strings.CutPrefix(body, ",(")
		if !ok {
			return nil, errMapping
		}
		in, after, ok := strings.Cut(rest, ")")
		f := strings.Split(in, ",")
		if !ok || len(f) != 3 {
			return nil, errMapping
		}
		var v [3]int
		for i := range f {
			n, err := strconv.ParseUint(f[i], 10, 20)
			if err != nil || n == 0 && i > 0 {
				return nil, errMapping
			}
			v[i] = int(n)
		}
		blocks = append(blocks, block{v[0], v[1], v[2]})
		body = after
	}
	nodes := make([]int32, 0, size)
	for len(nodes) < size {
		for _, b := range blocks {
			for i := 0; i < b.n*b.per && len(nodes) < size; i++ {
				nodes = append(nodes, int32(b.first+i/b.per))
			}
		}
	}
	return nodes, nil
}
