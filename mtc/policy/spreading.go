package policy

import (
	"math/bits"

	"github.com/filch-hpc/filch"
)

// Spreading is to how many nodes a submitted bag goes at once: the dispatchers of MATRIX v1
// (3.4). From there the tasks go on by stealing.
type Spreading uint8

// The numbers of nodes, with the node of the submission.
const (
	spreadOne  Spreading = iota // the worst case of MATRIX: all tasks begin on one node
	spreadLog                   // log2(N)
	spreadRoot                  // sqrt(N)
	spreadAll                   // the best case
)

var spreadingNames = [...]string{"1", "log", "sqrt", "all"}

func (s Spreading) String() string { return spreadingNames[min(int(s), len(spreadingNames)-1)] }

// ParseSpreading reads the name of a number of nodes.
func ParseSpreading(name string) (Spreading, error) {
	for s, n := range spreadingNames {
		if n == name {
			return Spreading(s), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q says not to how many nodes the tasks go", name).WithHint("the numbers of nodes are 1, log, sqrt and all")
}

// Nodes is the number of n nodes, at least one.
func (s Spreading) Nodes(n int) int {
	switch s {
	case spreadLog:
		n = bits.Len(uint(max(n, 1))) - 1
	case spreadRoot:
		n = filch.Root(n)
	case spreadAll:
	default:
		n = 1
	}
	if mutantUnspread {
		n = 1
	}
	return max(n, 1)
}
