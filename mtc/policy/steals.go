package policy

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Steals counts a thief's tries since the thief began. A try asks some nodes how many tasks
// could be stolen there; if one has tasks, the thief asks this node for tasks, which is a
// steal; a steal is won if the records accept the move of at least one task.
type Steals struct {
	Tries int64
	Asks  uint64 // steals; the number of the last
	Won   int64
	First Delays  // of the first won steal of each job
	From  []Theft // at most theftsMax victims, the last one last

	since time.Duration // when the thief began to look for work; 0: the thief does not look
	jobs  []filch.JobID // the last jobs with a won steal
}

// Theft counts the won steals from one victim.
type Theft struct {
	Victim filch.NodeName
	Won    int64
}

// theftsMax bounds the victims that a thief remembers, for people who look: as many as a
// screen shows of a node.
const theftsMax = 8

// Took notes a won steal from a victim.
func (s *Steals) Took(victim filch.NodeName) {
	t := Theft{Victim: victim}
	i := slices.IndexFunc(s.From, func(t Theft) bool { return t.Victim == victim })
	if i >= 0 {
		t = s.From[i]
		s.From = slices.Delete(s.From, i, i+1)
	}
	t.Won++
	s.From = append(s.From, t)
	s.From = s.From[max(len(s.From)-theftsMax, 0):]
}

// Delays are lengths of waits.
type Delays struct {
	Count int64
	Sum   time.Duration
	Max   time.Duration
}

// stolenMax bounds the jobs that a thief remembers: a job that comes again after so many
// others counts as another job.
const stolenMax = 64

// looks notes that the thief looks for work from now on, if it did not look before.
func (s *Steals) looks(now time.Duration) {
	if s.since == 0 {
		s.since = now
	}
}

// Win notes a won steal with tasks of a job; job 0 is a push that no thief asked for. The
// delay of the first steal of a job is the time since the thief began to look for work, or
// since the news that ended a search in vain.
func (s *Steals) Win(now time.Duration, job filch.JobID) {
	if job == 0 {
		return
	}
	s.Won++
	if slices.Contains(s.jobs, job) {
		return
	}
	s.jobs = append(s.jobs, job)
	s.jobs = s.jobs[max(len(s.jobs)-stolenMax, 0):]
	if s.since == 0 {
		return // the offer came after the thief had given up
	}
	d := now - s.since
	s.First.Count, s.First.Sum, s.First.Max = s.First.Count+1, s.First.Sum+d, max(s.First.Max, d)
}
