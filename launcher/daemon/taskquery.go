package daemon

import (
	"cmp"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/stealer"
)

// printedBytes bounds a chunk of tasks' output.
const printedBytes = 2 << 20

// taskJob reads the record of a job of tasks; nil without an error: there is no
// such job.
func (d *Daemon) taskJob(job filch.JobID) (j *launcher.TaskJob, err error) {
	done := make(chan struct{})
	if post := d.ask(loopWait, func(t *turn) {
		t.node.FindTasks(t.now, job, recordWait, func(have *launcher.TaskJob, why *filch.Error) {
			if j = have; why != nil && why.Kind != filch.NotFound {
				err = why
			}
			close(done)
		}, t.out)
	}); post != nil {
		return nil, post
	}
	if !d.await(done, recordWait+askWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: the store does not answer", job)
	}
	return j, err
}

// aboutTask answers for one task, or for what one node has of a job.
func (d *Daemon) aboutTask(q wire.Query, arg func(int) string, local bool) (any, error) {
	switch q.Verb {
	case wire.VerbTask:
		return d.task(arg)
	case wire.VerbPrinted:
		return d.printed(q, arg, local)
	}
	job, err := d.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	return d.tasksHere(job)
}

// tasksHere counts what this node has of a job.
func (d *Daemon) tasksHere(job filch.JobID) (here launcher.TasksHere, err error) {
	err = d.ask(loopWait, func(t *turn) {
		here = t.node.TasksHere(job)
		if here.Held = d.mirror.holds(job); here.Held > 0 {
			here.Running -= here.Held
			here.Ready += here.Held
			here.Why = d.mirror.trouble()
		}
	})
	return here, err
}

// aboutTasks answers a query about a job of tasks, from whichever node.
func (d *Daemon) aboutTasks(q wire.Query, job filch.JobID, j *launcher.TaskJob, arg func(int) string) (any, error) {
	switch q.Verb {
	case wire.VerbWait:
		return d.waitTasks(job, j, arg(1))
	case wire.VerbCancel:
		if info := launcher.TaskJobInfo(job, j.Record, 0); info.Code != nil {
			return nil, filch.Errorf(filch.Busy, "job %d has ended already: %s", job, info.State)
		}
		if err := d.ask(loopWait, func(t *turn) { t.node.CancelTasks(t.now, job, t.out) }); err != nil {
			return nil, err
		}
	case wire.VerbClose:
		return d.closeTasks(job, j)
	case wire.VerbSignal:
		return nil, filch.Errorf(filch.Invalid, "job %d is many tasks: they take no signals but filch cancel", job)
	case wire.VerbLogs:
		return nil, filch.Errorf(filch.Invalid, "job %d is many tasks: their output is asked for node by node", job).
			WithHint("filch logs -f %d follows it, filch wait %d waits for the end", job, job)
	case wire.VerbExplain:
		return d.explainTasks(job, j), nil
	}
	info, _ := d.tasksInfo(job, j)
	return info, nil
}

// closeTasks closes a job of tasks, and waits until its record says so.
func (d *Daemon) closeTasks(job filch.JobID, j *launcher.TaskJob) (any, error) {
	if j.Record.Graph {
		return nil, filch.Errorf(filch.Invalid, "job %d is a workflow: nothing can be added to it anyway", job)
	}
	if err := d.ask(loopWait, func(t *turn) { t.node.CloseTasks(t.now, job, t.out) }); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(recordWait); !j.Record.Closed; {
		if d.awaitTasks(job, j.Version, deadline); time.Now().After(deadline) {
			return nil, filch.Errorf(filch.Unavailable, "cannot close job %d: its record still says that it is open after %v", job, recordWait)
		}
		if now, err := d.taskJob(job); err == nil && now != nil {
			j = now
		}
	}
	info, _ := d.tasksInfo(job, j)
	return info, nil
}

// tasksInfo is what the record tells, and the nodes of what has not ended.
func (d *Daemon) tasksInfo(job filch.JobID, j *launcher.TaskJob) (launcher.JobInfo, launcher.TasksHere) {
	info := launcher.TaskJobInfo(job, j.Record, time.Now().UnixNano())
	if info.Code != nil {
		return info, launcher.TasksHere{}
	}
	here := d.tasksOf(job)
	c := &info.Tasks
	left := c.Waiting
	c.Running = min(int32(here.Running), left)
	c.Ready = min(int32(here.Ready), left-c.Running)
	c.Waiting = left - c.Running - c.Ready
	if c.Running > 0 {
		info.State = filch.Running.String()
	}
	return info, here
}

