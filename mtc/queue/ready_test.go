package queue

import (
	"slices"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

func indices(list []Item) (out []int32) {
	for _, it := range list {
		out = append(out, it.Index)
	}
	return out
}

func TestReadyCutsEverySecondTask(t *testing.T) {
	var q Ready
	for i := range int32(6) {
		q.Shared.Push(Item{Index: i, Bytes: int64(i)})
	}
	space := 4096
	if got := indices(q.Cut(nil, 10, &space)); !slices.Equal(got, []int32{5, 3, 1}) {
		t.Errorf("a thief gets %v, not every second task from the heaviest on", got)
	}
	if q.Check(); q.Shareable() != 3 {
		t.Errorf("%d tasks are left of 6", q.Shareable())
	}
	if space = 100; len(q.Take(nil, 10, &space)) != 1 {
		t.Errorf("an offer of 100 bytes has %d bytes left: not for one task", space)
	}
}

func TestReadyForgetsOnlyTheStampThatLeft(t *testing.T) {
	var q Ready
	old := Item{Index: 3, Attempt: 1, Hop: 1}
	again := Item{Index: 3, Attempt: 1, Hop: 2}
	q.Hold(&old)
	q.Hold(&again)
	if q.Unhold(&old); !q.Knows(3) || q.Holds(&old) || !q.Holds(&again) {
		t.Error("the end of an old move forgot the task that came back")
	}
	if q.Unhold(&again); q.Knows(3) {
		t.Error("the task is still held")
	}
}

func TestReadyDelays(t *testing.T) {
	q := Ready{
		Resting: []Delayed{{Item: Item{Index: 1}, Until: 3 * time.Second}, {Item: Item{Index: 2}, Until: time.Second}, {Item: Item{Index: 5}, Until: 4 * time.Second, Behind: record.Owner{Node: "n1"}}},
		Cooling: []Delayed{{Item: Item{Index: 3}, Until: time.Second}, {Item: Item{Index: 4}, Until: 2 * time.Second}},
	}
	if one, two, three := q.RestsUntil(1), q.RestsUntil(2), q.RestsUntil(3); one != 3*time.Second || two != time.Second || three != 0 {
		t.Errorf("rests until %v, %v and %v", one, two, three)
	}
	if q.Startable() || q.Empty() || q.Again() != time.Second {
		t.Errorf("startable %v, empty %v, again at %v", q.Startable(), q.Empty(), q.Again())
	}
	list, next := q.Wake(time.Second, false)
	if got := indices(list); !slices.Equal(got, []int32{2}) || next != 3*time.Second {
		t.Errorf("woke %v, the next at %v", got, next)
	}
	if next := q.Warm(time.Second); next != 2*time.Second || len(q.Shared) != 1 {
		t.Errorf("%d tasks are warm, the next at %v", len(q.Shared), next)
	}
	if list, next := q.Wake(time.Second, true); len(list) != 1 || next != 4*time.Second {
		t.Errorf("woke %d of the rest, the next at %v; want 1, and the firm one at 4s", len(list), next)
	}
}

func TestReadyLateTasks(t *testing.T) {
	var q Ready
	q.SetAside(Item{Index: 1}, time.Minute)
	q.SetAside(Item{Index: 2}, 0)
	short := func(need time.Duration) bool { return need < time.Second }
	if n := q.LateFor(nil, short); n != 1 {
		t.Errorf("%d late tasks suit the thief", n)
	}
	space := 4096
	if got := indices(q.CutLate(nil, short, 10, &space)); !slices.Equal(got, []int32{2}) {
		t.Errorf("the thief gets %v", got)
	}
	if q.Reconsider(); len(q.Shared) != 0 {
		t.Error("a task with a limit of its own is shared again")
	}
}

func TestReadyRemovesSingles(t *testing.T) {
	q := Ready{Ranges: policy.Ranges{{Next: 10, Hi: 20}}, Cooling: []Delayed{{Item: Item{Index: 5}}}, Late: []Late{{Item: Item{Index: 6}}}}
	for i := range int32(4) {
		q.Shared.Push(Item{Index: i})
	}
	q.Dedicated.Push(Item{Index: 4})
	got := indices(q.Remove(func(i int32) bool { return i%2 == 0 }))
	if slices.Sort(got); !slices.Equal(got, []int32{0, 2, 4, 6}) {
		t.Errorf("removed %v", got)
	}
	rest := indices(q.Singles())
	if slices.Sort(rest); !slices.Equal(rest, []int32{1, 3, 5}) || q.Shareable() != 10 {
		t.Errorf("kept %v and %d", rest, q.Shareable())
	}
}

func TestReadyShares(t *testing.T) {
	var q Ready
	for i := range int32(4) {
		q.Dedicated.Push(Item{Index: i, Bytes: int64(i)})
	}
	if n := q.Share(3); n != 3 || len(q.Dedicated) != 1 || q.Dedicated[0].Index != 3 {
		t.Errorf("shared %d, dedicated %v: the heaviest task stays", n, indices(q.Dedicated))
	}
}

// TestReadyCutsWhatSuits gives a thief, and a node that takes gifts, only tasks that suit.
func TestReadyCutsWhatSuits(t *testing.T) {
	odd := Suits(func(it *Item) bool { return it.Index%2 == 1 })
	var q Ready
	for i := range int32(10) {
		q.Shared.Push(Item{Index: i, Need: i%2 + 1})
	}
	for i := range int32(4) {
		q.Cooling = append(q.Cooling, Delayed{Item: Item{Index: 10 + i}})
		q.SetUnfit(Item{Index: 20 + i})
	}
	if shared, cooling := q.Suited(odd); shared != 5 || cooling != 2 {
		t.Errorf("%d shared and %d cooling tasks suit, want 5 and 2", shared, cooling)
	}
	if index, ok := q.First(); index != 0 || !ok {
		t.Errorf("the first task is %d (%v), want 0", index, ok)
	}
	space := 1 << 10
	if got := indices(q.Cut(odd, 10, &space)); !slices.Equal(got, []int32{11, 13, 1, 5}) {
		t.Errorf("cut %v, want 11, 13 and every second odd task", got)
	}
	if got := indices(q.CutUnfit(odd, 10, &space)); !slices.Equal(got, []int32{21, 23}) {
		t.Errorf("cut %v of the unfit tasks, want 21 and 23", got)
	}
	if got := indices(q.Take(odd, 2, &space)); !slices.Equal(got, []int32{3, 7}) {
		t.Errorf("took %v, want 3 and 7", got)
	}
	if len(q.Shared) != 6 || len(q.Cooling) != 2 || len(q.Unfit) != 2 || q.Empty() {
		t.Errorf("%d shared, %d cooling and %d unfit tasks are left, want 6, 2 and 2", len(q.Shared), len(q.Cooling), len(q.Unfit))
	}
	if got := q.Remove(func(i int32) bool { return i == 22 }); len(got) != 1 || len(q.Singles()) != 9 || !q.Empty() {
		t.Errorf("removed %v, and %v is left", got, q)
	}
	q.Check()
}

// TestCriticalPathFirst: the bottom level counts before the input's size, and a task of
// unknown level goes first.
func TestCriticalPathFirst(t *testing.T) {
	var q Ready
	q.Shared.Push(Item{Index: 1, Level: 2 * time.Second, Bytes: 900})
	q.Shared.Push(Item{Index: 2, Level: 9 * time.Second})
	q.Shared.Push(Item{Index: 3})
	q.Shared.Push(Item{Index: 4, Level: 2 * time.Second, Bytes: 901})
	space := 1 << 20
	if got := indices(q.Take(nil, 4, &space)); !slices.Equal(got, []int32{3, 2, 4, 1}) {
		t.Errorf("the order is %v, not the task of unknown level, then by level, then by bytes", got)
	}
	q.Shared.Push(Item{Index: 1, Level: 1})
	q.Dedicated.Push(Item{Index: 2, Level: 2})
	q.Dedicated.Push(Item{Index: 3, Level: 3})
	q.Relevel(func(i int32) time.Duration { return time.Duration(10 - i) })
	if q.Dedicated[0].Index != 2 || q.Shared[0].Level != 9 {
		t.Error("new levels do not change the order")
	}
	q.Check()
}

// Dedicated tasks, whose data are here, start before tasks that thieves may take (MATRIX v2,
// III.B), whatever their order in the queues; the tasks of ranges come last.
func TestDedicatedTasksStartFirst(t *testing.T) {
	var q Ready
	q.Shared.Push(Item{Index: 1, Bytes: 1 << 30})
	q.Dedicated.Push(Item{Index: 7})
	q.Dedicated.Push(Item{Index: 9, Bytes: 5})
	for _, want := range []int32{9, 7, 1} {
		index, ok := q.First()
		if !ok || index != want {
			t.Fatalf("the first task is %d, want %d", index, want)
		}
		q.Single().Pop()
	}
	if index, ok := q.First(); ok {
		t.Errorf("an empty queue starts task %d", index)
	}
}

// TestThiefGetsTasksWithItsData: of about equally urgent tasks, a thief gets those with most of their
// input on the thief's node first; a more urgent task goes before these.
func TestThiefGetsTasksWithItsData(t *testing.T) {
	const sec = time.Second
	task := func(index int32, level time.Duration, node filch.NodeName) Item {
		return Item{Index: index, Level: level, Inputs: []policy.Input{{Node: node, Bytes: 100}, {Node: "c", Bytes: 10}}}
	}
	for _, c := range []struct {
		urgent time.Duration // the level of the first task
		most   int64
		want   []int32
	}{{10 * sec, 9, []int32{2, 4}}, {10 * sec, 1, []int32{2}}, {20 * sec, 9, nil}} {
		q := Ready{}
		for _, it := range []Item{task(0, c.urgent, "a"), task(1, 10*sec, "a"), task(2, 10*sec, "b"), task(3, 10*sec, "a"), task(4, 9*sec, "b"), task(5, sec, "b")} {
			q.Shared.Push(it)
		}
		space := 4096
		if got := indices(q.CutNear(nil, "b", c.most, &space)); !slices.Equal(got, c.want) {
			t.Errorf("behind a level of %v a thief gets %v at most %d, want %v", c.urgent, got, c.most, c.want)
		}
		if q.Check(); len(q.Shared)+len(c.want) != 6 {
			t.Errorf("%d tasks are left of 6", len(q.Shared))
		}
	}
}
