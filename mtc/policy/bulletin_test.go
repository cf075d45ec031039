package policy

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// As long as a bag goes down its tree, thieves get none of its tasks. Afterwards, only thieves that
// asked meanwhile hear of the tasks: all other nodes have parts.
func TestKeptBagIsNoNews(t *testing.T) {
	var b Bulletin
	m := slotted(40, func(int) int32 { return 2 })
	w := News{Self: m.At(0).Name, Fits: func(*filch.Member) bool { return true }}
	const at = time.Second
	b.Keep(7, at)
	if last := at + spreadKeep - 1; !b.Keeps(7, last) || b.Keeps(8, last) || b.Kept(last) != at+spreadKeep || b.Next(last) != at+spreadKeep {
		t.Errorf("before the time is over: keeps %t, another job %t, until %v", b.Keeps(7, last), b.Keeps(8, last), b.Kept(last))
	}
	b.Askers.Add(m.At(5).Name)
	b.Idle()
	now := at + spreadKeep
	if b.Keeps(7, now) || b.Kept(now) != filch.Never {
		t.Errorf("after the time: keeps %t, until %v", b.Keeps(7, now), b.Kept(now))
	}
	if got := b.Round(now, 0, m, w, new(filch.Rand)); !slices.Equal(got, []filch.NodeName{m.At(5).Name}) {
		t.Errorf("%v hear of the kept tasks, want the node that asked", got)
	}
	for _, w.Victims = range []Victims{Random, Lifeline} {
		b := Bulletin{}
		b.Keep(7, at)
		b.Idle()
		if got := b.Round(now, 0, m, w, new(filch.Rand)); len(got) > 0 {
			t.Errorf("with victims %v, %v hear of the first tasks here, and have parts of the bag", w.Victims, got)
		}
	}
	w.Victims = ByDefault
	b.Idle()
	if got := b.Round(now+time.Second, 0, m, w, new(filch.Rand)); len(got) < 6 {
		t.Errorf("%d nodes hear of later tasks, want some drawn ones", len(got))
	}
}
