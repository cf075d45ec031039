package overlay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/overlay/mem"
	"github.com/filch-hpc/filch/dht/overlay/networktest"
)

// node is a mesh under test with the events it told.
type node struct {
	*overlay.Mesh
	addr string

	mu     sync.Mutex
	events []event
}

type event struct {
	members.Event
	at time.Time
}

func (n *node) take(e members.Event) {
	n.mu.Lock()
	n.events = append(n.events, event{e, time.Now()})
	n.mu.Unlock()
	if e.Kind == members.SelfDead && !e.Taken {
		n.Rejoin()
	}
}

// when is the time of the first event of a kind about a node; zero for none.
func (n *node) when(k members.EventKind, name filch.NodeName) time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, e := range n.events {
		if e.Kind == k && e.Member.Name == name {
			return e.at
		}
	}
	return time.Time{}
}

// forget drops the events so far.
func (n *node) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.events = nil
}

func (n *node) count(k members.EventKind) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := 0
	for _, e := range n.events {
		if e.Kind == k {
			c++
		}
	}
	return c
}

// sees lists the names in some state, this node's own included.
func (n *node) sees(s members.State) []string {
	var out []string
	for _, m := range n.Members() {
		if m.State == s {
			out = append(out, string(m.Name))
		}
	}
	return out
}

func mesh(c overlay.Carrier, incarnation uint64) *node {
	n := &node{addr: c.Addr()}
	n.Mesh = overlay.NewMesh(c, overlay.MeshConfig{Incarnation: incarnation, Seed: 7, Events: n.take})
	return n
}

// cluster joins n nodes over a fabric through the first one.
func cluster(t *testing.T, f *mem.Fabric, n int) []*node {
	var all []*node
	for i := range n {
		m := mesh(f.Node(filch.NodeName(fmt.Sprintf("n%03d", i)), 1), 1)
		if i > 0 {
			if err := m.Join(t.Context(), all[0].addr); err != nil {
				t.Fatalf("join of %d: %v", i, err)
			}
		}
		all = append(all, m)
	}
	return all
}

func closeAll(all []*node) {
	for _, n := range all {
		n.Close()
	}
}

// agree polls until every node sees exactly want alive and suspects none.
func agree(t *testing.T, all []*node, want int) {
	t.Helper()
	end := time.Now().Add(2 * time.Minute)
	for {
		bad := ""
		for _, n := range all {
			if got, s := n.sees(members.Alive), append(n.sees(members.Suspect), n.sees(members.Gone)...); len(got) != want || len(s) > 0 {
				bad = fmt.Sprintf("%s sees %d alive, want %d: %v", n.Name(), len(got), want, got)
				break
			}
		}
		if bad == "" {
			return
		}
		if time.Now().After(end) {
			for _, n := range all {
				var s strings.Builder
				for _, m := range n.Members() {
					s.WriteString(fmt.Sprintf(" %s/%d/%d=%s", m.Name, m.Incarnation%1000, m.Version, m.State))
				}
				t.Logf("%s at %s:%s", n.Name(), n.addr, s.String())
			}
			t.Fatal(bad)
		}
		wake := time.NewTimer(10 * time.Millisecond)
		<-wake.C
	}
}

func TestMeshJoinsAndAgrees(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := cluster(t, mem.NewFabric(), 40)
		defer closeAll(all)
		agree(t, all, 40)
		on := all[3]
		on.Drain(true)
		on.SetCapacity([]byte("16 slots"))
		synctest.Wait()
		time.Sleep(time.Second)
		for _, n := range all {
			for _, m := range n.Members() {
				if m.Name == on.Name() && (!m.Draining || string(m.Capacity) != "16 slots") {
					t.Errorf("%s does not know that %s drains with 16 slots: %+v", n.Name(), m.Name, m)
				}
			}
		}
	})
}

// A node that starts again is back at once, however many of those that it
// remembers hang: a dial to one of them takes its whole time.
func TestMeshJoinsPastTheHung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 8)
		defer closeAll(all)
		agree(t, all, 8)
		var addrs []string
		for _, n := range all[:5] {
			f.Stall(n.addr)
			addrs = append(addrs, n.addr)
		}
		back, began := mesh(f.Node("back", 1), 1), time.Now()
		defer back.Close()
		if err := back.Join(t.Context(), append(addrs, all[6].addr)...); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v to join, want less than a second", took)
		}
	})
}

func TestMeshFindsDeath(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		f.SetDelay(100 * time.Microsecond)
		all := cluster(t, f, 64)
		defer closeAll(all)
		agree(t, all, 64)
		victim := all[17]
		at := time.Now()
		victim.Close()
		rest := slices.Delete(slices.Clone(all), 17, 18)
		agree(t, rest, 63)
		var firstDeath, lastDeath time.Time
		for _, n := range rest {
			if n.when(members.EventGone, victim.Name()).IsZero() {
				t.Errorf("%s was not told that it is gone", n.Name())
			} else if d := n.when(members.EventGone, victim.Name()).Sub(at); d > 250*time.Millisecond {
				t.Errorf("%s called it gone after %v, want at once: its host answers", n.Name(), d)
			}
			d := n.when(members.EventDead, victim.Name())
			if d.IsZero() {
				t.Errorf("%s was not told of the death", n.Name())
				continue
			}
			if firstDeath.IsZero() || d.Before(firstDeath) {
				firstDeath = d
			}
			if d.After(lastDeath) {
				lastDeath = d
			}
		}
		if d := firstDeath.Sub(at); d < 4200*time.Millisecond || d > 5750*time.Millisecond {
			t.Errorf("declared dead after %v, want 5 s after the last sign of life", d)
		}
		if d := lastDeath.Sub(firstDeath); d > 500*time.Millisecond {
			t.Errorf("the news took %v to reach everybody, want under 0.5 s", d)
		}
	})
}

func TestMeshForgivesAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 8)
		defer closeAll(all)
		agree(t, all, 8)
		for range 5 {
			f.Stall(all[3].addr)
			time.Sleep(2950 * time.Millisecond)
			f.Resume(all[3].addr)
			agree(t, all, 8)
		}
		for _, n := range all {
			if d := n.count(members.EventDead) + n.count(members.SelfDead); d != 0 {
				t.Errorf("%s tells of %d deaths, want none", n.Name(), d)
			}
		}
	})
}

func TestMeshBringsTheStalledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 8)
		defer closeAll(all)
		agree(t, all, 8)
		f.Stall(all[3].addr)
		rest := slices.Delete(slices.Clone(all), 3, 4)
		agree(t, rest, 7)
		f.Resume(all[3].addr)
		agree(t, all, 8)
		if got := all[3].count(members.SelfDead); got != 1 {
			t.Errorf("the stalled node was told %d times that it was dead, want once", got)
		}
		if inc := all[3].Self().Incarnation; inc <= 1 {
			t.Errorf("it came back with incarnation %d, want a new one", inc)
		}
		for _, n := range rest {
			if n.count(members.SelfDead) != 0 {
				t.Errorf("%s was declared dead as well", n.Name())
			}
		}
	})
}

func TestMeshMergesAfterACut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 9)
		defer closeAll(all)
		agree(t, all, 9)
		small, large := all[:3], all[3:]
		for _, a := range small {
			for _, b := range large {
				f.Cut(a.addr, b.addr)
			}
		}
		agree(t, small, 3)
		agree(t, large, 6)
		for _, a := range small {
			for _, b := range large {
				f.Heal(a.addr, b.addr)
			}
		}
		agree(t, all, 9)
		for _, n := range large {
			if n.count(members.SelfDead) != 0 {
				t.Errorf("%s of the larger side had to start anew", n.Name())
			}
		}
		for _, n := range small {
			if n.count(members.SelfDead) == 0 {
				t.Errorf("%s of the smaller side did not start anew", n.Name())
			}
		}
	})
}

func TestMeshLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := cluster(t, mem.NewFabric(), 5)
		agree(t, all, 5)
		handed := false
		err := all[2].Leave(t.Context(), func(context.Context) error { handed = true; return nil })
		if err != nil || !handed {
			t.Errorf("leave: %v, hand-off called: %v", err, handed)
		}
		all[2].Close()
		rest := slices.Delete(slices.Clone(all), 2, 3)
		defer closeAll(rest)
		agree(t, rest, 4)
		for _, n := range rest {
			if n.when(members.EventLeft, "n002").IsZero() || n.count(members.EventDead) != 0 {
				t.Errorf("%s does not know that n002 left", n.Name())
			}
		}
	})
}

// A name has one holder: a second live one is refused with both addresses, a
// later incarnation of a dead one is let in at once, one whose clock went back
// takes a higher incarnation by itself.
func TestMeshKeepsNamesUnique(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 4)
		defer closeAll(all)
		agree(t, all, 4)
		thief := mesh(f.Node("n002", 99), 99)
		err := thief.Join(t.Context(), all[1].addr)
		var r *overlay.Refusal
		if !errors.As(err, &r) || r.Code != overlay.NameTaken || !strings.Contains(r.Text, all[2].addr) || !strings.Contains(r.Text, thief.addr) {
			t.Errorf("got %v, want that the name is taken, with both addresses", err)
		}
		err = thief.Join(t.Context(), all[2].addr)
		if !errors.As(err, &r) || r.Code != overlay.NameTaken {
			t.Errorf("through the holder itself: got %v, want that the name is taken", err)
		}
		thief.Close()
		all[2].Close()
		back := mesh(f.Node("n002", 1), 0)
		if err := back.Join(t.Context(), all[1].addr); err != nil {
			t.Fatalf("the restarted node: %v", err)
		}
		all[2] = back
		agree(t, all, 4)
		if inc := back.Self().Incarnation; inc != 2 {
			t.Errorf("it has incarnation %d, want 2, one more than before", inc)
		}
		for _, i := range []int{0, 1, 3} {
			if n := all[i].count(members.EventDead); n != 0 {
				t.Errorf("%s tells of %d deaths, want none: the restart was seen first", all[i].Name(), n)
			}
		}
	})
}

// Frames of the daemon's classes pass between members, and not from a node
// that was declared dead.
func TestMeshDeliversFromMembersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 5)
		defer closeAll(all)
		agree(t, all, 5)
		var s networktest.Sink
		all[0].SetHandler(s.Take)
		if err := all[4].Send("n000", overlay.Control, []byte("live")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.Len() != 1 {
			t.Fatalf("got %d frames, want 1", s.Len())
		}
		f.Stall(all[4].addr)
		if err := all[4].Send("n000", overlay.Control, []byte("stale")); err != nil {
			t.Fatal(err)
		}
		agree(t, all[:4], 4)
		f.Resume(all[4].addr)
		agree(t, all, 5)
		if s.Len() != 1 {
			t.Errorf("got %q from a dead node", s.All()[1])
		}
	})
}

// Gossip that makes no sense is counted and changes nothing.
func TestMeshCountsNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := mem.NewFabric()
		all := cluster(t, f, 3)
		defer closeAll(all)
		agree(t, all, 3)
		if err := all[1].Send("n000", overlay.Gossip, []byte("nonsense")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := all[0].Stats().Hostile; n != 1 {
			t.Errorf("got %d hostile frames counted, want 1", n)
		}
		agree(t, all, 3)
	})
}
