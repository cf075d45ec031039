package records

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// TaskJob is a job of tasks as described by its record.
type TaskJob struct {
	Record  *record.Job
	Version dht.Version
}

// FindTasks reads the record of a job of tasks for a query. If there is no record to be
// had, FindTasks calls then with nil and the reason.
func (m *Records) FindTasks(now time.Duration, id filch.JobID, wait time.Duration, then func(*TaskJob, *filch.Error), out *launcher.Outbox) {
	m.StoreDo(now, lookups(dht.Key(record.KeyJob(id))), wait, func(rs []dht.Result) {
		preferConsistent(rs)
		switch rs[0].Outcome {
		case dht.Done:
			j, err := record.DecodeJob(rs[0].Value)
			if err != nil {
				then(nil, filch.Errorf(filch.Internal, "the record of job %d makes no sense: %s", id, err.Error()))
				return
			}
			then(&TaskJob{j, rs[0].Version}, nil)
		case dht.Absent:
			then(nil, filch.Errorf(filch.NotFound, "there is no job %d", id))
		default:
			then(nil, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: %s", id, rs[0].Outcome).
				WithHint("%s; filch doctor says more", m.StoreTrouble()))
		}
	}, out)
}

// FindSpec reads the common part of a job's tasks.
func (m *Records) FindSpec(now time.Duration, id filch.JobID, wait time.Duration, then func(*record.Spec, *filch.Error), out *launcher.Outbox) {
	m.StoreDo(now, lookups(dht.Key(record.KeySpec(id))), wait, func(rs []dht.Result) {
		preferConsistent(rs)
		s, err := record.DecodeSpec(rs[0].Value)
		if rs[0].Outcome != dht.Done || err != nil {
			then(nil, filch.Errorf(filch.Unavailable, "cannot read the specification of job %d: %s", id, rs[0].Outcome).
				WithHint("%s; filch doctor says more", m.StoreTrouble()))
			return
		}
		then(s, nil)
	}, out)
}

// FindLong reads the chunks of a long text of a job.
func (m *Records) FindLong(now time.Duration, id filch.JobID, l record.Long, wait time.Duration, then func([]byte, *filch.Error), out *launcher.Outbox) {
	ops := make([]dht.Op, l.Count())
	for i := range ops {
		ops[i] = dht.Op{Code: dht.OpLookup, Key: dht.Key(record.KeyLong(id, l.First+int32(i)))}
	}
	m.StoreDo(now, ops, wait, func(rs []dht.Result) {
		chunks := make([][]byte, len(rs))
		for i := range rs {
			if rs[i].Outcome != dht.Done {
				then(nil, filch.Errorf(filch.Unavailable, "cannot read chunk %d of %d of a record of job %d: %s", i+1, len(rs), id, rs[i].Outcome).
					WithHint("%s; filch doctor says more", m.StoreTrouble()))
				return
			}
			chunks[i] = rs[i].Value
		}
		text, err := record.JoinLong(l, chunks)
		if err != nil {
			then(nil, filch.Errorf(filch.Internal, "a record of job %d makes no sense: %s", id, err.Error()))
			return
		}
		then(text, nil)
	}, out)
}

// FindTask reads the records of the task with an index.
func (m *Records) FindTask(now time.Duration, id filch.JobID, index int32, wait time.Duration, then func(*launcher.Task, *filch.Error), out *launcher.Outbox) {
	if index < 0 {
		then(nil, filch.Errorf(filch.NotFound, "there is no task %d.%d", id, index))
		return
	}
	ops := []dht.Op{
		{Code: dht.OpLookup, Key: dht.Key(record.KeyJob(id)), Consistent: true},
		{Code: dht.OpLookup, Key: dht.Key(record.KeyBlock(id, index/record.BlockSize)), Consistent: true},
		{Code: dht.OpLookup, Key: dht.Key(record.KeyZone(id, index/record.ZoneSize)), Consistent: true},
	}
	m.StoreDo(now, ops, wait, func(rs []dht.Result) {
		j, err := record.DecodeJob(rs[0].Value)
		switch {
		case rs[0].Outcome == dht.Absent || rs[0].Outcome == dht.Done && err == nil && index >= j.Total:
			then(nil, filch.Errorf(filch.NotFound, "there is no task %d.%d", id, index))
			return
		case rs[0].Outcome != dht.Done || err != nil || !readable(rs[1:]):
			then(nil, filch.Errorf(filch.Unavailable, "cannot read the records of task %d.%d: %s, %s, %s", id, index, rs[0].Outcome, rs[1].Outcome, rs[2].Outcome))
			return
		}
		t := &launcher.Task{Job: id, Index: index, State: filch.Waiting.String()}
		found, err := readTask(t, rs[1:])
		t.AddTimes([]launcher.TaskTime{{Stage: launcher.StageSubmitted, UnixNS: j.Ticket.UnixNS}})
		if t.State == filch.Cancelled.String() || j.Cancelled(index) {
			t.Reason = j.Why(index)
		}
		switch {
		case err != nil:
			then(nil, filch.Errorf(filch.Internal, "the record of task %d.%d makes no sense: %s", id, index, err.Error()))
		case !found && j.Finished():
			then(nil, filch.Errorf(filch.NotFound, "the record of task %d.%d was dropped: job %d ended long ago, and the store's quota is used up", id, index, id))
		default:
			then(t, nil)
		}
	}, out)
}

// readable reports whether each record was read, or is known not to exist.
func readable(rs []dht.Result) bool {
	for i := range rs {
		if rs[i].Outcome != dht.Done && rs[i].Outcome != dht.Absent {
			return false
		}
	}
	return true
}

