package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
)

// stuck is the first job whose next task finds no room on this node beside the running
// tasks. Younger jobs do not overtake this job here, even beside free slots. Thieves may
// have the tasks of all these jobs.
type stuck struct {
	job  *job          // at the last fill; nil: none
	said bool          // thieves heard of it
	at   time.Duration // when thieves may hear of it again
}

// stuckAgain is the least time between two rounds of news because a job is stuck: on a busy
// node a job is stuck and goes on with each task that ends.
const stuckAgain = 500 * time.Millisecond

// onFilled tells thieves of a stuck job beside free slots, and looks after tokens that the
// tasks cannot use here.
func (e *execution) onFilled() {
	s := &e.stuck
	switch {
	case s.job == nil || e.full():
		s.said = false
	case s.said:
	case s.at <= e.now:
		s.said, s.at, e.core.victim.Fresh = true, e.now+stuckAgain, true
	default:
		e.core.waits.at = min(e.core.waits.at, s.at)
	}
	if s.job != nil || e.full() {
		e.core.caps.Watch()
	}
}

// sticks reports whether no task of j can start here beside the running tasks, as far as
// is known.
func (e *execution) sticks(j *job) bool {
	return e.stuck.job != nil && !j.ticket.Older(e.stuck.job.ticket) || !e.room.HoldsBeside(&e.used, j.next)
}

// fits is how many tasks of j the free room of a thief holds. Without a thief, the room of
// any thief is meant. Where the need of the next task is not known, each need has to fit.
func (j *job) fits(m *message.Means, thief *filch.Member) int32 {
	if thief == nil {
		return filch.Unbounded
	}
	n := int32(filch.Unbounded)
	for i := range len(j.spec.Needs) + 1 {
		n = min(n, m.Free.Fits(filch.Room{}, *j.spec.Room(i)))
	}
	return n
}

// onRoom takes in that a task gave room back. A thief that rests may have been refused
// tasks for which its room was too small.
func (t *thief) onRoom(r *filch.Room) {
	if r.Slots > 1 || r.MemBytes > 0 || r.GPUs > 0 || r.Named != "" {
		t.Hurry()
	}
}
