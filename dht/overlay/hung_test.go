package overlay_test

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/mem"
)

// hung is the address of a process that stopped: the kernel takes connections, and no
// byte comes.
func hung(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

// A node joins through the one address that answers, behind more hung contacts than are
// tried at once.
func TestJoinPastHungContacts(t *testing.T) {
	all := realCluster(t, 2)
	var addrs []string
	for range 40 {
		addrs = append(addrs, hung(t))
	}
	x, began := mesh(newHost(t, "x"), 1), time.Now()
	t.Cleanup(func() { x.Close() })
	if err := x.Join(wait(t), slices.Insert(addrs, 20, all[0].addr)...); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("the join took %v, want some 3 s", took)
	}
}

// The error of a join through a contact that hangs names the address, the time and the
// remedy.
func TestJoinThroughAHungContact(t *testing.T) {
	x := mesh(newHost(t, "x"), 1)
	t.Cleanup(func() { x.Close() })
	addr := hung(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	err := x.Join(ctx, addr)
	if err == nil {
		t.Fatal("the join did not fail")
	}
	for _, part := range []string{"cannot join through " + addr, "took the connection", "tried for 2s", "end or continue that process, or join through another node"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want %q in the error", err, part)
		}
	}
}

// mute is a carrier that sends no gossip: its node admits a node that joins, and never
// sends the list.
type mute struct{ overlay.Carrier }

func (m mute) Send(to filch.NodeName, c overlay.Class, payload []byte) error {
	if c == overlay.Gossip {
		return nil
	}
	return m.Carrier.Send(to, c, payload)
}

// The error of a join names a contact that hangs after it took the node in, too.
func TestJoinThroughAContactThatHangsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		a, x := mesh(mute{f.Node("a", 1)}, 1), mesh(f.Node("x", 1), 1)
		defer closeAll([]*node{a, x})
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		err := x.Join(ctx, a.addr)
		if err == nil {
			t.Fatal("the join did not fail")
		}
		for _, part := range []string{"cannot join through a: ", "no member list came", "tried for 20s", "end or continue its launcher, or join through another node"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("got %q, want %q in the error", err, part)
			}
		}
	})
}