// readTask copies the description of a task from the task's block and zone records, if any.
func readTask(t *launcher.Task, rs []dht.Result) (found bool, err error) {
	if rs[0].Outcome == dht.Done {
		b, err := record.DecodeBlock(rs[0].Value)
		if err != nil || fillTask(t, b, uint8(t.Index%record.BlockSize)) {
			return err == nil, err
		}
	}
	if rs[1].Outcome != dht.Done {
		return false, nil
	}
	z, err := record.DecodeZone(rs[1].Value)
	if err != nil {
		return false, err
	}
	for _, s := range z.Spans {
		if s.Lo <= t.Index && t.Index < s.Hi && s.Void != 0 {
			t.State = s.Void.String() // without a code: nothing was started
			found = true
		}
	}
	return found, nil
}

// fillTask copies the description of a task from a block, if any.
func fillTask(t *launcher.Task, b *record.Block, off uint8) bool {
	e := b.Find(off)
	if e == nil {
		return false
	}
	t.Fill(e)
	t.Times = launcher.TimesOf(e)
	return true
}

// HomedTasks lists the jobs of tasks whose records are homed here: all live jobs, and the
// newest ended jobs.
func (m *Records) HomedTasks(wall int64) []launcher.JobInfo {
	var live, over []launcher.JobInfo
	for r := range m.Homed(record.Prefix) {
		if r.Kind != kindTasks+dht.Kind(record.RecordJob) {
			continue
		}
		id, _, ok := record.PartOf(string(r.Key))
		if j, err := record.DecodeJob(r.Value); err == nil && ok {
			if i := TaskJobInfo(id, j, wall); i.Code != nil {
				over = append(over, i)
			} else {
				live = append(live, i)
			}
		}
	}
	slices.SortFunc(over, func(a, b launcher.JobInfo) int { return cmp.Compare(a.Submit, b.Submit) })
	return append(over[max(0, len(over)-maxHomed):], live...)
}

// causeOf says why a finished job has not ended well.
func causeOf(j *record.Job, t record.Tally) (cause string) {
	switch {
	case j.Void == filch.Skipped && j.Reason != "":
		return "skipped: " + j.Reason
	case j.Void == filch.Skipped && len(j.After) > 0 && t.Skipped == j.Total:
		return "skipped: a job before this one did not end well: " + launcher.ListJobs(j.After)
	case t.Bad() > 0:
		cause = fmt.Sprintf("%d of %s", t.Bad(), countTasks(j.Total)) + launcher.BadEnds + t.BadText()
	default:
		cause = "cancelled before the end, and " + countTasks(t.OK) + " ended well"
	}
	if j.Partial {
		cause += "; the command that submitted the job ended before the last task was added"
	}
	why := j.Reason
	if j.Void != filch.Cancelled { // by single tasks alone, if no task ended badly
		if why = ""; j.State() == filch.Cancelled {
			why = j.LastReason()
		}
	}
	if why != "" && (t.Cancelled > 0 || t.Bad() == 0) {
		cause += "; " + launcher.CancelReason + why
	}
	return cause
}

func countTasks(n int32) string {
	if n == 1 {
		return "1 task"
	}
	return fmt.Sprintf("%d tasks", n)
}

// TaskJobInfo returns a job of tasks as shown by ps, info and wait. Wall is the time of
// day. The counts of running and ready tasks come from the nodes with the tasks; see
// Node.TasksHere.
func TaskJobInfo(id filch.JobID, j *record.Job, wall int64) launcher.JobInfo {
	t := j.Tally()
	i := launcher.JobInfo{
		ID: id, Name: j.Name, Kind: "bag", Origin: j.Leader.Node, State: j.State().String(), Attempt: 1,
		Nodes: []filch.NodeName{}, Detached: true, Submit: j.Ticket.UnixNS,
	}
	if j.Graph {
		i.Kind = "workflow"
	}
	i.Hop, i.Recorded = int32(j.Hop), true
	i.Tasks = launcher.TaskCounts{
		Total: j.Total, OK: t.OK, Failed: t.Failed, Killed: t.Killed, Lost: t.Lost, Skipped: t.Skipped, Cancelled: t.Cancelled,
	}
	i.Used = launcher.UsedOf(t.Usage)
	i.Tasks.Waiting = max(j.Total-t.Sum(), 0)
	if j.Finished() {
		code := int32(0)
		if j.State() != filch.OK {
			code, i.Cause = 1, causeOf(j, t)
		}
		i.Code = &code
		wall = j.Ended
	} else {
		i.Open = !j.Closed
		i.Held = j.By
		i.Void = voidOf(j)
		if t.Sum() == 0 || j.Singly() {
			i.Dep, i.Begin = j.Conditions.String(), j.Begin
		}
	}
	i.Waited, i.Elapsed = spans(j, t, wall)
	return i
}

// voidOf returns the tasks of a live bag that start no more; nil: none.
func voidOf(j *record.Job) *launcher.Void {
	if j.Graph {
		return nil
	}
	if j.Void != 0 {
		return &launcher.Void{State: j.Void.String(), Tasks: j.Total}
	}
	n := int32(0)
	for _, p := range j.Cancels {
		n += p.Count
	}
	if n == 0 {
		return nil
	}
	return &launcher.Void{State: filch.Cancelled.String(), Tasks: n}
}

// spans are the seconds from the submission of a job to the first start of a task, and from
// there to a unix time in ns. Without a known start a job with ended tasks began at once.
func spans(j *record.Job, t record.Tally, until int64) (waited, elapsed float64) {
	began := j.Began
	if began == 0 && t.Sum() == t.Skipped+t.Cancelled {
		began = until
	}
	until = max(until, j.Ticket.UnixNS)
	began = min(max(began, j.Ticket.UnixNS), until)
	return float64(began-j.Ticket.UnixNS) / 1e9, float64(until-began) / 1e9
}
