package overlay_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// Everybody talks to everybody: connections stay within their bound, those of
// protected peers come on top, and closing idle ones loses no frame.
func TestHostBoundsConnections(t *testing.T) {
	const wave = 4
	n, most, others, patience := 24, 8, 23, networktest.Patience
	if os.Getenv("FILCH_PROOF") != "" {
		// A connection costs both ends together some 5 ms of CPU.
		n, most, others, patience = 128, overlay.MaxConns, 90, 5*time.Minute
	}
	ctx, cancel := contextFor(patience)
	defer cancel()
	hosts := make([]*overlay.Host, n)
	sinks := make([]networktest.Sink, n)
	for i := range hosts {
		hosts[i] = newHost(t, filch.NodeName(fmt.Sprintf("n%03d", i)), func(c *overlay.Config) { c.MaxConns = most })
		hosts[i].SetHandler(sinks[i].Take)
	}
	for _, a := range hosts {
		for _, b := range hosts {
			if a != b {
				a.Learn(b.Name(), []string{b.Addr()})
			}
		}
	}
	for _, i := range []int{1, 2} {
		hosts[0].Protect(hosts[i].Name(), "job 1")
		hosts[i].Protect(hosts[0].Name(), "job 1")
	}
	// In waves: a machine that makes all connections at once is busy with
	// nothing else until most dials have run out of time.
	for sent := 0; sent < others; sent += wave {
		for i, a := range hosts {
			for j := sent; j < min(sent+wave, others); j++ {
				b := hosts[(i+j+1)%n]
				if err := a.SendWait(ctx, b.Name(), overlay.Control, []byte("x")); err != nil {
					t.Fatalf("%s to %s: %v", a.Name(), b.Name(), err)
				}
			}
		}
		want := min(sent+wave, others)
		networktest.Within(t, patience, fmt.Sprintf("the first %d frames arrive", want), func() bool {
			for i, h := range hosts {
				if c := h.Stats().Conns; c > most+wave {
					t.Errorf("%s holds %d connections, want about %d", h.Name(), c, most)
				}
				if sinks[i].Len() != want {
					return false
				}
			}
			return true
		})
	}
	networktest.Eventually(t, "idle connections are closed", func() bool {
		for i, h := range hosts {
			limit := most
			switch i {
			case 0:
				limit += 2
			case 1, 2:
				limit++
			}
			if h.Stats().Conns > limit {
				return false
			}
		}
		return true
	})
	kept := map[filch.NodeName]bool{}
	for _, p := range hosts[0].Peers() {
		kept[p.Name] = true
	}
	if !kept[hosts[1].Name()] || !kept[hosts[2].Name()] {
		t.Errorf("the protected peers are not among %v", hosts[0].Peers())
	}
	evicted := uint64(0)
	for _, h := range hosts {
		evicted += h.Stats().Evicted
		for c, s := range h.Stats().Class {
			if s.Lost != 0 {
				t.Errorf("%s lost %d frames of class %v", h.Name(), s.Lost, overlay.Class(c))
			}
		}
	}
	t.Logf("%d hosts closed %d idle connections", n, evicted)
}

// A peer whose handler is blocked does not give an idle connection up, since
// it cannot say when it will have read what was sent; nothing is lost.
func TestHostKeepsConnectionsThatAreNotRead(t *testing.T) {
	a := newHost(t, "a", func(c *overlay.Config) { c.MaxConns = 1 })
	b, c := newHost(t, "b"), newHost(t, "c")
	a.Learn("b", []string{b.Addr()})
	gate := make(chan struct{})
	var s networktest.Sink
	b.SetHandler(func(from filch.NodeName, k overlay.Class, p []byte) {
		if k == overlay.Bulk {
			<-gate
		}
		s.Take(from, k, p)
	})
	const n = 50
	for range n {
		if err := a.SendWait(wait(t), "b", overlay.Bulk, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
	}
	networktest.Eventually(t, "the first frame is taken", func() bool { return b.Stats().Class[overlay.Bulk].FramesIn > 0 })
	networktest.Eventually(t, "all is written", func() bool { return a.Peers()[0].Queued == 0 })
	if _, err := a.Dial(wait(t), c.Addr()); err != nil {
		t.Fatal(err)
	}
	networktest.Eventually(t, "a tries to close it", func() bool { return a.Stats().Evicted > 0 })
	if err := a.Send("b", overlay.Control, []byte("now")); err != nil {
		t.Fatal(err)
	}
	networktest.Eventually(t, "another class passes", func() bool { return s.Len() == 1 })
	close(gate)
	networktest.Eventually(t, "all frames arrive", func() bool { return s.Len() == n+1 })
	if l := a.Stats().Class[overlay.Bulk].Lost; l != 0 {
		t.Errorf("lost %d frames", l)
	}
}

// A node that was forgotten, since it was gone for long, and comes back as the
// same process (a laptop that slept) hears every frame.
func TestFramesReachOneThatWasForgotten(t *testing.T) {
	a, b := newHost(t, "a"), newHost(t, "b")
	var s networktest.Sink
	b.SetHandler(s.Take)
	for i := range 3 {
		a.Learn("b", []string{b.Addr()})
		if err := a.Send("b", overlay.Control, fmt.Append(nil, "frame ", i)); err != nil {
			t.Fatal(err)
		}
		networktest.Eventually(t, fmt.Sprintf("frame %d arrives", i), func() bool { return s.Len() == i+1 })
		a.Forget("b")
		networktest.Eventually(t, "the connection is closed", func() bool { return len(b.Peers()) == 0 })
	}
}

// The whole list of the largest instance fits into the queue to one who joins:
// what does not is dropped, and the join asked for anew, for ever.
func TestListFitsIntoItsQueue(t *testing.T) {
	var out members.Out
	a := members.New(members.Config{Self: members.Member{Name: "a", Incarnation: 1}})
	for i := 2; i < filch.MaxNodes; i++ {
		out.Reset()
		a.Met(0, members.Member{
			Name: filch.NodeName(fmt.Sprintf("node%05d.cluster", i)), Incarnation: 1, Addrs: []string{fmt.Sprintf("10.20.%d.%d:40000", i/256, i%256)},
			Capacity: make([]byte, 128),
		}, &out)
	}
	out.Reset()
	b := members.New(members.Config{Self: members.Member{Name: "b", Incarnation: 1}})
	b.Apart()
	b.Join(0, []filch.NodeName{"a"}, &out)
	ask := out.Sends[0].Payload
	out.Reset()
	if err := a.Message(0, "b", 1, ask, &out); err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, m := range out.Sends {
		if m.To == "b" {
			total += len(m.Payload) + 4
		}
	}
	if most := overlay.ClassLimits[overlay.Gossip].Queue; total > most || total < 1<<20 {
		t.Errorf("the list of %d members has %d bytes, the queue holds %d", len(a.All()), total, most)
	}
}
