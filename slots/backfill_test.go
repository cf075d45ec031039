package slots_test

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/slots"
)

// hold is a ledger whose job 1 holds all but one slot, and waits for that slot.
func hold(t *testing.T, n int32) (*Ledger, Ask, TaskLoan) {
	t.Helper()
	l := New(cpus(n), 1)
	busy, ok := l.TakeTask(1, filch.Room{Slots: 1})
	if !ok {
		t.Fatal("a task does not fit on an idle node")
	}
	a := ask(1, n)
	a.Wait = true
	if s := l.Ask(2, a, n); s.Held != n-1 || !s.Waiting {
		t.Fatalf("the job got %+v of %d slots", s, n-1)
	}
	return l, a, busy
}

func permit(l *Ledger, a Ask, round uint32, on bool) {
	l.Backfill.Permit(2, a.Key, l.Status(a.Key).Lease, round, on, 0)
}

func fills(t *testing.T, l *Ledger, n int) (list []TaskLoan) {
	t.Helper()
	for i := range n {
		loan, ok := l.Backfill.Take(2, uint64(i+1), filch.Room{Slots: 1})
		if !ok {
			t.Fatalf("task %d of %d is not let through", i+1, n)
		}
		list = append(list, loan)
		l.Check()
	}
	return list
}

// A hold lends its slots with the permission of its origin only, and has the slots back
// when the tasks end: no task that waits gets the room.
func TestHoldLendsAndGetsBack(t *testing.T) {
	l, a, busy := hold(t, 4)
	if _, ok := l.Backfill.Take(2, 1, filch.Room{Slots: 1}); ok {
		t.Error("a task is let through without permission")
	}
	permit(l, a, 2, true)
	list := fills(t, l, 3)
	if _, ok := l.Backfill.Take(2, 9, filch.Room{Slots: 1}); ok {
		t.Error("a fourth task is let through in three slots")
	}
	if s := l.Status(a.Key); s.Held != 0 || s.Lent != 3 {
		t.Errorf("got %+v, want three ranks lent", s)
	}
	l.TasksWait(3, true, filch.Room{Slots: 1}) // the wait of a task does not delay the hold
	l.EndTask(4, list[0], false)
	l.Check()
	if s := l.Status(a.Key); s.Held != 1 || s.Lent != 2 || l.Free().Slots != 0 {
		t.Errorf("after the end of a task: %+v, %d free", s, l.Free().Slots)
	}
	permit(l, a, 3, false)
	if got := l.Backfill.Recalled(nil); !slices.Equal(got, []uint64{2, 3}) {
		t.Errorf("recalled %v, want 2 and 3", got)
	}
	permit(l, a, 2, true) // an older word comes late
	if _, ok := l.Backfill.Take(2, 9, filch.Room{Slots: 1}); ok {
		t.Error("a task is let through after the recall")
	}
	l.EndTask(5, list[1], false)
	l.EndTask(5, list[2], false)
	l.EndTask(5, busy, false)
	l.Check()
	if s := l.Status(a.Key); s.Held != 4 || s.Lent != 0 || s.Waiting {
		t.Errorf("got %+v, want all four", s)
	}
}

// A launch that comes while tasks have the slots is refused, and recalls the tasks.
func TestLockRecalls(t *testing.T) {
	l, a, _ := hold(t, 4)
	permit(l, a, 2, true)
	list := fills(t, l, 2)
	lease := l.Status(a.Key).Lease
	if _, ok := l.Lock(3, a.Key, lease, 2); ok || len(l.Backfill.Recalled(nil)) != 2 {
		t.Error("a launch of two ranks got the slot of a task, or recalled nothing")
	}
	if loan, ok := l.Lock(3, a.Key, lease, 1); !ok || len(loan.Slots) != 1 {
		t.Errorf("a launch of one rank got %+v", loan)
	}
	l.Check()
	if free := l.Free().Slots; free != 0 {
		t.Errorf("%d slots are free: the tasks have left the hold, and have the rest", free)
	}
	for _, n := range list {
		l.EndTask(4, n, false)
		l.Check()
	}
	if free := l.Free().Slots; free != 2 {
		t.Errorf("%d slots are free, want 2", free)
	}
}

