package wire

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/queue"
)

// The verbs of a [Query] and their answers, as JSON. JOB is a job id in digits or
// "last", the newest job of the asked launcher; for a job of another origin the
// launcher asks the origin. Times have the form of time.ParseDuration.
const (
	VerbNodes   = "nodes"   // [OnlyHere|WithProcessors] -> []NodeInfo, by name
	VerbPs      = "ps"      // -> []launcher.JobInfo of all nodes, by id
	VerbInfo    = "info"    // JOB -> launcher.JobInfo
	VerbWait    = "wait"    // JOB [TIME] -> launcher.JobInfo at the end, or the current info after TIME
	VerbExplain = "explain" // JOB [TASK] -> launcher.Explanation
	VerbCancel  = "cancel"  // JOB SIGNAL [REASON [TASKS]] -> launcher.JobInfo; TASKS, JSON of [][2]int32, are runs of a bag's tasks, by first and last name
	VerbHold    = "hold"    // JOB BY|"" -> launcher.JobInfo; nothing new of a job of tasks starts; "" releases the job
	VerbRequeue = "requeue" // JOB BY -> launcher.JobInfo; ends the attempt of a detached run, which waits again
	VerbSignal  = "signal"  // JOB SIGNAL -> launcher.JobInfo
	VerbDrain   = "drain"   // NODE|"" ["" REASON BY|DrainUndo] -> DrainInfo of NODE
	VerbDown    = "down"    // NODE|"all"|"" [TIME [SCOPE]] -> {}; jobs get TERM, and KILL after TIME; SCOPE is DownNode, DownAside or DownAll
	VerbVersion = "version" // -> VersionInfo
	VerbStats   = "stats"   // -> StatsInfo
	VerbWork    = "work"    // -> []launcher.Work of all nodes, this one first
	VerbMetrics = "metrics" // -> []MetricsInfo of all nodes, this one first
	VerbGrows   = "grows"   // the instance has a pool of allocations from now on, at this node
	VerbGlance  = "glance"  // [JOB] -> Overview of all nodes, with the longest tasks of JOB; of one node, a Glance
	VerbBoard   = "board"   // [BoardStop] -> BoardInfo; the launcher serves its dashboard, or ends it; of local clients only
	VerbRoster  = "roster"  // [OnlyHere] -> []RosterInfo of all nodes, this one first
	VerbLookup  = "lookup"  // KEY -> LookupInfo; KEY is a job, a node or the key of a record
	VerbKnown   = "known"   // -> names of the nodes that one node knows
	VerbTask    = "task"    // JOB INDEX -> launcher.Task
	VerbTaskNow = "tasknow" // JOB NAME [INDEX] -> launcher.TaskNow, of one node alone; INDEX is the number in JOB, where NAME is another
	VerbTasks   = "tasks"   // JOB -> launcher.TasksHere, of one node alone
	VerbLive    = "live"    // -> []launcher.Live, of one node alone
	VerbRunning = "running" // JOB [OnlyHere] -> launcher.RunningTasks, of all nodes or of one node alone
	VerbLast    = "last"    // NODE JOB TASK,TASK,... -> []LastLine of NODE, at most MaxLast tasks
	VerbOutput  = "output"  // NODE JOB KIND FIRST-LAST|"" CURSOR BYTES [TIME [SHOW [REST]]] -> OutputChunk of NODE
	VerbCollect = "collect" // JOB FOLDER FILES -> CollectInfo; brings files of a workflow, JSON of []CollectFile, into a folder of this node
	VerbUnstage = "unstage" // JOB -> {}; every node forgets the files of a workflow
	VerbStaged  = "staged"  // NODE FILES -> []int64; the sizes of files of workflows on NODE, JSON of []StagedFile; -1: not there
	VerbOutputs = "outputs" // NODE JOB [TASK PATH] -> StagedOut; the files on NODE that tasks of a bag wrote, after a file
	VerbEvents  = "events"  // NODE PLACE BYTES [TIME [JOB [SINCE]]] -> EventChunk of NODE; TIME waits for an event, JOB "" is all, SINCE is in Unix ns
	VerbFollow  = "follow"  // TIME JOB NODE PLACE [NODE PLACE]... -> EventParts of the nodes with news behind their places, of MaxFollowed nodes at most; of local clients only
	VerbClose   = "close"   // JOB -> launcher.JobInfo; no tasks can be added any more
	VerbPolicy  = "policy"  // [POLICY [VERSION]] -> []PolicyInfo of all nodes, this one first; POLICY becomes the instance's; VERSION comes from another node
	VerbRecover = "recover" // -> RecoverInfo; gives lost shards up, or the roster
	VerbTies    = "ties"    // -> []launcher.Tie of one node alone
	VerbResume  = "resume"  // FOLDER -> ResumeInfo; continues the queue in FOLDER
)

