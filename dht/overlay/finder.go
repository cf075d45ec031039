package overlay

import (
	"context"
	"errors"
	"time"

	"github.com/filch-hpc/filch"
)

// ErrUnfinished is in the error of a lookup that ended at its time limit. The result has
// the nodes found until then; nearer nodes may exist.
var ErrUnfinished = errors.New("the lookup is not complete")

// Finder finds nodes by lookups, without a list of all nodes; package kad has the
// real one. Every node in a result has proven its name on a connection.
type Finder interface {
	// FindNode looks for a node. If the lookup finds the node, the node is the first
	// in Nearest and a connection to the node is open.
	FindNode(ctx context.Context, name filch.NodeName) (Lookup, error)
	// FindKey looks for the nodes nearest to a key, including this node. See
	// [ErrUnfinished].
	FindKey(ctx context.Context, key string) (Lookup, error)
	// FindNear looks for the nodes nearest to this node. See [ErrUnfinished].
	FindNear(ctx context.Context) (Lookup, error)
	// Prime asks one connected node, with one message, for the nodes nearest to this
	// node. Lookups then begin at these nodes too, even if the asked node dies.
	Prime(ctx context.Context, name filch.NodeName) error
}

// Lookup is the result of a lookup.
type Lookup struct {
	Nearest []Contact // the nodes found, nearest first
	Path    []Hop     // the nodes on the way from this node to the first of Nearest
	Asked   int       // nodes asked, on all ways
	Failed  int       // of the nodes asked
	Took    time.Duration
}

// Contact is a node found by a lookup.
type Contact struct {
	Node filch.NodeName
	Addr string
}

// Hop is a node on the path of a lookup.
type Hop struct {
	Node  filch.NodeName
	Addr  string
	Named int           // nodes named in the answer
	Took  time.Duration // from the question to the answer, with the dial
}