// Room that a job keeps after its ranks ended lends nothing, though the hold before the launch
// lent its slots to tasks.
func TestRetainedRoomLendsNothing(t *testing.T) {
	l, a, busy := hold(t, 4)
	permit(l, a, 2, true)
	l.EndTask(3, busy, false)
	lease := l.Status(a.Key).Lease
	if _, ok := l.Lock(3, a.Key, lease, 4); !ok || !l.Run(a.Key, lease) {
		t.Fatal("the job with all its slots does not start")
	}
	if !l.Spares.Retain(4, a.Key, lease) {
		t.Fatal("the room of the ranks that ended is not kept")
	}
	l.Check()
	if _, ok := l.Backfill.Take(5, 1, filch.Room{Slots: 1}); ok {
		t.Error("a task is let through in kept room")
	}
}

// The end of a hold leaves its tasks; a job that waits has them recalled.
func TestTasksOutliveTheirHold(t *testing.T) {
	for _, waits := range []bool{false, true} {
		l, a, busy := hold(t, 4)
		permit(l, a, 2, true)
		list := fills(t, l, 2)
		other := ask(2, 3)
		if other.Wait = waits; waits {
			l.Ask(3, other, 3)
		}
		l.Release(4, a.Key, l.Status(a.Key).Lease, 1)
		l.Check()
		if got := len(l.Backfill.Recalled(nil)); got != map[bool]int{true: 2}[waits] {
			t.Errorf("another job waits: %t; %d tasks recalled", waits, got)
		}
		for _, n := range append(list, busy) {
			l.EndTask(5, n, false)
			l.Check()
		}
		if s := l.Status(other.Key); waits && s.Held != 3 || !waits && l.Free() != l.Total() {
			t.Errorf("another job waits: %t; it has %+v, %d slots free", waits, s, l.Free().Slots)
		}
	}
}

// An older job that comes recalls the tasks in a younger hold, and gets the room.
func TestOlderJobRecalls(t *testing.T) {
	l, a, _ := hold(t, 4)
	permit(l, a, 2, true)
	list := fills(t, l, 3)
	old := ask(0, 3)
	old.Ticket.UnixNS, old.Wait = a.Ticket.UnixNS-1, true
	if s := l.Ask(3, old, 3); s.Held != 0 || len(l.Backfill.Recalled(nil)) != 3 {
		t.Errorf("the older job has %+v at once", s)
	}
	for i, n := range list {
		l.EndTask(4, n, false)
		l.Check()
		if s := l.Status(old.Key); s.Held != int32(i)+1 {
			t.Errorf("after the end of task %d the older job has %+v", i, s)
		}
	}
	if s := l.Status(a.Key); s.Held != 0 || !s.Waiting {
		t.Errorf("the younger job has %+v", s)
	}
}

// A rank of two slots is not firm while a task has one of them.
func TestTaskInsideOfARank(t *testing.T) {
	l := New(cpus(5), 1)
	a := ask(1, 3)
	a.Each.Slots, a.Wait = 2, true
	l.Ask(1, a, 3)
	permit(l, a, 2, true)
	n := fills(t, l, 1)[0]
	if s := l.Status(a.Key); s.Held != 1 || s.Lent != 1 {
		t.Errorf("got %+v, want a rank held and a rank lent", s)
	}
	l.EndTask(2, n, true) // it cannot be killed
	l.Check()
	if s := l.Status(a.Key); s.Held != 2 || s.Lent != 0 { // of the four slots that are left
		t.Errorf("got %+v, want two ranks", s)
	}
}

func TestFreesIsTheLatestEnd(t *testing.T) {
	l := New(cpus(4), 1)
	run := ask(1, 1)
	run.Takes = 10 * time.Second
	if _, ok := l.Take(time.Second, run); !ok {
		t.Fatal("a run does not fit on an idle node")
	}
	one := filch.Room{Slots: 1}
	for range 2 {
		if _, ok := l.TakeTask(time.Second, one); !ok {
			t.Fatal("a task finds no room")
		}
	}
	gang := ask(2, 3)
	gang.Wait = true
	l.Ask(2*time.Second, gang, 3)
	for _, c := range []struct {
		name  string
		tasks []Occupant
		want  time.Duration
	}{
		{"the run alone is known", nil, 0},
		{"a task ends first", []Occupant{{one, 5 * time.Second}}, 11 * time.Second},
		{"two tasks end first", []Occupant{{one, 7 * time.Second}, {one, 5 * time.Second}}, 7 * time.Second},
		{"the time of a task is over", []Occupant{{one, time.Second}}, 0},
		{"a task is unknown", []Occupant{{one, 0}}, 0},
	} {
		if got := l.Backfill.Frees(2*time.Second, gang.Key, c.tasks); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}