// OnlyHere asks for the launcher's own knowledge, without asking other nodes.
const OnlyHere = "here"

// WithProcessors asks each node for its processors and the numbers of its free slots.
const WithProcessors = "processors"

// BoardStop ends the dashboard.
const BoardStop = "stop"

// The scopes of VerbDown.
const (
	DownNode  = "node"     // the node leaves for good: all its files go
	DownAside = "aside"    // the node may come back: its kept output stays
	DownAll   = "instance" // all nodes go
)

// DrainUndo makes a node take work again.
const DrainUndo = "undo"

// DrainInfo is the answer of a node that begins to drain, or takes work again.
type DrainInfo struct {
	launcher.SlotInfo
	Was     bool   `json:"was"`               // the node drained before
	Trouble string `json:"trouble,omitempty"` // why the next launcher will not know
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
	Silent      bool     `json:"silent,omitempty"` // did not answer: numbers of the last gossip

	Holders []launcher.Holder `json:"holders"` // jobs with slots of the node, by id

	// Alloc names the allocation of the node: slurm-4711; absent on other nodes.
	Alloc string `json:"allocation,omitempty"`

	// With WithProcessors. Processors are empty on a node whose slots are no processors.
	Processors []filch.Processor `json:"processors,omitempty"` // by number of the slot
	FreeSlots  []int32           `json:"free_slots,omitempty"` // numbers
}

// VersionInfo is the version of a launcher.
type VersionInfo struct {
	Build string `json:"version"`
	Wire  int    `json:"wire"`
	Go    string `json:"go"`
}

// StatsInfo holds a launcher's counters since its start and its current gauges.
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

// MetricsInfo says where a node serves its metrics.
type MetricsInfo struct {
	Node    filch.NodeName `json:"name"`
	URL     string         `json:"url,omitempty"`     // absent: nowhere
	Token   string         `json:"token,omitempty"`   // a request must carry; absent: none, or the answer of another node
	Trouble string         `json:"trouble,omitempty"` // why the node does not serve what it was asked to
	Silent  bool           `json:"silent,omitempty"`  // did not answer
}

// BoardInfo says where a launcher serves its dashboard. The URL opens the page to everyone on
// the machine: only clients of the launcher get the URL.
type BoardInfo struct {
	URL      string `json:"url,omitempty"` // absent: nowhere
	Port     int    `json:"port,omitempty"`
	Was      bool   `json:"was"`      // the dashboard was served before
	Browsers int    `json:"browsers"` // pages that are open
}

// RosterInfo is a node's view of the shared store, and of its own part.
type RosterInfo struct {
	Node       filch.NodeName   `json:"name"`
	Known      bool             `json:"known"` // the node has a roster
	Epoch      uint64           `json:"epoch"`
	Generation uint64           `json:"generation"` // of the seats
	Sealed     bool             `json:"sealed"`     // a change of the seats is under way
	Seats      []filch.NodeName `json:"seats"`
	Members    []RosterMember   `json:"members"`
	Shards     int              `json:"shards"`
	Short      int              `json:"short"`    // with fewer replicas than possible
	Learning   int              `json:"learning"` // getting one more replica
	Lost       []uint16         `json:"lost"`     // without any live replica
	Majority   bool             `json:"majority"` // most members answer this node
	Here       StoreHere        `json:"here"`
	Disk       DiskHere         `json:"disk"`
	Trouble    string           `json:"trouble,omitempty"`
	Silent     bool             `json:"silent,omitempty"` // did not answer
}

// LookupInfo is the result of a lookup: a node, or the home of a record, and the path
// to the node.
type LookupInfo struct {
	Key      string           `json:"key,omitempty"`   // of the record
	Shard    uint16           `json:"shard,omitempty"` // of the record
	Epoch    uint64           `json:"epoch,omitempty"` // of the shard's config
	Node     filch.NodeName   `json:"name,omitempty"`  // the node found, or the home; absent while no roster is known
	Replicas []filch.NodeName `json:"replicas"`
	Path     []LookupHop      `json:"path"`    // without the asking node; empty if it is the home
	Nearest  []LookupNode     `json:"nearest"` // the nodes found, nearest first
	Asked    int              `json:"asked"`
	Failed   int              `json:"failed"` // of the nodes asked
	Secs     float64          `json:"seconds"`
	Trouble  string           `json:"trouble,omitempty"` // why nearer nodes may exist than the nodes found
}

// LookupNode is a node found by a lookup.
type LookupNode struct {
	Node filch.NodeName `json:"name"`
	Addr string         `json:"addr"`
}

