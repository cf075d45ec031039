package wire

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc"
)

// The verbs of a [Query] and what answers them, as JSON. JOB is a job id in
// digits or "last", the newest job of that launcher; a job of another origin
// is asked for there. Times are as time.ParseDuration reads them.
const (
	VerbNodes   = "nodes"   // [OnlyHere] -> []NodeInfo, by name
	VerbPs      = "ps"      // -> []launcher.JobInfo of all nodes, by id
	VerbInfo    = "info"    // JOB -> launcher.JobInfo
	VerbWait    = "wait"    // JOB [TIME] -> launcher.JobInfo once it ended, or after TIME as it is
	VerbExplain = "explain" // JOB -> launcher.Explanation
	VerbCancel  = "cancel"  // JOB SIGNAL -> launcher.JobInfo
	VerbSignal  = "signal"  // JOB SIGNAL -> launcher.JobInfo
	VerbLogs    = "logs"    // JOB RANK|"" NEXT [TIME] -> LogChunk of all its nodes; waits for more until TIME
	VerbLog     = "log"     // JOB RANK|-1 OFFSET BYTES TIME -> LogPart of that node alone
	VerbDrain   = "drain"   // NODE|"" ["" REASON BY|DrainUndo] -> DrainInfo of that node
	VerbDown    = "down"    // NODE|"all"|"" [TIME [SCOPE]] -> {}; jobs get TERM, and KILL after TIME; SCOPE "instance": all others go too
	VerbVersion = "version" // -> VersionInfo
	VerbStats   = "stats"   // -> StatsInfo
	VerbRoster  = "roster"  // [OnlyHere] -> []RosterInfo of all nodes, this one first
	VerbTask    = "task"    // JOB INDEX -> launcher.Task
	VerbTasks   = "tasks"   // JOB -> launcher.TasksHere, of that node alone
	VerbPrinted = "printed" // NODE JOB TASK|"" FAILED|"" CURSOR -> PrintedChunk of that node
	VerbCollect = "collect" // JOB FOLDER FILES -> CollectInfo; brings files of a workflow, JSON of []CollectFile, into a folder of this node
	VerbUnstage = "unstage" // JOB -> {}; every node forgets the files of a workflow
	VerbClose   = "close"   // JOB -> launcher.JobInfo; nothing is added to the job any more
	VerbPolicy  = "policy"  // [POLICY [VERSION]] -> []PolicyInfo of all nodes, this one first; POLICY becomes that of the instance; VERSION comes from another node
	VerbRecover = "recover" // -> RecoverInfo; gives lost shards up, or the roster
	VerbTies    = "ties"    // -> []launcher.Tie of that node alone
	VerbResume  = "resume"  // FOLDER -> ResumeInfo; goes on with the queue in that folder
)

// OnlyHere asks for what the launcher knows itself: no other is asked.
const OnlyHere = "here"

// DrainUndo has a node take work again.
const DrainUndo = "undo"

// DrainInfo is what a node says that begins to drain, or takes work again.
type DrainInfo struct {
	launcher.SlotInfo
	Was     bool   `json:"was"`               // it did drain
	Trouble string `json:"trouble,omitempty"` // why its next launcher will not know
}

// NodeInfo is a member of the instance.
type NodeInfo struct {
	launcher.SlotInfo
	State       string   `json:"state"` // up, suspect, gone, draining, dead, left
	PID         int      `json:"pid"`   // 0 unknown
	Addrs       []string `json:"addrs"`
	Local       bool     `json:"local"`
	Incarnation uint64   `json:"incarnation"`
	Build       string   `json:"build"`
	Silent      bool     `json:"silent,omitempty"` // did not answer: the numbers are its last gossip
}

// VersionInfo is what a launcher is.
type VersionInfo struct {
	Build string `json:"version"`
	Wire  int    `json:"wire"`
	Go    string `json:"go"`
}

