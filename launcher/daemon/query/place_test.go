package query

import (
	"testing"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A row of filch explain has the holder and the free slots of one moment.
func TestPlaceIsOfOneMoment(t *testing.T) {
	p := launcher.Place{Node: "n2", Want: 4, Free: 3} // as the lender told
	n := wire.NodeInfo{Holders: []launcher.Holder{{Job: 7, Slots: 1}, {Job: 5, Slots: 4}}}
	n.Node, n.Slots, n.Free = "n2", 4, 0
	if setHolder(&p, &n, 7); p.Holder != 5 || p.Holds != 4 || p.Free != 0 {
		t.Errorf("got job %d with %d slots and %d free, want job 5 with 4 and 0 free", p.Holder, p.Holds, p.Free)
	}
}
