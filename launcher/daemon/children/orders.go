package children

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Limits of the orders.
const (
	// maxOrders bounds the stored orders, each with the environment of a job.
	maxOrders = 1024
	// orderIdle is how long the order of a job without a task here is kept: for that
	// time the job's workers, and the file of its output, stay open.
	orderIdle = time.Minute
	orderLook = 10 * time.Second // between searches for idle orders
)

// order is the common part of the tasks of a job, with the number of those tasks here.
type order struct {
	*launcher.TaskOrder
	extra  *launcher.OrderExtra
	tasks  int
	since  time.Time // when the last task came or ended
	places []uint64  // serials of tasks that want a number; 0: the number is free
	// Of an order with replacement strings; nil until the first task.
	template *workflow.Template
	usesSlot bool
}

// place gives a task of the job the least number, from 1, that is free here. A task that
// begins at the end of another takes over its number.
func (o *order) place(s *launcher.TaskStart) int {
	i := -1
	if s.After != 0 {
		i = slices.Index(o.places, s.After)
	}
	if i < 0 {
		i = slices.Index(o.places, 0)
	}
	if i < 0 {
		i = len(o.places)
		o.places = append(o.places, 0)
	}
	o.places[i] = s.Serial
	return i + 1
}

// leave frees the number of a task.
func (o *order) leave(serial uint64) {
	if i := slices.Index(o.places, serial); i >= 0 {
		o.places[i] = 0
	}
}

// order stores the common part of the tasks of a job.
func (rs *Runners) order(o *launcher.TaskOrder, extra *launcher.OrderExtra) {
	if len(rs.orders) >= maxOrders {
		rs.forgetIdle(0, 1)
	}
	rs.orders[o.Ident.Job] = &order{TaskOrder: o, extra: extra}
}

// forgetIdle removes the orders of jobs without a task here for at least idle, longest
// idle first, at most n. This is needed since only the followers of a job learn of its
// end.
func (rs *Runners) forgetIdle(idle time.Duration, n int) {
	now := time.Now()
	rs.looked = now
	staged := rs.files.Jobs()
	var jobs []filch.JobID
	for job, o := range rs.orders {
		if o.tasks == 0 && !staged[job] && now.Sub(o.since) >= idle {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b filch.JobID) int { return rs.orders[a].since.Compare(rs.orders[b].since) })
	for _, job := range jobs[:min(n, len(jobs))] {
		rs.Forget(job)
	}
}
