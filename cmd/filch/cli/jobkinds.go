package cli

import (
	"github.com/filch-hpc/filch/launcher"
)

// IsTasks reports whether j is a job of tasks.
func IsTasks(j *launcher.JobInfo) bool { return j.Kind == "bag" || j.Kind == "workflow" }
