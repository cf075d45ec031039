package wire

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// maxOps bounds the operations of one [Ops].
const maxOps = 4096

// Ops asks a launcher for operations on the store; Results has one result for each
// operation, at the latest after Wait.
type Ops struct {
	Wait time.Duration
	Ops  []dht.Op
}

// Results answers [Ops].
type Results struct{ Results []dht.Result }

// DecodeOps decodes operations and refuses more than maxOps.
func DecodeOps(b []byte) (Ops, error) {
	var o Ops
	if err := Unmarshal(b, &o); err != nil {
		return o, err
	}
	if len(o.Ops) > maxOps {
		return o, fmt.Errorf("operations refused: %d at once, the most is %d", len(o.Ops), maxOps)
	}
	return o, nil
}
