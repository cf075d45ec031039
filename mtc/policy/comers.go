package policy

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Comers are nodes that came lately, and that a node with work has not heard since. A node that
// came rests, and hears of work once. The node may not have listened then: its list of members
// was not whole, or a connection to its last process broke. So news of work are repeated.
type Comers []comer

type comer struct {
	name  filch.NodeName
	tries int
	next  time.Duration
}

const (
	comeAgain = 50 * time.Millisecond // the first wait between two news to a node, doubled with each
	comeTries = 8                     // news to a node, in 6.4 s: longer than a node joins
	comersMax = 64
)

// Came takes in a node that came.
func (c *Comers) Came(name filch.NodeName, now time.Duration) {
	c.Heard(name)
	*c = append(*c, comer{name: name, next: now})
	*c = (*c)[max(len(*c)-comersMax, 0):]
}

// Heard takes in that a node listens.
func (c *Comers) Heard(name filch.NodeName) {
	*c = slices.DeleteFunc(*c, func(k comer) bool { return k.name == name })
}

// Due are the nodes that are to hear of work now.
func (c *Comers) Due(now time.Duration) (names []filch.NodeName) {
	for i := range *c {
		if k := &(*c)[i]; k.next <= now {
			names = append(names, k.name)
			k.next = now + comeAgain<<k.tries
			k.tries++
		}
	}
	*c = slices.DeleteFunc(*c, func(k comer) bool { return k.tries >= comeTries })
	return names
}

// Next is when nodes are to hear of work; Never if there are none.
func (c *Comers) Next() time.Duration {
	at := filch.Never
	for i := range *c {
		at = min(at, (*c)[i].next)
	}
	return at
}
