package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Events for the client of a job, in the order of a life.
type (
	// Accepted says that the job exists.
	Accepted struct {
		Job  filch.JobID
		Size int32 // ranks, when the request left it open
	}

	// Refused ends a request that never became a job, or a job that could not
	// be started.
	Refused struct {
		Err  filch.Error
		Code int32
	}

	// StillWaiting is said 5 s after the submission and then every 30 s: what
	// is missing, who holds it and where.
	StillWaiting struct {
		Job  filch.JobID
		Text string
	}

	// Started says that every rank was exec'ed, or tried.
	Started struct {
		Job    filch.JobID
		Size   int32
		Nodes  []NodeRanks
		Waited time.Duration // from the submission to the go
	}

	// Ending says that the job is being stopped and why; output still comes.
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
		Ranks []RankEnd // the bad ones, at most MaxRankEnds, in order of time
		Bad   int32     // how many ended badly
	}
)

func (Accepted) isEvent()     {}
func (Refused) isEvent()      {}
func (StillWaiting) isEvent() {}
func (Started) isEvent()      {}
func (Ending) isEvent()       {}
func (Ended) isEvent()        {}

// MaxRankEnds bounds the ends that an [Ended] lists.
const MaxRankEnds = 64

// Cause is what ended a job first.
type Cause struct {
	Kind CauseKind
	Rank filch.Rank // -1 when no rank did it
	Node filch.NodeName
	Text string // a line for the user: "rank 3 on n2: killed by SIGSEGV"
	Hint string // what to do about it, where a keeper said so

	Doubt Doubt // of an end of a rank
}

// Doubt says how likely it is that a rank ended because another had ended, whose
// end may be heard of later: that rank lost its connection to the other. Of two
// ends the one with less doubt is the cause.
type Doubt uint8

// The doubts.
const (
	DoubtNone Doubt = iota
	DoubtSome       // SIGABRT in MPI: some failures to write to a peer that has gone are assertions of UCX
	DoubtMuch       // MPI_Abort with the code with which MPICH ends a rank that lost its peer
)

// CauseKind is the kind of a first cause; it decides the exit code.
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
)

// RankEnd is how one rank ended, as its keeper saw it.
type RankEnd struct {
	Rank   filch.Rank
	Kind   CauseKind
	Code   int32 // exit code, or the signal's number, or the code of MPI_Abort
	Core   bool  // dumped core
	Told   bool  // we had signalled it: not a cause
	Doubt  Doubt
	Text   string
	CPU    time.Duration
	RSSMax int64 // bytes
}

// Inputs from the keepers of this node. Each names the attempt, so that one
// that comes late says nothing of another attempt.
type (
	// KeeperReady answers a Start: the checks passed, or Err says what failed.
	KeeperReady struct {
		Ident filch.Ident
		Err   *filch.Error
		Cause CauseKind // with Err: CauseNotFound, CauseNotExec or CauseOurs
	}

	// RanksStarted says that the ranks of this node run.
	RanksStarted struct {
		Ident filch.Ident
		PIDs  []int32
	}

	// RanksEnded lists ends, each rank once.
	RanksEnded struct {
		Ident filch.Ident
		Ends  []RankEnd
	}

	// KeeperDone says that no process of the attempt is left on this node and
	// all output was handed on. Left counts processes that could not be killed.
	KeeperDone struct {
		Ident filch.Ident
		Left  int32
	}

	// KeeperGone says that a keeper vanished without KeeperDone; what it left
	// behind was reaped.
	KeeperGone struct {
		Ident filch.Ident
		Text  string
	}

	// Adopted is a keeper that a restarted launcher found still running.
	Adopted struct {
		Start Start
		Ended []RankEnd
	}
)
