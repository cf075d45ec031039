package overlay_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/overlay/mem"
)

// All launchers end at once, and the first node never comes back: the others, which
// remember where each listened, are members of one list soon.
func TestMeshBeginsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 6)
		agree(t, all, 6)
		closeAll(all)
		addrs := []string{all[0].addr}
		back := all[:0]
		for i := 1; i < 6; i++ {
			m := mesh(f.Node(filch.NodeName(fmt.Sprintf("n%03d", i)), 2), 2)
			defer m.Close()
			addrs, back = append(addrs, m.addr), append(back, m)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		began, joined := time.Now(), make(chan error, len(back))
		for _, m := range back {
			go func() { joined <- m.JoinAgain(ctx, addrs...) }()
		}
		for range back {
			if err := <-joined; err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v until all were members, want less than 5s: their keepers wait for 6.5s", took)
		}
		agree(t, back, 5)
	})
}

// Only the last node remembers anybody who comes back: the others, which it finds,
// join through it.
func TestMeshBeginsAgainWithOneThatRemembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		gone := f.Node("gone", 1)
		var back []*node
		var addrs []string
		for _, name := range []filch.NodeName{"a", "b", "c"} {
			m := mesh(f.Node(name, 2), 2)
			defer m.Close()
			addrs, back = append(addrs, m.addr), append(back, m)
		}
		addr := gone.Addr()
		if err := gone.Close(); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		joined := make(chan error, len(back))
		for i, m := range back {
			knows := []string{addr}
			if i == len(back)-1 {
				knows = append(knows, addrs[:i]...)
			}
			go func() { joined <- m.JoinAgain(ctx, knows...) }()
		}
		for range back {
			if err := <-joined; err != nil {
				t.Fatal(err)
			}
		}
		agree(t, back, len(back))
	})
}

// Two nodes began a list each, as they did not reach one another: once they do, one
// that looks for the other finds it.
func TestMeshSeeksTheOtherList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		a, b := mesh(f.Node("a", 1), 1), mesh(f.Node("b", 1), 1)
		defer closeAll([]*node{a, b})
		f.Cut(a.addr, b.addr)
		a.Seek(b.addr)
		time.Sleep(10 * time.Second)
		f.Heal(a.addr, b.addr)
		agree(t, []*node{a, b}, 2)
	})
}
