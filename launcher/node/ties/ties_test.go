package ties

import (
	"slices"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/stealer"
)

// members are nodes with four slots each.
func members(names ...filch.NodeName) *filch.Members {
	m := filch.NewMembers()
	for _, n := range names {
		m.Set(filch.Member{Name: n, Incarnation: 1, Total: filch.Room{Slots: 4}})
	}
	return m
}

// tie is a task that holds slots of a node, and waits for a run of some ranks.
func tie(node filch.NodeName, task uint64, slots int32, run filch.JobID, ranks int32) launcher.Tie {
	return launcher.Tie{
		Node: node, Inside: launcher.Inside{Job: 1, Task: task}, Room: filch.Room{Slots: slots},
		Waits: []launcher.Wait{{
			Job: run, Ticket: filch.Ticket{UnixNS: int64(run), Job: run},
			Need: stealer.Need{Ranks: ranks, MinNodes: 1, Each: filch.Room{Slots: 1}},
		}},
	}
}

func TestKnot(t *testing.T) {
	two := tie("n1", 3, 1, 12, 1)
	two.Waits = append(two.Waits, launcher.Wait{Job: 20, Runs: true})
	for name, x := range map[string]struct {
		ties []launcher.Tie
		want int
	}{
		"none":                        {nil, 0},
		"room is left":                {[]launcher.Tie{tie("n1", 1, 3, 10, 1)}, 0},
		"no room is left":             {[]launcher.Tie{tie("n1", 1, 4, 10, 5), tie("n2", 2, 4, 11, 5)}, 2},
		"the first can go on":         {[]launcher.Tie{tie("n1", 1, 4, 10, 4), tie("n2", 2, 0, 11, 8)}, 0},
		"without the holder of a run": {[]launcher.Tie{two, tie("n1", 4, 3, 13, 8), tie("n2", 5, 4, 14, 8)}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Knot(members("n1", "n2"), x.ties); len(got) != x.want {
				t.Errorf("got %d ties, want %d: %+v", len(got), x.want, got)
			}
		})
	}
}

// The youngest runs are refused, and no more of them than the oldest needs.
func TestYoungest(t *testing.T) {
	m := members("n1", "n2")
	ties := []launcher.Tie{tie("n1", 1, 2, 12, 3), tie("n1", 2, 2, 10, 3), tie("n2", 3, 4, 11, 3)}
	tied := Knot(m, ties)
	if len(tied) != 3 {
		t.Fatalf("got %d ties, want a knot of 3", len(tied))
	}
	if got, want := Youngest(m, tied), []filch.JobID{12, 11}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := Youngest(m, nil); got != nil {
		t.Errorf("got %v of no tie", got)
	}
}
