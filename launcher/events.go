package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Events for the client of a job, in the order of a life.
type (
	// Accepted reports the new job.
	Accepted struct {
		Job  filch.JobID
		Size int32 // ranks, when the request left the number open
	}

	// Refused ends a request that never became a job, or a job that could not be
	// started.
	Refused struct {
		Err  filch.Error
		Code int32
	}

	// StillWaiting is sent 5 s after the submission and then every 30 s: the missing
	// slots, and the jobs and nodes with the slots.
	StillWaiting struct {
		Job  filch.JobID
		Text string
	}

	// Granted is sent when a step has slots of its parent, before the launch.
	Granted struct {
		Job  filch.JobID
		Step int32 // the number of the step in the parent, from 0
	}

	// Started is sent when every rank was exec'ed, or an exec was tried.
	Started struct {
		Job    filch.JobID
		Size   int32
		Nodes  []NodeRanks
		Waited time.Duration // from the submission to the go

		Attempt filch.Attempt
	}

	// RankEnds reports ranks that ended badly, while others may go on; [Ended] has them again.
	RankEnds struct {
		Job   filch.JobID
		Ranks []RankEnd
	}

	// Ending reports the stop of a job and the reason; output still comes.
	Ending struct {
		Job  filch.JobID
		Text string
	}

	// Ended is the last event of a job.
	Ended struct {
		Job   filch.JobID
		State filch.State
		Code  int32
		Cause Cause
		Ranks []RankEnd // the bad ends, at most MaxRankEnds, in order of time
		Bad   int32     // how many ended badly
	}
)

func (Accepted) isEvent()     {}
func (Refused) isEvent()      {}
func (StillWaiting) isEvent() {}
func (Granted) isEvent()      {}
func (Started) isEvent()      {}
func (RankEnds) isEvent()     {}
func (Ending) isEvent()       {}
func (Ended) isEvent()        {}

// MaxRankEnds bounds the ends in an [Ended].
const MaxRankEnds = 64

// Cause is the first reason for the end of a job.
type Cause struct {
	Kind CauseKind
	Rank filch.Rank // -1: no rank caused the end
	Node filch.NodeName
	Text string // a line for the user: "rank 3 on n2: killed by SIGSEGV"
	Hint string // advice for the user, if the keeper gave some

	Doubt Doubt // of an end of a rank
}

// Doubt is how likely a rank ended only because the connection to another rank broke,
// after the other rank had ended. The origin may receive the other end later. Of two
// ends, the end with less doubt is the cause.
type Doubt uint8

// The doubts.
const (
	DoubtNone Doubt = iota
	DoubtSome       // SIGABRT in MPI: UCX asserts on some failed writes to a lost peer
	DoubtMuch       // MPI_Abort with the code of MPICH for a rank with a lost peer
)

// CauseKind is the kind of a first cause and decides the exit code.
type CauseKind uint8

// The causes.
const (
	CauseNone       CauseKind = iota // all ranks ended with 0
	CauseExit                        // a rank's own code
	CauseSignal                      // 128+signal
	CauseOOM                         // 137
	CauseAbort                       // MPI_Abort
	CauseNoFinalize                  // exit 0 after MPI_Init without MPI_Finalize: 1
	CauseNotExec                     // 126
	CauseNotFound                    // 127
	CauseNodeLost                    // 122
	CauseTimeLimit                   // 124
	CauseCancel                      // 143
	CauseInterrupt                   // 130
	CauseClientGone                  // 143
	CauseOurs                        // 125
	CauseWaitFirst                   // -W ran out: the highest code so far, else 1
	CauseProtocol                    // a rank broke the PMI protocol: 1
	CauseRequeue                     // the job starts again on request: no end
)

// RankEnd describes the end of a rank, as seen by its keeper.
type RankEnd struct {
	Rank  filch.Rank
	Kind  CauseKind
	Code  int32 // exit code, or the signal's number, or the code of MPI_Abort
	Core  bool  // dumped core
	Told  bool  // filch had signalled the rank: not a cause
	Doubt Doubt
	Text  string
	Usage filch.Usage
}

// Inputs from the keepers of this node. Each input names the attempt, so a late input
// cannot affect another attempt.
type (
	// KeeperReady answers a Start: the checks passed, or Err names the failed check.
	KeeperReady struct {
		Ident filch.Ident
		Err   *filch.Error
		Cause CauseKind // with Err: CauseNotFound, CauseNotExec or CauseOurs
	}

	// RanksStarted reports running ranks on this node.
	RanksStarted struct {
		Ident filch.Ident
		PIDs  []int32
	}

	// RanksWired reports, once an attempt, that the ranks of this node are wired up: each
	// can reach all others. Ranks of programs without MPI never are. Took counts from the begin
	// of the ranks of this node.
	RanksWired struct {
		Ident filch.Ident
		Took  time.Duration
	}

	// RanksEnded lists ends, each rank once.
	RanksEnded struct {
		Ident filch.Ident
		Ends  []RankEnd
	}

	// KeeperDone reports the end of all processes of the attempt on this node; the keeper
	// has handed on all output. Left counts processes that could not be killed.
	KeeperDone struct {
		Ident  filch.Ident
		Left   int32
		Unsent bool // the origin did not take all output: set by the launcher
	}

	// KeeperGone reports a keeper that vanished without KeeperDone; the remaining
	// processes were reaped.
	KeeperGone struct {
		Ident filch.Ident
		Text  string
	}

	// Adopted is a keeper found running by a restarted launcher.
	Adopted struct {
		Start Start
		Ended []RankEnd
	}
)

// ByUser reports whether a cause is a decision of the user, after which no attempt begins.
func (k CauseKind) ByUser() bool {
	switch k {
	case CauseTimeLimit, CauseCancel, CauseInterrupt, CauseClientGone, CauseWaitFirst:
		return true
	}
	return false
}

// Crash reports whether e explains an MPI_Abort of another rank: a signal not sent by
// filch killed the rank of e, and the other rank lost the connection. The origin may
// receive the abort first, if the aborting rank's node is nearer. Beside crashes, an end
// with a [Doubt] gives way to an end with less.
func (e *RankEnd) Crash() bool {
	switch e.Kind {
	case CauseOOM:
		return true
	case CauseSignal:
		return e.Code == SigIll || e.Code == SigBus || e.Code == SigFPE || e.Code == SigKill || e.Code == SigSegv
	}
	return false
}