// LookupHop is a node asked on the path of a lookup.
type LookupHop struct {
	Node  filch.NodeName `json:"name"`
	Addr  string         `json:"addr"`
	Named int            `json:"named"` // nodes in the answer
	Secs  float64        `json:"seconds"`
}

// RosterMember is a member of the roster.
type RosterMember struct {
	Node        filch.NodeName `json:"name"`
	Incarnation uint64         `json:"incarnation"`
}

// StoreHere is a node's part of the store.
type StoreHere struct {
	Seated       bool    `json:"seated"`   // the node is a seat of the roster and knows its promises
	Replicas     int     `json:"replicas"` // shards
	Homes        int     `json:"homes"`    // shards with this node as the primary
	Records      int     `json:"records"`
	Pending      int     `json:"pending"` // operations waiting for an answer
	DiskBytes    int64   `json:"disk_bytes"`
	LiveBytes    int64   `json:"live_bytes"` // the live part of disk_bytes
	QuotaBytes   int64   `json:"quota_bytes"`
	Dropped      int     `json:"dropped"` // ended jobs dropped to stay within the quota
	DiskTrouble  string  `json:"disk_trouble,omitempty"`
	SyncWait     float64 `json:"sync_wait"`     // seconds: the longest recent sync of an entry to the disk
	SkippedBytes int64   `json:"skipped_bytes"` // unreadable when the launcher began
	MirrorHeld   int64   `json:"mirror_held"`   // run-once tasks waiting for the queue's mirror
	Mirror       string  `json:"mirror_trouble,omitempty"`
	History      string  `json:"history_trouble,omitempty"`
	HistoryEnds  int     `json:"history_ends,omitempty"` // with History: ends of jobs that are not written
	ClockJump    float64 `json:"clock_jump"`             // seconds by which the wall clock was set since the launcher began
	SyncFault    string  `json:"sync_fault,omitempty"`   // of the disk, during sync_wait
}

// DiskHere is the disk on which a launcher keeps records and output.
type DiskHere struct {
	Free int64 `json:"free_bytes"`
	Size int64 `json:"size_bytes"`
	Cut  int   `json:"cut"` // tasks whose output did not fit, since the launcher began
}

// PolicyInfo is a node's policy of placing tasks, and the contents of its queues.
type PolicyInfo struct {
	Node      filch.NodeName `json:"name"`
	Policy    string         `json:"policy"`    // auto, mlb, mdl, rlds, flds or adage
	Victims   string         `json:"victims"`   // how thieves choose: policy.Victims
	Threshold float64        `json:"threshold"` // bytes per second, of rlds and flds; otherwise 0
	LocalTime float64        `json:"tt"`        // seconds, of flds, as adapted; otherwise 0
	Balance   string         `json:"balance"`   // steal, give or both
	Queues    QueueInfo      `json:"queues"`
	// Chosen are the choices of the policy auto for the workflows that the node leads.
	Chosen []PolicyChoice `json:"chosen,omitempty"`
	Silent bool           `json:"silent,omitempty"` // did not answer
}

// PolicyChoice is the policy by which the tasks of a workflow are placed.
type PolicyChoice struct {
	Job    filch.JobID `json:"job"`
	Policy string      `json:"policy"`
	Why    string      `json:"why"`
}

// QueueInfo counts the tasks of a node by queue.
type QueueInfo struct {
	Waiting   int64 `json:"waiting"`   // for other tasks, of workflows led by the node
	Dedicated int64 `json:"dedicated"` // ready, and kept from thieves
	Shared    int64 `json:"shared"`    // ready, open to thieves
	Running   int64 `json:"running"`
	Complete  int64 `json:"complete"` // ended, and not recorded yet
}

// CollectFile is a file written by task Task of a workflow.
type CollectFile struct {
	Task int32  `json:"task"`
	Path string `json:"path"`
	To   string `json:"to,omitempty"` // the name in the folder; "" is Path
}

// StagedFile is a file that a task of a workflow wrote and that a node keeps.
type StagedFile struct {
	Job  filch.JobID `json:"job"`
	Task int32       `json:"task"`
	Path string      `json:"path"`
}

// StagedMax bounds the files of one query.
const StagedMax = 512

// StagedOut is files of a job on a node, by task and path.
type StagedOut struct {
	Files []StagedFile `json:"files"`
	More  bool         `json:"more"` // further files follow the last
}

// StagedOutMax bounds the files of a [StagedOut].
const StagedOutMax = 4096

// CollectInfo counts the files brought.
type CollectInfo struct {
	Files   int      `json:"files"`
	Bytes   int64    `json:"bytes"`
	Missing []string `json:"missing"`           // the reason, for each missing file
	Present []string `json:"present,omitempty"` // files that an earlier collect brought
}

// RecoverInfo counts the shards given up.
type RecoverInfo struct {
	Shards int  `json:"shards"`
	Anew   bool `json:"anew"` // the roster itself was lost and begins again; Shards is 0
}

