package launcher

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// JobRecord is the state of a job kept by its origin across the origin's restart. Times
// are durations before the record was written, or by the wall clock carried by the
// submission, since now starts from zero with each launcher.
type JobRecord struct {
	Job     filch.JobID
	Attempt filch.Attempt
	Ticket  filch.Ticket
	Request Request
	Size    int32
	State   filch.State
	Nodes   []NodeRanks // when launched
	Going   bool        // the gate was opened; see also Shared.Unsure
	Cause   Cause       // when ending
	Code    int32
	Waited  time.Duration
	// When the gate was opened, unix time in ns by the clock of the node.
	Began   int64
	Arbiter filch.NodeName // of a step: the origin of its parent
	Ended   *EndRecord
	Shared  SharedRecord
}

// RecordKey returns the key of the [Record] of a job on the disk of its origin.
func RecordKey(id filch.JobID) string { return fmt.Sprintf("job/%d", id) }

// SharedRecord is the further state needed by another node to go on with a job.
type SharedRecord struct {
	// Of the job's record in the store: how often the job was taken over.
	Hop     int32
	Orders  int32            // pieces of its order in the store
	Earlier []filch.NodeName // of attempts before this one
	// Where ranks of this attempt, or of an earlier attempt, may still run.
	Lost   []LostParticipant
	Losses int32                // attempts that lost a node
	Done   []*ParticipantRecord // the participants that are done; in the store only
	Kept   bool                 // the store has the end; on the disk only
	// The node that took the job over does not know whether the gate was opened.
	Unsure bool
	Causes []LostAttempt // of the attempts before this one, fewer than MaxAttempts

	Idle     int32 // as in [Launch]
	Launched bool  // under this attempt, which may be over
}

// EndRecord is the end of a job, kept for later queries.
type EndRecord struct {
	State filch.State
	Code  int32
	Cause Cause
	Ranks []RankEnd
	Bad   int32
	Usage filch.Usage // of all ranks of the last attempt
	Rows  []byte      // as in [JobInfo]
}

// ParticipantRecord says that a participant of a launched job is done, and keeps the ends
// that still matter.
type ParticipantRecord struct {
	Job     filch.JobID
	Attempt filch.Attempt
	Index   int32
	Lost    bool
	Ends    []RankEnd // the bad ends that count as causes
	Bad     int32
	High    int32 // the highest code of the job so far
	SRun    int32 // and by srun's rules
	Cause   Cause // the first cause of the job so far
	Code    int32 // the exit code for Cause
	Usage   filch.Usage
	Rows    []byte // of the ranks of the participant, in the order of the launch
}

// LostParticipant is a lost or forgotten participant whose ranks may still run.
type LostParticipant struct {
	Node    filch.NodeName
	Attempt filch.Attempt
	Index   int32
	Lease   filch.LeaseID
	Alone   bool // the other participants of the launch are not known yet
}

// IsOf reports whether a message of node from is about this participant.
func (l *LostParticipant) IsOf(from filch.NodeName, m *Progress) bool {
	return l.Node == from && l.Attempt == m.Attempt && l.Index == m.Index
}
