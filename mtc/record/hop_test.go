package record

import "testing"

// Of a task that a node has twice, under two hops, one start is committed.
func TestStartUnderAnotherHop(t *testing.T) {
	var b Block
	o := Owner{"n1", 1}
	op := func(hop uint32) *BlockOp {
		return &BlockOp{Kind: BlockStart, Once: true, Task: Task{Attempt: 1, Hop: hop, Owner: o}}
	}
	for i, c := range []struct {
		hop  uint32
		want Verdict
	}{{2, VerdictDone}, {0, VerdictOther}, {2, VerdictDone}} {
		if got := b.start(op(c.hop)); got != c.want {
			t.Errorf("start %d, hop %d: %v, want %v", i, c.hop, got, c.want)
		}
	}
}

// What nobody touched is the leader's. One that lives after all, and does not know
// yet that it has a successor, offers it to a node that had it of that: this is no
// repeat of the move that happened.
func TestOldLeaderMovesNothing(t *testing.T) {
	old, heir, thief := Owner{"n1", 1}, Owner{"n2", 1}, Owner{"n3", 1}
	const first = 1 << 20
	var z Zone
	for _, x := range []struct {
		what string
		op   ZoneOp
		want Verdict
	}{
		{"the heir begins", ZoneOp{Kind: ZoneFront, Lo: 18, Hi: 21, Front: 18, Hop: first, Owner: heir}, VerdictDone},
		{"the thief moves it", ZoneOp{Kind: ZoneMove, Lo: 18, Hi: 21, Front: 18, Hop: first, Owner: thief, From: heir}, VerdictDone},
		{"and repeats that", ZoneOp{Kind: ZoneMove, Lo: 18, Hi: 21, Front: 18, Hop: first, Owner: thief, From: heir}, VerdictDone},
		{"it moves it from the old leader", ZoneOp{Kind: ZoneMove, Lo: 18, Hi: 21, Front: 18, Owner: thief, From: old}, VerdictOther},
	} {
		if got := z.apply(&x.op); got != x.want {
			t.Errorf("%s: got %d, want %d", x.what, got, x.want)
		}
	}
}
