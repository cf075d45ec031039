package overlay_test

import (
	"errors"
	"net"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// A probe tells refusal from silence, and from a refusal by one that still has a
// connection open: the word of the kernel there is that its process lives.
func TestProbeTellsWhoRefuses(t *testing.T) {
	a, b := newHost(t, "a"), newHost(t, "b")
	defer a.Close()
	b.SetHandler(func(_ filch.NodeName, _ overlay.Class, _ []byte) {})
	if _, err := a.Dial(wait(t), b.Addr()); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	l.Close()
	if err := a.Probe(wait(t), "b", []string{b.Addr()}); err != nil {
		t.Errorf("a probe of one that answers: %v", err)
	}
	if err := a.Probe(wait(t), "b", []string{nobody}); err == nil || errors.Is(err, overlay.ErrRefused) {
		t.Errorf("a refusal while a connection is open: %v, want another error than %v", err, overlay.ErrRefused)
	}
	b.Close()
	networktest.Eventually(t, "the refusal of a process that ended", func() bool {
		return errors.Is(a.Probe(wait(t), "b", []string{nobody}), overlay.ErrRefused)
	})
	if err := a.Probe(wait(t), "b", nil); errors.Is(err, overlay.ErrRefused) {
		t.Errorf("a node without an address: %v", err)
	}
}

// The kernel closes the sockets of a process that ends one after the other: a probe may
// still be accepted, and learns only from the next dial that the process is gone.
func TestProbeOfAProcessThatEnds(t *testing.T) {
	a := newHost(t, "a")
	defer a.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		c, err := l.Accept()
		l.Close()
		if err == nil {
			c.Close()
		}
	}()
	if err := a.Probe(wait(t), "b", []string{l.Addr().String()}); !errors.Is(err, overlay.ErrRefused) {
		t.Errorf("a probe accepted by a process that ends: %v, want %v", err, overlay.ErrRefused)
	}
}
