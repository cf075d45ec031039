package policy

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Health judges a node by a row of tasks that fail there without a success in between. A
// failed task is evidence if meanwhile another task of its job ended well on another node,
// task by task: a job that fails on all nodes is no evidence. A task that fails again
// counts once. The tasks of a job that could not be started count as one task without such
// a success, as the command may exist on no node.
type Health struct {
	row   []rowJob
	tasks int
	last  failure
}

// failure is the end of a task.
type failure struct {
	job         filch.JobID
	index, code int32
	started     bool
}

// ends counts the tasks of a job that ended well on other nodes, and all tasks that ended badly.
type ends struct{ well, bad int64 }

// endsOf counts them by the job's record, and the tasks that ended well here.
func endsOf(t record.Tally, here int64) ends { return ends{int64(t.OK) - here, int64(t.Bad())} }

// rowJob is the part of a job in the row.
type rowJob struct {
	job      filch.JobID
	before   ends // at the first failure
	now      ends
	tasks    []int32
	unstarts bool // a task could not be started
}

// healthMax bounds the number of tasks in a row.
const healthMax = 1000

// Worked takes in a task that ended well: the row begins anew.
func (h *Health) Worked() { *h = Health{} }

// Failed takes in a failed task. started is false if the task could not be started.
// t are the ends of the job's tasks, as far as is known, and here is how many ended well here.
func (h *Health) Failed(job filch.JobID, index, code int32, started bool, t record.Tally, here int64) {
	k := slices.IndexFunc(h.row, func(r rowJob) bool { return r.job == job })
	if k < 0 && h.tasks < healthMax {
		k = len(h.row)
		h.row = append(h.row, rowJob{job: job, before: endsOf(t, here)})
	}
	if k >= 0 {
		r := &h.row[k]
		r.unstarts = r.unstarts || !started
		if h.tasks < healthMax && !slices.Contains(r.tasks, index) {
			r.tasks = append(r.tasks, index)
			h.tasks++
		}
	}
	h.last = failure{job, index, code, started}
}

// Heard takes in how many tasks of a job ended, and how many of these ended well here.
func (h *Health) Heard(job filch.JobID, t record.Tally, here int64) {
	for i := range h.row {
		if r := &h.row[i]; r.job == job {
			n := endsOf(t, here)
			r.now = ends{max(r.now.well, n.well), max(r.now.bad, n.bad)}
		}
	}
}

// evidence is the number of failures in the row that are evidence.
func (h *Health) evidence() (n int) {
	for i := range h.row {
		r := &h.row[i]
		well := r.now.well - r.before.well
		if r.unstarts {
			well = max(well, 1)
		}
		n += int(max(min(int64(len(r.tasks)), well), 0))
	}
	return n
}

// Doubts reports whether the node should start few tasks of a job, so that a bad node fails few
// until other nodes ended some. So many tasks of the job in a row, most at least, failed here, and what
// other nodes did tells neither that the node is bad nor that the job fails everywhere: more
// tasks failed elsewhere than on the nodes that may be bad.
func (h *Health) Doubts(job filch.JobID, most, nodes int) bool {
	k := slices.IndexFunc(h.row, func(r rowJob) bool { return r.job == job })
	if k < 0 || most <= 0 || len(h.row[k].tasks) < most {
		return false
	}
	r := &h.row[k]
	well, bad := r.now.well-r.before.well, r.now.bad-r.before.bad-int64(len(r.tasks))
	return bad <= int64(most*BadMax(nodes)) || bad < well
}

// Bad says why the node is bad, if most failures at least are evidence, and begins a new row.
func (h *Health) Bad(most int, why *string) {
	n, l := h.evidence(), h.last
	if most <= 0 || n < most {
		return
	}
	h.Worked()
	if !l.started {
		*why = fmt.Sprintf("%d tasks in a row failed here; the last, %d.%d, could not be started", n, l.job, l.index)
		return
	}
	*why = fmt.Sprintf("%d tasks in a row failed here, and others end well on other nodes; the last was %d.%d with code %d", n, l.job, l.index, l.code)
}

// BadMax is how many of so many nodes may drain because they are bad: a quarter.
func BadMax(nodes int) int { return nodes / 4 }

// Yields reports whether a bad node takes work again, since more than a quarter of the
// nodes drain for that reason: several nodes may have begun at once. Of the bad nodes, the
// first by name go on to drain.
func Yields(self filch.NodeName, bad []filch.NodeName, nodes int) bool {
	before := 0
	for _, n := range bad {
		if n < self {
			before++
		}
	}
	return before >= BadMax(nodes)
}
