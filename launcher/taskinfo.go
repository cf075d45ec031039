package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc"
)

// TaskJob is a job of tasks as its record tells it.
type TaskJob struct {
	Record  *mtc.Job
	Version dht.Version
}

// FindTasks reads the record of a job of tasks for a query; then is called with
// nil and why not, when there is none to be had.
func (n *Node) FindTasks(now time.Duration, id filch.JobID, wait time.Duration, then func(*TaskJob, *filch.Error), out *Outbox) {
	n.StoreDo(now, lookups(dht.Key(mtc.KeyJob(id))), wait, func(rs []dht.Result) {
		preferConsistent(rs)
		switch rs[0].Outcome {
		case dht.Done:
			j, err := mtc.DecodeJob(rs[0].Value)
			if err != nil {
				then(nil, filch.Errorf(filch.Internal, "the record of job %d makes no sense: %s", id, err.Error()))
				return
			}
			then(&TaskJob{j, rs[0].Version}, nil)
		case dht.Absent:
			then(nil, filch.Errorf(filch.NotFound, "there is no job %d", id))
		default:
			then(nil, filch.Errorf(filch.Unavailable, "cannot read the record of job %d: %s", id, rs[0].Outcome).
				WithHint("%s; filch doctor says more", n.storeTrouble()))
		}
	}, out)
}

// WatchTasks calls then each time that the record of a job of tasks changed,
// until the function that it returns is called, on the same loop.
func (n *Node) WatchTasks(now time.Duration, id filch.JobID, from dht.Version, then func(), out *Outbox) (stop func(now time.Duration, out *Outbox)) {
	tag := n.watch(now, dht.Key(mtc.KeyJob(id)), from, func(time.Duration, dht.Result, *Outbox) { then() })
	n.settle(now, out)
	return func(now time.Duration, out *Outbox) {
		n.unwatch(now, tag)
		n.settle(now, out)
	}
}

// Task is one task of a job, as its records tell it.
type Task struct {
	Job      filch.JobID    `json:"job"`
	Index    int32          `json:"task"`
	State    string         `json:"state"`
	Code     *int32         `json:"exit_code"` // null until it ended, and if it never started
	Attempts filch.Attempt  `json:"attempts"`
	Maybe    bool           `json:"maybe_one_more,omitempty"` // a start before these was not recorded, and may have happened
	Node     filch.NodeName `json:"node,omitempty"`
	Began    int64          `json:"began_unix_us,omitempty"`
	Took     float64        `json:"elapsed"` // seconds
	Bytes    int64          `json:"output_bytes"`
	Cut      bool           `json:"output_cut,omitempty"` // some of it found no room on the node's disk
}

