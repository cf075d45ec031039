package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// End is the end of a started task.
type End struct {
	Run    uint64
	State  filch.State // OK, Failed or Killed
	Code   int32
	Bytes  int64         // of the task's output, for the placement of its dependents
	Cut    bool          // some of the task's output found no space on the disk of its node
	Final  bool          // do not start the task again, even if the spec allows retries
	Gone   bool          // the end is unknown: the process that ran the task has crashed
	Usage  *filch.Usage  // nil: not known
	Moved  int64         // bytes of the task's input from other nodes
	Moving time.Duration // how long that took
	In     time.Duration // from the start, until the inputs were there
	Out    time.Duration // since the process ended, until the outputs were taken
	Ours   bool          // the task could not be run: the command is not at fault
	// Recalled: stopped for a gang, or without room in the slots of the gang; the start does not count.
	Recalled  bool
	Unstarted bool             // a successor that never began: see [Start.Succeeds]
	Ran       time.Duration    // of the process of the task; 0: not known
	Nodes     []record.NodeRun // of a gang, as [record.Task.Nodes]
	Slots     filch.Slots      // of a process, as [record.Task.Slots]
}

// Start asks the caller to start a task.
type Start struct {
	Run     uint64 // names this start in [End] and [Stop]
	Job     filch.JobID
	Index   int32
	Name    int32 // for people: see [record.Spec.Name]
	Number  int32
	Attempt filch.Attempt
	Nth     int32 // number among all possible starts of this task; no two are the same
	Spec    *record.Spec
	Need    int32 // number of the task's need, as in [record.Spec.Need]
	Payload []byte
	Inputs  []policy.Input // of a workflow's task: where the task's parents ran
	Copy    bool           // of a task that another node runs
	Borrows bool           // the room is that of slots held for a gang: see [Fills]
	// Succeeds is the run whose room the task takes as that run ends, and not before; 0: the
	// task has room.
	Succeeds uint64
}

// Room is what the task takes.
func (s *Start) Room() filch.Room { return *s.Spec.Room(int(s.Need)) }

// Gang is the size of the task, if the task is a gang.
func (s *Start) Gang() record.Gang { return s.Spec.Need(int(s.Need)).Gang }

// Stop asks the caller to end a running task; the caller reports the task's [End].
type Stop struct {
	Run uint64
	Job filch.JobID
}

// Send is a message to another node, never to this one.
type Send struct {
	To      filch.NodeName
	Message message.Message
}

// Out lists the actions for the caller, in the order of the fields. The caller reuses an
// Out; the Core only appends.
type Out struct {
	Notes     []report.Note
	Events    []report.Event
	Over      []report.Over // jobs that this node leads, and that have ended
	Proposals []record.Proposal
	Starts    []Start
	Goes      []uint64 // runs of gangs whose start is committed: see [Gangs.Launched]
	Stops     []Stop
	Losers    []report.Loser
	Sends     []Send
	Tells     []report.Tell
	Reserved  []filch.JobID // runs that have the tokens of their reservation
	// Dead owners of gangs: find out when their ranks are gone, and call [Gangs.RanksGone].
	Remains []record.Owner
	Sweep   bool   // call [Core.Homed] with the records whose home is this node
	Bad     string // why this node should drain; "": no reason
}

// Reset empties o and keeps its memory.
func (o *Out) Reset() {
	clear(o.Starts)
	clear(o.Proposals)
	o.Notes, o.Proposals, o.Starts, o.Stops = o.Notes[:0], o.Proposals[:0], o.Starts[:0], o.Stops[:0]
	o.Sends, o.Tells, o.Reserved, o.Sweep, o.Bad = o.Sends[:0], o.Tells[:0], o.Reserved[:0], false, ""
	o.Events, o.Over = o.Events[:0], o.Over[:0]
	o.Remains, o.Goes, o.Losers = o.Remains[:0], o.Goes[:0], o.Losers[:0]
}
