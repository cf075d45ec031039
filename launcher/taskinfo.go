package launcher

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Task is a task of a job, as described by the job's records.
type Task struct {
	Job   filch.JobID `json:"job"`
	Index int32       `json:"task"`
	State string      `json:"state"`
	// Why the task was cancelled.
	Reason string `json:"reason,omitempty"`
	// Null before the end, and for a task that never started.
	Code     *int32        `json:"exit_code"`
	Attempts filch.Attempt `json:"attempts"`
	// A start before these was not recorded, and may have happened.
	Maybe bool           `json:"maybe_one_more,omitempty"`
	Node  filch.NodeName `json:"node,omitempty"` // of a gang: its owner, which has the output
	// Of a gang: the nodes of its ranks, the node of rank 0 first, and the number of further
	// nodes of an ended gang that the record does not list.
	Nodes []filch.NodeName `json:"nodes,omitempty"`
	More  int32            `json:"nodes_more,omitempty"`
	Began int64            `json:"began_unix_us,omitempty"`
	// The same, in the unit of all other times.
	BeganNS int64   `json:"began_unix_ns,omitempty"`
	Took    float64 `json:"elapsed"`        // seconds, to the end or now
	Left    float64 `json:"left,omitempty"` // seconds until the time limit ends the task; 0 unknown
	// Of a task that failed: seconds until the next try (--retry-delay); 0: no try is delayed.
	Again float64 `json:"again,omitempty"`
	// Of a gang that starts again when all ranks of its last attempt are gone: the nodes that
	// may have such ranks.
	Ranks string `json:"waits_for_ranks,omitempty"`
	// Of a workflow's waiting task: tasks before it that have not ended.
	Behind []int32 `json:"behind,omitempty"`
	// Of a task without an end: nodes that did not answer, and may run the task.
	Silent []filch.NodeName `json:"silent,omitempty"`
	Bytes  int64            `json:"output_bytes"`
	// Of a running task that takes long: its copies on other nodes.
	Copies []TaskCopy `json:"copies,omitempty"`
	// Of an ended task: a copy ended first, on Node.
	ByCopy bool `json:"by_copy,omitempty"`
	// Of an ended task: the other starts of the attempt that ended.
	Rivals []TaskRival `json:"rivals,omitempty"`
	// Part of the output was longer than the node keeps, or found no space on the node's disk.
	Cut bool `json:"output_cut,omitempty"`
	// The stages so far, in order, where a single task is asked for.
	Times []TaskTime `json:"times,omitempty"`
	Used
}

// TaskCopy is a copy of a task that runs beside the task.
type TaskCopy struct {
	Node    filch.NodeName `json:"node"`
	BeganNS int64          `json:"began_unix_ns,omitempty"`
	Took    float64        `json:"elapsed"` // seconds so far
}

// TaskRival is a start of a task, or of a copy, that another start of the same attempt outdid.
type TaskRival struct {
	Node   filch.NodeName `json:"node"`
	Reason string         `json:"reason"`
}

// Reasons of rivals.
const (
	Outdone  = "stopped: another copy ended first"
	gaveUp   = "did not end well, which counts for nothing"
	sameFate = "stopped with the task"
)

// rivalsOf are the rivals of a task's end.
func rivalsOf(e *record.Task) (list []TaskRival) {
	for _, r := range e.Rivals {
		why := Outdone
		switch {
		case r.Over:
			why = gaveUp
		case e.State != filch.OK:
			why = sameFate
		}
		list = append(list, TaskRival{r.Node, why})
	}
	return list
}

// Ended is the end of the task, to the microsecond, by the clock of its node.
func (t *Task) Ended() time.Time {
	return time.UnixMicro(t.Began + int64(math.Round(t.Took*1e6)))
}

