package deps

import (
	"errors"
	"fmt"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// ResolveRetry adds the jobs of d to the conditions of a job that runs tasks of past again. Of
// a bag these are the tasks again, and bag is the new spec; nil for a workflow. Without jobs
// in d, ResolveRetry refuses to run tasks whose job waited for a job or for tasks that did not
// end well. A job whose record was dropped is no obstacle.
func ResolveRetry(c *client.Client, d *spec.Deps, past *taskrecords.Job, bag *record.Spec, again []taskrecords.Indices, to *record.Conditions) error {
	l := &list{c: c, bag: bag, retryOf: past.ID, Conditions: record.Conditions{Any: d.Any, Alone: d.Alone, Begin: to.Begin}}
	if err := l.resolve(d, past.Rec.Name, to); err != nil || len(to.After) > 0 || past.Rec.Any {
		return err
	}
	for i := range past.Rec.After {
		id, when, _ := past.Rec.At(i)
		var err error
		if when == record.WhenEach {
			err = counterparts(c, past, id, again)
		} else {
			err = wholeJob(c, past, id)
		}
		if err != nil && ui.KindOf(err) != filch.NotFound {
			return err
		}
	}
	return nil
}

// wholeJob refuses a retry if a job that past waited for did not end so.
func wholeJob(c *client.Client, past *taskrecords.Job, id filch.JobID) error {
	var j launcher.JobInfo
	if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); err != nil {
		return filch.Errorf(ui.KindOf(err), "cannot look whether job %d, before job %d, has ended well: %s", id, past.ID, err.Error())
	}
	end := filch.OK
	if j.Code != nil && *j.Code != 0 {
		end = filch.Failed
	}
	if when := past.Rec.WhenOf(id); when != record.WhenStarted && len(past.Rec.Parts) == 0 && (j.Code == nil || !when.Met(end)) {
		return filch.Errorf(filch.Invalid, "cannot retry job %d: the job waits for job %d with %s, and job %[2]d is %[4]s", past.ID, id, when, j.State).
			WithHint("filch retry %d runs that job again as a new job N; then filch retry %d --dep afterok:N", id, past.ID)
	}
	return nil
}

// counterparts refuses a retry if one of the tasks waited for a task of a bag that did not end
// well.
func counterparts(c *client.Client, past *taskrecords.Job, id filch.JobID, again []taskrecords.Indices) error {
	other, err := taskrecords.Open(c, id)
	if err != nil {
		var j launcher.JobInfo
		if e := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); e != nil {
			err = e // not found: dropped
		}
		return err
	}
	var blocks []int32
	for _, r := range again {
		for b := r.Lo / record.BlockSize; b <= (r.Hi-1)/record.BlockSize; b++ {
			if n := len(blocks); n == 0 || blocks[n-1] != b {
				blocks = append(blocks, b)
			}
		}
	}
	var no error
	var bad, well []record.Pick // by name: tasks with a counterpart
	for part := range slices.Chunk(blocks, taskrecords.AtOnce) {
		clear(other.Blocks)
		if err := other.Load(part); err != nil {
			return err
		}
		for _, r := range taskrecords.Common(again, []taskrecords.Indices{{Lo: part[0] * record.BlockSize, Hi: (part[len(part)-1] + 1) * record.BlockSize}}) {
			for i := r.Lo; i < r.Hi; i++ {
				state := stateOf(other, i)
				if state == filch.OK.String() {
					well = record.AppendPick(well, past.Spec.Name(i))
					continue
				}
				if no == nil {
					no = filch.Errorf(filch.Invalid, "cannot retry task %d.%d: the task waits for the good end of task %d.%d, which is %s", past.ID, past.Spec.Name(i), id, other.Spec.Name(i), state)
				}
				if i < other.Rec.Total {
					bad = record.AppendPick(bad, past.Spec.Name(i))
				}
			}
		}
	}
	var e *filch.Error
	if !errors.As(no, &e) {
		return no
	}
	switch {
	case len(bad) > 0:
		return e.WithHint("filch retry %s runs the failed tasks again in a new job N; then filch retry %s --dep aftercorr:N", tasksOf(id, bad), tasksOf(past.ID, bad))
	case len(well) > 0:
		return e.WithHint("filch retry %s runs the tasks with a counterpart", tasksOf(past.ID, well))
	}
	return e.WithHint("filch retry %d --dep afterany:%d waits for no counterparts", past.ID, id)
}

// otherTasks says why the tasks of a bag, with these names, cannot be waited for by the tasks of
// the retry, and which tasks can run again in their place.
func (l *list) otherTasks(id filch.JobID, names []record.Pick) (why, hint string) {
	why = "its tasks have other numbers than the tasks that run again"
	again := l.bag.Again
	var both []record.Pick
	for _, r := range taskrecords.Common(runs(again), runs(names)) {
		both = append(both, record.Pick{From: r.Lo, Count: r.Hi - r.Lo})
	}
	if len(both) > 0 && slices.Equal(both, names) {
		return why, fmt.Sprintf("filch retry %s --dep aftercorr:%d", tasksOf(l.retryOf, both), id)
	}
	return why, fmt.Sprintf("--dep afterok:%d waits for the whole job", id)
}

// runs are names of tasks as runs of numbers.
func runs(names []record.Pick) (list []taskrecords.Indices) {
	for _, p := range names {
		list = append(list, taskrecords.Indices{Lo: p.From, Hi: p.From + p.Count})
	}
	return list
}

// tasksOf names tasks of a job as a command takes them, 7.5,8-9; with an ellipsis after the
// twentieth range.
func tasksOf(id filch.JobID, names []record.Pick) string {
	const most = 20
	var runs [][2]int32
	more := ""
	for i, p := range names {
		if i == most {
			more = ",..."
			break
		}
		runs = append(runs, [2]int32{p.From, p.From + p.Count - 1})
	}
	return fmt.Sprintf("%d.%s%s", id, cli.RunsText(runs), more)
}

// stateOf is the state of a task as its block has it.
func stateOf(p *taskrecords.Job, i int32) string {
	if i >= p.Rec.Total {
		return "missing"
	}
	b := p.Blocks[i/record.BlockSize]
	if b != nil {
		for k, off := range b.Offs {
			if int32(off) == i%record.BlockSize {
				return b.Tasks[k].State.String()
			}
		}
	}
	return "not ended"
}
