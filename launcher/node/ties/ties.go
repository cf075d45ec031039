package ties

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Knot returns the ties whose holder cannot continue, even if all work outside the result
// ended.
func Knot(members *filch.Members, all []launcher.Tie) []launcher.Tie {
	tied := slices.Clone(all)
	for {
		left := without(members, tied)
		runs := make(map[filch.JobID]bool)
		for i := range tied {
			if tied[i].Inside.Task == 0 {
				runs[tied[i].Inside.Job] = true
			}
		}
		before := len(tied)
		tied = slices.DeleteFunc(tied, func(t launcher.Tie) bool {
			return slices.ContainsFunc(t.Waits, func(w launcher.Wait) bool {
				if w.Runs {
					return !runs[w.Job]
				}
				from := left
				if w.Of != (launcher.Inside{}) {
					from = remain(w.Rooms, w.Of, tied)
				}
				ranks, nodes := w.Need.Ceiling(from)
				return ranks >= int64(w.Need.Ranks) && nodes >= w.Need.MinNodes
			})
		})
		if len(tied) == before {
			return tied
		}
	}
}

// without returns the members with their room that is not tied.
func without(members *filch.Members, tied []launcher.Tie) *filch.Members {
	all := make([]filch.Member, members.Len())
	for i := range all {
		all[i] = *members.At(int32(i))
	}
	return remain(all, launcher.Inside{}, tied)
}

// remain returns the rooms without the room of the ties with slots of the owner of: a
// parent of steps, or the zero Inside for slots of the nodes.
func remain(rooms []filch.Member, of launcher.Inside, tied []launcher.Tie) *filch.Members {
	left := filch.NewMembers()
	for _, m := range rooms {
		left.Set(m)
	}
	for i := range tied {
		if m := left.Find(tied[i].Node); m >= 0 && tied[i].Of == of {
			p := left.At(m)
			p.Total = p.Total.Minus(tied[i].Room)
		}
	}
	return left
}

// Youngest returns the runs to refuse until the oldest run of a knot can start. The order of
// tied changes.
func Youngest(members *filch.Members, tied []launcher.Tie) (out []filch.JobID) {
	slices.SortStableFunc(tied, func(a, b launcher.Tie) int {
		v, w := lastWait(&a), lastWait(&b)
		switch {
		case v == nil && w == nil:
			return 0
		case v == nil || w != nil && v.Ticket.Older(w.Ticket):
			return -1
		case w == nil || w.Ticket.Older(v.Ticket):
			return 1
		}
		return 0
	})
	i := slices.IndexFunc(tied, func(t launcher.Tie) bool { return lastWait(&t) != nil })
	if i < 0 {
		return nil
	}
	oldest := lastWait(&tied[i]).Job
	for {
		w := lastWait(&tied[len(tied)-1])
		out = append(out, w.Job)
		tied = Knot(members, tied[:len(tied)-1])
		if !slices.ContainsFunc(tied, func(t launcher.Tie) bool { return lastWait(&t) != nil && lastWait(&t).Job == oldest }) {
			return out
		}
	}
}

// lastWait returns the youngest run without slots that the holder waits for.
func lastWait(t *launcher.Tie) (w *launcher.Wait) {
	for i := range t.Waits {
		if v := &t.Waits[i]; !v.Runs && (w == nil || w.Ticket.Older(v.Ticket)) {
			w = v
		}
	}
	return w
}
