package policy

import (
	"time"

	"github.com/filch-hpc/filch"
)

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
	wait  time.Duration // between two starts, while the node is in doubt; 0: it is not
	since time.Duration // began the doubt

	looked time.Duration // at the record of the job
	asks   bool          // for another look
}

// doubtMax bounds the time between two starts while a node is in doubt: a bag whose tasks fail
// everywhere goes on meanwhile.
const doubtMax = 10 * time.Second

// doubtTries is how long a node is in doubt about a job whose failed tasks are tried again: the
// record of the job does not tell of the failures on other nodes before the last try.
const doubtTries = 20 * time.Second

// Doubt says whether the node is in doubt, see [Health.Doubts]. Then the node starts one task of
// the job at a time, ever more slowly. retries: failed tasks are tried again. first is set when
// the doubt begins.
func (b *Backoff) Doubt(now time.Duration, doubts, retries bool) (first bool) {
	switch {
	case !doubts || retries && b.wait > 0 && b.since+doubtTries <= now:
		if b.wait > 0 {
			b.wait, b.until = 0, 0
		}
	case b.wait == 0 && !(retries && b.since > 0):
		b.wait, b.since, b.until = lookWell, now, now+lookWell
		return true
	}
	return false
}

// Start takes in the start of a task, and returns when the next may start, as [Backoff.Next].
func (b *Backoff) Start(now time.Duration) time.Duration {
	if b.wait > 0 {
		b.wait = min(2*b.wait, doubtMax)
		b.until = now + b.wait
	}
	return b.Next()
}

// Next is when the next task may start on a node in doubt; Never on other nodes.
func (b *Backoff) Next() time.Duration {
	if b.wait == 0 {
		return filch.Never
	}
	return b.until
}

// lookWell is how often a node looks up whether tasks of a job end well elsewhere, while tasks
// of the job fail there.
const lookWell = 200 * time.Millisecond

// Ask has the node look at the record of the job, and returns when.
func (b *Backoff) Ask(now time.Duration) time.Duration {
	b.asks = true
	return max(now, b.looked+lookWell)
}

// Tick reports whether the node looks at the record of the job now, and when to call Tick again. A
// node in doubt looks again and again.
func (b *Backoff) Tick(now time.Duration) (look bool, next time.Duration) {
	next = filch.Never
	if b.until > now {
		next = b.until
	}
	due := b.looked + lookWell
	if look = (b.asks || b.wait > 0) && due <= now; look {
		b.asks, b.looked, due = false, now, now+max(lookWell, b.wait/2)
	}
	if b.asks || b.wait > 0 {
		next = min(next, due)
	}
	return look, next
}

// Ended takes in the end of a task here, and reports whether many tasks failed in a row.
func (b *Backoff) Ended(failed bool) (many bool) {
	if !failed {
		b.fails, b.wait, b.since = 0, 0, 0
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
