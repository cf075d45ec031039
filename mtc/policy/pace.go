package policy

import "time"

// Pace is the expected duration of a job's tasks: 0 if unknown. Of is the number of the
// job's tasks that ended here; 0 if the estimate is the job's limit or comes from other
// jobs of the same kind. Late: the node starts no more tasks of the job. Aside counts the
// tasks that the node keeps back while it starts others of the job.
type Pace struct {
	Expected time.Duration
	Of       int
	Late     bool
	Aside    int64
	Resting  int64         // tasks that failed and wait for their next try
	Again    time.Duration // when the first of these is tried again; 0: none rests
}
