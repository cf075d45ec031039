package members_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/members"
)

// listed counts the live entries of a node's list.
func (n *simNode) listed() (live int) {
	for _, m := range n.m.All() {
		if !m.State.Over() {
			live++
		}
	}
	return live
}

// A full list turns nodes away. The nodes that were met are contacts: no live one is
// declared dead, and a dead one is found. With space again, the list becomes whole.
func TestFullListHasContacts(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			const nodes, limit = 12, 5
			w := newWorld(t, seed)
			w.limit = limit
			w.loss, w.tail = 0.02, 20*time.Millisecond
			for i := range nodes {
				var via *simNode
				if i > 0 {
					via = w.nodes[i-1-int(seed)%i]
				}
				n := w.add(filch.NodeName(fmt.Sprintf("n%02d", i)), via)
				w.until("it joins", 30*time.Second, n.m.Joined)
			}
			w.run(20 * time.Second)
			contacts := 0
			for _, n := range w.nodes {
				if all := len(n.m.All()); all > limit {
					t.Errorf("the list of %s has %d entries, more than %d", n.name, all, limit)
				}
				if len(n.deaths) > 0 || n.selves > 0 {
					t.Errorf("%s took %v for dead, and was taken for dead %d times", n.name, n.deaths, n.selves)
				}
				contacts += len(n.m.Contacts.Names())
			}
			if w.nodes[0].m.Contacts.Whole() || contacts == 0 {
				t.Fatalf("the list of the first node is whole, or of %d contacts there is none", contacts)
			}
			gone := w.at[w.nodes[0].m.Contacts.Names()[0]]
			gone.kill()
			w.until("the first node finds the dead contact", time.Minute, func() bool {
				return slices.Contains(w.nodes[0].deaths, gone.name)
			})
			for _, n := range w.nodes {
				if slices.ContainsFunc(n.deaths, func(d filch.NodeName) bool { return d != gone.name }) {
					t.Errorf("%s took %v for dead, and only %s is", n.name, n.deaths, gone.name)
				}
			}
			for _, n := range w.nodes {
				n.do(func(*members.Out) { n.m.Contacts.SetLimit(filch.MaxNodes) })
			}
			w.until("all lists are whole", time.Minute, func() bool {
				return !slices.ContainsFunc(w.nodes, func(n *simNode) bool {
					return !n.down && (n.listed() != nodes-1 || !n.m.Contacts.Whole() || len(n.m.Contacts.Names()) > 0)
				})
			})
		})
	}
}

// A contact that was declared dead and lives learns this and comes back.
func TestContactComesBackFromTheDead(t *testing.T) {
	w := newWorld(t, 1)
	w.limit = 3
	for i := range 6 {
		var via *simNode
		if i > 0 {
			via = w.nodes[0]
		}
		n := w.add(filch.NodeName(fmt.Sprintf("n%02d", i)), via)
		w.until("it joins", 30*time.Second, n.m.Joined)
	}
	first := w.nodes[0]
	lost := w.at[first.m.Contacts.Names()[0]]
	w.cut = func(a, b int) bool { return a != b && (a == lost.i || b == lost.i) }
	w.until("the contact is declared dead", time.Minute, func() bool { return slices.Contains(first.deaths, lost.name) })
	w.cut = nobody
	w.until("the contact has a new life", time.Minute, func() bool {
		return lost.inc > 1 && lost.m.Joined() && slices.Contains(first.m.Contacts.Names(), lost.name)
	})
}
