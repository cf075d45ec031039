package query

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// taskJob reads the record of a job of tasks; nil without an error: there is no such
// job.
func (sv *Server) taskJob(job filch.JobID) (j *records.TaskJob, err error) {
	done := make(chan struct{})
	if post := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.FindTasks(t.Now, job, recordWait, func(have *records.TaskJob, why *filch.Error) {
			if j = have; why != nil && why.Kind != filch.NotFound {
				err = why
			}
			close(done)
		}, t.Out)
	}); post != nil {
		return nil, post
	}
	if !sv.in.Await(done, recordWait+peers.AskWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: the store does not answer", job)
	}
	return j, err
}

// aboutTask answers a query about one task, or about a job's tasks on one node.
func (sv *Server) aboutTask(q wire.Query, arg func(int) string, local bool) (any, error) {
	switch q.Verb {
	case wire.VerbTask:
		return sv.task(arg)
	case wire.VerbTaskNow:
		return sv.taskNow(arg)
	}
	job, err := sv.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	if q.Verb == wire.VerbRunning {
		return sv.running(job, local && arg(1) != wire.OnlyHere)
	}
	return sv.tasksHere(job)
}

// tasksHere counts the tasks of a job on this node.
func (sv *Server) tasksHere(job filch.JobID) (here launcher.TasksHere, err error) {
	err = sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		here = t.Node.TasksHere(job)
		if here.TryAt > 0 {
			here.Again = max(here.TryAt-t.Now, time.Millisecond).Seconds()
		}
		if here.Held = sv.daemon.Mirror.Holds(job, -1); here.Held > 0 {
			here.Running -= here.Held
			here.Ready += here.Held
			here.Why = sv.daemon.Mirror.Trouble()
		}
	})
	return here, err
}

// running lists the running tasks of a job, on all nodes or on this node.
func (sv *Server) running(job filch.JobID, everywhere bool) (list launcher.RunningTasks, err error) {
	err = sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		list = t.Node.RunningTasks(t.Now, job)
		list.Tasks = slices.DeleteFunc(list.Tasks, func(r launcher.RunningTask) bool { return sv.daemon.Mirror.Held(r.Serial) })
	})
	if err != nil || !everywhere {
		return list, err
	}
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbRunning, Args: []string{job.String()}}, func(m peers.Member, v launcher.RunningTasks, err error) {
		if err != nil {
			list.Silent = append(list.Silent, m.Name)
			return
		}
		list.Add(&v)
	})
	return list, nil
}

// lastLines reads the last lines that tasks printed on standard error on a node.
func (sv *Server) lastLines(q wire.Query, arg func(int) string, local bool) (any, error) {
	if node := filch.NodeName(arg(0)); node != sv.in.Self {
		return sv.Forward(node, local, q)
	}
	job, err := sv.parseJob(arg(1))
	if err != nil {
		return nil, err
	}
	wanted := map[int32]bool{}
	for word := range strings.SplitSeq(arg(2), ",") {
		n, err := strconv.ParseInt(word, 10, 32)
		if err != nil || len(wanted) >= wire.MaxLast {
			return nil, filch.Errorf(filch.Invalid, "%q is no list of at most %d tasks", clipText(arg(2)), wire.MaxLast)
		}
		wanted[int32(n)] = true
	}
	lines, err := output.LastLines(proc.Place{Dir: sv.daemon.Dir.Path()}.OutputDir(job), func(task int32) bool { return wanted[task] })
	if err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot read the output of job %d on %s: %s", job, sv.in.Self, err.Error())
	}
	list := []wire.LastLine{}
	for _, task := range slices.Sorted(maps.Keys(lines)) {
		list = append(list, wire.LastLine{Task: task, Text: lines[task]})
	}
	return list, nil
}

// aboutTasks answers a query about a job of tasks, whichever node leads the job.
func (sv *Server) aboutTasks(q wire.Query, job filch.JobID, j *records.TaskJob, arg func(int) string) (any, error) {
	switch q.Verb {
	case wire.VerbWait:
		return sv.waitTasks(job, j, arg(1))
	case wire.VerbCancel:
		return sv.cancelTasks(job, j, arg)
	case wire.VerbHold:
		return ordering{sv}.hold(job, j, arg(1))
	case wire.VerbClose:
		return sv.closeTasks(job, j)
	case wire.VerbSignal:
		return nil, filch.Errorf(filch.Invalid, "job %d is a job of tasks, which take no signals: use filch cancel", job)
	case wire.VerbRequeue:
		return nil, filch.Errorf(filch.Invalid, "job %d is a job of tasks: use filch retry", job)
	case wire.VerbExplain:
		return explainer{sv}.explainTasks(job, j)
	}
	return sv.tasksInfo(job, j), nil
}

