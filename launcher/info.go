package launcher

import (
	"fmt"

	"github.com/filch-hpc/filch"
)

// JobInfo is a snapshot of a job, as ps, info and wait show jobs.
type JobInfo struct {
	ID       filch.JobID      `json:"id"`
	Name     string           `json:"name"`
	Kind     string           `json:"kind"` // run or step
	Parent   filch.JobID      `json:"parent,omitempty"`
	Origin   filch.NodeName   `json:"origin"`
	State    string           `json:"state"`
	Code     *int32           `json:"exit_code"` // null until the end
	Attempt  filch.Attempt    `json:"attempt"`
	Ranks    int32            `json:"ranks"`
	Nodes    []filch.NodeName `json:"nodes"`
	Detached bool             `json:"detached"`
	Cause    string           `json:"cause,omitempty"` // a line on the end, or on the wait
	Submit   int64            `json:"submitted_unix_ns"`
	Waited   float64          `json:"waited"`  // seconds from the submission to the start
	Elapsed  float64          `json:"elapsed"` // seconds from the start to the end or now
	Bad      []RankInfo       `json:"bad,omitempty"`
	Earlier  []filch.NodeName `json:"earlier_nodes,omitempty"` // of attempts before this one
	Hop      int32            `json:"hop,omitempty"`           // takeovers by other nodes
	Spares   []filch.NodeName `json:"spare_nodes,omitempty"`   // held for the ranks of lost nodes
	Recorded bool             `json:"recorded,omitempty"`      // by record, not by origin
	Open     bool             `json:"open,omitempty"`          // of tasks: more may be added
	Tasks    TaskCounts       `json:"tasks"`                   // of a run: the ranks
	Task     *int32           `json:"task,omitempty"`          // of a step: the parent task
	Left     float64          `json:"left,omitempty"`          // seconds until the time limit ends the run; 0 unknown
	Inside   filch.JobID      `json:"inside,omitempty"`        // not a step: the job whose rank or task started this job
	Spawned  bool             `json:"spawned,omitempty"`       // with Inside, or of a step: MPI_Comm_spawn started this job
	Held     string           `json:"held_by,omitempty"`       // the person who holds the job: nothing new of the job starts
	// What the job waits for before it begins, as --dep and --begin say.
	Dep   string `json:"dep,omitempty"`
	Begin int64  `json:"begin_unix_ns,omitempty"`
	// Of a job of tasks that filch down ended: the tasks that had no end.
	Unfinished *int32 `json:"unfinished,omitempty"`
	Used              // by the ended ranks or tasks
	// Attempts before this one that lost a node.
	Lost []LostAttempt `json:"lost_attempts,omitempty"`
	// Of a bag: tasks without an end that no node has, beside ready tasks without those of
	// which a node tells the end. They end, or move, and count as ready or running, see
	// node/tasks.Sum.Settle.
	Ending int32 `json:"ending,omitempty"`
	// Of a live bag: the tasks that end without a start by an order; nil: none.
	Void *Void `json:"void,omitempty"`
	// Of a run without an end.
	Outlook *Outlook `json:"outlook,omitempty"`
	// Of a single run: the ends of its ranks, for [ReadRankRows]; Nodes has the nodes.
	Rows []byte `json:"rank_rows,omitempty"`
}

// Outlook is what the origin of a run knows about the room and the time that the run takes. Times
// are in seconds.
type Outlook struct {
	Each  int32   `json:"slots"`                // of a rank
	Limit float64 `json:"time_limit,omitempty"` // 0: none
	// The last good runs of the same kind and number of ranks: their number, mean time and
	// standard deviation.
	Runs      int     `json:"runs,omitempty"`
	Mean      float64 `json:"mean,omitempty"`
	Deviation float64 `json:"deviation,omitempty"`
}

// Void is tasks of a live bag that start no more: a person cancelled the tasks, or the rest of
// the bag is skipped. Tasks that ended before the order are among the tasks.
type Void struct {
	State string `json:"state"` // cancelled or skipped
	Tasks int32  `json:"tasks"`
}

// LostAttempt is an attempt of a detached run that ended because a node was lost, and the node.
type LostAttempt struct {
	Attempt filch.Attempt  `json:"attempt"`
	Node    filch.NodeName `json:"node"`
}

// Used is a [filch.Usage] as JSON; the fields are absent if nothing is known.
type Used struct {
	User   float64 `json:"cpu_user,omitempty"`   // seconds
	System float64 `json:"cpu_system,omitempty"` // seconds
	Peak   int64   `json:"memory_peak_bytes,omitempty"`
	AtMost bool    `json:"memory_at_most,omitempty"` // the peak is an upper bound
}

