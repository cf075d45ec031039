package launcher

import (
	"fmt"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

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

// ShortTime formats a time to a tenth of its size or better.
func ShortTime(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

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
