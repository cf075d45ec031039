package slots_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/filch-hpc/filch"
	. "github.com/filch-hpc/filch/slots"
)

// machineOf are the processors of a machine: cores, or hardware threads if a core has several.
func machineOf(sockets, domains, cores, threads int) (all []filch.Processor) {
	for c := range sockets * domains * cores {
		for range threads {
			i := int32(len(all))
			all = append(all, filch.Processor{CPUs: []int32{i}, Core: int32(c), Domain: int32(c / cores), Socket: int32(c / cores / domains)})
		}
	}
	return all
}

func TestNear(t *testing.T) {
	flat, two, numa, smt := machineOf(1, 1, 8, 1), machineOf(2, 1, 6, 1), machineOf(2, 4, 4, 1), machineOf(1, 1, 4, 2)
	for _, c := range []struct {
		name    string
		at      []filch.Processor
		busy    string // numbers of slots
		each, n int32
		want    string
	}{
		{"lowest-of-one-socket", flat, "0 2", 1, 3, "1 3 4"},
		{"all", flat, "", 2, 8, "0 1 2 3 4 5 6 7"},
		{"a-numa-node-that-holds-the-rank", numa, "1 6 9 12", 4, 4, "16 17 18 19"},
		{"in-one-socket", two, "", 1, 6, "0 1 2 3 4 5"},
		{"the-fuller-socket-with-room", two, "6 7", 1, 4, "8 9 10 11"},
		{"the-whole-socket-stays-whole", two, "0", 1, 2, "1 2"},
		{"ranks-are-not-divided-between-sockets", two, "", 4, 8, "0 1 2 3 6 7 8 9"},
		{"the-last-rank-is-divided", two, "", 4, 12, "0 1 2 3 6 7 8 9 4 5 10 11"},
		{"a-rank-larger-than-a-socket", two, "", 8, 8, "0 1 2 3 4 5 6 7"},
		{"one-numa-node", numa, "0", 1, 4, "4 5 6 7"},
		{"two-numa-nodes-of-a-socket", numa, "0 1 2 3 4 5 6 7 8 9", 1, 8, "16 17 18 19 20 21 22 23"},
		{"more-than-a-socket", numa, "0", 1, 17, "16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 1"},
		{"ranks-in-numa-nodes", numa, "1 5", 3, 9, "0 2 3 4 6 7 8 9 10"},
		{"threads-of-one-core", smt, "", 2, 4, "0 1 2 3"},
		{"a-used-core-first", smt, "0", 1, 1, "1"},
		{"a-whole-core-for-two-threads", smt, "0", 2, 2, "2 3"},
		{"uneven", flat, "", 2, 5, "0 1 2 3 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var free []int32
			for i := range c.at {
				if !slices.Contains(strings.Fields(c.busy), fmt.Sprint(i)) {
					free = append(free, int32(i))
				}
			}
			if got := strings.Trim(fmt.Sprint(Near(free, c.at, c.each, c.n)), "[]"); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// Every choice has n different free slots, and is made alike again.
func TestNearChoosesFreeSlots(t *testing.T) {
	r := filch.Rand(1)
	for range 3000 {
		at := machineOf(1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(5), 1+r.IntN(2))
		var free []int32
		for i := range at {
			if r.IntN(4) > 0 {
				free = append(free, int32(i))
			}
		}
		for n := int32(1); n <= int32(len(free)); n++ {
			each := 1 + int32(r.IntN(int(n)))
			got := Near(free, at, each, n)
			sorted := slices.Compact(slices.Sorted(slices.Values(got)))
			if int32(len(got)) != n || len(sorted) != len(got) || slices.ContainsFunc(got, func(s int32) bool { return !slices.Contains(free, s) }) {
				t.Fatalf("%d slots in units of %d out of %v: got %v", n, each, free, got)
			}
			if again := Near(free, at, each, n); !slices.Equal(again, got) {
				t.Fatalf("%d slots in units of %d out of %v: got %v, then %v", n, each, free, got, again)
			}
		}
	}
}

// The ledger lends the slots of a socket to a run, even where the first free slots are in two
// sockets, and the launch decides: a hold has any slots.
func TestLedgerLendsNearSlots(t *testing.T) {
	l := New(Capacity{Processors: machineOf(2, 1, 4, 1), Slots: 8}, 1)
	if _, ok := l.Take(0, ask(1, 2)); !ok {
		t.Fatal("cannot take two slots")
	}
	near, ok := l.Take(0, ask(2, 3))
	if !ok || fmt.Sprint(near.Slots) != "[4 5 6]" {
		t.Errorf("three slots: got %v, want those of the second socket", near.Slots)
	}
	task, ok := l.TakeTask(0, filch.Room{Slots: 2})
	if !ok || fmt.Sprint(task.Slots()) != "[2 3]" {
		t.Errorf("a task: got %v, want the rest of the first socket", task.Slots())
	}
	l.EndTask(0, task, false)
	l.End(0, ask(2, 3).Key, near.Lease, false)
	s := l.Ask(0, ask(3, 4), 2)
	a := ask(3, 4)
	a.Round = s.Round + 1
	if s = l.Ask(0, a, 2); s.Held != 4 {
		t.Fatalf("got %d held, want 4", s.Held)
	}
	loan, ok := l.Lock(0, a.Key, s.Lease, 4)
	if !ok || fmt.Sprint(loan.Slots) != "[4 5 6 7]" || loan.Processors[0].Socket != 1 {
		t.Errorf("a launch: got %v, want the second socket", loan.Slots)
	}
	l.Check()
}
