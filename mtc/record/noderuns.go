package record

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// NodeRun is a node and further nodes whose numbers follow: n8 with Count 3 is n8, n9 and n10. A
// last run without a node counts the nodes that are not listed.
type NodeRun struct {
	First filch.NodeName
	Count int32
}

// nodeRunsMax bounds the runs of a task, so that 256 gangs on scattered nodes fit into a block;
// nodeRunMax bounds the nodes of a run.
const (
	nodeRunsMax = 12
	nodeRunMax  = 1 << 16
)

// NodeRuns lists the nodes of a gang, the first node first, the others by name and number.
func NodeRuns(nodes []filch.NodeName) (runs []NodeRun) {
	if len(nodes) == 0 {
		return nil
	}
	rest := slices.Clone(nodes[1:])
	slices.SortFunc(rest, func(a, b filch.NodeName) int {
		x, i := cutNumber(a)
		y, k := cutNumber(b)
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(len(i), len(k)), cmp.Compare(i, k))
	})
	runs, last := []NodeRun{{nodes[0], 1}}, nodes[0]
	for at, name := range rest {
		switch k := len(runs) - 1; {
		case name == nextNode(last) && runs[k].Count < nodeRunMax:
			runs[k].Count++
		case len(runs) == nodeRunsMax-1:
			return append(runs, NodeRun{Count: int32(min(len(rest)-at, nodeRunMax))})
		default:
			runs = append(runs, NodeRun{name, 1})
		}
		last = name
	}
	return runs
}

// NodesOf are the listed nodes, and the number of the others.
func NodesOf(runs []NodeRun) (nodes []filch.NodeName, more int32) {
	for _, r := range runs {
		if r.First == "" {
			more += r.Count
			continue
		}
		for name, n := r.First, r.Count; n > 0; n-- {
			nodes, name = append(nodes, name), nextNode(name)
		}
	}
	return nodes, more
}

// digitsMax bounds the digits of a node's number; further digits belong to the name before.
const digitsMax = 9

// cutNumber cuts a name before the number at the end.
func cutNumber(name filch.NodeName) (before, number string) {
	i := len(name)
	for i > 0 && name[i-1] >= '0' && name[i-1] <= '9' && len(name)-i < digitsMax {
		i--
	}
	return string(name[:i]), string(name[i:])
}

// nextNode is the name with the next number, with as many digits or more: n10 after n9, n010
// after n009. A name without a number has no next name.
func nextNode(name filch.NodeName) filch.NodeName {
	before, number := cutNumber(name)
	n, err := strconv.Atoi(number)
	if err != nil {
		return ""
	}
	next := strconv.Itoa(n + 1)
	return filch.NodeName(before + strings.Repeat("0", max(len(number)-len(next), 0)) + next)
}

func nodeRuns(c *Codec, list *[]NodeRun) {
	List(c, list, nodeRunsMax, 2, func(r *NodeRun, c *Codec) {
		Text(c, &r.First, MaxNodeName)
		r.Count = int32(c.UpTo(uint64(r.Count), nodeRunMax))
		c.Require(r.Count > 0)
	})
}
