package tasklist

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
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
	var names, blocks []int32
	for _, p := range picks { // ascending
		for n := range record.BlocksOf(p.From, p.From+p.Count) {
			blocks = append(blocks, n)
		}
	}
	for part := range slices.Chunk(slices.Compact(blocks), taskrecords.AtOnce) {
		rows, err := v.rows(part, nil)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			r := &rows[i]
			s, _ := stateNamed(r.State)
			if _, named := slices.BinarySearchFunc(picks, r.at, around); named && s.Final() {
				names = append(names, r.Index)
				found.by[s]++
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

// around compares a run of tasks with a task: 0 if the task is in the run.
func around(p record.Pick, index int32) int {
	switch {
	case p.From > index:
		return 1
	case p.From+p.Count <= index:
		return -1
	}
	return 0
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