// Fill copies the end of a task, or the state before its end, from the task's record.
func (t *Task) Fill(e *record.Task) {
	t.State, t.Attempts, t.Maybe, t.Node = e.State.String(), e.Attempt, e.Maybe, e.By.Node
	switch {
	case (e.State == filch.Skipped || e.State == filch.Cancelled) && e.Began == 0: // before the start counted by Attempt
		t.Attempts, t.Node = max(e.Attempt-1, 0), ""
	case e.State.Final():
		code := e.Code
		t.Code = &code
	}
	t.BeganNS = e.Began * 1e3
	t.Began, t.Took, t.Bytes, t.Cut = e.Began, float64(e.TookUS)/1e6, e.Bytes, e.Cut
	t.ByCopy, t.Rivals = e.Copy, rivalsOf(e)
	t.Nodes, t.More = record.NodesOf(e.Nodes)
	if e.Usage != nil {
		t.Used = UsedOf(*e.Usage)
	}
}

// MaxRunning bounds the tasks in a [RunningTasks].
const MaxRunning = 1 << 14

// RunningTasks lists tasks of a job that run now, the longest first.
type RunningTasks struct {
	Tasks  []RunningTask    `json:"tasks"`
	More   int              `json:"more,omitempty"`   // left out, to stay within MaxRunning
	Silent []filch.NodeName `json:"silent,omitempty"` // nodes without an answer
	// Ended are tasks that ended a moment ago: their ends are being recorded. At most MaxRunning.
	Ended []Task `json:"ended,omitempty"`
}

// RunningTask is a running task.
type RunningTask struct {
	Index   int32            `json:"task"`
	Node    filch.NodeName   `json:"node"`
	Nodes   []filch.NodeName `json:"nodes,omitempty"` // as in [Task]
	Slots   filch.Slots      `json:"slots,omitzero"`  // of Node; none: a gang
	Attempt filch.Attempt    `json:"attempt"`
	Maybe   bool             `json:"maybe_one_more,omitempty"` // as in [Task]
	Copy    bool             `json:"copy,omitempty"`           // of a task that another node runs
	Took    float64          `json:"elapsed"`                  // seconds so far
	Memory  int64            `json:"memory_bytes,omitempty"`   // resident now, of all processes; 0: not known
	Serial  uint64           `json:"-"`                        // of the attempt, on its node
}

// Add adds tasks, and keeps the longest.
func (r *RunningTasks) Add(v *RunningTasks) {
	r.Tasks, r.More = append(r.Tasks, v.Tasks...), r.More+v.More
	r.Ended = append(r.Ended, v.Ended[:min(len(v.Ended), MaxRunning-len(r.Ended))]...)
	slices.SortFunc(r.Tasks, func(a, b RunningTask) int {
		return cmp.Or(cmp.Compare(b.Took, a.Took), cmp.Compare(a.Index, b.Index), cmp.Compare(a.Node, b.Node))
	})
	if extra := len(r.Tasks) - MaxRunning; extra > 0 {
		r.Tasks, r.More = r.Tasks[:MaxRunning], r.More+extra
	}
}

