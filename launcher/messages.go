package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
)

// The messages between brains. Each states a whole fact (absolute counts with
// a version, a phase, a list from a numbered place), never a difference, so
// that loss, duplication and reordering repair themselves.
type (
	// Ask wants room of a victim for Want ranks of a job in all, what it
	// already lent included. A later Round replaces an earlier one.
	Ask struct {
		Job         filch.JobID
		Attempt     filch.Attempt
		Ticket      filch.Ticket
		Incarnation uint64 // of the asking node
		Base        slots.Room
		Each        slots.Room
		Exclusive   bool
		Half        bool // lend at most half of what is free
		Wait        bool // join the wait list for the rest, wound younger holds
		Want        int32
		Round       uint32
		Takes       time.Duration // at most, as far as is known; 0 if nobody knows
	}

	// Grant says how many ranks' room the sender holds for a job now. It
	// answers an Ask, tells of slots that came free or were wounded, and
	// prompts a renewal. Of two, the one with the higher (Lease.Incarnation,
	// Version) counts.
	Grant struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Lease   filch.LeaseID
		Held    int32
		Version uint64
		Round   uint32 // of the last Ask heard
		Waiting bool   // is on the wait list for more
		Refused bool   // lends nothing at all: draining, or the wait list is full
		Older   bool   // an older request waits here
		Free    int32  // slots nobody has
		Holder  filch.JobID
		Holds   int32 // slots of Holder, the job in the way with the most
	}

	// Release gives a lease back, or a place on the wait list. A zero Lease
	// means whatever was asked for up to Round and has not been launched.
	Release struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Lease   filch.LeaseID
		Round   uint32
	}

	// Dispatch carries a launch to the node at Index, which hands it on to
	// its children in the tree unless Direct is set (a repair). With Go its
	// ranks start without a gate: the job has one node.
	Dispatch struct {
		Launch Launch
		Index  int32
		Direct bool
		Go     bool
	}

	// Progress is where a participant stands; the origin answers those that
	// carry ends or Done with a ProgressAck, and they are repeated until then.
	Progress struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Lease   filch.LeaseID
		Phase   Phase
		Cause   CauseKind   // with PhaseRefused, and with PhaseDone when the keeper failed
		Err     filch.Error // with Cause
		First   int32       // the place of Ends[0] among this participant's ends
		Ends    []RankEnd
		Left    int32      // with PhaseDone: processes that could not be killed
		Seats   []LostSeat // all of the launch, where a Halt asked for that
	}

	// ProgressAck says how many ends of a participant the origin has. With
	// Done it need not be told again; with Again it forgot and wants all.
	ProgressAck struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Have    int32
		Done    bool
		Again   bool
	}

	// Proceed opens the gate of a launch. With Tree it is handed on.
	Proceed struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Tree    bool
	}

	// Halt stops a participant's ranks. A higher Level replaces a lower one.
	Halt struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Lease   filch.LeaseID
		Level   int32
		Signal  int32
		Grace   time.Duration
		Reason  string
		Who     bool // say who else has a part in the launch: the origin has forgotten it
	}

	// Signals forwards signals to the ranks: Sigs[0] is number First of the
	// attempt's signals, and each is delivered once.
	Signals struct {
		Job         filch.JobID
		Attempt     filch.Attempt
		Index       int32
		Incarnation uint64 // of the origin: the numbers are of one
		First       int32
		Sigs        []int32
	}

	// SignalsAck says how many signals were delivered.
	SignalsAck struct {
		Job         filch.JobID
		Attempt     filch.Attempt
		Index       int32
		Incarnation uint64
		Have        int32
	}

	// Renew keeps leases alive: the origin's, at one peer, in one message.
	Renew struct {
		Incarnation uint64
		Leases      []Renewal
	}

	// StepAsk asks the parent's origin for slots of the parent for a step. It
	// is repeated until answered.
	StepAsk struct {
		Job     filch.JobID
		Parent  filch.JobID
		Task    uint64 // of Parent, which runs on this node
		Ticket  filch.Ticket
		Shape   Shape
		Calling filch.NodeName
	}

	// StepGrant answers a StepAsk: the nodes and ranks, or why never; with
	// neither the step waits behind its siblings, of which Behind is one.
	StepGrant struct {
		Job     filch.JobID
		Parent  filch.JobID
		Attempt filch.Attempt // of the parent
		Nodes   []NodeRanks   // the leases are the parent's
		Refused bool
		Err     filch.Error
		Behind  filch.JobID
	}

	// StepDone gives a step's slots back to its parent. It is repeated until
	// a StepDoneAck comes.
	StepDone struct {
		Job    filch.JobID
		Parent filch.JobID
		Task   uint64
	}

	// TaskWord is a message between the many-task cores of two nodes, as
	// mtc.EncodeMessage lays it out.
	TaskWord struct{ Body []byte }

	// StepDoneAck answers a StepDone.
	StepDoneAck struct {
		Job    filch.JobID
		Parent filch.JobID
	}

	// TakeOver says that the sender decides about a job from now on, since the
	// takeover number Hop; the participant tells it all that it knows.
	TakeOver struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Hop     int32
	}
)

// Renewal names one lease of a [Renew].
type Renewal struct {
	Job     filch.JobID
	Attempt filch.Attempt
	Index   int32 // in Launch.Nodes, -1 for a hold
	Lease   filch.LeaseID
}

// MaxRenewals bounds the leases in one [Renew].
const MaxRenewals = 1024

// Phase is where a participant of an attempt stands.
type Phase uint8

// The phases, in the order of a life.
const (
	PhaseNone      Phase = iota
	PhasePreparing       // the keeper checks what can be checked
	PhasePrepared        // behind the gate
	PhaseStarted         // the ranks were exec'ed
	PhaseDone            // nothing is left, slots are free
	PhaseRefused         // never took part: no such lease, or the keeper's checks failed
)

func (*Ask) isMessage()         {}
func (*Grant) isMessage()       {}
func (*Release) isMessage()     {}
func (*Dispatch) isMessage()    {}
func (*Progress) isMessage()    {}
func (*ProgressAck) isMessage() {}
func (*Proceed) isMessage()     {}
func (*Halt) isMessage()        {}
func (*Signals) isMessage()     {}
func (*SignalsAck) isMessage()  {}
func (*Renew) isMessage()       {}
func (*StepAsk) isMessage()     {}
func (*StepGrant) isMessage()   {}
func (*StepDone) isMessage()    {}
func (*StepDoneAck) isMessage() {}
func (*TaskWord) isMessage()    {}
func (*TakeOver) isMessage()    {}
