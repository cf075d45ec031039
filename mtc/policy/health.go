package policy

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Health judges a node by a row of tasks that fail there without a success in between. A
// failed task is evidence if meanwhile another task of its job ended well on another node,
// task by task: a job that fails on all nodes is no evidence. A task that fails again
// counts once. The tasks of a job that could not be started count as one task without such
// a success, as the command may exist on no node.
type Health struct {
	row   []rowJob
	tasks int
}

// rowJob is the part of a job in the row.
type rowJob struct {
	job      filch.JobID
	before   int64 // tasks that ended well elsewhere before the first failure
	now      int64
	tasks    []int32
	unstarts bool // a task could not be started
}

// healthMax bounds the number of tasks in a row.
const healthMax = 1000

// Worked takes in a task that ended well: the row begins anew.
func (h *Health) Worked() { *h = Health{} }

// Failed takes in a failed task. elsewhere is the number of tasks of the job that ended
// well on other nodes, as far as is known, and started is false if the task could not be
// started. The result is the number of failures in the row that are evidence.
func (h *Health) Failed(job filch.JobID, index int32, started bool, elsewhere int64) (evidence int) {
	k := slices.IndexFunc(h.row, func(r rowJob) bool { return r.job == job })
	if k < 0 && h.tasks < healthMax {
		k = len(h.row)
		h.row = append(h.row, rowJob{job: job, before: elsewhere})
	}
	if k >= 0 {
		r := &h.row[k]
		r.now = max(r.now, elsewhere)
		r.unstarts = r.unstarts || !started
		if h.tasks < healthMax && !slices.Contains(r.tasks, index) {
			r.tasks = append(r.tasks, index)
			h.tasks++
		}
	}
	for i := range h.row {
		r := &h.row[i]
		n := min(int64(len(r.tasks)), r.now-r.before)
		if r.unstarts {
			n = max(n, 1)
		}
		evidence += int(max(n, 0))
	}
	return evidence
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

// LookWell is how often a node looks up whether tasks of a job end well elsewhere, while
// tasks of the job fail there.
const LookWell = 200 * time.Millisecond

// BadText is the reason of the drain of a bad node, after n failures; the last was that of
// a task, with its code, or the task could not be started.
func BadText(n int, job filch.JobID, index, code int32, started bool) string {
	if !started {
		return fmt.Sprintf("%d tasks in a row failed here; the last, %d.%d, could not be started", n, job, index)
	}
	return fmt.Sprintf("%d tasks in a row failed here, and others end well on other nodes; the last was %d.%d with code %d", n, job, index, code)
}
