package overlay_test

import (
	"sync/atomic"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

const instance = "0b7f3f0e-6a52-4d0c-9d0b-2f8a5f1f6a11"

var secret = []byte("a secret of thirty-two bytes....")

// newHost makes a host on the loopback.
func newHost(t testing.TB, name filch.NodeName, tune ...func(*overlay.Config)) *overlay.Host {
	t.Helper()
	cfg := overlay.Config{Instance: instance, Secret: secret, Name: name, Incarnation: 1, Listen: "127.0.0.1:0"}
	for _, f := range tune {
		f(&cfg)
	}
	h, err := overlay.NewHost(cfg)
	if err != nil {
		t.Fatalf("host %s: %v", name, err)
	}
	t.Cleanup(func() { h.Close() })
	return h
}

func TestConformance(t *testing.T) {
	networktest.Run(t, func(t *testing.T) networktest.Make {
		return func(t *testing.T, name filch.NodeName) overlay.Carrier { return newHost(t, name) }
	})
}

// A node that joins hears from nodes that learned of it before it has the list of members. There is
// a handler once the list is whole: until then nobody is a stranger.
func TestFramesAwaitTheList(t *testing.T) {
	a, b := newHost(t, "a"), newHost(t, "b")
	a.SetHooks(overlay.OpenHooks())
	hooks := overlay.OpenHooks()
	var listed atomic.Bool
	hooks.Deliver = func(filch.NodeName, uint64) bool { return listed.Load() }
	b.SetHooks(hooks)
	a.Learn("b", []string{b.Addr()})
	if err := a.Send("b", overlay.Control, []byte("early")); err != nil {
		t.Fatal(err)
	}
	networktest.Eventually(t, "the early frame is there", func() bool { return b.Stats().Class[overlay.Control].FramesIn == 1 })
	var s networktest.Sink
	listed.Store(true)
	b.SetHandler(s.Take)
	networktest.Eventually(t, "the early frame arrives", func() bool { return s.Len() == 1 })
}
