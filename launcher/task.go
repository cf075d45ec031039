package launcher

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
)

// TaskIndex numbers a task within its job, from 0: JOB.N is the task with index N. A task
// that runs again in another job keeps the index of the first job.
type TaskIndex int32

// TaskID names a task. The zero value is no task.
type TaskID struct {
	Job   filch.JobID
	Index TaskIndex
}

func (id TaskID) String() string { return fmt.Sprintf("%d.%d", id.Job, id.Index) }

// TaskOrder is the common description of a job's tasks. A runner receives it once, before
// the job's first task, and forgets it on a TaskForget.
type TaskOrder struct {
	Ident   filch.Ident // of the job
	Name    string
	Argv    []string // of tasks without their own Argv
	Env     []string
	Cwd     string
	Umask   uint32
	Rlimits []Rlimit
	Stdin   string // file, by srun's patterns; "" and NoFile read as empty
	// File, by srun's patterns; "" is kept by the node, NoFile is not kept.
	Stdout   string
	Stderr   string // the same; "-" goes where Stdout goes
	Append   bool   // to those files
	Keep     Keep   // which output to keep of tasks without a file
	KillWait time.Duration
	// Argv is a program handling task after task; see proc
	Worker bool
	Graph  *TaskGraph // nil: of a bag
	// Fill says that Argv, Stdin, Stdout, Stderr and FillCwd hold replacement strings for
	// the line of a task, or for the number of a task without a line.
	Fill    bool
	FillCwd string // the folder relative to Cwd; "" is Cwd
}

// TaskGraph is the common description of a workflow's tasks, besides their order. Unless
// InPlace says that all nodes have the folder, each task runs in its own folder: the node
// copies the task's inputs there, and takes its outputs from there.
type TaskGraph struct {
	Origin  filch.NodeName // the node has Folder
	Folder  string         // of the files not written by any task
	InPlace bool           // tasks run in Folder
	// Jobs whose files this job reads: this job does the tasks that failed there.
	Earlier []filch.JobID
}

// OrderExtra is the part of a job's common description that few jobs have.
type OrderExtra struct {
	// Of a workflow: the file, as an absolute path on the node of TaskGraph.Origin, and the
	// SHA-256 of its text.
	File string `json:"file,omitempty"`
	Sum  []byte `json:"sum,omitempty"`
	// The folder on the same node that gets the results; "": TaskGraph.Folder.
	Results string `json:"results,omitempty"`

	Hooks

	Slurm *TaskSlurm `json:"slurm,omitempty"` // tasks have SLURM_*; nil: they have not

	Before *TasksBefore `json:"before,omitempty"`
	Stage  *Stage       `json:"stage,omitempty"` // files of a bag's tasks; nil none

	Gang *GangOrder `json:"gang,omitempty"` // nil: each task is one process
	Warn *TaskWarn  `json:"warn,omitempty"` // nil: no signal
	Copy *Copy      `json:"copy,omitempty"` // the program of the gangs, copied to their nodes; nil: not copied
}

// TaskWarn is a signal for a task with a time limit, so long before the limit.
type TaskWarn struct {
	Signal int32         `json:"signal"`
	Before time.Duration `json:"before"`
	First  bool          `json:"first,omitempty"` // only for the first process of the task
}

// TasksBefore counts the tasks of a workflow that were done in an earlier job and the jobs
// before; this job does the rest.
type TasksBefore struct {
	Job     filch.JobID `json:"id"`
	Done    int32       `json:"done"`
	Total   int32       `json:"total"`
	Earlier bool        `json:"earlier,omitempty"` // some may have been done before Job
}

func (b *TasksBefore) String() string {
	text := fmt.Sprintf("%d of %d tasks were done in job %d", b.Done, b.Total, b.Job)
	if b.Earlier {
		text += " and the jobs before"
	}
	return text
}

// TaskSlurm is the array of tasks with SLURM_*, as the submitter gave the array. With Count
// 0 the tasks are no array.
type TaskSlurm struct{ Count, Min, Max, Step int64 }

// Stage names the files that nodes copy for each task of a bag. Each task then runs in a
// folder of its own. File, Name and Out may hold replacement strings; the payload of a
// task whose values the client knows has the files themselves.
type Stage struct {
	Origin filch.NodeName `json:"origin"` // the node has the input files
	Folder string         `json:"folder"` // of relative names
	In     []StageIn      `json:"in,omitempty"`
	Out    []string       `json:"out,omitempty"` // patterns of files in the task's folder
}

// StageIn is an input: a file of the user, and its name in the task's folder, "" the same
// name without the path.
type StageIn struct {
	File string `json:"file"`
	Name string `json:"name,omitempty"`
}

// NoFile as the name of a file means no file: output goes to /dev/null.
const NoFile = "none"

