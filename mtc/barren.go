package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
)

// barrenAfter is how many tasks of a job fail on a node in a row, before it is
// taken for one where they all do.
const barrenAfter = 8

// barren is what a node knows of how a job's tasks fail on it.
type barren struct {
	fails int           // in a row
	until time.Duration // no task of the job is started here before
}

// failing takes in how a task ended here. Where all tasks of a job fail, while
// others of it ended well on other nodes, something is missing on this one: it
// starts them ever more slowly, so that those who look for work take them away
// instead. A job that fails everywhere goes on at full speed, to its end.
func (c *Core) failing(now time.Duration, j *job, s filch.State, out *Out) {
	b := &j.pace.barren
	if s != filch.Failed {
		b.fails = 0
		return
	}
	b.fails++
	if b.fails < barrenAfter || mutantFertile || j.pace.took.Count() > 0 || j.rec == nil || j.rec.Tally().OK == 0 || c.members.others(c.cfg.Self) == 0 {
		return
	}
	if b.until == 0 {
		note(out, noteWarn, j.id, "the last %d tasks of job %d failed here, and others end well elsewhere: %s starts fewer of them", b.fails, j.id, c.cfg.Self)
	}
	b.until = now + min(PollMin<<min(b.fails-barrenAfter, 20), PollMax)
	c.victim.fresh = true
	c.waits.at = min(c.waits.at, b.until)
}