// FindTask reads the records of one task.
func (n *Node) FindTask(now time.Duration, id filch.JobID, index int32, wait time.Duration, then func(*Task, *filch.Error), out *Outbox) {
	if index < 0 {
		then(nil, filch.Errorf(filch.NotFound, "there is no task %d.%d", id, index))
		return
	}
	ops := []dht.Op{
		{Code: dht.OpLookup, Key: dht.Key(mtc.KeyJob(id)), Consistent: true},
		{Code: dht.OpLookup, Key: dht.Key(mtc.KeyBlock(id, index/mtc.BlockSize)), Consistent: true},
		{Code: dht.OpLookup, Key: dht.Key(mtc.KeyZone(id, index/mtc.ZoneSize)), Consistent: true},
	}
	n.StoreDo(now, ops, wait, func(rs []dht.Result) {
		j, err := mtc.DecodeJob(rs[0].Value)
		switch {
		case rs[0].Outcome == dht.Absent || rs[0].Outcome == dht.Done && err == nil && index >= j.Total:
			then(nil, filch.Errorf(filch.NotFound, "there is no task %d.%d", id, index))
			return
		case rs[0].Outcome != dht.Done || err != nil || !readable(rs[1:]):
			then(nil, filch.Errorf(filch.Unavailable, "cannot read the records of task %d.%d: %s, %s, %s", id, index, rs[0].Outcome, rs[1].Outcome, rs[2].Outcome))
			return
		}
		t := &Task{Job: id, Index: index, State: filch.Waiting.String()}
		found, err := t.read(rs[1:])
		switch {
		case err != nil:
			then(nil, filch.Errorf(filch.Internal, "the record of task %d.%d makes no sense: %s", id, index, err.Error()))
		case !found && j.Finished():
			then(nil, filch.Errorf(filch.NotFound, "the record of task %d.%d was dropped: job %d ended long ago, and the nodes keep only so much", id, index, id))
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

// read takes over what the block and the zone of a task say of it, if they do.
func (t *Task) read(rs []dht.Result) (found bool, err error) {
	if rs[0].Outcome == dht.Done {
		b, err := mtc.DecodeBlock(rs[0].Value)
		if err != nil || t.fill(b, uint8(t.Index%mtc.BlockSize)) {
			return err == nil, err
		}
	}
	if rs[1].Outcome != dht.Done {
		return false, nil
	}
	z, err := mtc.DecodeZone(rs[1].Value)
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

// fill takes over what a block says of a task, if it does.
func (t *Task) fill(b *mtc.Block, off uint8) bool {
	e := b.Find(off)
	if e == nil {
		return false
	}
	t.State, t.Attempts, t.Maybe, t.Node = e.State.String(), e.Attempt, e.Maybe, e.By.Node
	if e.State.Final() {
		code := e.Code
		t.Code = &code
	}
	t.Began, t.Took, t.Bytes = e.Began, float64(e.TookUS)/1e6, e.Bytes
	t.Cut = e.Cut
	return true
}

// HomedTasks lists the jobs of tasks whose records are homed here: those that
// have not ended, and the newest that have.
func (n *Node) HomedTasks(wall int64) []JobInfo {
	var live, over []JobInfo
	for r := range n.meta.store.Homed(mtc.Prefix) {
		if r.Kind != kindTasks+dht.Kind(mtc.RecordJob) {
			continue
		}
		id, _, ok := mtc.PartOf(string(r.Key))
		if j, err := mtc.DecodeJob(r.Value); err == nil && ok {
			if i := TaskJobInfo(id, j, wall); i.Code != nil {
				over = append(over, i)
			} else {
				live = append(live, i)
			}
		}
	}
	slices.SortFunc(over, func(a, b JobInfo) int { return cmp.Compare(a.Submit, b.Submit) })
	return append(over[max(0, len(over)-MaxHomed):], live...)
}

// TaskJobInfo is a job of tasks as ps, info and wait show it. Wall is the time
// of day. What runs and is ready, its nodes know; see [Node.TasksHere].
func TaskJobInfo(id filch.JobID, j *mtc.Job, wall int64) JobInfo {
	t := j.Tally()
	i := JobInfo{
		ID: id, Name: j.Name, Kind: "bag", Origin: j.Steward.Node, State: j.State().String(), Attempt: 1,
		Nodes: []filch.NodeName{}, Detached: true, Submit: j.Ticket.UnixNS,
	}
	if j.Graph {
		i.Kind = "workflow"
	}
	i.Hop, i.Recorded = int32(j.Hop), true
	i.Tasks = TaskCounts{
		Total: j.Total, OK: t.OK, Failed: t.Failed, Killed: t.Killed, Lost: t.Lost, Skipped: t.Skipped, Cancelled: t.Cancelled,
	}
	i.Tasks.Waiting = max(j.Total-t.Sum(), 0)
	if j.Finished() {
		code := int32(0)
		if t.Bad() > 0 {
			code = 1
			i.Cause = "of its tasks " + t.BadText()
			if j.Void == filch.Skipped && len(j.After) > 0 && t.Skipped == j.Total {
				i.Cause = "skipped: what it waits for did not end well: " + jobList(j.After)
			}
		}
		i.Code = &code
		if j.Ended > 0 {
			i.Elapsed = float64(max(j.Ended-j.Ticket.UnixNS, 0)) / 1e9
		}
	} else {
		i.Open = !j.Closed
		i.Elapsed = float64(max(wall-j.Ticket.UnixNS, 0)) / 1e9
	}
	return i
}

// jobList names jobs: "job 3", "jobs 3, 4 and 2 more".
func jobList(ids []filch.JobID) string {
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

// TasksHere is what this node has of a job of tasks.
type TasksHere struct {
	Waiting int64 `json:"waiting"`
	Ready   int64 `json:"ready"`
	Running int64 `json:"running"`
	Late    int64 `json:"late"` // of the ready ones: they are not started here, as they cannot finish
	// How long a task is taken to take, in seconds; 0 if nobody knows. Limited: it
	// is the job's own limit; else Of tasks of it that ended here say so, or, with
	// 0, earlier ones of its kind.
	Expected float64 `json:"expected"`
	Limited  bool    `json:"limited"`
	Of       int     `json:"of"`
	Held     int64   `json:"held,omitempty"`    // of the ready ones: they run once, and the queue's mirror does not tell of them yet
	Why      string  `json:"why,omitempty"`     // that takes so long
	Tied     int64   `json:"tied,omitempty"`    // of the running ones: they wait for runs that have no slots to get but theirs
	Cap      int32   `json:"cap,omitempty"`     // at most so many run at a time on all nodes; 0: no bound
	Opening  int64   `json:"opening,omitempty"` // of the ready ones: they have slots, and their start is being recorded
}

// TasksHere counts them.
func (n *Node) TasksHere(id filch.JobID) TasksHere {
	j, ok := n.work.core.Job(id)
	if !ok {
		return TasksHere{}
	}
	h := TasksHere{
		Waiting: j.Here.Waiting, Ready: j.Here.Dedicated + j.Here.Shared, Running: j.Here.Running,
		Expected: j.Pace.Expected.Seconds(), Of: j.Pace.Of, Limited: j.Spec != nil && j.Spec.Limit > 0,
	}
	if j.Spec != nil {
		h.Cap = j.Spec.Cap
	}
	for _, o := range n.jobs { // in any order: a sum
		if o.req.Inside.Job == id && o.req.Inside.Task != 0 && n.knot.stuck[o.id] {
			h.Tied++
		}
	}
	if h.Late = j.Pace.Aside; j.Pace.Late {
		h.Late = h.Ready
	}
	for i := range n.work.late { // a run took the slots that they were to start on
		if n.work.late[i].Job == id {
			h.Running--
			h.Ready++
		}
	}
	h.Opening = j.Opening
	h.Running -= h.Opening
	h.Ready += h.Opening
	return h
}
