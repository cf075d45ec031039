package policy

import "time"

// Throughput is the rate at which the tasks of a node ended so far. Time without a task
// does not count.
type Throughput struct {
	done  int64
	spent time.Duration // by all ended tasks
	busy  time.Duration // with at least one task, up to since
	since time.Duration // the start of the present spell with a task
	works bool
}

// Begin notes that the node has a task.
func (t *Throughput) Begin(now time.Duration) {
	if !t.works {
		t.works, t.since = true, now
	}
}

// Rest notes that the node has no task any more.
func (t *Throughput) Rest(now time.Duration) {
	if t.works && !mutantIdleCounts {
		t.works = false
		t.busy += now - t.since
	}
}

// Ended counts an ended task.
func (t *Throughput) Ended(took time.Duration) {
	t.done++
	t.spent += took
}

// Done is the number of ended tasks.
func (t *Throughput) Done() int64 { return t.done }

// Mean is the mean length of the tasks that ended here (MATRIX v2, III.B.2b). Before the
// first end, Mean is the guess, or a second if guess is 0.
func (t *Throughput) Mean(guess time.Duration) time.Duration {
	switch {
	case t.done > 0 && !mutantGuessStays:
		return t.spent / time.Duration(t.done)
	case guess > 0:
		return guess
	}
	return time.Second
}

// Rate is in tasks per second of the time with a task; 0 before the first end.
func (t *Throughput) Rate(now time.Duration) float64 {
	busy := t.busy
	if t.works {
		busy += now - t.since
	}
	if busy <= 0 || t.done == 0 {
		return 0
	}
	return float64(t.done) / busy.Seconds()
}