// tasksOf sums up what all nodes have of a job.
func (d *Daemon) tasksOf(job filch.JobID) launcher.TasksHere {
	sum, _ := d.tasksHere(job)
	askAll(d.asks, wire.Query{Verb: wire.VerbTasks, Args: []string{job.String()}}, func(_ member, v launcher.TasksHere, err error) {
		if err == nil {
			sum.Waiting += v.Waiting
			sum.Ready += v.Ready
			sum.Running += v.Running
			sum.Late += v.Late
			if v.Of >= sum.Of && v.Expected > 0 {
				sum.Expected, sum.Limited, sum.Of = v.Expected, v.Limited, v.Of
			}
			sum.Held += v.Held
			sum.Tied += v.Tied
			sum.Why = cmp.Or(sum.Why, v.Why)
		}
	})
	return sum
}

// explainTasks says where a job of tasks stands.
func (d *Daemon) explainTasks(job filch.JobID, j *launcher.TaskJob) launcher.Explanation {
	info, here := d.tasksInfo(job, j)
	c := info.Tasks
	e := launcher.Explanation{Job: job, State: info.State, Phase: "tasks", Need: c.Total, Text: info.Cause}
	switch {
	case info.Code != nil:
		e.Phase = "end"
	case info.Open && c.Running+c.Ready+c.Waiting == 0:
		e.Text = "it is open, and all of its tasks have ended: filch submit --to " + job.String() + " adds more, filch close " + job.String() + " ends it"
	case here.Held > 0:
		e.Text = strconv.FormatInt(here.Held, 10) + " tasks that run once wait until the queue's mirror tells of them"
		if here.Why != "" {
			e.Text += ": " + here.Why
		}
	case c.Running == 0 && c.Ready > 0:
		if e.Text = tasksAre(int64(c.Ready)) + " ready"; here.Late < int64(c.Ready) {
			var text string
			text, e.Stuck = d.waitText()
			e.Text += text
		} else {
			e.Stuck = true
		}
	case c.Running == 0 && len(j.Record.After) > 0:
		e.Text = "it waits for the end of other jobs"
	case c.Running > 0:
		e.Text = strconv.Itoa(int(c.Running)) + " tasks run, " + strconv.Itoa(int(c.Ready)) + " are ready"
		if drained, _ := d.drainedNodes(); drained != "" && c.Ready > 0 {
			e.Text += "; " + drained
		}
		if here.Tied > 0 {
			e.Text += "; " + strconv.FormatInt(here.Tied, 10) + " of them wait for runs that they started, and those for slots that only such tasks have"
		}
	}
	if info.Code == nil {
		e.Text = here.Explain(e.Text) + d.goneText()
	}
	return e
}

// waitText says what tasks wait for that are ready: for slots, or for a node that
// takes work; stuck says that there is none.
func (d *Daemon) waitText() (text string, stuck bool) {
	drained, all := d.drainedNodes()
	switch {
	case all:
		return ", and no node takes work: " + drained + "; filch drain --undo NODE ends that", true
	case drained != "":
		return " and wait for slots of the other nodes: " + drained, false
	}
	return " and wait for slots; filch nodes shows who has them", false
}

// drainedNodes is [launcher.Node.Drained].
func (d *Daemon) drainedNodes() (text string, all bool) {
	_ = d.ask(loopWait, func(t *turn) { text, all = t.node.Drained() })
	return text, all
}