// TasksHere describes this node's tasks of a job.
type TasksHere struct {
	Waiting int64 `json:"waiting"`
	Ready   int64 `json:"ready"`
	Running int64 `json:"running"`
	// Tasks ended here that the job's record does not count yet, and the other counts no more.
	Ending bool `json:"ending,omitempty"`
	// The ends of tasks here that are not recorded, by their states; nil: none.
	Ended *TaskCounts `json:"ended,omitempty"`
	// The first start of a task of the job on this node, in unix nanoseconds; 0 none.
	Began int64 `json:"began_unix_ns,omitempty"`
	// Of the ready tasks: not started here, because they cannot finish in time.
	Late int64 `json:"late"`
	// The estimated time of a task, in seconds; 0 if unknown. If Limited, the estimate is
	// the job's own limit. Otherwise the estimate comes from Of tasks of the job ended
	// here, or, if Of is 0, from earlier tasks of the same kind.
	Expected float64 `json:"expected"`
	Limited  bool    `json:"limited"`
	Of       int     `json:"of"`
	// Of the ready tasks: they run once, and are not yet in the queue's mirror.
	Held int64  `json:"held,omitempty"`
	Why  string `json:"why,omitempty"` // why the mirror takes so long
	// Of the running tasks: they wait for runs which can get no slots other than theirs.
	Tied int64 `json:"tied,omitempty"`
	// Runs that wait for slots, and that the tasks of the job started with --new-job.
	Inner int64 `json:"inner,omitempty"`
	// At most this many run at a time on all nodes; 0: no bound.
	Cap int32 `json:"cap,omitempty"`
	// The slots of a task; of a gang, of all its ranks. 0: not known here.
	Each int32 `json:"-"`
	// Of the ready tasks: they failed, and wait for their next try (--retry-delay).
	Resting int64 `json:"resting,omitempty"`
	// The seconds until the first of these is tried again; 0: unknown. TryAt is the time on
	// the node's clock.
	Again float64       `json:"again,omitempty"`
	TryAt time.Duration `json:"-"`
	// Of the ready tasks: they are gangs that gather slots. Lacks says what one of them
	// lacks, and who has it.
	Gathers int64  `json:"gathers,omitempty"`
	Lacks   string `json:"lacks,omitempty"`
	// The slots that gangs of the running tasks have on all nodes.
	GangSlots int64 `json:"gang_slots,omitempty"`
	// Of the running tasks: they are over, but for ranks that may run on lost nodes or without
	// their owner. Of the ready tasks: their next attempt waits for such ranks. Ranks names
	// the nodes.
	Astray    int64  `json:"astray,omitempty"`
	Remaining int64  `json:"waiting_for_ranks,omitempty"`
	Ranks     string `json:"ranks,omitempty"`
	// How the tasks of a workflow are placed, and why, by the policy auto; "": not known here.
	Placed string `json:"placed,omitempty"`
	// Of the ready tasks: they have slots, and their start is being recorded.
	Opening int64 `json:"opening,omitempty"`
	// What a task takes of its node, where not every node suits; "": every node does.
	// Suited counts the live nodes that suit.
	Kind string `json:"kind,omitempty"`
	// A resource that all nodes share: what a task takes of it, and how much was free at
	// the last look of the node; no name: the tasks take none.
	License     string `json:"license,omitempty"`
	LicenseEach int32  `json:"license_each,omitempty"`
	LicenseFree int32  `json:"license_free,omitempty"`
	Suited      int    `json:"suited,omitempty"`
	// What a task takes of the resources of its node that have names.
	Named filch.Amounts `json:"named,omitempty"`
	// An older job whose tasks find no room on this node: younger tasks that are here wait
	// behind it, or for another node. 0: none.
	After filch.JobID `json:"after,omitempty"`
}

// MaxBehind bounds the tasks that a waiting [Task] names.
const MaxBehind = 16

// TaskNow is a node's knowledge of a task without a recorded end.
type TaskNow struct {
	Running bool             `json:"running,omitempty"`
	Copy    bool             `json:"copy,omitempty"`  // what runs is a copy: another node has the task
	Nodes   []filch.NodeName `json:"nodes,omitempty"` // of a running gang, as in [Task]
	Attempt filch.Attempt    `json:"attempt,omitempty"`
	BeganNS int64            `json:"began_unix_ns,omitempty"`
	Took    float64          `json:"elapsed,omitempty"`
	Left    float64          `json:"left,omitempty"`
	Again   float64          `json:"again,omitempty"`
	Ranks   string           `json:"ranks,omitempty"`  // nodes with ranks of an earlier attempt
	Queued  bool             `json:"queued,omitempty"` // the node has ready or running tasks of the job
	Leads   bool             `json:"leads,omitempty"`  // the node leads the task's workflow
	Behind  []int32          `json:"behind,omitempty"` // at most MaxBehind
	Times   []TaskTime       `json:"times,omitempty"`  // on this node
	Serial  uint64           `json:"-"`                // of a running attempt, on this node
}

// Live counts the tasks of a job on one node that have no recorded end.
type Live struct {
	Job     filch.JobID `json:"id"`
	Ready   int64       `json:"ready"`
	Running int64       `json:"running"`
	Ending  bool        `json:"ending,omitempty"`        // as in [TasksHere]
	Ended   *TaskCounts `json:"ended,omitempty"`         // the same
	Began   int64       `json:"began_unix_ns,omitempty"` // the same
}