func UsedOf(u filch.Usage) Used {
	return Used{User: u.User.Seconds(), System: u.System.Seconds(), Peak: u.PeakBytes, AtMost: u.AtMost}
}

// BadEnds stands in the cause of the end of a job of tasks between the number of tasks that
// did not end well and their ends, up to a semicolon.
const BadEnds = " did not end well: "

// CancelReason stands in the cause of an end before the reason that a person gave for a
// cancel.
const CancelReason = "filch cancel: "

// DownCause is the cause of the end of a run that filch down ended, and begins the cause of a
// job of tasks.
const DownCause = "filch down"

// ByDown reports whether filch down ended the job.
func (i *JobInfo) ByDown() bool {
	return i.Unfinished != nil || i.State == filch.Cancelled.String() && i.Cause == CancelledBy+DownCause
}

// CancelledBy stands in the cause of the end of a cancelled run before the requester.
const CancelledBy = "cancelled by "

// GoesDown ends a job of tasks, as filch down ends the instance.
func (i *JobInfo) GoesDown() {
	k, code := &i.Tasks, int32(1)
	left := max(k.Total-k.OK-k.Failed-k.Killed-k.Lost-k.Skipped-k.Cancelled, 0)
	i.Code, i.State, i.Open, i.Held = &code, filch.Cancelled.String(), false, ""
	i.Cause, i.Unfinished = fmt.Sprintf("%s: %d of %d tasks had not ended", DownCause, left, k.Total), &left
	k.Cancelled, k.Waiting, k.Running = k.Cancelled+left, 0, 0
}

// TaskCounts counts the tasks of a job by state.
type TaskCounts struct {
	Total     int32 `json:"total"`
	Waiting   int32 `json:"waiting"`
	Ready     int32 `json:"ready"`
	Running   int32 `json:"running"`
	OK        int32 `json:"ok"`
	Failed    int32 `json:"failed"`
	Killed    int32 `json:"killed"`
	Lost      int32 `json:"lost"`
	Skipped   int32 `json:"skipped"`
	Cancelled int32 `json:"cancelled"`
}

// Add adds the counts of other tasks.
func (t *TaskCounts) Add(o *TaskCounts) {
	t.Total += o.Total
	for s := filch.Waiting; s <= filch.Cancelled; s++ {
		*t.Of(s) += *o.Of(s)
	}
}

// Of returns the counter of a state.
func (t *TaskCounts) Of(s filch.State) *int32 {
	return [...]*int32{&t.Waiting, &t.Ready, &t.Running, &t.OK, &t.Failed, &t.Killed, &t.Lost, &t.Skipped, &t.Cancelled}[s]
}

// Rest counts all tasks without an end as being in s.
func (t *TaskCounts) Rest(s filch.State) {
	t.Waiting, t.Ready, t.Running = 0, 0, 0
	*t.Of(s) += t.Total - t.OK - t.Failed - t.Killed - t.Lost - t.Skipped - t.Cancelled
}

// RankInfo describes a rank with a bad end.
type RankInfo struct {
	Rank filch.Rank     `json:"rank"`
	Node filch.NodeName `json:"node"`
	Code int32          `json:"exit_code"`
	Text string         `json:"text"`
}

// Explanation describes the state of a job and the reason.
type Explanation struct {
	Job    filch.JobID `json:"id"`
	State  string      `json:"state"`
	Text   string      `json:"text"`
	Need   int32       `json:"need"` // ranks
	Held   int32       `json:"held"` // ranks' room held so far
	Asked  int32       `json:"asked"`
	Fills  int32       `json:"fills,omitempty"`   // tasks that run in the held room
	By     string      `json:"held_by,omitempty"` // as [JobInfo.Held]
	Phase  string      `json:"phase"`             // local, half, insist, launch, run, end
	Places []Place     `json:"places,omitempty"`
	Stuck  bool        `json:"stuck,omitempty"` // at present no node starts any task

	Short    bool        `json:"short,omitempty"`    // the job lacks slots
	Deadlock bool        `json:"deadlock,omitempty"` // tasks or runs wait for each other
	Hint     string      `json:"hint,omitempty"`     // what the user can do
	Inside   filch.JobID `json:"inside,omitempty"`   // as in [JobInfo]
	Spawned  bool        `json:"spawned,omitempty"`  // as in [JobInfo]
	Task     *int32      `json:"task,omitempty"`     // the explanation is about this task of the job
	Name     string      `json:"name,omitempty"`     // of this task, in a workflow
	Behind   []int32     `json:"behind,omitempty"`   // tasks for which this task waits
	// Of a task that runs: the node, the nodes of a gang's ranks, and the seconds since the start
	// of the attempt.
	Node  filch.NodeName   `json:"node,omitempty"`
	Nodes []filch.NodeName `json:"nodes,omitempty"`
	Took  float64          `json:"elapsed,omitempty"`
	// Jobs with the slots that the job lacks, most slots first; at most MaxHolders.
	Holders []HolderInfo `json:"holders,omitempty"`
	// What a task takes of the resources of its node that have names, and the nodes that
	// have too little free of one; at most MaxPlaces.
	Takes filch.Amounts `json:"takes,omitempty"`
	Lacks []Lack        `json:"lacks,omitempty"`
}

