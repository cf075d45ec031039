package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
)

// backoffAfter is how many tasks of a job must fail in a row on a node before the node
// assumes that all of the job's tasks fail here.
const backoffAfter = 8

// nodeBackoff counts the failures of a job's tasks on this node.
type nodeBackoff struct {
	fails int           // in a row
	until time.Duration // no task of the job is started here before
}

// failing takes in the end of a task here. If all tasks of a job fail here while tasks of
// the job ended well on other nodes, this node lacks something. The node then starts the
// job's tasks ever more slowly, so that thieves take the tasks instead. A job that fails
// everywhere goes on at full speed, to its end.
func (c *Core) failing(j *job, s filch.State) {
	b := &j.pace.backoff
	if s != filch.Failed {
		b.fails = 0
		return
	}
	b.fails++
	if b.fails < backoffAfter || mutantFertile || j.pace.durations.Count() > 0 || j.rec == nil || j.rec.Tally().OK == 0 || c.cfg.Members.Others(c.cfg.Self) == 0 {
		return
	}
	if b.until == 0 {
		c.note(noteWarn, j.id, "the last %d tasks of job %d failed here, and others end well elsewhere: %s starts fewer of them", b.fails, j.id, c.cfg.Self)
	}
	b.until = c.now + min(PollMin<<min(b.fails-backoffAfter, 20), PollMax)
	c.victim.fresh = true
	c.waits.at = min(c.waits.at, b.until)
}
