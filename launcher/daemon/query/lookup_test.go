package query

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A lookup that ended at its time limit tells so beside the nodes nearest to a key, and is
// an error for a node.
func TestLookupTellsThatItIsNotComplete(t *testing.T) {
	r := overlay.Lookup{Nearest: []overlay.Contact{{Node: "n2"}}, Asked: 3, Failed: 1}
	late := fmt.Errorf("%w: after 5s", overlay.ErrUnfinished)
	got, err := found(wire.LookupInfo{Key: "job/1"}, "job/1", r, late)
	if info, ok := got.(wire.LookupInfo); err != nil || !ok || len(info.Nearest) != 1 || !strings.Contains(info.Trouble, "not complete: after 5s") {
		t.Errorf("of a key: got %+v, %v, want n2 and the trouble", got, err)
	}
	_, err = found(wire.LookupInfo{Node: "n7"}, "n7", r, fmt.Errorf("cannot find node n7: %w", late))
	if e, ok := err.(*filch.Error); !ok || e.Kind != filch.NotFound || !strings.Contains(e.Text, "after 5s (3 nodes asked, 1 did not answer)") {
		t.Errorf("of a node: got %v, want an error with the numbers", err)
	}
}