// StatsInfo is what a launcher counted since its start and holds now.
type StatsInfo struct {
	Node       filch.NodeName    `json:"node"`
	UptimeSecs float64           `json:"uptime"`
	Counts     map[string]uint64 `json:"counts"`
	Sent       map[string]uint64 `json:"sent"` // messages to other nodes, by kind
	Clients    int               `json:"clients"`
	Routes     int               `json:"routes"`
	Keepers    int               `json:"keepers"`
	Conns      int               `json:"conns"`
	Goroutines int               `json:"goroutines"`
	HeapBytes  uint64            `json:"heap_bytes"`
}

// RosterInfo is what a node knows of the shared store, and keeps of it.
type RosterInfo struct {
	Node       filch.NodeName   `json:"name"`
	Known      bool             `json:"known"` // has heard of a roster
	Epoch      uint64           `json:"epoch"`
	Generation uint64           `json:"generation"` // of the seats
	Sealed     bool             `json:"sealed"`     // the seats are being moved
	Seats      []filch.NodeName `json:"seats"`
	Members    []RosterMember   `json:"members"`
	Shards     int              `json:"shards"`
	Short      int              `json:"short"`    // with fewer replicas than there could be
	Learning   int              `json:"learning"` // that are getting one more
	Lost       []uint16         `json:"lost"`     // without any live replica
	Majority   bool             `json:"majority"` // most members answer this node
	Here       StoreHere        `json:"here"`
	Disk       DiskHere         `json:"disk"`
	Trouble    string           `json:"trouble,omitempty"`
	Silent     bool             `json:"silent,omitempty"` // did not answer
}

// RosterMember is a member of the roster.
type RosterMember struct {
	Node        filch.NodeName `json:"name"`
	Incarnation uint64         `json:"incarnation"`
}

// StoreHere is what a node keeps of the store.
type StoreHere struct {
	Seated       bool    `json:"seated"`   // it is a seat of the roster and knows what it promised as one
	Replicas     int     `json:"replicas"` // shards
	Homes        int     `json:"homes"`    // shards of which it is the primary
	Records      int     `json:"records"`
	Pending      int     `json:"pending"` // operations that wait for an answer
	DiskBytes    int64   `json:"disk_bytes"`
	LiveBytes    int64   `json:"live_bytes"` // of these, what counts
	QuotaBytes   int64   `json:"quota_bytes"`
	Dropped      int     `json:"dropped"` // ended jobs that went to stay within the quota
	DiskTrouble  string  `json:"disk_trouble,omitempty"`
	SyncWait     float64 `json:"sync_wait"`     // seconds: the longest of late that something took until it was on the disk
	SkippedBytes int64   `json:"skipped_bytes"` // that could not be read when the launcher began
	MirrorHeld   int64   `json:"mirror_held"`   // tasks that run once and wait until the queue's mirror tells of them
	Mirror       string  `json:"mirror_trouble,omitempty"`
	ClockJump    float64 `json:"clock_jump"` // seconds by which the wall clock was set since the launcher began
}

// DiskHere is the disk on which a launcher keeps records and output.
type DiskHere struct {
	Free int64 `json:"free_bytes"`
	Size int64 `json:"size_bytes"`
	Cut  int   `json:"cut"` // tasks whose output found no room, since the launcher began
}

// PolicyInfo is how a node places tasks, and what is in its queues.
type PolicyInfo struct {
	Node      filch.NodeName `json:"name"`
	Policy    string         `json:"policy"`    // mlb, mdl, rlds or flds
	Threshold float64        `json:"threshold"` // bytes per second, of rlds and flds; 0 of the others
	LocalTime float64        `json:"tt"`        // seconds, of flds, as adapted; 0 of the others
	Queues    QueueInfo      `json:"queues"`
	Silent    bool           `json:"silent,omitempty"` // did not answer
}

