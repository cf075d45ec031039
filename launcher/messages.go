package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
)

// The messages between nodes. Each states a whole fact (absolute counts with a version, a
// phase, a list from a numbered place), never a difference, so loss, duplication and
// reordering repair themselves.
type (
	// Ask requests room from a victim for Want ranks of a job in all, including the ranks
	// already lent. A later Round replaces an earlier round.
	Ask struct {
		Job         filch.JobID
		Of          filch.JobID // of a gang, the job of its task; 0: a run
		Attempt     filch.Attempt
		Ticket      filch.Ticket
		Incarnation uint64 // of the asking node
		Base        filch.Room
		Each        filch.Room
		Exclusive   bool
		Half        bool // lend at most half of the free slots
		Wait        bool // join the wait list for the rest, wound younger holds
		Want        int32
		Round       uint32
		Takes       time.Duration // at most, as far as known; 0 if unknown
		Lends       bool          // tasks may use the held room; otherwise they are recalled
	}

	// Grant says for how many ranks of a job the sender holds room now. A node sends a
	// Grant to answer an Ask, to report slots freed or wounded, and to prompt a renewal.
	// Of two grants, the grant with the higher (Lease.Incarnation, Version) counts.
	Grant struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Lease   filch.LeaseID
		Held    int32
		Version uint64
		Round   uint32 // of the last Ask received
		Waiting bool   // is on the wait list for more
		Refused bool   // lends nothing at all: draining, or the wait list is full
		Older   bool   // an older request waits here
		Free    int32  // free slots
		Holder  filch.JobID
		Holds   int32 // slots of Holder, the job with the most slots in the way
		// What another rank lacks although slots are free: GPUs, memory, or a resource;
		// Holder has most of it.
		Lacks string
		// Further ranks that are held, in whose room tasks run; how many tasks, and the job with
		// most of them.
		Lent  int32
		Fills int32
		Fill  filch.JobID
		Frees time.Duration // until the missing ranks find room, at the latest; 0 if unknown
	}

	// Release gives back a lease, or a place on the wait list. A zero Lease means
	// everything asked for up to Round and not launched yet.
	Release struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Lease   filch.LeaseID
		Round   uint32
	}

	// Dispatch carries a launch to the node at Index. This node forwards the launch to
	// its children in the tree unless Direct is set (a repair). With Go the ranks start
	// without a gate: the job has one node.
	Dispatch struct {
		Launch Launch
		Index  int32
		Direct bool
		Go     bool
	}

	// Progress is the state of a participant. The origin answers a Progress with ends or
	// Done by a ProgressAck; the participant repeats the Progress until then.
	Progress struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Lease   filch.LeaseID
		Phase   Phase
		// With PhaseRefused, and with PhaseDone when the keeper failed.
		Cause        CauseKind
		Err          filch.Error // with Cause
		First        int32       // the place of Ends[0] among this participant's ends
		Ends         []RankEnd
		Left         int32             // with PhaseDone: processes that could not be killed
		Participants []LostParticipant // all of the launch, if a Halt asked for the list
		Unsent       bool              // with PhaseDone: the origin did not take all output of the ranks
	}

	// ProgressAck says how many ends of a participant the origin has. With Done the
	// participant need not repeat them. With Again the origin forgot them and wants all
	// ends.
	ProgressAck struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Have    int32
		Done    bool
		Again   bool
	}

	// Proceed opens the gate of a launch. With Tree the participant forwards the Proceed
	// to its children.
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
		// Report the other participants of the launch: the origin has forgotten them.
		ListAll bool
	}

	// Signals forwards signals to the ranks: Sigs[0] is number First of the attempt's
	// signals. Each signal is delivered once.
	Signals struct {
		Job         filch.JobID
		Attempt     filch.Attempt
		Index       int32
		Incarnation uint64 // of the origin: each incarnation numbers from the start
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

	// Renew renews leases of an origin at a peer: up to MaxRenewals in a message.
	Renew struct {
		Incarnation uint64
		Leases      []Renewal
	}

	// StepAsk asks the parent's origin for slots of the parent for a step. The sender
	// repeats the message until it receives an answer.
	StepAsk struct {
		Job     filch.JobID
		Parent  filch.JobID
		Task    uint64 // of Parent, which runs on this node
		Ticket  filch.Ticket
		Shape   Shape
		Calling filch.NodeName
	}

	// StepGrant answers a StepAsk with the nodes and ranks, or with the reason why the
	// step can never start. With neither, the step waits behind sibling steps; Behind is
	// the id of such a sibling.
	StepGrant struct {
		Job     filch.JobID
		Parent  filch.JobID
		Attempt filch.Attempt // of the parent
		Nodes   []NodeRanks   // the leases are the parent's
		Step    int32         // the number of the step in the parent, from 0
		Refused bool
		Err     filch.Error
		Behind  filch.JobID
	}

	// StepDone gives a step's slots back to the parent. The sender repeats the message
	// until a StepDoneAck comes.
	StepDone struct {
		Job    filch.JobID
		Parent filch.JobID
		Task   uint64
	}

	// TaskWord is a message between the many-task cores of two nodes, as
	// message.Encode lays it out.
	TaskWord struct{ Body []byte }

	// StepDoneAck answers a StepDone.
	StepDoneAck struct {
		Job    filch.JobID
		Parent filch.JobID
	}

	// TakeOver says the sender decides about a job from now on, since the takeover number
	// Hop. The participant answers with everything known about the job.
	TakeOver struct {
		Job     filch.JobID
		Attempt filch.Attempt
		Index   int32
		Lease   filch.LeaseID
		Hop     int32
	}

	// RanksAsk asks for the ranks of gangs whose owner, an incarnation of a node, is gone; with
	// Run, for the ranks of one run that the owner, the sender, gave up. The receiver ends
	// these ranks, and answers with a RanksLeft, unless the receiver cannot know yet. The
	// sender repeats the message until no rank is left.
	RanksAsk struct {
		Owner       filch.NodeName
		Incarnation uint64
		Run         filch.JobID
		Attempt     filch.Attempt // the last of Run
	}

	// RanksLeft answers a RanksAsk with the number of ranks that are left on the sender.
	RanksLeft struct {
		Owner       filch.NodeName
		Incarnation uint64
		Run         filch.JobID
		Left        int32
	}
)

// Renewal names a lease of a [Renew].
type Renewal struct {
	Job     filch.JobID
	Attempt filch.Attempt
	Index   int32 // in Launch.Nodes, -1 for a hold
	Lease   filch.LeaseID
	// Of a hold: whether tasks may use the held room, and when the job is expected to start,
	// from now; 0 if unknown. Without a Round, which orders such words and asks, nothing
	// changes.
	Round  uint32
	Lends  bool
	Starts time.Duration
	// Of a hold: the ranks whose room is kept for a later attempt, 0 for none; see [slots.Spares].
	Keep int32
}

// MaxRenewals bounds the leases in one [Renew].
const MaxRenewals = 1024

// Phase is where a participant of an attempt stands.
type Phase uint8

// The phases, in the order of a participant's life.
const (
	PhaseNone      Phase = iota
	PhasePreparing       // the keeper checks everything possible before the exec
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
func (*RanksAsk) isMessage()    {}
func (*RanksLeft) isMessage()   {}

// Name returns the name of the message in the body.
func (m *TaskWord) Name() string { return message.Name(m.Body) }
