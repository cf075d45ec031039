package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// entry is the moment of a timer of a job, or of a part in a job.
type entry struct {
	at  time.Duration
	key slots.Key // of a job only Job
}

func (e entry) before(f entry) bool {
	switch {
	case e.at != f.at:
		return e.at < f.at
	case e.key.Job != f.key.Job:
		return e.key.Job < f.key.Job
	}
	return e.key.Attempt < f.key.Attempt
}

// agenda is a heap of entries. A job or part remembers the moment of its earliest entry;
// an entry with another moment is out of date and ignored. So each job or part has about
// one entry.
type agenda struct{ heap []entry }

func (a *agenda) push(e entry) {
	a.heap = append(a.heap, e)
	for i := len(a.heap) - 1; i > 0; {
		up := (i - 1) / 2
		if !a.heap[i].before(a.heap[up]) {
			return
		}
		a.heap[i], a.heap[up] = a.heap[up], a.heap[i]
		i = up
	}
}

func (a *agenda) next() time.Duration {
	if len(a.heap) == 0 {
		return filch.Never
	}
	return a.heap[0].at
}

// pop removes and returns the earliest entry.
func (a *agenda) pop() entry {
	top, last := a.heap[0], len(a.heap)-1
	a.heap[0] = a.heap[last]
	a.heap = a.heap[:last]
	for i := 0; ; {
		k := 2*i + 1
		if k >= last {
			break
		}
		if k+1 < last && a.heap[k+1].before(a.heap[k]) {
			k++
		}
		if !a.heap[k].before(a.heap[i]) {
			break
		}
		a.heap[i], a.heap[k] = a.heap[k], a.heap[i]
		i = k
	}
	return top
}

// joblist holds the jobs of an origin that have not ended, and the agenda of their
// timers. A job has an entry in the agenda for its earliest timer.
type joblist struct {
	*self
	jobs   map[filch.JobID]*job
	agenda agenda
}

// wakeJob adds an entry to the agenda if at is earlier than the job's present entry.
func (s *joblist) wakeJob(j *job, at time.Duration) {
	if at < j.due {
		j.due = at
		s.agenda.push(entry{at: at, key: slots.Key{Job: j.id}})
	}
}

func (h *ranks) wakePart(p *part, at time.Duration) {
	if at < p.due {
		p.due = at
		h.agenda.push(entry{at: at, key: p.key})
	}
}
