package runner

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/proc"
)

// successorWait is how long a start waits for the end of the task before it. Then the task
// goes back to the launcher: another slot, or another node, may be free.
const successorWait = 20 * time.Millisecond

// successor is a start that waits for the end of a task.
type successor struct {
	start launcher.TaskStart
	late  *proc.Timer
}

// follows keeps a start until the task before it has ended, and reports false if there is no
// such task any more.
func (r *runner) follows(s launcher.TaskStart) bool {
	if s.After == 0 || r.gone || r.tasks[s.After] == nil && !r.isQueued(s.After) {
		return false
	}
	after := s.After
	r.next[after] = successor{s, r.poll.After(successorWait, func() {
		r.takeBack(after, "the task before it runs on")
	})}
	return true
}

// isQueued reports whether a task waits for its fork.
func (r *runner) isQueued(serial uint64) bool {
	for i := range r.queue {
		if r.queue[i].Serial == serial {
			return true
		}
	}
	return false
}

// succeed queues the start that waited for an ended task.
func (r *runner) succeed(e *launcher.TaskEnd) {
	n, ok := r.next[e.Serial]
	switch {
	case !ok:
	case e.Left:
		r.takeBack(e.Serial, "the slot of the task before it stays out of service")
	default:
		r.poll.Stop(n.late)
		delete(r.next, e.Serial)
		r.queue = append(r.queue, n.start)
	}
}

// takeBack ends a start that waits for the end of a task.
func (r *runner) takeBack(after uint64, why string) {
	n := r.next[after]
	r.poll.Stop(n.late)
	delete(r.next, after)
	r.end(notStarted(n.start.Serial, why))
}
