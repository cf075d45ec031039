package launcher

import (
	"fmt"
	"strings"

	"github.com/filch-hpc/filch"
)

// MostRanks is in the hint of a refusal that names the number of ranks that would fit, before
// the number. The mpiexec shim knows by it that fewer slots per rank would do.
const MostRanks = "that fits: -n "

// ListNames names nodes: "n1, n2 and 3 more".
func ListNames[S ~string](names []S) string {
	listed := make([]string, min(len(names), namesListed))
	for i := range listed {
		listed[i] = string(names[i])
	}
	text := strings.Join(listed, ", ")
	if more := len(names) - namesListed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// namesListed bounds the nodes named in a sentence.
const namesListed = 8

// ListJobs names jobs: "job 3", "jobs 3, 4 and 2 more".
func ListJobs(ids []filch.JobID) string {
	const most = 8
	text := "job "
	if len(ids) > 1 {
		text = "jobs "
	}
	for k, id := range ids[:min(len(ids), most)] {
		if k > 0 {
			text += ", "
		}
		text += id.String()
	}
	if more := len(ids) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// ListTasks names tasks of a job, if name is not nil also by their names: "task 7.1",
// "tasks 7.1 (fit), 7.2 (plot)". The list is of waiting tasks: see [MaxBehind].
func ListTasks(job filch.JobID, all []int32, name func(int32) string) string {
	text := "task "
	if len(all) > 1 {
		text = "tasks "
	}
	for i, k := range all {
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%d.%d", job, k)
		if name != nil {
			text += " (" + name(k) + ")"
		}
	}
	if len(all) >= MaxBehind {
		text += " and perhaps more"
	}
	return text
}