// goneText says what becomes of tasks where nodes are gone; "" if none is.
func (d *Daemon) goneText() string {
	var gone []string
	for _, m := range d.members.list() {
		if m.Standing == stealer.Gone {
			gone = append(gone, string(m.Name))
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "; no launcher runs on " + strings.Join(gone, ", ") + ": its tasks go on elsewhere, but those that run once and were started there " +
		"wait until it is back, or is dead 5 s after its last sign of life"
}

func tasksAre(n int64) string {
	if n == 1 {
		return "1 task is"
	}
	return strconv.FormatInt(n, 10) + " tasks are"
}

// waitTasks waits for the end of a job of tasks.
func (d *Daemon) waitTasks(job filch.JobID, j *launcher.TaskJob, limit string) (any, error) {
	deadline := time.Now().Add(parseWait(limit))
	for {
		info := launcher.TaskJobInfo(job, j.Record, time.Now().UnixNano())
		if info.Code != nil || !time.Now().Before(deadline) || d.ctx.Err() != nil {
			return info, nil
		}
		d.awaitTasks(job, j.Version, deadline)
		now, err := d.taskJob(job)
		if err == nil && now == nil {
			return info, filch.Errorf(filch.NotFound, "job %d was removed meanwhile", job)
		}
		if err == nil {
			j = now
		}
	}
}

// awaitTasks waits until the record of a job is newer than v, or a while.
func (d *Daemon) awaitTasks(job filch.JobID, v dht.Version, deadline time.Time) {
	changed := make(chan struct{}, 1)
	var stop func(time.Duration, *launcher.Outbox)
	if d.ask(loopWait, func(t *turn) {
		stop = t.node.WatchTasks(t.now, job, v, func() {
			select {
			case changed <- struct{}{}:
			default:
			}
		}, t.out)
	}) != nil {
		return
	}
	defer d.post(func(t *turn) { stop(t.now, t.out) })
	timer := time.NewTimer(min(time.Until(deadline), taskLook))
	defer timer.Stop()
	select {
	case <-changed:
	case <-timer.C:
	case <-d.ctx.Done():
	}
}

// taskLook is how often the record of a job is read although nothing was heard
// of it: its home may have changed.
const taskLook = 10 * time.Second

// task tells of one task.
func (d *Daemon) task(arg func(int) string) (any, error) {
	job, err := d.parseJob(arg(0))
	if err != nil {
		return nil, err
	}
	index, err := strconv.ParseInt(arg(1), 10, 32)
	if err != nil || index < 0 {
		return nil, filch.Errorf(filch.Invalid, "%q is not the number of a task", arg(1))
	}
	var have *launcher.Task
	var why *filch.Error
	done := make(chan struct{})
	if err := d.ask(loopWait, func(t *turn) {
		t.node.FindTask(t.now, job, int32(index), recordWait, func(task *launcher.Task, e *filch.Error) {
			have, why = task, e
			close(done)
		}, t.out)
	}); err != nil {
		return nil, err
	}
	if !d.await(done, recordWait+askWait) {
		return nil, filch.Errorf(filch.Unavailable, "cannot read the record of task %d.%d: the store does not answer", job, index)
	}
	return have, orNil(why)
}

// printed reads what a node keeps of the output of a job's tasks.
func (d *Daemon) printed(q wire.Query, arg func(int) string, local bool) (any, error) {
	if node := filch.NodeName(arg(0)); node != d.self {
		return d.forward(node, local, q)
	}
	job, err := d.parseJob(arg(1))
	if err != nil {
		return nil, err
	}
	only := int64(-1)
	if arg(2) != "" {
		if only, err = strconv.ParseInt(arg(2), 10, 32); err != nil {
			return nil, filch.Errorf(filch.Invalid, "%q is not the number of a task", arg(2))
		}
	}
	var from output.Cursor
	if arg(4) != "" {
		if err := json.Unmarshal([]byte(arg(4)), &from); err != nil {
			return nil, filch.Errorf(filch.Invalid, "%q is not a place in the output", arg(4))
		}
	}
	dir := proc.Place{Dir: d.cfg.Dir.Path()}.OutputDir(job)
	want := func(p output.Printed) bool {
		return (only < 0 || int64(p.Index) == only) && (arg(3) == "" || p.Failed)
	}
	chunk := wire.PrintedChunk{Pieces: []wire.PrintedPiece{}, End: true}
	size := 0
	next, bad, err := output.ReadSegmentsFrom(dir, from, want, func(p output.Printed) bool {
		chunk.Pieces = append(chunk.Pieces, wire.PrintedPiece{
			Task: p.Index, Attempt: p.Attempt, Stream: p.Stream, Failed: p.Failed, Lost: p.Lost, Data: append([]byte(nil), p.Data...),
		})
		size += len(p.Data)
		chunk.End = size < printedBytes
		return chunk.End
	})
	if err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot read the output of job %d on %s: %s", job, d.self, err.Error())
	}
	chunk.Bad = bad
	if arg(4) == "" {
		chunk.Gone = output.GoneSegments(dir)
		chunk.Cut = d.runners.cuts.of(job, only)
	}
	place, err := json.Marshal(next)
	chunk.Next = string(place)
	return chunk, err
}
