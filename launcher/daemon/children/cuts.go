package children

import (
	"slices"
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

// Cuts holds the tasks whose output did not fit on the disk of this node.
type Cuts struct {
	mu    sync.Mutex // guards jobs and total
	jobs  map[filch.JobID]*cutJob
	total int
}

type cutJob struct {
	count int
	tasks []launcher.TaskIndex // the first cutTasksMax tasks
}

// note counts a task.
func (c *Cuts) note(s launcher.TaskStart) {
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
	c.total++
	j.count++
	if len(j.tasks) < cutTasksMax {
		j.tasks = append(j.tasks, s.Index)
	}
}

// Of returns how many ends of tasks of a job were noted; if only is not below zero, of
// the task only.
func (c *Cuts) Of(job filch.JobID, only int64) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	j := c.jobs[job]
	switch {
	case j == nil:
		return 0
	case only < 0:
		return j.count
	case slices.Contains(j.tasks, launcher.TaskIndex(only)):
		return 1
	}
	return 0
}

// Count returns how many ends were noted since the launcher began.
func (c *Cuts) Count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.total
}