// QueueInfo counts the tasks of a node by queue.
type QueueInfo struct {
	Waiting   int64 `json:"waiting"`   // for other tasks, of workflows that it keeps going
	Dedicated int64 `json:"dedicated"` // ready, and kept from thieves
	Shared    int64 `json:"shared"`    // ready, and may be stolen
	Running   int64 `json:"running"`
	Complete  int64 `json:"complete"` // ended, and not recorded yet
}

// CollectFile is a file that task Task of a workflow wrote.
type CollectFile struct {
	Task int32  `json:"task"`
	Path string `json:"path"`
}

// CollectInfo says what was brought.
type CollectInfo struct {
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Missing []string `json:"missing"` // why, for each file that could not be brought
}

// RecoverInfo says what was given up.
type RecoverInfo struct {
	Shards int  `json:"shards"`
	Anew   bool `json:"anew"` // the roster itself was, and is begun anew; then no shard was
}

// ResumeInfo says what was found of a queue that goes on here.
type ResumeInfo struct {
	Jobs    int                   `json:"jobs"`    // that go on
	Ended   int                   `json:"ended"`   // that had ended
	Tally   mtc.RemnantTally      `json:"tally"`   // of the tasks of jobs that go on
	Open    []filch.JobID         `json:"open"`    // to which tasks may be added
	Anew    []Anew                `json:"anew"`    // workflows that begin anew: their files were on the nodes
	Broken  []filch.JobID         `json:"broken"`  // of which too little could be read
	Refused []launcher.Resumption `json:"refused"` // that could not be restored
	Lines   int                   `json:"lines"`   // that were torn or damaged
	Files   int                   `json:"files"`   // that could not be read
	First   string                `json:"first"`   // the first of those
}

// Anew is a workflow that begins anew, and how many of its tasks had ended well.
type Anew struct {
	Job   filch.JobID `json:"job"`
	Tasks int32       `json:"tasks"`
}

// LogChunk is a part of what a detached job printed.
type LogChunk struct {
	Pieces  []LogPiece       `json:"pieces"`
	Next    string           `json:"next"`              // the NEXT that goes on from here
	End     bool             `json:"end"`               // nothing will follow
	Lost    uint64           `json:"lost,omitempty"`    // about as many bytes were dropped from before these, to stay within the limit
	Missing []filch.NodeName `json:"missing,omitempty"` // whose output cannot be had
}

// LogPart is a part of what a detached job printed on one node.
type LogPart struct {
	Pieces []LogPiece `json:"pieces,omitempty"`
	Next   uint64     `json:"next"` // the OFFSET that goes on from here
	Lost   uint64     `json:"lost,omitempty"`
	Absent bool       `json:"absent,omitempty"` // nothing was ever kept here
	Done   bool       `json:"done,omitempty"`   // the job has no keeper here
}

// LogPiece is one piece, as [Output] has it.
type LogPiece struct {
	Rank    filch.Rank `json:"rank"`
	Stream  uint8      `json:"stream"`
	Partial bool       `json:"partial,omitempty"`
	Data    []byte     `json:"data"`
}

// PrintedChunk is a part of what a node keeps of the output of a job's tasks.
type PrintedChunk struct {
	Pieces []PrintedPiece `json:"pieces"`
	Next   string         `json:"next"`           // the CURSOR that goes on from here
	End    bool           `json:"end"`            // nothing follows for now
	Bad    int            `json:"bad,omitempty"`  // blocks that could not be read
	Cut    int            `json:"cut,omitempty"`  // tasks whose output found no room; in the first chunk
	Gone   int64          `json:"gone,omitempty"` // bytes, compressed, that the node removed; in the first chunk
}

// PrintedPiece is what an attempt of a task printed on one stream.
type PrintedPiece struct {
	Task    int32  `json:"task"`
	Attempt int32  `json:"attempt"` // counts all starts that may have happened
	Stream  uint8  `json:"stream"`
	Failed  bool   `json:"failed,omitempty"`
	Lost    int64  `json:"lost,omitempty"` // bytes of the middle that were dropped
	Data    []byte `json:"data"`
}
