package replica

import (
	"strconv"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// TestSlowIsTwiceTheLeastLength: a node learns from its own ends and from thieves, and the least
// counts; without three ends here, and without a word of others, no task is slow.
func TestSlowIsTwiceTheLeastLength(t *testing.T) {
	k, l := KindOf(7, "sim"), Lengths{}
	for i, want := range []time.Duration{0, 0, 20 * time.Second} {
		l.Add(k, 10*time.Second)
		if got := l.Late(k); got != want {
			t.Errorf("after %d ends a task is late at %v, want %v", i+1, got, want)
		}
	}
	if !l.Heard([]message.Length{{Job: 7, Hash: k.Hash, Took: time.Second}}) || l.Heard([]message.Length{{Job: 7, Hash: k.Hash, Took: 2 * time.Second}}) {
		t.Error("the least length that a thief says is no news, or a greater one is")
	}
	if got := l.Late(k); got != 2*time.Second {
		t.Errorf("late at %v, want twice the second of the thief", got)
	}
	l.Heard([]message.Length{{Job: 7, Hash: k.Hash, Took: time.Millisecond}})
	if got := l.Late(k); got != lateLeast+time.Millisecond {
		t.Errorf("a short task is late at %v, want half of a second later", got)
	}
	if w := l.Words(); len(w) != 1 || w[0].Took != 10*time.Second {
		t.Errorf("the node says %v, want its own length", w)
	}
	if KindOf(7, "sim") == KindOf(7, "fit") || KindOf(7, "sim") == KindOf(8, "sim") {
		t.Error("different kinds are one")
	}
	if faster(l.Words(), k, 5*time.Second) || !faster(nil, k, time.Second) {
		t.Error("a thief that takes longer than the task has run counts as fast, or one that does not know as slow")
	}
	for i := range kindsMax + 5 {
		l.Add(KindOf(9, strconv.Itoa(i)), time.Second)
	}
	if len(l.kinds) != kindsMax || l.Late(k) != 0 {
		t.Errorf("%d kinds are known, at most %d", len(l.kinds), kindsMax)
	}
}

// TestCopiesOfARunAreCounted: an offer counts until the thief answers or the wait is over; a copy
// that may have begun counts for as long as its run lives.
func TestCopiesOfARunAreCounted(t *testing.T) {
	var g Given
	say := func(now time.Duration, number uint64, s message.CopyState) (uint64, bool) {
		return g.Said(now, "n2", &message.CopySay{Number: number, Job: 1, Index: 3, State: s, Took: time.Second})
	}
	add := func(number uint64) {
		g.Add(Copy{Number: number, Run: 5, Job: 1, Index: 3, Holder: record.Owner{Node: "n2", Incarnation: 4}})
	}
	add(1)
	if g.may(5, 1) || !g.may(5, 2) || g.Lives(5) {
		t.Error("an offer does not count as one, or counts as a copy that runs")
	}
	if some, _ := g.Expire(sureWait); !some || !g.may(5, 1) {
		t.Error("an offer counts after its wait")
	}
	add(2)
	if run, known := say(time.Second, 2, message.CopyOffered); !known || run != 5 || !g.Lives(5) {
		t.Errorf("run %d, known %v: the thief may not begin", run, known)
	}
	say(3*time.Second, 2, message.CopyRuns)
	if c, ok := g.Running(1, 3); !ok || c.Since != 2*time.Second {
		t.Errorf("the copy runs since %v, %v, want 2s", c.Since, ok)
	}
	say(4*time.Second, 2, message.CopyOver)
	if g.Lives(5) || g.may(5, 1) || !g.may(5, 2) {
		t.Error("a copy that is over lives, or does not count")
	}
	add(3)
	say(0, 3, message.CopyOffered)
	if runs := g.Lost(record.Owner{Node: "n2", Incarnation: 4}); len(runs) != 1 || g.Lives(5) || g.may(5, 2) {
		t.Errorf("runs %v lost a copy with its node", runs)
	}
	if _, known := say(0, 3, message.CopyOver); known {
		t.Error("a lost copy is known")
	}
	add(4)
	if list := g.End(5); len(list) != 1 || !g.may(5, 1) {
		t.Errorf("%d copies at the end of the run, want the one offered", len(list))
	}
}

// TestCopyIsSaidAgain: the owner hears of a copy each second, and at once of what is new.
func TestCopyIsSaidAgain(t *testing.T) {
	from, item := record.Owner{Node: "n1", Incarnation: 2}, &message.CopyItem{Number: 9, TaskItem: message.TaskItem{Job: 1, Index: 3}}
	var l Taken
	x := l.Add(from, item, 0)
	if l.Add(from, item, 0) != nil || !l.Comes() {
		t.Fatal("an offer that comes twice is two copies, or none")
	}
	for _, now := range []time.Duration{0, sayAgain} {
		if due, next := l.Said(now); len(due) != 1 || next != now+sayAgain {
			t.Errorf("at %v %d are due, the next at %v", now, len(due), next)
		}
		if due, _ := l.Said(now); len(due) != 0 {
			t.Errorf("at %v the owner hears twice", now)
		}
	}
	x.State, x.Run, x.Began = message.CopyRuns, 4, sayAgain
	x.soon()
	if due, _ := l.Said(2 * sayAgain); len(due) != 1 || due[0].Word(2*sayAgain).Took != sayAgain {
		t.Errorf("%d are due", len(due))
	}
	l.Drop(x)
	if !x.Gone || l.Find(from, 9) != nil || len(l.Of(from)) != 0 {
		t.Error("a dropped copy is in the list")
	}
}
