package overlay_test

import (
	"context"
	"testing"

	"github.com/libp2p/go-libp2p/core/network"
	"github.com/libp2p/go-libp2p/core/protocol"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// A member with a bug, or worse: what breaks the protocol is counted, costs
// only its own connection, and no memory that it did not send.
func TestHostCountsHostileMembers(t *testing.T) {
	serial := []byte{0, 0, 0, 1, 0, 0, 0, 0}
	for _, c := range []struct {
		name  string
		proto protocol.ID
		bytes []byte
		cut   bool
	}{
		{"oversized-frame", "/filch/control/1", append(serial[:8:8], 0xff, 0xff, 0xff, 0xff, 1, 2, 3), true},
		{"oversized-gossip", "/filch/gossip/1", append(serial[:8:8], 0, 1, 0, 1), true},
		{"unknown-class", "/filch/nonsense/1", nil, false},
		{"other-version-of-a-class", "/filch/control/2", nil, false},
		{"second-hello", "/filch/hello", []byte{0, 0, 0, 1, 'x'}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			h, evil, friend := newHost(t, "h"), newHost(t, "evil"), newHost(t, "friend")
			var s networktest.Sink
			h.SetHandler(s.Take)
			if _, err := evil.Dial(wait(t), h.Addr()); err != nil {
				t.Fatal(err)
			}
			raw(t, evil, h, c.proto, c.bytes)
			networktest.Eventually(t, "it is counted", func() bool { return h.Stats().Hostile == 1 })
			if c.cut {
				networktest.Eventually(t, "it is cut", func() bool { return len(h.Peers()) == 0 })
			}
			friend.Learn("h", []string{h.Addr()})
			if err := friend.Send("h", overlay.Control, []byte("hello")); err != nil {
				t.Fatal(err)
			}
			networktest.Eventually(t, "a friend is served", func() bool { return s.Len() == 1 })
		})
	}
}

// raw writes bytes on a stream of some protocol, past everything that Host
// checks.
func raw(t *testing.T, from, to *overlay.Host, p protocol.ID, b []byte) {
	t.Helper()
	id, err := from.PeerID(filch.NodeName(to.Name()))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), networktest.Patience)
	defer cancel()
	s, err := from.Libp2p().NewStream(network.WithNoDial(ctx, "test"), id, p)
	if err != nil {
		return // the refusal may come before the stream is there
	}
	if _, err := s.Write(b); err != nil {
		t.Log(err)
	}
	s.CloseWrite()
}
