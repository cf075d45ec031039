package pool

import "time"

// View is what a holder sees in one look.
type View struct {
	Ready   int64   // tasks that could start now
	Slots   int64   // of these; 0: one each
	Running int64   // tasks
	Length  float64 // slot-seconds of a task in the mean; 0 unknown
	Gangs   []Gang  // that wait for slots
	Nodes   []Node
	Batch   *Batch // nil: the batch system was not asked in this look
}

// Gang is a run or a task of ranks that waits for slots.
type Gang struct {
	Slots int32
	Nodes int32 // at least
}

// Node is a member with slots.
type Node struct {
	Name     string
	Group    string // the allocation of the node, such as slurm-4711; "" none
	Slots    int32
	Busy     int32
	Ended    int64 // attempts of tasks that ended there
	Silent   bool  // the node did not answer: nobody knows whether it has work
	Draining bool
	Age      time.Duration // since its launcher began
	Left     time.Duration // until the batch system takes the node away; 0 unknown
}

// Batch is what the batch system says.
type Batch struct {
	Err  string            // why the batch system could not be asked; then Jobs says nothing
	Jobs map[string]Job    // by number: the jobs of the user that the batch system knows
	Name map[string]string // from the name of a job to its number
}

// Job is one batch job.
type Job struct {
	State JobState
	Said  string // why it waits, or how it ended
	// Asked is the time of nodes in the request: the nodes times the time limit; 0 unknown.
	Asked time.Duration
	// Cancelled is set after a cancel that this pool did not order: by a person.
	Cancelled bool
}

// JobState is the state of a batch job.
type JobState uint8

// The states of a batch job. A batch system has more states; a driver maps each to one of
// these.
const (
	JobQueued  JobState = iota + 1
	JobHeld             // queued, and does not start before a person acts
	JobRunning          // or starting, or completing
	JobOver
)

// Told is the answer to an order.
type Told struct {
	N   int64
	Job string // the number that the batch system gave
	Err string // why the batch system refused
}

// Order is what a holder must do, after the record with the order in it is stored.
type Order struct {
	Kind  OrderKind
	N     int64
	Job   string
	Nodes []string  // with Drain
	By    time.Time // with Submit: the caller begins no submission, and waits for none, after this time
}

// OrderKind is the kind of an order.
type OrderKind uint8

// The orders.
const (
	Submit OrderKind = iota + 1 // a batch job with the name of N
	Cancel                      // the batch job; its nodes, if any, have no work
	Drain                       // the nodes of the batch job, which then ends by itself
)

// Times of a holder.
const (
	// LookEvery is the time between two looks of a holder.
	LookEvery = time.Second
	// BatchEvery is the time between two questions to the batch system: slurmctld serves
	// all users.
	BatchEvery = 5 * time.Second
	// soonWithin bounds the time in which the batch system is asked in each look about the ends
	// of allocations that were given back.
	soonWithin = 15 * time.Second
	// HolderLost is the time after which another node takes a pool over: the record has
	// not changed for so long.
	HolderLost = 6 * time.Second
	// beatEvery is the time between two changes of the record by a holder with nothing to say.
	beatEvery = 2 * time.Second
	// settle is the time in which the batch system shows a submission that it has taken: a
	// submission without an answer is given up after so long. It is longer than [SubmitWait],
	// the bound on all submissions of one look.
	settle = 45 * time.Second
	// SubmitWait bounds the submissions of one look, together.
	SubmitWait = 30 * time.Second
	// straysFor is the time after the end of the last allocation in which the batch system is
	// asked for batch jobs that the record does not name.
	straysFor = 2 * time.Minute
	// lostAfter is the time for which a batch system may not know a job that it took.
	lostAfter = 15 * time.Second
	// comeWithin is the time in which a node of a started batch job must join.
	comeWithin = 3 * time.Minute
	// leadLeast is the shortest time before the end of a node in which its successor is asked
	// for: in the last 30 s, a node starts no task of unknown length.
	leadLeast = 45 * time.Second
	// diedWithin is the shortest life of an allocation that did not work and is no failure.
	diedWithin = time.Minute
)

// badMost is the number of failures in a row after which a pool pauses.
const badMost = 5

// backOff is the pause after so many failures in a row.
var backOff = [...]time.Duration{0, time.Second, 5 * time.Second, 15 * time.Second, time.Minute, 5 * time.Minute}

// afterCancel is the pause after a person has cancelled an allocation.
const afterCancel = 15 * time.Second

// guess is the length of a task about which nothing is known, in seconds.
const guess = 60
