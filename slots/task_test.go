package slots_test

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/slots"
)

// Gangs and tasks take turns: neither keeps the other out.
func TestTasksAndGangsTakeTurns(t *testing.T) {
	l := New(cpus(2), 1)
	one := filch.Room{Slots: 1}
	a, _ := l.TakeTask(1, one)
	b, ok := l.TakeTask(1, one)
	if !ok {
		t.Fatal("two tasks do not fit in two slots")
	}
	l.TasksWait(1, true, one)
	gang := ask(1, 2)
	gang.Wait = true
	l.Ask(2, gang, 2)

	// The gang came after the last start: what comes free is its own.
	l.EndTask(3, a, false)
	if s := l.Status(gang.Key); s.Held != 0 {
		t.Fatalf("a task waits since before the gang came, and the gang got %d", s.Held)
	}
	c, ok := l.TakeTask(3, one)
	if !ok {
		t.Fatal("it is the task's turn")
	}
	// That task was started after the gang came: now it is the gang's turn.
	l.EndTask(4, b, false)
	if s := l.Status(gang.Key); s.Held != 1 {
		t.Fatalf("the gang has %d slots of one that came free in its turn", s.Held)
	}
	if _, ok := l.TakeTask(4, one); ok {
		t.Fatal("a task went before the gang")
	}
	l.EndTask(5, c, false)
	if s := l.Status(gang.Key); s.Held != 2 || s.Waiting {
		t.Fatalf("got %+v", s)
	}
	l.Check()
}

// A node-wide gang is let in although tasks never stop coming.
func TestTasksLetAnExclusiveGangIn(t *testing.T) {
	l := New(cpus(4), 1)
	one := filch.Room{Slots: 1}
	var running []TaskLoan
	now := time.Duration(1)
	fill := func() {
		for {
			n, ok := l.TakeTask(now, one)
			if !ok {
				break
			}
			running = append(running, n)
		}
		l.TasksWait(now, true, one)
	}
	fill()
	gang := ask(1, 4)
	gang.Wait, gang.Exclusive = true, true
	l.Ask(2, gang, 4)
	for now = 3; now < 20 && l.Status(gang.Key).Held == 0; now++ {
		if len(running) > 0 {
			l.EndTask(now, running[0], false)
			running = running[1:]
		}
		fill()
		l.Check()
	}
	if s := l.Status(gang.Key); s.Held != 4 {
		t.Errorf("after %d ends the gang has %+v", now, s)
	}
}

// A task that begins in the room of another counts as a start: a gang that has waited since
// before comes next.
func TestPassedRoomEndsTheTurn(t *testing.T) {
	l := New(cpus(1), 1)
	n, _ := l.TakeTask(1, filch.Room{Slots: 1})
	l.TasksWait(1, true, filch.Room{Slots: 1})
	gang := Ask{Key: Key{Job: 1, Attempt: 1}, Want: 1, Each: filch.Room{Slots: 1}, Wait: true}
	l.Ask(2, gang, filch.Unbounded)
	if l.GangsTurn() {
		t.Error("a gang comes before a task that waits longer")
	}
	l.PassTask(3)
	if !l.GangsTurn() {
		t.Error("after another task began, a gang still waits for the tasks")
	}
	l.EndTask(4, n, false)
	if s := l.Status(gang.Key); s.Held != 1 || l.GangsTurn() {
		t.Errorf("after the end of the task the gang has %+v, want one slot", s)
	}
}

func TestTasksWhenDraining(t *testing.T) {
	l := New(cpus(2), 1)
	n, _ := l.TakeTask(1, filch.Room{Slots: 1})
	l.Drain(2, true)
	if room := l.TaskRoom(); room.Slots != 1 {
		t.Errorf("a draining node has room for tasks in %d slots, want the one that is taken", room.Slots)
	}
	begun, ok := l.TakeTask(2, filch.Room{Slots: 1})
	if !ok {
		t.Error("a task whose start was recorded before the drain gets no room")
	}
	if _, ok := l.TakeTask(2, filch.Room{Slots: 1}); ok {
		t.Error("a third task was taken of two slots")
	}
	l.EndTask(3, begun, false)
	l.EndTask(3, n, false)
	if !l.Idle() {
		t.Error("not idle after the last task")
	}
}

// TestTaskTooLargeKeepsNothing has a task wait on a node that can never hold it, as
// a drained node gave it away: jobs get the node all the same.
func TestTaskTooLargeKeepsNothing(t *testing.T) {
	l := New(cpus(2), 1)
	l.TasksWait(1, true, filch.Room{Slots: 4})
	gang := Ask{Key: Key{Job: 1, Attempt: 1}, Want: 2, Each: filch.Room{Slots: 1}, Wait: true}
	if s := l.Ask(2, gang, filch.Unbounded); s.Held != 2 {
		t.Errorf("a job got %d of 2 slots beside a task that takes 4", s.Held)
	}
}