// ResumeInfo describes a queue that continues here.
type ResumeInfo struct {
	Jobs    int                   `json:"jobs"`    // jobs that continue
	Ended   int                   `json:"ended"`   // jobs that had ended
	Tally   queue.Tally           `json:"tally"`   // of the tasks of continuing jobs
	Open    []filch.JobID         `json:"open"`    // jobs open to more tasks
	Anew    []Anew                `json:"anew"`    // workflows beginning again: their files were on the nodes
	Broken  []filch.JobID         `json:"broken"`  // jobs with too few readable lines
	Refused []launcher.Resumption `json:"refused"` // jobs that could not be restored
	Lines   int                   `json:"lines"`   // torn or damaged lines
	Files   int                   `json:"files"`   // unreadable files
	First   string                `json:"first"`   // the first unreadable file or line
}

// Anew is a workflow that begins again, and how many of its tasks had ended well.
type Anew struct {
	Job   filch.JobID `json:"job"`
	Tasks int32       `json:"tasks"`
}

// The words of [VerbOutput]. KIND is the kind of the job. A query with a TIME waits that
// long for output. A query with a REST, which is a time too, looks for output once the
// REST is over.
const (
	OutputTasks  = "tasks"  // a bag or a workflow; FIRST-LAST are tasks
	OutputRanks  = "ranks"  // a detached run; FIRST-LAST are ranks
	OutputFailed = "failed" // SHOW the output of tasks that did not end well
	OutputEnded  = "ended"  // SHOW the output of tasks that have ended, each whole
	OutputLines  = "lines"  // SHOW running tasks by whole lines, as far as BYTES allow
)

// OutputChunk is a part of the output of a job on one node. It travels in msgpack.
type OutputChunk struct {
	Pieces []OutputPiece
	Next   string // the CURSOR of the following query
	End    bool   // nothing follows for now
	Short  bool   // a process with output of tasks did not answer in time: there may be more
	Done   bool   // no process of the run is left on the node
	Absent bool   // the node never kept output of the run
	Bad    int    // unreadable blocks, left out
	Cut    int    // tasks whose output did not fit, or that failed with a full disk; in the first chunk
	Why    string // of Cut: the disk, and what to do
	Gone   int64  // bytes, compressed, that the node removed; in the first chunk
	Lost   uint64 // of a run: about as many bytes before the pieces were dropped
}

// Packed implements [Packed].
func (*OutputChunk) Packed() {}

// MaxEvents bounds the encoded events in an [EventChunk], in bytes.
const MaxEvents = 256 << 10

// EventChunk is a part of the last events of a node. It travels in msgpack.
type EventChunk struct {
	Data []byte // see [github.com/filch-hpc/filch/launcher/events.Decode]
	Next string // the PLACE of the following query
	Lost uint64 // events before the part that the node dropped, since the PLACE of the query
	More bool   // the node has more events behind the part
	Life uint64 // of the launcher; another Life numbers its events anew
	Now  int64  // the node's clock at the answer, in Unix nanoseconds
}

// Packed implements [Packed].
func (*EventChunk) Packed() {}

// MaxFollowed bounds the nodes of a VerbFollow.
const MaxFollowed = 256

// EventParts are events of several nodes.
type EventParts struct{ Parts []EventPart }

// Packed implements [Packed].
func (*EventParts) Packed() {}

// EventPart is an encoded [EventChunk] of a node, or the reason that there is none.
type EventPart struct {
	Node  filch.NodeName
	Chunk []byte
	Err   string
}

// OutputPiece is a piece of the output of a rank, or of an attempt of a task.
type OutputPiece struct {
	Index   int32 // of the task, or the rank
	Attempt int32 // of a task: counts all starts that may have happened
	Rank    int32 // of a gang's rank, from 1; 0: the task is one process, or a run
	Stream  uint8 // 1 stdout, 2 stderr
	Failed  bool  // the attempt did not end well
	Running bool  // the attempt had not ended
	Partial bool  // of a run: the line goes on
	Time    int64 // wall clock of the node, Unix milliseconds: a running task printed, a rank printed, a task had ended; 0 unknown
	Lost    int64 // bytes right before Data that were dropped
	Data    []byte
}

// MaxLast bounds the tasks of a query for last lines.
const MaxLast = 8192

// LastLine is the last line that a task printed on standard error.
type LastLine struct {
	Task int32  `json:"task"`
	Text string `json:"text"` // at most 512 bytes
}

// Packed marks an [Answer] that travels in msgpack instead of JSON: JSON would cost a
// follower of output five times the time.
type Packed interface{ Packed() }

// Raw is an answer of another node that a launcher passes on unread; the client checks it.
type Raw []byte
