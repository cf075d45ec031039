package query

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/record"
)

// ordering carries out orders about jobs that live.
type ordering struct{ sv *Server }

// cancelTasks cancels a job of tasks, or some of the tasks, which arg(3) names.
func (sv *Server) cancelTasks(job filch.JobID, j *records.TaskJob, arg func(int) string) (any, error) {
	if info := records.TaskJobInfo(job, j.Record, 0); info.Code != nil {
		return nil, filch.Errorf(filch.Busy, "job %d has ended already: %s", job, info.State)
	}
	reason := arg(2)
	if len(reason) > record.MaxReason {
		return nil, filch.Errorf(filch.Invalid, "the reason has %d bytes, at most %d", len(reason), record.MaxReason)
	}
	if arg(3) == "" {
		if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.CancelTasks(t.Now, job, reason, t.Out) }); err != nil {
			return nil, err
		}
		return sv.tasksInfo(job, j), nil
	}
	picks, err := sv.picks(job, j.Record, arg(3))
	if err != nil {
		return nil, err
	}
	return ordering{sv}.order(job, j, record.Orders{Cancels: picks, Reason: reason}, func(rec *record.Job) bool {
		return !slices.ContainsFunc(picks, func(p record.Pick) bool {
			have := rec.Within(p.From, p.From+p.Count)
			return len(have) != 1 || have[0] != p
		})
	})
}

// picks are the indices of the tasks that a query names, as JSON of [][2]int32: the first
// and the last name of each run.
func (sv *Server) picks(job filch.JobID, rec *record.Job, text string) ([]record.Pick, error) {
	var names [][2]int32
	if err := json.Unmarshal([]byte(text), &names); err != nil || len(names) == 0 {
		return nil, filch.Errorf(filch.Invalid, "%q names no tasks", text)
	}
	spec, err := sv.spec(job)
	if err != nil {
		return nil, err
	}
	var picks []record.Pick
	for _, n := range names {
		found, lacks := spec.Indices(n[0], n[1])
		for _, p := range found {
			if last := p.From + p.Count; last > rec.Total {
				lacks = max(rec.Total, p.From)
			}
		}
		if lacks >= 0 {
			return nil, noTask(job, rec.Total, lacks, names)
		}
		picks = append(picks, found...)
	}
	picks = record.JoinPicks(picks)
	if n := len(record.JoinPicks(append(slices.Clone(rec.Cancels), picks...))); n > record.MaxCancels {
		return nil, filch.Errorf(filch.Invalid, "the cancelled tasks of job %d would form %d separate ranges, at most %d", job, n, record.MaxCancels).
			WithHint("cancel ranges, like %d.5-900, or filch cancel %[1]d, all of the job", job)
	}
	if len(picks) == 1 && picks[0].Count == 1 {
		if t, err := sv.findTask(job, picks[0].From); err == nil && t.Code != nil {
			return nil, filch.Errorf(filch.Busy, "task %d.%d has ended already: %s", job, spec.Name(picks[0].From), t.State)
		}
	}
	return picks, nil
}

// noTask refuses a list of tasks to cancel: the task lacks is not there, and so none is cancelled.
func noTask(job filch.JobID, total, lacks int32, names [][2]int32) error {
	if len(names) == 1 && names[0][0] == names[0][1] {
		return filch.Errorf(filch.NotFound, "there is no task %d.%d", job, lacks).WithHint("filch info %d shows the number of tasks", job)
	}
	return filch.Errorf(filch.NotFound, "there is no task %d.%d: of the tasks that are named, none is cancelled", job, lacks).
		WithHint("job %d has %s: filch tasks %[1]d --ids lists them", job, filch.Plural(total, "task"))
}

// spec reads the common part of a job's tasks.
func (sv *Server) spec(job filch.JobID) (spec *record.Spec, err error) {
	done := make(chan struct{})
	if post := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.FindSpec(t.Now, job, recordWait, func(s *record.Spec, why *filch.Error) {
			spec, err = s, orNil(why)
			close(done)
		}, t.Out)
	}); post != nil {
		return nil, post
	}
	if !sv.in.Await(done, recordWait+peers.AskWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the specification of job %d: the store does not answer", job)
	}
	return spec, err
}