// Lack is a node that has too little free of a resource for a task.
type Lack struct {
	Node     filch.NodeName `json:"node"`
	Resource string         `json:"resource"`
	Want     int64          `json:"want"`
	Free     int64          `json:"free"`
	Of       int64          `json:"of"`
	Holders  []LackHolder   `json:"holders,omitempty"`
}

// LackHolder is a job that has some of a resource.
type LackHolder struct {
	Job filch.JobID `json:"id"`
	Has int64       `json:"has"`
}

// MaxHolders bounds the jobs in an [Explanation].
const MaxHolders = 8

// HolderInfo is a job with slots that another job waits for.
type HolderInfo struct {
	Holder
	Name  string           `json:"name,omitempty"`
	Kind  string           `json:"kind,omitempty"`
	Nodes []filch.NodeName `json:"nodes"`
}

// Holder is a job with slots of a node, or of several nodes.
type Holder struct {
	Job     filch.JobID `json:"id"`
	Slots   int32       `json:"slots"`
	Tasks   int32       `json:"tasks,omitempty"`   // running; 0 of a run
	Gathers bool        `json:"gathers,omitempty"` // the job does not run yet: it gathers more slots
	Spare   int32       `json:"spare,omitempty"`   // slots kept for the ranks of nodes that may be lost
	// Seconds until time limits end all of these tasks, or the run; 0: no limit, or unknown.
	Left float64 `json:"left,omitempty"`
	// What the job has of resources with names.
	Named filch.Amounts `json:"resources,omitempty"`
}

// Add adds more slots of the same job.
func (h *Holder) Add(more *Holder) {
	h.Slots, h.Tasks, h.Gathers = h.Slots+more.Slots, h.Tasks+more.Tasks, h.Gathers || more.Gathers
	h.Spare += more.Spare
	h.Named = h.Named.Plus(more.Named)
	if h.Left > 0 && more.Left > 0 {
		h.Left = max(h.Left, more.Left)
	} else {
		h.Left = 0 // some have no limit
	}
}

// MaxPlaces bounds the nodes in an [Explanation].
const MaxPlaces = 16

// Place describes how much a waiting job holds and lacks on a node.
type Place struct {
	Node   filch.NodeName `json:"node"`
	Held   int32          `json:"held"` // ranks
	Want   int32          `json:"want"`
	Free   int32          `json:"free"` // slots
	Holder filch.JobID    `json:"holder,omitempty"`
	Holds  int32          `json:"holds,omitempty"` // slots
}

// SlotInfo is a snapshot of this node's ledger.
type SlotInfo struct {
	Node      filch.NodeName `json:"name"`
	Slots     int32          `json:"slots"`
	Free      int32          `json:"free"`
	Held      int32          `json:"held"`
	Lent      int32          `json:"lent,omitempty"` // of a hold, used by tasks until the holder can start; not in Held
	Locked    int32          `json:"locked"`         // behind the gate of a launch
	Running   int32          `json:"running"`        // ranks
	Tasks     int32          `json:"tasks"`          // not in Lent
	Stuck     int32          `json:"stuck"`          // out of service: processes cannot be killed
	MemBytes  int64          `json:"mem_bytes"`
	MemFree   int64          `json:"mem_free"`
	GPUs      []string       `json:"gpus"`
	GPUsFree  []string       `json:"gpus_free"`
	Labels    filch.Labels   `json:"labels,omitempty"`    // with commas
	Role      filch.Role     `json:"role,omitempty"`      // absent: all
	Named     filch.Amounts  `json:"resources,omitempty"` // NAME=N, with commas
	NamedFree filch.Amounts  `json:"resources_free,omitempty"`
	Waiting   int32          `json:"waiting"` // jobs on the wait list
	Jobs      int32          `json:"jobs"`    // attempts with ranks here
	Draining  bool           `json:"draining"`
	Drain     *Drain         `json:"drain,omitempty"` // null also near the allocation's end
}
