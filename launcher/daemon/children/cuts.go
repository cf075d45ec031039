package children

import (
	"math"
	"sync"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// Limits of what a launcher remembers about output that did not fit on the disk:
// enough for a user querying a job soon after; the records of the tasks keep the fact
// for good.
const (
	cutJobsMax  = 1000
	cutTasksMax = 4096 // of a job
)

// Cuts holds the tasks whose output was cut on this node, or that failed when a disk was
// full.
type Cuts struct {
	mu    sync.Mutex // guards jobs and total
	jobs  map[filch.JobID]*cutJob
	total int
}

type cutJob struct {
	count int
	why   string               // the latest reason
	tasks []launcher.TaskIndex // the first cutTasksMax tasks
}

// note counts a task; why names the disk or the limit, and full says whether a disk is full.
func (c *Cuts) note(s launcher.TaskStart, why string, full bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[s.Job]
	if j == nil {
		if c.jobs == nil {
			c.jobs = map[filch.JobID]*cutJob{}
		}
		if len(c.jobs) >= cutJobsMax {
			oldest := s.Job
			for id := range c.jobs { // in any order: the least id counts
				oldest = min(oldest, id)
			}
			delete(c.jobs, oldest)
		}
		j = &cutJob{}
		c.jobs[s.Job] = j
	}
	if full {
		c.total++
	}
	j.count++
	j.why = why
	if len(j.tasks) < cutTasksMax {
		j.tasks = append(j.tasks, s.Index)
	}
}

// Of returns how many ends of the tasks of a job from first to last were noted; for a part
// of the job, of the first cutTasksMax noted tasks only.
func (c *Cuts) Of(job filch.JobID, first, last launcher.TaskIndex) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[job]
	switch {
	case j == nil:
		return 0
	case first == 0 && last == math.MaxInt32:
		return j.count
	}
	n := 0
	for _, i := range j.tasks {
		if first <= i && i <= last {
			n++
		}
	}
	return n
}

// Why returns the latest reason noted for a job, "" for none.
func (c *Cuts) Why(job filch.JobID) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if j := c.jobs[job]; j != nil {
		return j.why
	}
	return ""
}

// Count returns how many ends were noted for a full disk since the launcher began.
func (c *Cuts) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
