package record

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// When is the end of a job for which another job waits.
type When uint8

// The ends.
const (
	WhenOK    When = iota // a good end
	WhenAny               // any end
	WhenNotOK             // an end that is not good
)

// String is the word of --dep.
func (w When) String() string { return [...]string{"afterok", "afterany", "afternotok"}[w] }

// Met reports whether such an end is the end waited for.
func (w When) Met(end filch.State) bool {
	return w == WhenAny || (w == WhenOK) == (end == filch.OK)
}

// WhenOf is the end of job id for which j waits. A job in After twice waits for the first
// end.
func (j *Job) WhenOf(id filch.JobID) When {
	if i := slices.Index(j.After, id); i >= 0 && i < len(j.When) {
		return j.When[i]
	}
	return WhenOK
}

// Before describes a run as a bag with one task, for jobs that wait for the run; end is
// the run's end, 0 before the end. See [RecordBefore].
func Before(end filch.State) *Job {
	j := &Job{Total: 1, Closed: true}
	if end.Final() {
		z := ZoneTally{}
		z.Tally.add(end, 1)
		j.Zones = []ZoneTally{z}
	}
	return j
}

func (j *Job) whens(c *Codec) {
	c.Require(len(j.After) > 0)
	if !c.Encodes {
		j.When = make([]When, len(j.After))
	}
	for i := range j.When {
		U8(c, &j.When[i])
		c.Require(j.When[i] <= WhenNotOK)
	}
}
