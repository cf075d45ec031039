package bringup

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// What filch up waited for in vain is named.
func TestUnsafeText(t *testing.T) {
	r := wire.RosterInfo{Shards: 64, Short: 7, Members: make([]wire.RosterMember, 2), Seats: []filch.NodeName{"n1"}}
	for _, want := range []string{
		"7 of 64 shards have too few replicas",
		"2 of 3 nodes keep records",
		"the roster has 1 seat, not 3",
	} {
		if got := unsafeText(&r, 3); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if r.Short == 0 {
			r.Members = make([]wire.RosterMember, 3)
		}
		r.Short = 0
	}
}
