package launcher

import (
	"github.com/filch-hpc/filch"
)

// Task is a task of a job, as described by the job's records.
type Task struct {
	Job   filch.JobID `json:"job"`
	Index int32       `json:"task"`
	State string      `json:"state"`
	// Null before the end, and for a task that never started.
	Code     *int32        `json:"exit_code"`
	Attempts filch.Attempt `json:"attempts"`
	// A start before these was not recorded, and may have happened.
	Maybe bool           `json:"maybe_one_more,omitempty"`
	Node  filch.NodeName `json:"node,omitempty"`
	Began int64          `json:"began_unix_us,omitempty"`
	Took  float64        `json:"elapsed"` // seconds
	Bytes int64          `json:"output_bytes"`
	// Part of the output found no space on the node's disk.
	Cut bool `json:"output_cut,omitempty"`
}

// TasksHere describes this node's tasks of a job.
type TasksHere struct {
	Waiting int64 `json:"waiting"`
	Ready   int64 `json:"ready"`
	Running int64 `json:"running"`
	// Of the ready tasks: not started here, because they cannot finish in time.
	Late int64 `json:"late"`
	// The estimated time of a task, in seconds; 0 if unknown. If Limited, the estimate is
	// the job's own limit. Otherwise the estimate comes from Of tasks of the job ended
	// here, or, if Of is 0, from earlier tasks of the same kind.
	Expected float64 `json:"expected"`
	Limited  bool    `json:"limited"`
	Of       int     `json:"of"`
	// Of the ready tasks: they run once, and are not yet in the queue's mirror.
	Held int64  `json:"held,omitempty"`
	Why  string `json:"why,omitempty"` // why the mirror takes so long
	// Of the running tasks: they wait for runs which can get no slots other than theirs.
	Tied int64 `json:"tied,omitempty"`
	// At most this many run at a time on all nodes; 0: no bound.
	Cap int32 `json:"cap,omitempty"`
	// Of the ready tasks: they have slots, and their start is being recorded.
	Opening int64 `json:"opening,omitempty"`
}
