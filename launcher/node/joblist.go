package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// joblist holds the jobs of an origin that have not ended, and their timers.
type joblist struct {
	*local.Self
	jobs   map[filch.JobID]*job
	timers local.Timers
}

// wakeJob sets a timer if at is earlier than the present timer of the job.
func (s *joblist) wakeJob(j *job, at time.Duration) {
	if at < j.due {
		j.due = at
		s.timers.Push(local.Timer{At: at, Key: slots.Key{Job: j.id}})
	}
}
