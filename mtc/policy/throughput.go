package policy

import "time"

// Throughput is the rate at which the tasks of a node ended so far.
type Throughput struct {
	done  int64
	spent time.Duration // by all ended tasks
	since time.Duration // the first start; 0: none yet
}

// Begin notes that a task starts.
func (t *Throughput) Begin(now time.Duration) {
	if t.since == 0 {
		t.since = now
	}
}

// Ended counts an ended task.
func (t *Throughput) Ended(took time.Duration) {
	t.done++
	t.spent += took
}

// Mean is the mean length of the tasks that ended here (MATRIX v2, III.B.2b). Before the
// first end, Mean is the guess, or a second if guess is 0.
func (t *Throughput) Mean(guess time.Duration) time.Duration {
	switch {
	case t.done > 0:
		return t.spent / time.Duration(t.done)
	case guess > 0:
		return guess
	}
	return time.Second
}

// Rate is in tasks per second since the first start; 0 before the first end.
func (t *Throughput) Rate(now time.Duration) float64 {
	if now <= t.since || t.done == 0 {
		return 0
	}
	return float64(t.done) / (now - t.since).Seconds()
}
