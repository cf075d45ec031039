package origin

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc/record"
)

// reserving says how far a job's reservation of a shared resource is.
type reserving uint8

// The stages of a reservation.
const (
	unreserved reserving = iota
	reserves             // asked for, not granted
	reserved
)

// part is what the whole job takes of a shared resource.
func (j *job) part() record.License {
	p := j.req.License
	p.Each *= j.need.Ranks
	return p
}

// reservations are the parts that jobs of this origin have of resources which all nodes
// share.
type reservations struct {
	*joblist
	tasks  ownTasks
	origin beginner
}

// beginner begins a job.
type beginner interface {
	begin(t *local.Turn, j *job)
}

// mustReserve reports whether the job has to wait for its part of a shared resource before
// it gathers slots. A step uses the part of its parent.
func (rs *reservations) mustReserve(t *local.Turn, j *job) bool {
	if j.req.License.Name == "" || j.req.Parent != 0 || j.reserving == reserved {
		return false
	}
	if j.reserving == unreserved {
		j.reserving = reserves
		rs.tasks.Reserve(t, j.id, j.part())
	}
	return true
}

// OnReserved goes on with a job that has its part of a shared resource.
func (rs *reservations) OnReserved(t *local.Turn, id filch.JobID) {
	j := rs.jobs[id]
	if j == nil || j.reserving != reserves {
		return
	}
	j.reserving = reserved
	if j.run == nil {
		rs.origin.begin(t, j)
	}
}

// unreserve gives the part of a job back.
func (rs *reservations) unreserve(t *local.Turn, j *job) {
	if j.reserving != unreserved {
		j.reserving = unreserved
		rs.tasks.Unreserve(t, j.id, j.part())
	}
}

// reserveText says what a job that gathers nothing yet lacks.
func (j *job) reserveText() string {
	p := j.part()
	return fmt.Sprintf("waits for %d of %s, which all nodes share: filch resource shows the nodes that use it", p.Each, p.Name)
}
