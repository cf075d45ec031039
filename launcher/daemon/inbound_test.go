package daemon

import (
	"testing"

	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Each kind that a node or a client may send has a handler, and no other kind has.
func TestEachInboundKindHasAHandler(t *testing.T) {
	r := start(t, testConfig(t))
	for i := range 256 {
		k := wire.Kind(i)
		if _, handled := r.inbound.kinds[k]; handled != k.On(wire.FromNode) {
			t.Errorf("%s of a node: handled %t", k, handled)
		}
		sent := k.On(wire.FromClient) && k != wire.KindHello && k != wire.KindRefusal
		if handled := clientKinds[k] != nil; handled != sent {
			t.Errorf("%s of a client: handled %t", k, handled)
		}
	}
}

// TestFramesFitTheirClasses: the classes of the overlay carry the largest frame of any kind
// that nodes send each other.
func TestFramesFitTheirClasses(t *testing.T) {
	for _, c := range []overlay.Class{overlay.Control, overlay.Metadata} {
		if l := overlay.ClassLimits[c]; l.Frame <= wire.MaxFrame || l.Queue < 2*l.Frame-2048 {
			t.Errorf("class %d has frames of %d bytes and a queue of %d, want more than %d and two frames", c, l.Frame, l.Queue, wire.MaxFrame)
		}
	}
}
