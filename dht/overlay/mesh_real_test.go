package overlay_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// realCluster joins n real hosts of this process through the first.
func realCluster(t testing.TB, n int, tune ...func(*overlay.Config)) []*node {
	var all []*node
	for i := range n {
		m := mesh(newHost(t, filch.NodeName(fmt.Sprintf("n%03d", i)), tune...), 1)
		t.Cleanup(func() { m.Close() })
		if i > 0 {
			if err := m.Join(wait(t), all[0].addr); err != nil {
				t.Fatalf("join of %d: %v", i, err)
			}
		}
		all = append(all, m)
	}
	return all
}

// settle waits until every node sees want alive and suspects none.
func settle(t testing.TB, all []*node, want int) {
	t.Helper()
	networktest.Eventually(t, fmt.Sprintf("all see %d alive", want), func() bool {
		for _, n := range all {
			if len(n.sees(members.Alive)) != want || len(n.sees(members.Suspect))+len(n.sees(members.Gone)) != 0 {
				return false
			}
		}
		return true
	})
}

func TestRealMeshJoinsAndFindsDeath(t *testing.T) {
	start := time.Now()
	all := realCluster(t, 32)
	settle(t, all, 32)
	t.Logf("32 hosts joined through one seed in %v, %d goroutines", time.Since(start).Round(time.Millisecond), runtime.NumGoroutine())
	for _, n := range all {
		if c := n.Stats().Conns; c > overlay.MaxConns {
			t.Errorf("%s holds %d connections, want at most %d", n.Name(), c, overlay.MaxConns)
		}
	}
	victim := all[9]
	at := time.Now()
	victim.Close()
	rest := slices.Delete(slices.Clone(all), 9, 10)
	settle(t, rest, 31)
	d := all[0].when(members.EventDead, victim.Name()).Sub(at)
	t.Logf("the death was known after %v", d.Round(time.Millisecond))
	if d < 4*time.Second || d > 8*time.Second {
		t.Errorf("the death was known after %v, want about 5 s", d)
	}
	for _, n := range rest {
		if g := n.when(members.EventGone, victim.Name()); g.IsZero() || g.Sub(at) > 3*time.Second {
			t.Errorf("%s knew after %v that the process of %s was gone, want before it was dead", n.Name(), g.Sub(at), victim.Name())
		}
		if n.count(members.EventDead) != 1 || n.count(members.SelfDead) != 0 {
			t.Errorf("%s tells of %d deaths, want one", n.Name(), n.count(members.EventDead))
		}
	}
}
