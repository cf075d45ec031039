package policy

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Tokens are a node's tokens of a capped job, or of a resource that all nodes share.
type Tokens struct {
	Limit int32 // 0: only the record knows
	Used  int32 // by running tasks, and by runs
	Held  int32
	Spare int32 // free tokens at the last answer
	// Revoked says that other nodes called this node dead, and gave away tokens that its
	// tasks still use.
	Revoked bool
	Over    int32         // tokens of all nodes beyond a lowered limit, at the last answer
	Looked  time.Duration // when the last answer came
	At      time.Duration // when to ask again
	Back    time.Duration // when to give idle tokens back
	wait    time.Duration // doubling, while there are none
	runs    []reservation // in the order of asking
}

// reservation is a run's part of a resource, from the time before the run gathers slots to
// the end of the run.
type reservation struct {
	run     filch.JobID
	n       int32
	granted bool
}

// The wait of a node that got no token.
const (
	tokenWait    = 2 * time.Millisecond
	TokenWaitMax = 500 * time.Millisecond
)

// Idle is the number of tokens without a use: none while tokens have to go back because a
// person lowered the limit, nor while the record gives the node fewer than are in use.
func (t *Tokens) Idle() int32 {
	if t.Over > 0 {
		return 0
	}
	return max(t.Held-t.Used, 0)
}

// Owes reports whether the node has tokens that must go back.
func (t *Tokens) Owes() bool { return t.Over > 0 && t.Held > t.Used }

// Answered takes in the record after a request of the node.
func (t *Tokens) Answered(now time.Duration, r *record.Cap, self record.Owner) {
	had := t.Held
	if h := r.Holder(self); h != nil {
		t.Held = h.Held
	}
	t.Revoked = t.Held < t.Used
	t.Spare, t.Looked = r.Free(), now
	t.Over = max(-t.Spare, 0)
	if t.Held > had {
		t.wait, t.At = 0, now
		return
	}
	t.wait = min(max(2*t.wait, tokenWait), TokenWaitMax)
	t.At = now + t.wait
}

// Waiting is the number of tokens that the first waiting run takes, 0 if no run waits.
func (t *Tokens) Waiting() int32 {
	for _, r := range t.runs {
		if !r.granted {
			return r.n
		}
	}
	return 0
}

// Reserve adds a run, unless the run is there.
func (t *Tokens) Reserve(run filch.JobID, n int32) {
	if !slices.ContainsFunc(t.runs, func(r reservation) bool { return r.run == run }) {
		t.runs = append(t.runs, reservation{run: run, n: n})
	}
}

// Grant gives the first waiting run its tokens, if the node has them.
func (t *Tokens) Grant() (run filch.JobID, ok bool) {
	for i := range t.runs {
		if r := &t.runs[i]; !r.granted {
			if r.n > t.Idle() {
				return 0, false
			}
			t.Used, r.granted = t.Used+r.n, true
			return r.run, true
		}
	}
	return 0, false
}

// Unreserve removes a run, with its tokens.
func (t *Tokens) Unreserve(run filch.JobID) {
	t.runs = slices.DeleteFunc(t.runs, func(r reservation) bool {
		if r.run == run && r.granted {
			t.Used -= r.n
		}
		return r.run == run
	})
}

// Reserved is the number of tokens of runs.
func (t *Tokens) Reserved() (n int32) {
	for _, r := range t.runs {
		if r.granted {
			n += r.n
		}
	}
	return n
}
