package policy

import "time"

// Walltime is the time at which a node is taken away, and the rule for starts before that
// time. The zero Walltime is a node that stays.
type Walltime struct {
	End time.Duration // 0: not known
	// Drain is the time before End in which no task of unknown duration starts; 0: all
	// tasks may start.
	Drain time.Duration
	Blind bool // the durations of ended tasks and runs are not used as estimates
}

// EndMargin is the time between the end of a task and the end of the node: for the clock
// of the system that takes the node away, which may count in seconds, and for the report
// of the end to reach a disk.
const EndMargin = time.Second

// Fits reports whether a task may start now; need is the task's duration, 0 if unknown.
func (w Walltime) Fits(now, need time.Duration) bool {
	switch {
	case w.End == 0:
		return true
	case need > 0:
		return now+need+EndMargin <= w.End
	}
	return w.Drain == 0 || now+w.Drain < w.End
}

// Suits reports whether a node with so much time left could finish a task that this node
// cannot. left is 0 for a node that stays, and need is 0 if unknown.
func (w Walltime) Suits(left, need time.Duration) bool {
	if need == 0 {
		need = w.Drain
	}
	return left == 0 || left > need+EndMargin
}
