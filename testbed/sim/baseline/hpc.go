package baseline

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// CloudKonHPC runs gangs with the services of [CloudKon]: a worker that gets a job becomes the
// manager of the job if enough workers are free, and puts a message for each rank into a second
// queue. Another worker becomes a sub-worker of the manager that it finds there, and waits until the
// manager has all (CloudKon, II.A.2).
type CloudKonHPC struct {
	CloudKon
	Threads int           // workers of an instance
	RMI     time.Duration // a message between a sub-worker and its manager
}

// SQSForGangs has the services of [SQS]. The nodes of gangs are the workers.
var SQSForGangs = CloudKonHPC{CloudKon: SQS, Threads: 4, RMI: time.Millisecond}

// managed is a job with a manager.
type managed struct {
	need    int
	workers []int
	manager int
}

// cloudGangs is a run.
type cloudGangs struct {
	*world
	c     CloudKonHPC
	g     *Gangs
	jobs  []int      // sizes of jobs in the request queue
	ranks []*managed // messages in the queue of ranks
	// taken is workers that managers have reserved in the store, and the managers.
	taken int
}

// Run runs gangs. A job needs a worker more than it has ranks: its manager.
func (c CloudKonHPC) Run(g *Gangs) (Launched, error) {
	if most := slices.Max(g.Sizes); most >= g.Nodes {
		return Launched{}, fmt.Errorf("cannot run %s on %d nodes: a job of %d has no node for its manager", g.Name, g.Nodes, most)
	}
	r := &cloudGangs{world: newGangs(g, 1), c: c, g: g, jobs: append([]int(nil), g.Sizes...)}
	r.messages = uint64(2 * len(g.Sizes)) // jobs into the request queue, and results out
	for w := range g.Nodes {
		r.At(time.Duration(w)*time.Microsecond, func() { r.poll(w) })
	}
	return r.launched(g, filch.Never)
}

// call is a call of a service, which takes half to three halves of its time.
func (r *cloudGangs) call(d time.Duration, f func()) {
	r.messages++
	r.After(r.dice.Between(d/2, d+d/2), f)
}

func (r *cloudGangs) instances() int { return max(r.g.Nodes/r.c.Threads, 1) }

// poll looks for a rank, then for a job.
func (r *cloudGangs) poll(w int) {
	if r.left == 0 {
		return
	}
	r.call(r.c.Receive, func() {
		if len(r.ranks) > 0 {
			m := r.ranks[0]
			r.ranks = r.ranks[1:]
			r.join(w, m)
			return
		}
		r.call(r.c.Receive, func() {
			if len(r.jobs) == 0 {
				r.poll(w)
				return
			}
			need := r.jobs[0]
			r.jobs = r.jobs[1:]
			r.reserve(w, need)
		})
	})
}

// reserve makes a worker the manager of a job if the store has enough free workers; else the job
// goes back.
func (r *cloudGangs) reserve(w, need int) {
	r.call(r.c.Write.with(r.instances()), func() {
		if r.taken+need+1 > r.g.Nodes {
			r.jobs = append([]int{need}, r.jobs...)
			r.poll(w)
			return
		}
		r.taken += need + 1
		m := &managed{need: need, manager: w}
		for sent := 0; sent < need; sent += r.c.Bundle {
			n := min(r.c.Bundle, need-sent)
			r.call(r.c.Receive, func() {
				for range n {
					r.ranks = append(r.ranks, m)
				}
			})
		}
	})
}

// join makes a worker a sub-worker. With the last one the manager starts the job.
func (r *cloudGangs) join(w int, m *managed) {
	r.call(r.c.RMI, func() {
		if m.workers = append(m.workers, w); len(m.workers) == m.need {
			r.messages += uint64(2 * m.need) // starts and ends
			r.After(r.c.RMI+r.g.Runs+r.c.RMI, func() { r.ended(m) })
		}
	})
}

// ended frees the sub-workers; the manager sends the result, and frees the workers in the store.
func (r *cloudGangs) ended(m *managed) {
	for _, w := range m.workers {
		r.poll(w)
	}
	r.call(r.c.Rest.with(r.instances()), func() {
		r.over()
		r.call(r.c.Write.with(r.instances()), func() {
			r.taken -= m.need + 1
			r.poll(m.manager)
		})
	})
}
