package stealer_test

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/stealer"
)

// insisting is a gather of 8 ranks on two nodes of 4 slots that holds 4 on n1 and has waited
// for n2 for so long that n1 lends.
func insisting(t *testing.T) (*Gather, *scene, Word) {
	t.Helper()
	m := cluster(2, 4)
	g := NewGather(need(8), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 4)
	s.free["n2"] = 0
	s.begin()
	if _, ok := g.Ready(); ok || g.Stage() != Insist {
		t.Fatalf("ready, or in stage %v", g.Stage())
	}
	var moves Moves
	for g.Deadline() < 1100*time.Millisecond && len(moves.Words) == 0 {
		g.Tick(g.Deadline(), &moves)
	}
	if len(moves.Words) != 1 || moves.Words[0].To != "n1" || !moves.Words[0].Lends || moves.Words[0].Starts != 0 {
		t.Fatalf("words %+v, want one that n1 lends", moves.Words)
	}
	return g, s, moves.Words[0]
}

// theLease is the lease of all grants in a scene.
var theLease = filch.LeaseID{Incarnation: 1, Serial: 1}

// round is the round of the last question to a node.
func (s *scene) round(to filch.NodeName) (last uint32) {
	for _, wave := range s.rounds {
		for _, a := range wave {
			if a.To == to {
				last = a.Round
			}
		}
	}
	return last
}

// A job whose room is lent starts only after the lender knows that the room is lent no more,
// and has the room again.
func TestLentRoomComesBackBeforeTheLaunch(t *testing.T) {
	g, s, w := insisting(t)
	var moves Moves
	now := 5 * time.Second
	g.Granted(now, "n2", Grant{Lease: theLease, Held: 4, Version: 200, Round: s.round("n2")}, &moves)
	if _, ok := g.Ready(); ok {
		t.Error("ready although tasks may have begun on n1")
	}
	if len(moves.Asks) != 1 || moves.Asks[0].To != "n1" || moves.Asks[0].Lends || moves.Asks[0].Round <= w.Round {
		t.Fatalf("asked %+v, want n1 to lend no more, in a round after %d", moves.Asks, w.Round)
	}
	round := moves.Asks[0].Round
	if again := g.Word(now, "n1"); again.Round != 0 {
		t.Errorf("the answer to a prompt is %+v, want no permission", again)
	}
	moves = Moves{} // the question is lost
	g.Tick(g.Deadline(), &moves)
	if len(moves.Asks) != 1 || moves.Asks[0].Round != round {
		t.Errorf("asked %+v, want the lost question again", moves.Asks)
	}
	moves = Moves{}
	g.Granted(now, "n1", Grant{Lease: theLease, Held: 1, Lent: 3, Version: 300, Round: round}, &moves)
	if _, ok := g.Ready(); ok || len(moves.Asks) > 0 {
		t.Errorf("ready %t, asks %+v; three tasks are being stopped", ok, moves.Asks)
	}
	g.Granted(now, "n1", Grant{Lease: theLease, Held: 4, Version: 301, Round: round}, &moves)
	if shares, ok := g.Ready(); !ok || len(shares) != 2 {
		t.Errorf("not ready with all that was asked back: %+v", shares)
	}
}

// What was lent counts as held, also for an explanation.
func TestLentRoomIsHeld(t *testing.T) {
	g, _, _ := insisting(t)
	var moves Moves
	// A prompt: the same version, and tasks by now.
	g.Granted(2*time.Second, "n1", Grant{Lease: theLease, Held: 1, Lent: 3, Fill: 9, Fills: 3, Version: 1, Round: 1}, &moves)
	if held, _ := g.Held(); held != 4 {
		t.Errorf("%d ranks are held, want 4", held)
	}
	if l := g.Lent(2 * time.Second); l != (Lent{Tasks: 3, Job: 9, Jobs: 1}) {
		t.Errorf("got %+v, want three tasks of job 9", l)
	}
}

// The start is expected when the lenders that say so have enough for the job.
func TestExpectedStart(t *testing.T) {
	m := cluster(4, 4)
	g := NewGather(need(10), m, "n1", Policy{}, 7)
	s := newScene(t, g, m, 0)
	s.free["n1"] = 4
	s.begin()
	var moves Moves
	tell := func(node filch.NodeName, frees time.Duration) {
		s.version++
		g.Granted(time.Second, node, Grant{Lease: theLease, Version: s.version, Round: s.round(node), Waiting: true, Frees: frees}, &moves)
	}
	for _, c := range []struct {
		node  filch.NodeName
		frees time.Duration
		want  time.Duration
	}{
		{"n2", 9 * time.Second, 0}, // four are held, four more are not enough
		{"n3", 20 * time.Second, 20 * time.Second},
		{"n4", 5 * time.Second, 9 * time.Second},
		{"n2", 0, 20 * time.Second},
		{"n3", 0, 0},
	} {
		tell(c.node, c.frees)
		if got := g.Word(time.Second, "n1").Starts; got != c.want {
			t.Errorf("after %s frees its slots in %v: the start is expected in %v, want %v", c.node, c.frees, got, c.want)
		}
	}
	tell("n3", 9*time.Second)
	if got := g.Word(20*time.Second, "n1").Starts; got != time.Millisecond {
		t.Errorf("the start is expected in %v, although the time of all is over", got)
	}
}
