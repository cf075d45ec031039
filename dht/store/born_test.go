package store

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

// TestStoreAcceptorOfALifeBefore moves an acceptor to a node that has no shard yet, and is over
// before it hears of the acceptor: it was declared dead, or its process was killed. It
// comes back, and another one of the new acceptors comes back with a damaged disk. Who
// never was an acceptor has forgotten no promise: it takes its acceptor, and the roster is not
// lost.
func TestStoreAcceptorOfALifeBefore(t *testing.T) {
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%t", killed), func(t *testing.T) {
			l := newLab(t, 81)
			l.cluster(3)
			l.fill(l.nodes[0], "a", 50, true)
			l.run(time.Second)
			var last message.Message
			l.tap = func(m message.Message) { last = m }
			fresh := l.start("n3", false)
			held := true // the new node has no shard, and the proposer is the only acceptor
			l.cut = func(_, to *labNode) bool {
				switch last.(type) {
				case *message.Snapshot, *message.Replicate:
					return held && to == fresh
				case *message.Install:
					return held
				}
				return false
			}
			l.run(100 * time.Millisecond)
			old := slices.Clone(l.nodes[0].s.view.roster.Acceptors)
			gone := l.at[old[2].Name]
			gone.kill(0)
			acceptor := l.at[old[0].Name]
			l.until("an acceptor of the new generation", time.Minute, func() bool {
				r := acceptor.s.view.roster
				return r.IsAcceptor(fresh.name) && acceptor.s.acceptor.generation == r.Generation
			})
			hurt := l.at[old[1].Name]
			hurt.kill(0)
			hurt.damaged = true
			if killed {
				fresh.kill(0)
				l.start(fresh.name, false)
			} else {
				fresh.rejoin()
			}
			l.start(hurt.name, false)
			held = false
			l.settle(time.Minute)
			l.expect(fresh, "a", 50, dht.Done)
			l.fill(hurt, "b", 20, true)
			l.check()
		})
	}
}

// TestStoreSaysWhatItKnows lets a node learn the roster: it says so when its disk tells
// that this life was there.
func TestStoreSaysWhatItKnows(t *testing.T) {
	l := newLab(t, 82)
	l.cluster(1)
	s := New(Config{Self: "n1", Incarnation: 1})
	var out Out
	s.Message(labAge, "n0", &message.Roster{Envelope: message.Envelope{From: 1, Roster: 1}, Deltas: []*roster.Delta{l.nodes[0].s.view.roster.Since(nil)}}, &out)
	s.Check()
	if s.view.roster == nil || len(out.Logs) == 0 || len(out.Sends) > 0 {
		t.Fatalf("got a roster %t, %d entries and %d messages, want a roster, entries and no message", s.view.roster != nil, len(out.Logs), len(out.Sends))
	}
	upto := out.Logs[len(out.Logs)-1].Number
	out.Reset()
	s.Synced(labAge, upto, &out)
	s.Check()
	if len(out.Sends) == 0 {
		t.Error("got no message once the disk has all entries")
	}
}
