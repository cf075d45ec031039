package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
)

// TaskIndex numbers a task within its job, from 0: JOB.N is the task with
// index N.
type TaskIndex int32

// TaskOrder is what the tasks of a job have in common. A runner is told once,
// before the first of them, and forgets it on a TaskForget.
type TaskOrder struct {
	Ident    filch.Ident // of the job
	Name     string
	Argv     []string // of tasks that bring none of their own
	Env      []string
	Cwd      string
	Umask    uint32
	Rlimits  []Rlimit
	Stdin    string // file, by srun's patterns; "" and NoFile read as empty
	Stdout   string // file, by srun's patterns; "" is kept by the node, NoFile by nobody
	Stderr   string // the same; "-" goes where Stdout goes
	Append   bool   // to those files
	Keep     Keep   // of what has no file
	KillWait time.Duration
	Worker   bool       // Argv is a program that does task after task; see proc
	Graph    *TaskGraph // nil: of a bag
}

// TaskGraph is what the tasks of a workflow have in common, beside their order.
// Unless InPlace says that all nodes have the folder, each task runs in one of
// its own: its inputs are brought there, its outputs are taken from there.
type TaskGraph struct {
	Origin  filch.NodeName // has Folder
	Folder  string         // where the files are that no task writes
	InPlace bool           // tasks run in Folder
	Earlier []filch.JobID  // whose files this one reads: it does what they failed to do
}

// NoFile, as the name of a file, is none: what is written goes to /dev/null.
const NoFile = "none"

// Streams are files in place of the order's, relative to the task's folder. Of
// a task of a workflow they are names, of others srun's patterns.
type Streams struct{ Stdin, Stdout, Stderr string }

// Keep says which output a node keeps of tasks that write to no file.
type Keep uint8

// The ways to keep output.
const (
	KeepAll    Keep = iota
	KeepFailed      // of tasks that did not end with 0
	KeepNone        // it goes to /dev/null
)

// TaskStart makes a runner start one attempt of a task. Serial is the
// launcher's name for it, never used again.
type TaskStart struct {
	Serial  uint64
	Job     filch.JobID
	Index   TaskIndex
	Number  int32 // what its submitter calls it: FILCH_TASK, %t
	Attempt filch.Attempt
	Nth     int32    // as [mtc.Start] has it: what it prints goes by that
	Argv    []string // nil: the order's
	Env     []string // on top of the order's
	Cwd     string   // "": the order's
	Line    string   // on stdin, where there is no file for it; to a worker, the task
	Cores   []int32  // to be bound to; none: nothing is bound
	GPUs    []string
	Memory  int64         // bytes, 0 no limit
	Limit   time.Duration // from its start to TERM, 0 none
	Streams *Streams      // nil: the order's
}

// TaskEnd is how one attempt of a task ended, or why it could not start. Each
// TaskStart has exactly one, unless its runner died.
type TaskEnd struct {
	Serial uint64
	Kind   CauseKind
	Code   int32 // exit code, or the signal's number
	Told   bool  // a TaskStop came before the end
	Left   bool  // it could not be killed: its slots stay out of service
	Began  int64 // wall clock, nanoseconds; 0 it never began
	Ended  int64
	CPU    time.Duration
	RSSMax int64 // bytes
	Bytes  int64 // of output that the node keeps
	Cut    bool  // of its output some found no room on the node's disk
	Text   string
	Final  bool // it is not to be started again, whatever the job says
}

// TaskStop ends a task: CONT, Signal, and after Grace KILL until nothing is
// left. A second one can only shorten the grace.
type TaskStop struct {
	Serial uint64
	Signal int32
	Grace  time.Duration
}

// TaskForget says that no task of a job will come any more.
type TaskForget struct{ Job filch.JobID }

// TaskLaunch is a task that the node is to start, with the room that it was
// given: the daemon makes a [TaskStart] of it, from the job's body and the
// task's payload.
type TaskLaunch struct {
	Serial uint64
	Start  mtc.Start
	Cores  []int32
	GPUs   []string
}

// TaskItem is the payload of a task that is more than a line: what it has of
// its own, in place of the order's.
type TaskItem struct {
	Argv  []string
	Env   []string
	Cwd   string
	Line  string // on stdin, or to a worker
	Limit time.Duration

	// Of a workflow's task.
	Own     bool // Argv are arguments of filch itself
	Retries int32
	Streams *Streams
	Inputs  []TaskFile
	Outputs []TaskFile
}

