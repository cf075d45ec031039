package origin

import (
	"maps"
	"slices"
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

// sortedJobs returns the live jobs of this origin in the order of their ids.
func (s *joblist) sortedJobs() []*job {
	return slices.SortedFunc(maps.Values(s.jobs), func(a, b *job) int { return int(a.id) - int(b.id) })
}
