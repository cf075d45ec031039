package local

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// LentText says which tasks run in the slots held for a job that still gathers; "" if none
// does.
func LentText(l stealer.Lent) string {
	if l.Tasks == 0 {
		return ""
	}
	text := fmt.Sprintf("; meanwhile %s of job %d %s in its slots", filch.Plural(l.Tasks, "task"), l.Job, filch.Agree(l.Tasks, "runs", "run"))
	if l.Jobs > 1 {
		text = fmt.Sprintf("; meanwhile %s of %d jobs, most of job %d, run in its slots", filch.Plural(l.Tasks, "task"), l.Jobs, l.Job)
	}
	text += " until it can start"
	if l.Starts > 0 {
		text += ", which is in at most " + filch.ShortTime(l.Starts)
	}
	return text
}
