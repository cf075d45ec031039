package policy

import "time"

// backoffAfter is how many tasks of a job must fail in a row on a node before the node
// assumes that all of the job's tasks fail here.
const backoffAfter = 8

// Backoff counts the failures of a job's tasks on this node. If all tasks of a job fail
// here while tasks of the job ended well on other nodes, this node lacks something. The
// node then starts the job's tasks ever more slowly, so that thieves take the tasks
// instead. A job that fails everywhere goes on at full speed, to its end.
type Backoff struct {
	fails int           // in a row
	until time.Duration // no task of the job is started here before
}

// Ended takes in the end of a task here, and reports whether many tasks failed in a row.
func (b *Backoff) Ended(failed bool) (many bool) {
	if !failed {
		b.fails = 0
		return false
	}
	b.fails++
	return b.fails >= backoffAfter && !mutantFertile
}

// Slow makes the wait before the job's next start longer. first is set at the first time.
func (b *Backoff) Slow(now time.Duration) (first bool) {
	first = b.until == 0
	b.until = now + min(PollMin<<min(max(b.fails-backoffAfter, 0), 20), PollMax)
	return first
}

// Fails is the number of failures in a row.
func (b *Backoff) Fails() int { return b.fails }

// Until is the end of the wait.
func (b *Backoff) Until() time.Duration { return b.until }
