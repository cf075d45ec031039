package origin

import (
	"maps"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// scout has nodes looked up that waiting jobs ask for by name and that a partial list
// lacks. A node found becomes a member, and the jobs go on.
type scout struct {
	*local.Self
	sought map[filch.NodeName]search
}

// search is the state of the lookups of a node.
type search uint8

const (
	first search = iota + 1 // the first lookup runs
	vain                    // the last lookup led to no node
	again                   // as vain, and a lookup runs
)

// maxSought bounds the names in sought. The results of vain lookups make room; other names
// wait for the next call of seek.
const maxSought = 64

// seek begins lookups of the missing nodes of a job. Vain lookups are repeated, as often
// as seek is called.
func (s *scout) seek(t *local.Turn, j *job) {
	if !s.ListPartial || j.gather != nil {
		return
	}
	for _, name := range j.need.Only {
		was := s.sought[name]
		if s.Members.Find(name) >= 0 || was == first || was == again {
			continue
		}
		if was == 0 && len(s.sought) >= maxSought {
			maps.DeleteFunc(s.sought, func(_ filch.NodeName, was search) bool { return was == vain })
			if len(s.sought) >= maxSought {
				return
			}
		}
		if s.sought[name] = first; was == vain {
			s.sought[name] = again
		}
		t.Out.Seeks = append(t.Out.Seeks, name)
	}
}

// Sought handles the end of a lookup that an Outbox asked for. In vain means that no node
// leads to the node; a node found comes as a member.
func (s *scout) Sought(_ time.Duration, name filch.NodeName, inVain bool, _ *launcher.Outbox) {
	if !s.ListPartial {
		clear(s.sought)
	} else if delete(s.sought, name); inVain {
		s.sought[name] = vain
	}
}

// unfound lists the nodes of a job to which no node leads.
func (s *scout) unfound(j *job) (names []filch.NodeName) {
	for _, name := range j.need.Only {
		if s.sought[name] >= vain && s.Members.Find(name) < 0 {
			names = append(names, name)
		}
	}
	return names
}