// closeTasks closes a job of tasks, and waits until the record shows the close.
func (sv *Server) closeTasks(job filch.JobID, j *records.TaskJob) (any, error) {
	if j.Record.Graph {
		return nil, filch.Errorf(filch.Invalid, "job %d is a workflow, which is never open", job)
	}
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.CloseTasks(t.Now, job, t.Out) }); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(recordWait); !j.Record.Closed; {
		if sv.awaitTasks(job, j.Version, deadline); time.Now().After(deadline) {
			return nil, filch.Errorf(filch.Unavailable, "cannot close job %d: the record still says open after %s", job, filch.ShortTime(recordWait))
		}
		if now, err := sv.taskJob(job); err == nil && now != nil {
			j = now
		}
	}
	return sv.tasksInfo(job, j), nil
}

// tasksInfo returns the state of a job of tasks by the record and the nodes.
func (sv *Server) tasksInfo(job filch.JobID, j *records.TaskJob) launcher.JobInfo {
	info, sum := sv.tasksSum(job, j)
	sum.Settle(&info)
	return info
}

// tasksSum returns the state in the record, and what the nodes have of the tasks that have
// not ended.
func (sv *Server) tasksSum(job filch.JobID, j *records.TaskJob) (launcher.JobInfo, tasks.Sum) {
	info, sum := records.TaskJobInfo(job, j.Record, time.Now().UnixNano()), tasks.Sum{}
	if info.Code != nil {
		return info, sum
	}
	here, _ := sv.tasksHere(job)
	sum.Add(&here)
	peers.AskAll(sv.daemon.Questions, wire.Query{Verb: wire.VerbTasks, Args: []string{job.String()}}, func(m peers.Member, v launcher.TasksHere, err error) {
		if err != nil {
			sum.Silent = append(sum.Silent, m.Name)
			return
		}
		sum.Add(&v)
	})
	sum.Fill(&info)
	return info, sum
}

// waitTasks waits for the end of a job of tasks.
func (sv *Server) waitTasks(job filch.JobID, j *records.TaskJob, limit string) (any, error) {
	deadline := time.Now().Add(parseWait(limit))
	for {
		info := records.TaskJobInfo(job, j.Record, time.Now().UnixNano())
		if info.Code != nil || sv.in.Context().Err() != nil {
			return info, nil
		}
		if !time.Now().Before(deadline) {
			return sv.tasksInfo(job, j), nil
		}
		sv.awaitTasks(job, j.Version, deadline)
		now, err := sv.taskJob(job)
		if err == nil && now == nil {
			return info, filch.Errorf(filch.NotFound, "job %d was removed meanwhile", job)
		}
		if err == nil {
			j = now
		}
	}
}

// awaitTasks waits until the record of a job is newer than v, at most taskLook.
func (sv *Server) awaitTasks(job filch.JobID, v dht.Version, deadline time.Time) {
	changed := make(chan struct{}, 1)
	var stop func(time.Duration, *launcher.Outbox)
	if sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		stop = t.Node.WatchRecord(t.Now, dht.Key(record.KeyJob(job)), v, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}, t.Out)
	}) != nil {
		return
	}
	defer sv.in.Post(func(t *inputs.Turn) { stop(t.Now, t.Out) })
	timer := time.NewTimer(min(time.Until(deadline), taskLook))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-sv.in.Context().Done():
	}
}

// taskLook is how often the record of a job is read without a notice of the watch: the
// home of the record may have changed.
const taskLook = 10 * time.Second

// task returns one task.
func (sv *Server) task(arg func(int) string) (any, error) {
	job, name, err := sv.parseTask(arg)
	if err != nil {
		return nil, err
	}
	return sv.taskNamed(job, name)
}

// parseTask reads a job id and the number of a task.
func (sv *Server) parseTask(arg func(int) string) (filch.JobID, int32, error) {
	job, err := sv.parseJob(arg(0))
	if err != nil {
		return 0, 0, err
	}
	index, err := strconv.ParseInt(arg(1), 10, 32)
	if err != nil || index < 0 {
		return 0, 0, filch.Errorf(filch.Invalid, "%q is not the number of a task", arg(1))
	}
	return job, int32(index), nil
}

// findTask reads one task from its record.
func (sv *Server) findTask(job filch.JobID, index int32) (*launcher.Task, error) {
	var have *launcher.Task
	var why *filch.Error
	done := make(chan struct{})
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.FindTask(t.Now, job, index, recordWait, func(task *launcher.Task, e *filch.Error) {
			have, why = task, e
			close(done)
		}, t.Out)
	}); err != nil {
		return nil, err
	}
	if !sv.in.Await(done, recordWait+peers.AskWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the record of task %d.%d: the store does not answer", job, index)
	}
	return have, orNil(why)
}
