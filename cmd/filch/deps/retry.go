package deps

import (
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
	if _, err := ResolveBag(c, d, past.Rec.Name, bag, to); err != nil || len(to.After) > 0 || past.Rec.Any {
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
	for part := range slices.Chunk(blocks, taskrecords.AtOnce) {
		clear(other.Blocks)
		if err := other.Load(part); err != nil {
			return err
		}
		for _, r := range taskrecords.Common(again, []taskrecords.Indices{{Lo: part[0] * record.BlockSize, Hi: (part[len(part)-1] + 1) * record.BlockSize}}) {
			for i := r.Lo; i < r.Hi; i++ {
				if state := stateOf(other, i); state != filch.OK.String() {
					return filch.Errorf(filch.Invalid, "cannot retry task %d.%d: the task waits for the good end of task %d.%d, which is %s", past.ID, past.Spec.Name(i), id, other.Spec.Name(i), state).
						WithHint("filch retry %d runs that task again in a new job N; then filch retry %d --dep aftercorr:N, with the same tasks", id, past.ID)
				}
			}
		}
	}
	return nil
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