// hold holds a job of tasks in the name of a person, or releases the job.
func (od ordering) hold(job filch.JobID, j *records.TaskJob, by string) (any, error) {
	switch {
	case records.TaskJobInfo(job, j.Record, 0).Code != nil:
		return nil, filch.Errorf(filch.Busy, "job %d has ended already: %s", job, j.Record.State())
	case len(by) > record.MaxBy:
		return nil, filch.Errorf(filch.Invalid, "the name of the holder has %d bytes, at most %d", len(by), record.MaxBy)
	}
	return od.order(job, j, record.Orders{Held: by != "", By: by}, func(rec *record.Job) bool { return rec.Held == (by != "") })
}

// holdRun holds a run of this node that waits, in the name of a person, or releases the
// run. The record of a detached run has the hold before the answer.
func (od ordering) holdRun(job filch.JobID, by string) (any, error) {
	if len(by) > record.MaxBy {
		return nil, filch.Errorf(filch.Invalid, "the name of the holder has %d bytes, at most %d", len(by), record.MaxBy)
	}
	var info launcher.JobInfo
	var why *filch.Error
	done := make(chan struct{})
	if err := od.sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		if info, _ = t.Node.Job(t.Now, job); info.Code != nil {
			why = filch.Errorf(filch.Busy, "job %d has ended already: %s", job, info.State)
			close(done)
			return
		}
		t.Node.Hold(t.Now, job, by, func(e *filch.Error) {
			why = e
			close(done)
		}, t.Out)
	}); err != nil {
		return nil, err
	}
	if !od.sv.in.Await(done, recordWait+peers.AskWait) {
		return nil, filch.Errorf(filch.Unavailable, "the record of job %d does not have the order after %v", job, recordWait+peers.AskWait).
			WithHint("give the order again; filch doctor says what is wrong")
	}
	return info, orNil(why)
}

// order gives an order about a job of tasks, and waits until the job's record has it. An
// order that another person's order overtook is given again.
func (od ordering) order(job filch.JobID, j *records.TaskJob, o record.Orders, done func(*record.Job) bool) (any, error) {
	for deadline, given := time.Now().Add(recordWait), uint32(0); !done(j.Record); {
		if j.Record.Void == filch.Cancelled && len(o.Cancels) > 0 {
			break // with all other tasks
		}
		if j.Record.Void != 0 && len(o.Cancels) == 0 {
			return nil, filch.Errorf(filch.Busy, "job %d is ending: the rest of its tasks is %s", job, j.Record.Void)
		}
		if given == 0 || given <= j.Record.Serial {
			o.Serial, given = j.Record.Serial, j.Record.Serial+1
			if err := od.sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.OrderTasks(t.Now, job, o, t.Out) }); err != nil {
				return nil, err
			}
		}
		if od.sv.awaitTasks(job, j.Version, deadline); time.Now().After(deadline) {
			return nil, filch.Errorf(filch.Unavailable, "the record of job %d does not have the order after %s", job, filch.ShortTime(recordWait)).
				WithHint("give the order again; filch doctor says what is wrong")
		}
		if now, err := od.sv.taskJob(job); err == nil && now != nil {
			j = now
		}
		if info := records.TaskJobInfo(job, j.Record, 0); info.Code != nil && !done(j.Record) {
			return nil, filch.Errorf(filch.Busy, "job %d has ended meanwhile: %s", job, info.State)
		}
	}
	return od.sv.tasksInfo(job, j), nil
}

// taskNamed reads the task that people call by that name, and asks the nodes if the task
// runs.
func (sv *Server) taskNamed(job filch.JobID, name int32) (*launcher.Task, error) {
	index, ok := name, true
	if spec, err := sv.spec(job); err == nil {
		index, ok = spec.Index(name)
	}
	if !ok {
		return nil, filch.Errorf(filch.NotFound, "there is no task %d.%d", job, name)
	}
	t, err := sv.findTask(job, index)
	if err != nil {
		return nil, err
	}
	t.Index = name
	sv.findLive(t, index)
	return t, nil
}
