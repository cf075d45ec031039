package ring

import (
	"fmt"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/events"
)

func add(r *Ring, at int64, n int, reason string) {
	for range n {
		r.Add(at, []events.Event{{Kind: events.Note, Job: filch.JobID(1 + at%2), Reason: reason}})
	}
}

// readAll reads from a place to the end, in parts of limit bytes.
func readAll(t *testing.T, r *Ring, place string, limit int, f Filter) (list []events.Event, lost uint64, next string) {
	t.Helper()
	for {
		p, err := r.Read(place, limit, f)
		if err != nil {
			t.Fatal(err)
		}
		part, err := events.Decode(p.Data)
		if err != nil {
			t.Fatal(err)
		}
		list, lost, place = append(list, part...), lost+p.Lost, p.Next
		if !p.More {
			return list, lost, place
		}
	}
}

func TestEventsAreReadInOrder(t *testing.T) {
	r := New(5)
	if list, lost, _ := readAll(t, r, "", 100, Filter{}); len(list) > 0 || lost > 0 {
		t.Errorf("an empty ring has %d events, %d lost", len(list), lost)
	}
	_, _, first := readAll(t, r, "", 100, Filter{})
	add(r, 10, 1000, "x")
	for _, place := range []string{"", first} {
		list, lost, next := readAll(t, r, place, 100, Filter{})
		if len(list) != 1000 || lost != 0 {
			t.Fatalf("%d events and %d lost from %q, want 1000 and none", len(list), lost, place)
		}
		for i := range list {
			if list[i].Seq != uint64(i+1) || list[i].UnixNS != 10 {
				t.Fatalf("event %d is %+v", i, list[i])
			}
		}
		add(r, 20, 1, "y")
		list, _, _ = readAll(t, r, next, 100, Filter{})
		if len(list) != 1 || list[0].Reason != "y" {
			t.Fatalf("after the first 1000 come %+v", list)
		}
		r = New(5)
		add(r, 10, 1000, "x")
	}
}

// The memory is bounded, whatever the texts, and a reader who is too slow learns how many
// events are lost.
func TestSlowReadersLoseEvents(t *testing.T) {
	for _, size := range []int{0, 10, events.MaxReason, 10 * events.MaxReason} {
		t.Run(fmt.Sprintf("text=%d", size), func(t *testing.T) {
			r := New(5)
			add(r, 1, 1, "first")
			_, _, place := readAll(t, r, "", 1000, Filter{})
			const total = 100_000
			add(r, 2, total, strings.Repeat("x", size))
			if r.Bytes() > maxBytes {
				t.Errorf("the ring has %d bytes, at most %d", r.Bytes(), maxBytes)
			}
			list, lost, next := readAll(t, r, place, 1<<16, Filter{})
			if lost == 0 || uint64(len(list))+lost != total {
				t.Errorf("%d events and %d lost, want %d together", len(list), lost, total)
			}
			if len(list) < 2000 {
				t.Errorf("the ring keeps %d events only", len(list))
			}
			if list[len(list)-1].Seq != total+1 {
				t.Errorf("the last is %+v", list[len(list)-1])
			}
			if list, lost, _ := readAll(t, r, next, 1000, Filter{}); len(list) > 0 || lost > 0 {
				t.Errorf("%d events and %d lost at the end", len(list), lost)
			}
		})
	}
}

func TestPlaces(t *testing.T) {
	r := New(5)
	add(r, 1, 3, "")
	_, _, old := readAll(t, r, "", 1000, Filter{})
	again := New(6) // the next launcher of the node
	add(again, 1, 2, "")
	if list, lost, _ := readAll(t, again, old, 1000, Filter{}); len(list) != 2 || lost != 0 {
		t.Errorf("%d events and %d lost after a restart, want 2 and none", len(list), lost)
	}
	if list, _, _ := readAll(t, again, Now, 1000, Filter{}); len(list) != 0 {
		t.Errorf("%d events are new, want none", len(list))
	}
	if list, lost, _ := readAll(t, again, "6.99", 1000, Filter{}); len(list) != 0 || lost != 0 {
		t.Errorf("%d events and %d lost at a place of the future", len(list), lost)
	}
	for _, bad := range []string{"x", "6", "6.", ".6", "6.x", "6.-1", strings.Repeat("9", 100)} {
		if _, err := again.Read(bad, 100, Filter{}); err == nil {
			t.Errorf("%q is a place", bad)
		}
	}
}

func TestFilter(t *testing.T) {
	r := New(5)
	for at := range int64(1000) {
		add(r, at, 1, "")
	}
	list, _, _ := readAll(t, r, "", 50, Filter{Job: 2, Since: 900})
	if len(list) != 50 {
		t.Errorf("%d events of job 2 since 900, want 50", len(list))
	}
	for i := range list {
		if list[i].Job != 2 || list[i].UnixNS < 900 {
			t.Errorf("%+v passes", list[i])
		}
	}
}

func TestAwait(t *testing.T) {
	r := New(5)
	news := r.Await()
	select {
	case <-news:
		t.Fatal("news without an event")
	default:
	}
	add(r, 1, 1, "")
	select {
	case <-news:
	default:
		t.Fatal("no news of an event")
	}
}

// An event of a task costs no memory beside the ring's.
func TestAddAllocatesNothing(t *testing.T) {
	r := New(5)
	add(r, 1, 50_000, "")
	list := make([]events.Event, 0, 4)
	n := testing.AllocsPerRun(2000, func() {
		list = events.Append(list[:0], events.Event{Kind: events.TaskStarted, Job: 1, Task: 3, Tasks: 1})
		r.Add(2, list)
	})
	if n > 0 {
		t.Errorf("%v allocations an event", n)
	}
}

func BenchmarkAdd(b *testing.B) {
	r := New(5)
	list := make([]events.Event, 0, 4)
	for b.Loop() {
		list = events.Append(list[:0], events.Event{Kind: events.TaskStarted, Job: 1, Task: 3, Tasks: 1})
		r.Add(2, list)
	}
}

func FuzzPlace(f *testing.F) {
	f.Add("5.3", 10)
	f.Add("now", 1)
	r := New(5)
	add(r, 1, 40_000, "x")
	f.Fuzz(func(t *testing.T, place string, limit int) {
		p, err := r.Read(place, limit, Filter{})
		if err != nil {
			return
		}
		if _, err := events.Decode(p.Data); err != nil {
			t.Error(err)
		}
	})
}
