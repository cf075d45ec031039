package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/mem"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// guide is a finder that dials the node sought at a known address. A lookup ends when the
// test has closed the gate.
type guide struct {
	carrier overlay.Carrier
	addrs   map[filch.NodeName]string
	gate    chan struct{}
}

func (g *guide) FindNode(ctx context.Context, name filch.NodeName) (overlay.Lookup, error) {
	addr, err := g.addrs[name], errors.New("no such node")
	if addr != "" {
		_, err = g.carrier.Dial(ctx, addr)
	}
	select {
	case <-g.gate:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return overlay.Lookup{Nearest: []overlay.Contact{{Node: name, Addr: addr}}}, err
}

func (g *guide) FindKey(context.Context, string) (overlay.Lookup, error) {
	return overlay.Lookup{}, errors.New("only nodes are found")
}

func (g *guide) FindNear(context.Context) (overlay.Lookup, error) {
	return overlay.Lookup{}, errors.New("only nodes are found")
}

func (g *guide) Prime(context.Context, filch.NodeName) error { return nil }

// meddler is a carrier that calls a function before it takes a frame to a node.
type meddler struct {
	overlay.Carrier
	before func(to filch.NodeName, payload []byte)
}

func (m *meddler) Send(to filch.NodeName, c overlay.Class, payload []byte) error {
	if c != overlay.Gossip && m.before != nil {
		m.before(to, payload)
	}
	return m.Carrier.Send(to, c, payload)
}

func (m *meddler) SendWait(ctx context.Context, to filch.NodeName, c overlay.Class, payload []byte) error {
	if m.before != nil {
		m.before(to, payload)
	}
	return m.Carrier.SendWait(ctx, to, c, payload)
}

// outsider makes a mesh whose list is partial, and a node that the list lacks.
func outsider(t *testing.T, before func(filch.NodeName, []byte)) (a *node, g *guide, b *node) {
	t.Helper()
	f := mem.NewFabric()
	c := &meddler{Carrier: f.Node("a", 1), before: before}
	g = &guide{carrier: c, addrs: map[filch.NodeName]string{}, gate: make(chan struct{})}
	a = &node{addr: c.Addr()}
	a.Mesh = overlay.NewMesh(c, overlay.MeshConfig{Incarnation: 1, Seed: 7, Finder: g, ListLimit: 2, Events: a.take})
	t.Cleanup(func() { a.Close() })
	for i := range 2 {
		x := mesh(f.Node(filch.NodeName(fmt.Sprintf("x%d", i)), 1), 1)
		t.Cleanup(func() { x.Close() })
		if err := x.Join(t.Context(), a.addr); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Wait()
	if a.Whole() {
		t.Fatal("the list is whole")
	}
	b = mesh(f.Node("b", 1), 1)
	t.Cleanup(func() { b.Close() })
	g.addrs["b"] = b.addr
	return a, g, b
}

// Frames that waited for a lookup arrive before the frames sent after them, also when a
// frame is sent while the first ones go out.
func TestMeshKeepsTheOrderOfHeldFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a *node
		var third sync.Once
		late := make(chan error, 1)
		a, g, b := outsider(t, nil)
		a.Network.(*meddler).before = func(to filch.NodeName, payload []byte) {
			// The lookup has ended, and the first held frame goes out.
			if string(payload) == "1" && len(late) == 0 {
				select {
				case <-g.gate:
					third.Do(func() { late <- a.Send("b", overlay.Control, []byte("3")) })
				default:
				}
			}
		}
		var s networktest.Sink
		b.SetHandler(s.Take)
		for _, p := range []string{"1", "2"} {
			if err := a.Send("b", overlay.Control, []byte(p)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(g.gate)
		if err := <-late; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if err := a.SendWait(t.Context(), "b", overlay.Control, []byte("4")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		var got []string
		for _, p := range s.All() {
			got = append(got, string(p))
		}
		if want := []string{"1", "2", "3", "4"}; !slices.Equal(got, want) {
			t.Errorf("got the frames %v, want %v", got, want)
		}
	})
}

// The frames that wait for lookups have a limit of bytes, for one node and for all nodes.
// A sender hears when there is room again.
func TestMeshBoundsHeldFrames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, g, _ := outsider(t, nil)
		var mu sync.Mutex
		told := map[filch.NodeName]int{}
		a.SetWritable(func(to filch.NodeName, c overlay.Class) {
			mu.Lock()
			defer mu.Unlock()
			if c == overlay.Bulk {
				told[to]++
			}
		})
		const piece, all = 256 << 10, 16 << 20
		payload, held := make([]byte, piece), 0
		refused := map[filch.NodeName]int{}
		for i := range 200 {
			to := filch.NodeName(fmt.Sprintf("ghost%d", i))
			for range 4 {
				switch err := a.Send(to, overlay.Bulk, payload); {
				case err == nil:
					held += piece
				case errors.Is(err, overlay.ErrFull):
					refused[to]++
				default:
					t.Fatalf("to %s: got %v, want nothing or %v", to, err, overlay.ErrFull)
				}
			}
		}
		if held > all || held < all*9/10 {
			t.Errorf("%d bytes wait for lookups, want at most %d", held, all)
		}
		// Small frames take memory, too.
		for i := 0; ; i++ {
			if err := a.Send("ghost0", overlay.Control, nil); errors.Is(err, overlay.ErrFull) {
				break
			} else if err != nil || i > 1<<16 {
				t.Fatalf("empty frame %d: got %v, want %v in the end", i, err, overlay.ErrFull)
			}
		}
		close(g.gate)
		for range 200 { // 200 lookups, four at a time
			synctest.Wait()
		}
		mu.Lock()
		for to := range refused {
			if told[to] != 1 {
				t.Errorf("the sender to %s was told %d times that there is room, want once", to, told[to])
			}
		}
		mu.Unlock()
		time.Sleep(6 * time.Second) // the pause after a vain lookup
		if err := a.Send("b", overlay.Bulk, payload); err != nil {
			t.Errorf("after the lookups: got %v, want room", err)
		}
	})
}
