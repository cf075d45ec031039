package members_test

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// joinAgain joins through those that answer of the nodes that the one before it
// knew, as a mesh does.
func (n *simNode) joinAgain(known []filch.NodeName) {
	n.do(func(*members.Out) { n.m.ApartAgain(n.clock()) })
	n.joinRound(known)
}

func (n *simNode) joinRound(known []filch.NodeName) {
	w := n.w
	if n.down || n.m.Joined() {
		return
	}
	via := slices.DeleteFunc(slices.Clone(known), func(name filch.NodeName) bool {
		to := w.at[name]
		return to == n || to.down || to.paused > w.Now() || w.cut(n.i, to.i) || w.cut(to.i, n.i)
	})
	next := 200 * time.Millisecond
	if len(via) > 0 {
		next = 4 * time.Second
		n.do(func(out *members.Out) { n.m.Join(n.clock(), via, out) })
	}
	w.after(next, func() { n.joinRound(known) })
}

// names of the nodes of a world.
func (w *world) names() (all []filch.NodeName) {
	for _, n := range w.nodes {
		all = append(all, n.name)
	}
	return all
}

// All processes end at about the same time, the first node is lost for good, and so
// may others be: those that start again find one another by what they remember, and
// have one list.
func TestMembersBeginAgain(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 3+int(seed)*3%38)
		w.loss, w.dup = 0.02, 0.02
		known := w.names()
		for _, n := range w.nodes {
			n.down = true
		}
		for i, name := range known {
			if i > 0 && (i < 3 || w.rand.IntN(6) > 0) {
				w.after(time.Duration(w.rand.Int64N(int64(time.Second))), func() { w.add(name, nil).joinAgain(known) })
			}
		}
		w.run(time.Second)
		w.until("all that started again are members of one list", 8*time.Second, w.agreed)
	})
}

// Whoever has the list is joined: nobody begins another one.
func TestMembersBeginNoSecondList(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 4+int(seed)%20)
		known := w.names()
		stays := w.nodes[w.rand.IntN(len(w.nodes))]
		for _, n := range w.nodes {
			n.down = n != stays
		}
		for _, name := range known {
			if name != stays.name {
				w.after(time.Duration(w.rand.Int64N(int64(time.Second))), func() { w.add(name, nil).joinAgain(known) })
			}
		}
		w.run(time.Second)
		w.until("all have joined the one that has the list", 8*time.Second, func() bool {
			for _, n := range w.nodes {
				if !n.m.Joined() {
					return false
				}
			}
			return true
		})
		for _, n := range w.nodes {
			if !slices.ContainsFunc(n.m.All(), func(m members.Member) bool { return m.Name == stays.name && !m.State.Over() }) {
				t.Errorf("the list of %s lacks %s, which had it all the time", n.name, stays.name)
			}
		}
	})
}

// A node that reaches nobody at the addresses that it knows is found by one that has
// the list and knows of it.
func TestMembersInviteWhoWaits(t *testing.T) {
	seeds(t, 12, func(t *testing.T, seed uint64) {
		w := simCluster(t, seed, 3)
		lost, left := w.nodes[1], w.nodes[2]
		lost.down, left.down = true, true
		w.run(time.Minute) // until nothing is sent to who was there before
		n := w.add(left.name, nil)
		n.joinAgain([]filch.NodeName{lost.name})
		w.run(time.Second)
		if n.m.Joined() {
			t.Fatalf("%s has joined through nobody", n.name)
		}
		first := w.nodes[0]
		first.do(func(out *members.Out) { first.m.Meet(first.clock(), n.name, out) })
		w.until("the node that waits is a member", 2*time.Second, w.agreed)
	})
}
