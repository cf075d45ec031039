package tasklist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/mtc/record"
)

// endedMost bounds the tasks whose records are read to find the tasks that have ended.
const endedMost = 1 << 16

// Ended are the tasks among those of a list that have ended.
type Ended struct {
	Job  filch.JobID
	Runs [][2]int32 // by name, ascending
	All  bool       // no other task is in the list
	by   map[filch.State]int
}

// FindEnded reads which of the named tasks have ended; none of a list of more than 65,536
// tasks.
func FindEnded(c *client.Client, t *cli.JobTasks) (*Ended, error) {
	v, _, err := openView(c, t.Job)
	if err != nil {
		return nil, err
	}
	found := &Ended{Job: t.Job, by: map[filch.State]int{}}
	var picks []record.Pick
	count, lacks := int64(0), int32(-1)
	for _, r := range t.Tasks {
		list, missing := v.Spec.Indices(r[0], r[1])
		lacks = max(lacks, missing)
		picks = append(picks, list...)
	}
	picks = record.JoinPicks(picks)
	for _, p := range picks {
		if lacks >= 0 || p.From > v.Rec.Total-p.Count {
			return found, nil // the launcher refuses the list
		}
		if count += int64(p.Count); count > endedMost {
			return found, nil
		}
	}
	var names []int32
	for _, p := range picks {
		for n := p.From / record.BlockSize; n*record.BlockSize < p.From+p.Count; n++ {
			rows, err := v.rows([]int32{n}, nil)
			if err != nil {
				return nil, err
			}
			for i := range rows {
				r := &rows[i]
				s, _ := stateNamed(r.State)
				if r.at >= p.From && r.at < p.From+p.Count && s.Final() {
					names = append(names, r.Index)
					found.by[s]++
				}
			}
		}
	}
	found.All = len(names) > 0 && int64(len(names)) == count
	slices.Sort(names)
	for _, i := range names {
		if n := len(found.Runs); n > 0 && found.Runs[n-1][1]+1 == i {
			found.Runs[n-1][1] = i
		} else {
			found.Runs = append(found.Runs, [2]int32{i, i})
		}
	}
	return found, nil
}

// Err tells which tasks have ended, and how.
func (e *Ended) Err() error {
	count, parts := 0, []string{}
	for s := filch.OK; s <= filch.Cancelled; s++ {
		if n := e.by[s]; n > 0 {
			count += n
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	if count == 1 {
		for s := range e.by {
			return filch.Errorf(filch.Busy, "task %d.%d has ended already: %s", e.Job, e.Runs[0][0], s)
		}
	}
	return filch.Errorf(filch.Busy, "tasks %d.%s have ended already: %s", e.Job, cli.RunsText(e.Runs), strings.Join(parts, ", "))
}