func TestTasksGoOnWhenTheNodeEnds(t *testing.T) {
	l := New(cpus(2), 1)
	gang := Ask{Key: Key{Job: 1, Attempt: 1}, Want: 1, Each: filch.Room{Slots: 1}, Wait: true}
	l.NearsEnd(1)
	l.NearsEnd(1)
	if _, ok := l.TakeTask(2, filch.Room{Slots: 1}); !ok {
		t.Error("a task that can end in time gets no room")
	}
	if _, ok := l.Take(2, gang); ok || !l.Draining() {
		t.Error("a node that ends lends to a job")
	}
	gang.Ends = true
	if s := l.Ask(2, gang, filch.Unbounded); s.Held != 1 || s.Refused {
		t.Errorf("a job that ends in time got %+v", s)
	}
	l.Release(2, gang.Key, l.Status(gang.Key).Lease, 2)
	l.Drain(3, true)
	if room := l.TaskRoom(); room.Slots != 1 {
		t.Errorf("a node that is drained besides has room for tasks in %d slots, want 1", room.Slots)
	}
	l.NearsEnd(4)
	if room := l.TaskRoom(); room.Slots != 1 {
		t.Errorf("the end undid the drain: room in %d slots, want 1", room.Slots)
	}
	l.Drain(5, false)
	if _, ok := l.TakeTask(5, filch.Room{Slots: 1}); !ok {
		t.Error("a node that is drained no more takes no task")
	}
}

func BenchmarkTakeTask(b *testing.B) {
	l := New(cpus(16), 1)
	for b.Loop() {
		n, _ := l.TakeTask(1, filch.Room{Slots: 1})
		l.EndTask(1, n, false)
	}
}

// The steps of a task use what it has, and nothing else.
func TestTasksLendToTheirSteps(t *testing.T) {
	l := New(Capacity{Slots: 6, MemBytes: 8, GPUs: []string{"a", "b"}}, 1)
	n, ok := l.TakeTask(1, filch.Room{Slots: 4, MemBytes: 4, GPUs: filch.GPU})
	if !ok {
		t.Fatal("a task does not fit on an idle node")
	}
	step := func(job filch.JobID, ranks int32, each filch.Room) (Loan, bool) {
		loan, ok := l.SubTask(Ask{Key: Key{Job: job, Attempt: 1}, Origin: "n1", Each: each, Want: ranks}, &n)
		l.Check()
		return loan, ok
	}
	for _, each := range []filch.Room{{Slots: 1, MemBytes: 2}, {Slots: 1, GPUs: filch.GPU}, {Slots: 2}} {
		if _, ok := step(9, 3, each); ok {
			t.Errorf("three ranks of %+v fit in a task of 4 slots, 4 bytes and a GPU", each)
		}
	}
	a, ok := step(1, 3, filch.Room{Slots: 1, MemBytes: 1})
	if !ok || len(a.Slots) != 3 || a.MemBytes != 3 || l.Free() != (filch.Room{Slots: 2, MemBytes: 4, GPUs: filch.GPU}) {
		t.Fatalf("lent %+v, %t, free %+v", a, ok, l.Free())
	}
	if _, ok := step(2, 2, filch.Room{Slots: 1}); ok {
		t.Error("a second step got slots of the first")
	}
	b, ok := step(2, 1, filch.Room{Slots: 1, GPUs: filch.GPU})
	if !ok || len(b.GPUs) != 1 || slices.Contains(a.Slots, b.Slots[0]) {
		t.Fatalf("lent %+v beside %+v, %t", b, a, ok)
	}
	l.End(2, Key{Job: 1, Attempt: 1}, a.Lease, false)
	if _, ok := step(3, 3, filch.Room{Slots: 1}); !ok || l.Free().Slots != 2 {
		t.Errorf("what a step gave back went to the node: %+v free", l.Free())
	}
	// A step that does not end with its task keeps its slots.
	l.EndTask(3, n, false)
	l.Check()
	if l.Free() != (filch.Room{Slots: 2, MemBytes: 8, GPUs: filch.GPU}) {
		t.Errorf("free %+v while two steps use four slots", l.Free())
	}
	l.End(4, Key{Job: 2, Attempt: 1}, b.Lease, false)
	l.End(4, Key{Job: 3, Attempt: 1}, l.Status(Key{Job: 3, Attempt: 1}).Lease, false)
	l.Check()
	if !l.Idle() || l.Free() != l.Total() {
		t.Errorf("free %+v of %+v", l.Free(), l.Total())
	}
}

// A task that needs a whole node and a gang that holds a part of it do not wait
// for each other. Found by the whole-node simulator (seed 20).
func TestTaskAndGangDoNotWaitForEachOther(t *testing.T) {
	l := New(cpus(5), 1)
	gang := ask(1, 2)
	if s := l.Ask(1, gang, 1); s.Held != 1 {
		t.Fatalf("got %+v, want one of two", s)
	}
	l.TasksWait(2, true, filch.Room{Slots: 5})
	gang.Wait = true
	gang.Round++
	if s := l.Ask(3, gang, filch.Unbounded); s.Held != 2 {
		t.Fatalf("four slots are free, and the gang holds %d of the 2 that it asked for", s.Held)
	}
	loan, ok := l.Lock(4, gang.Key, l.Status(gang.Key).Lease, 2)
	if !ok {
		t.Fatal("the gang cannot launch on what it holds")
	}
	other := ask(2, 1)
	other.Wait = true
	if s := l.Ask(5, other, filch.Unbounded); s.Held != 0 {
		t.Fatalf("a gang that came after the task holds %d slots", s.Held)
	}
	l.End(6, gang.Key, loan.Lease, false)
	if _, ok := l.TakeTask(7, filch.Room{Slots: 5}); !ok {
		t.Fatal("the whole node is free, and it is the task's turn")
	}
	l.Check()
}
