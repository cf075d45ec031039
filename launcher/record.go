package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
)

// JobRecord is what an origin must remember of a job over its own restart.
// Times are kept as durations before the record was written and by the wall
// clock that the submission carried, since now starts anew with a launcher.
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
	Began   int64          // when the gate was opened, unix time in ns by the clock of the node
	Arbiter filch.NodeName // of a step: the origin of its parent
	Ended   *EndRecord
	Shared  SharedRecord
}

// SharedRecord is what another node must know besides to go on with a job.
type SharedRecord struct {
	Hop     int32            // of the job's record in the store: how often it was taken over
	Orders  int32            // pieces of its order in the store
	Earlier []filch.NodeName // of attempts before this one
	Lost    []LostSeat       // where ranks of this attempt, or of one before, may still run
	Losses  int32            // attempts that lost a node
	Done    []*PartRecord    // the participants that are done; in the store only
	Kept    bool             // the store has the end; on the disk only
	Unsure  bool             // whether the gate was opened is not known to who took the job over
}

// EndRecord is the end of a job that is remembered for those who ask later.
type EndRecord struct {
	State filch.State
	Code  int32
	Cause Cause
	Ranks []RankEnd
	Bad   int32
}

// PartRecord says that a participant of a launched job is done, and what of
// its ends still matters.
type PartRecord struct {
	Job     filch.JobID
	Attempt filch.Attempt
	Index   int32
	Lost    bool
	Ends    []RankEnd // the bad ones that count as causes
	Bad     int32
	High    int32 // the highest code of the job so far
	SRun    int32 // and as srun counts
	Cause   Cause // the first of the job so far
	Code    int32 // that it means
}
