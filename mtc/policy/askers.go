package policy

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Askers are thieves that found nothing at a node, for news of later work; the oldest
// first.
type Askers []filch.NodeName

// askersMax bounds the nodes that receive news of work.
const askersMax = 64

// Add keeps the name of a thief.
func (a *Askers) Add(thief filch.NodeName) {
	if !slices.Contains(*a, thief) {
		*a = append(*a, thief)
	}
	if len(*a) > askersMax {
		*a = slices.Delete(*a, 0, 1)
	}
}