// Streams are files replacing the order's, relative to the task's folder. For a task of a
// workflow they are names, for other tasks srun's patterns.
type Streams struct{ Stdin, Stdout, Stderr string }

// Keep says which output a node keeps of tasks writing to no file.
type Keep uint8

// The ways to keep output.
const (
	KeepAll    Keep = iota
	KeepFailed      // of tasks that did not end with 0
	KeepNone        // output goes to /dev/null
)

// TaskStart makes a runner start an attempt of a task. Serial is the launcher's name for
// the attempt, never used again.
type TaskStart struct {
	Serial  uint64
	Job     filch.JobID
	Index   TaskIndex
	Number  int32 // the submitter's number of the task: FILCH_TASK, %t
	Attempt filch.Attempt
	Nth     int32    // as in [mtc.Start]: the node stores the task's output under Nth
	Argv    []string // nil: the order's
	Env     []string // on top of the order's
	Cwd     string   // "": the order's
	Line    string   // on stdin, if there is no file for stdin; for a worker, the task
	CPUs    []int32  // to be bound to; none: nothing is bound
	GPUs    []string
	Memory  int64         // bytes, 0 no limit
	Limit   time.Duration // from its start to TERM, 0 none
	Streams *Streams      // nil: the order's
	Tmp     string        // a folder to make, as the task's TMPDIR; "" none
	Warn    TaskWarn      // the zero value: no signal
	After   uint64        // the task with this serial, if it runs, ends first
}

// TaskEnd is the end of an attempt of a task, or the reason why the attempt could not
// start. Each TaskStart has exactly one TaskEnd, unless its runner died.
type TaskEnd struct {
	Serial uint64
	Kind   CauseKind
	Code   int32 // exit code, or the signal's number
	Told   bool  // a TaskStop came before the end
	Left   bool  // the task could not be killed: its slots stay out of service
	Began  int64 // wall clock, nanoseconds; 0 never began
	Ended  int64
	Usage  filch.Usage
	Bytes  int64         // of output kept by the node
	Moved  int64         // bytes of input that came from other nodes
	Moving time.Duration // how long they took
	In     time.Duration // from the start of the attempt, until its inputs were there
	Out    time.Duration // since the process ended, until the outputs were taken
	Cut    bool          // part of the output was longer than the node keeps, or found no space on the node's disk
	Text   string
	Final  bool // not to be started again, regardless of the job's retries
	Full   bool // Text names a disk without space

	// Of a gang: the id of its run, 0 if the run never began; and the nodes of its ranks,
	// the node of rank 0 first, if the ranks were launched.
	Run   filch.JobID
	Nodes []filch.NodeName
	// Of a gang that ended well: nodes that were lost after their ranks had ended, and before the
	// owner had all output, and nodes that gave up sending output.
	Silent []filch.NodeName
}

// TaskStop ends a task: CONT, Signal, and after Grace KILL until nothing is left. A
// second TaskStop can only shorten the grace.
type TaskStop struct {
	Serial uint64
	Signal int32
	Grace  time.Duration
	Unrun  bool // only if the task waits for the end of another
}

// TaskForget says that no more tasks of a job will come.
type TaskForget struct{ Job filch.JobID }

// TaskSpan is the tasks of a job with an index from First to Last.
type TaskSpan struct {
	Job         filch.JobID
	First, Last TaskIndex
}

// Has reports whether a task is in the span.
func (s TaskSpan) Has(job filch.JobID, i TaskIndex) bool {
	return s.Job == job && s.First <= i && i <= s.Last
}

// StreamMark is a place in a stream of an attempt of a task.
type StreamMark struct {
	Index  TaskIndex
	Nth    int32 // as in [TaskStart]
	Stream uint8 // 1 stdout, 2 stderr
	At     int64 // bytes from the beginning of the stream
}

// TaskLook asks a runner for the output of its running tasks beyond the marks. The runner
// first writes the output of ended tasks to the segments, and then answers with a
// [TaskSeen]. If Watch is set and there is no new output, the runner later sends the
// span once, when a task of the span prints, or ends with output.
type TaskLook struct {
	Token uint64
	Span  TaskSpan
	Marks []StreamMark // of the other streams: 0
	Limit int32        // on the bytes of all pieces
	Lines bool         // pieces are whole lines, as far as the limit allows
	Ended bool         // only ended tasks are wanted: no pieces
	Watch bool
}

// TaskSeen answers a [TaskLook]. Of Marks, Running has the marks of tasks that are running
// still.
type TaskSeen struct {
	Token   uint64
	Running []StreamMark
	Pieces  []TaskPiece
	More    bool // the limit was reached
}

