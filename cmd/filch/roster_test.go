package main

import (
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The roster is lost when no majority of its seats can say what it promised.
func TestRosterLost(t *testing.T) {
	list := func(known bool, seats []filch.NodeName, seated, silent string) []wire.RosterInfo {
		all := []wire.RosterInfo{}
		for _, n := range []filch.NodeName{"n1", "n2", "n3", "n4"} {
			r := wire.RosterInfo{Node: n, Known: known, Seats: seats}
			r.Here.Seated = contains(seated, n)
			r.Silent = contains(silent, n)
			all = append(all, r)
		}
		return all
	}
	three := []filch.NodeName{"n1", "n2", "n3"}
	for _, c := range []struct {
		name string
		list []wire.RosterInfo
		want bool
		say  string
	}{
		{"whole", list(true, three, "n1 n2 n3", ""), false, "of 3 seats"},
		{"one gone", list(true, three, "n1 n2", "n3"), false, "of 3 seats, 1 gone (n3)"},
		{"one damaged", list(true, three, "n1 n2", ""), false, "of 3 seats, 1 on a damaged disk (n3)"},
		{"both", list(true, three, "n1", "n3"), true, "of 3 seats, 1 gone (n3), 1 on a damaged disk (n2)"},
		{"one that left the list", list(true, []filch.NodeName{"n1", "n8", "n9"}, "n1", ""), true, "of 3 seats, 2 gone (n[8-9])"},
		{"lone and damaged", list(true, three[:1], "", ""), true, "of 1 seat, 1 on a damaged disk (n1)"},
		{"half", list(true, []filch.NodeName{"n1", "n2", "n3", "n4"}, "n1 n2", "n3 n4"), true, "of 4 seats, 2 gone (n[3-4])"},
		{"unheard of", list(false, []filch.NodeName{}, "", ""), true, "n1 has not heard of one"},
	} {
		t.Run(c.name, func(t *testing.T) {
			gone, unseated := lostSeats(c.list)
			if got := rosterLost(c.list); got != c.want {
				t.Errorf("lost: got %t, want %t", got, c.want)
			}
			if got := saySeats(&c.list[0], gone, unseated); got != c.say {
				t.Errorf("got %q, want %q", got, c.say)
			}
		})
	}
}

func contains(names string, n filch.NodeName) bool {
	for i := 0; i+2 <= len(names); i += 3 {
		if filch.NodeName(names[i:i+2]) == n {
			return true
		}
	}
	return false
}
