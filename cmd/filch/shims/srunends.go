package shims

import (
	"slices"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
)

// srunEnds prints the bad ends of ranks in srun's words, soon after the ranks have ended: a line
// for each node and kind of end.
type srunEnds struct {
	mu   sync.Mutex // guards the fields below
	said map[filch.Rank]bool
	list []launcher.RankEnd // not printed yet
	soon *time.Timer        // nil: nothing is to be printed
}

// endsWait is how long ends wait for others, so that ranks that end together share a line.
const endsWait = 100 * time.Millisecond

func (n *srunEnds) early(s *runclient.Session, e launcher.RankEnds) {
	n.take(e.Ranks)
	n.mu.Lock()
	defer n.mu.Unlock()
	if still := s.Still(); n.soon == nil {
		n.soon = time.AfterFunc(endsWait, func() { n.print(still) })
	}
}

// take takes in the ends that are new.
func (n *srunEnds) take(ends []launcher.RankEnd) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.said == nil {
		n.said = map[filch.Rank]bool{}
	}
	for i := range ends {
		if r := ends[i].Rank; !n.said[r] {
			n.said[r] = true
			n.list = append(n.list, ends[i])
		}
	}
}

// print prints the ends that were taken in.
func (n *srunEnds) print(s *runclient.Session) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.soon != nil {
		n.soon.Stop()
		n.soon = nil
	}
	ends := n.list
	n.list = nil
	for _, node := range s.Nodes {
		there := slices.DeleteFunc(slices.Clone(ends), func(r launcher.RankEnd) bool { return s.NodeOf(r.Rank) != node.Node })
		for _, g := range s.Folded(there, srunEnd) {
			word := "task"
			if g.Count > 1 {
				word = "tasks"
			}
			ui.Say("error: " + g.Nodes + ": " + word + " " + g.Ranks + ": " + g.Text)
		}
	}
}