// TaskPiece is a piece of the output of a running task.
type TaskPiece struct {
	Mark StreamMark // the place after Data
	Lost int64      // bytes before Data that were dropped
	Rank int32      // of a gang's rank, from 1; 0: the task is one process
	Data []byte
}

// TaskLaunch is a task to be started by the node, with its room. The daemon makes a
// [TaskStart] from the TaskLaunch, the job's body and the task's payload; if the task is a
// gang, a [Request] for Node.Tasks.Gangs.Start.
type TaskLaunch struct {
	Serial     uint64
	Start      mtc.Start
	After      uint64            // begins at the end of the task with this serial; 0: at once
	Processors []filch.Processor // none: nothing is bound
	GPUs       []string
}

// Try is the number of the start as the programs of the task see the number. Of a gang, starts
// count that are in no record and may have happened: ranks leave more behind than one process,
// and tell by the number that the gang may have begun before. Most tasks of one process that a
// dead node may have started were not.
func (l *TaskLaunch) Try() filch.Attempt {
	if l.Start.Gang().Ranks > 0 && !mutantSameTry {
		return filch.Attempt(l.Start.Nth)
	}
	return l.Start.Attempt
}

// TaskItem is the payload of a task with more than a line: the task's own fields, in
// place of the order's.
type TaskItem struct {
	Argv  []string
	Env   []string
	Cwd   string
	Line  string // on stdin, or to a worker
	Limit time.Duration

	// For a workflow's task.
	Own bool // Argv are arguments of filch itself
	// For a workflow's task, the number of retries. For a task of a bag, the number of
	// attempts, or 0 for the retries of the job.
	Retries int32
	Streams *Streams
	Inputs  []TaskFile
	Outputs []TaskFile // of a bag's task: patterns

	// Of a task that is a gang and not as the job says: in place of OrderExtra.Gang.
	Gang *GangOrder
	// Of a workflow's gang: each output is on one of the nodes of the ranks, else all are
	// on the node of rank 0.
	AllNodes bool
}

// TaskFile is a file read or written by a task.
type TaskFile struct {
	Path   string
	As     string // the name in the task's folder; "" is Path
	Writer int32  // index of the writing task, -1 none
	Size   int64  // as stated by the workflow, -1 not stated

	// For a file written by a task of an earlier job: this job, and the node with the
	// file. In a [GangFiles], Node is the node with the file of any task.
	Job  filch.JobID
	Node filch.NodeName
}

// The first byte of a payload.
const (
	PayloadLine    byte = iota // the line itself follows
	PayloadItem                // an encoded TaskItem follows
	PayloadBuiltin             // a built-in body follows, in place of the job's
	// As PayloadItem, with {%} in the command: replaced by the task's slot number on its
	// node.
	PayloadSlot
	PayloadNumber // four bytes of the task's number follow, then another payload or none
	// The task's limit in nanoseconds follows, as a varint, then another payload. A limit
	// comes first, then PayloadRuled, PayloadNeed, PayloadMarked and PayloadNumber.
	PayloadTimed
	// The mark of a workflow's task follows, 16 bytes, then another payload.
	PayloadMarked
	// The length of a [record.Retry] follows, as a varint, the Retry, and another payload.
	PayloadRuled
	// A [record.Long] follows: the encoded TaskItem of a workflow's task is in chunks.
	PayloadLong
	PayloadNeed // the number of a [record.Need] follows, as a varint, then another payload
)

// TaskNews reports the state of a job of tasks to a client.
type TaskNews struct {
	Job   filch.JobID
	What  TaskNewsKind
	Total int32
	Tally record.Tally
	State filch.State
	Token int32 // TasksAdded: the token of the addition
	Base  int32 // TasksAdded: the index of the first added task. TasksRefused: 1 + the number of the need that no node meets; 0: another reason
	Err   *filch.Error
}

// TaskNewsKind is a kind of [TaskNews].
type TaskNewsKind uint8

// The kinds of news.
const (
	TasksAccepted TaskNewsKind = iota // every record of the submission is kept
	TasksRefused
	TasksAdded
	TasksProgress
	TasksFinished
)

func (TaskNews) isEvent() {}

// The first byte of a job's body; see [record.Spec].
const (
	BodyOrder byte = iota // an encoded TaskOrder follows, read by the daemon
	BodyNoop              // built in: does nothing
	BodySleep             // built in: eight bytes of nanoseconds follow
	// The length of an encoded [OrderExtra] follows, as a varint, the OrderExtra, and an
	// encoded TaskOrder.
	BodyExtra
)

// TaskGrace is how long a cancelled task has between TERM and KILL.
const TaskGrace = 10 * time.Second

// Resumption is the result for a job to be resumed.
type Resumption struct {
	Job filch.JobID
	Err *filch.Error // nil: the whole job is recorded and resumed
}
