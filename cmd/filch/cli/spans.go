package cli

import (
	"github.com/filch-hpc/filch"
)

// JobSpan is the tasks or ranks of a job from First to Last; Last is math.MaxInt32 for
// all.
type JobSpan struct {
	Job         filch.JobID
	First, Last int32
}

// One reports whether the span is one task or rank.
func (s JobSpan) One() bool { return s.First == s.Last }