// TaskFile is a file that a task of a workflow reads or writes.
type TaskFile struct {
	Path   string
	Writer int32 // index of the task that writes it, -1 none
	Size   int64 // as the workflow states it, -1 it does not

	// Of a file that a task of an earlier job wrote: that job, and who has it.
	Job  filch.JobID
	Node filch.NodeName
}

// What a payload begins with.
const (
	PayloadLine    byte = iota // the line itself follows
	PayloadItem                // an encoded TaskItem follows
	PayloadBuiltin             // a body follows, in place of the job's: one that is built in
	PayloadSlot                // the same, with {%} in its command: the number that it gets on its node
	PayloadNumber              // four bytes of the task's number follow, and another payload or none
	PayloadTimed               // its limit in nanoseconds follows, as a varint, and another payload
)

// TaskNews tells a client of a job of tasks.
type TaskNews struct {
	Job   filch.JobID
	What  TaskNewsKind
	Total int32
	Tally mtc.Tally
	State filch.State
	Token int32 // TasksAdded: whose addition
	Base  int32 // TasksAdded: the index of the first of them
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

// tellTasks tells the clients of a job what the core says of it.
func (n *Node) tellTasks(now time.Duration, t *mtc.Tell, out *Outbox) {
	news := TaskNews{
		Job: t.Job, Total: t.Total, Tally: t.Tally, State: t.State,
		Token: t.Token, Base: t.Base, Err: t.Error,
	}
	if n.resumed(now, t, out) {
		return
	}
	if t.Token != 0 {
		n.tellAdded(t, news, out)
		return
	}
	switch t.What {
	case mtc.TellAccepted:
		news.What = TasksAccepted
		u := n.work.unsaid[t.Job]
		if u.follow && len(n.work.follow[t.Job]) > 0 {
			n.tasks(now).Follow(now, t.Job, &n.work.out)
		}
		n.work.waitsFor(t.Job, unsaid{adding: u.adding})
		if n.work.partial[t.Job].gone {
			delete(n.work.partial, t.Job)
			n.cancelPartial(now, t.Job)
		}
	case mtc.TellRefused:
		news.What = TasksRefused
		delete(n.work.unsaid, t.Job)
	case mtc.TellProgress:
		news.What = TasksProgress
	case mtc.TellFinished:
		news.What = TasksFinished
		delete(n.work.unsaid, t.Job)
		delete(n.work.partial, t.Job)
	}
	for _, c := range n.work.follow[t.Job] {
		out.Replies = append(out.Replies, Reply{c, news})
	}
	if news.What == TasksFinished {
		out.TaskForgets = append(out.TaskForgets, t.Job)
		delete(n.work.follow, t.Job)
	}
}

// tellAdded tells who asked for an addition what came of it, and nobody else: a
// refusal ends what its client does.
func (n *Node) tellAdded(t *mtc.Tell, news TaskNews, out *Outbox) {
	if news.What = TasksAdded; t.What == mtc.TellRefused {
		news.What = TasksRefused
	}
	u := n.work.unsaid[t.Job]
	i := slices.IndexFunc(u.adding, func(a adding) bool { return a.token == t.Token })
	if i < 0 {
		return // who is gone
	}
	out.Replies = append(out.Replies, Reply{u.adding[i].client, news})
	u.adding = slices.Delete(u.adding, i, i+1)
	n.work.waitsFor(t.Job, u)
}

// unsaid is what the clients of a job were not told yet: that it was accepted,
// or what was added to it.
type unsaid struct {
	accept bool
	follow bool // they want news from the moment they are accepted
	adding []adding
}

// adding is who waits for word of an addition.
type adding struct {
	token  int32
	client ClientID
}

// adds notes who waits for word of an addition.
func (w *work) adds(id filch.JobID, a adding) {
	if u := w.unsaid[id]; !slices.Contains(u.adding, a) {
		u.adding = append(u.adding, a)
		w.unsaid[id] = u
	}
}

// waitsFor keeps what the clients of a job were not told yet, if there is something.
func (w *work) waitsFor(id filch.JobID, u unsaid) {
	if w.unsaid[id] = u; !u.accept && len(u.adding) == 0 {
		delete(w.unsaid, id)
	}
}
