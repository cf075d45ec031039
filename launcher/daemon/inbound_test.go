package daemon

import (
	"testing"

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
