package tasks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc/record"
)

// shared passes the use of resources that all nodes share, by runs of this node, to the
// core, which has the tokens of the node.
type shared struct{ tasks *Tasks }

// Reserve asks for a run's part of a resource; the origin hears of it by OnReserved.
func (s *shared) Reserve(t *local.Turn, id filch.JobID, p record.License) {
	s.tasks.ready(t).Reserve(t.Now, id, p.Name, p.Each, &s.tasks.out)
}

// Unreserve gives the part of a run back.
func (s *shared) Unreserve(t *local.Turn, id filch.JobID, p record.License) {
	s.tasks.ready(t).Unreserve(t.Now, id, p.Name, &s.tasks.out)
}
