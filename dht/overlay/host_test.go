package overlay_test

import (
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
