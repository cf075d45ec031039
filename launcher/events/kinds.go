// Package events has the schema of what happens in an instance: the kinds of events, the
// fields of each kind, and the encodings.
//
// The parts of a node report events with typed fields, and format nothing. The launcher
// stamps each event with the time and a number, and keeps the event in a ring in memory
// (package ring). An event is encoded when a client asks. The line that `filch events
// --json` prints for an event is a JSON object with fixed keys; docs/events.md has the
// table of kinds and keys, made by [table].
package events

// Version is the version of the schema, as in each line of JSON. Within a version, kinds
// and keys are added, and none changes its meaning.
const Version = 1

// Kind is a kind of event.
type Kind uint8

// The kinds. The numbers are part of the encoding: append only.
const (
	None Kind = iota

	LauncherUp
	LauncherDown
	NodeUp
	NodeSuspect
	NodeGone
	NodeLost
	NodeLeft
	NodeDrains
	NodeBack
	DiskFull
	PolicyChanged

	JobSubmitted
	JobGathers
	JobLaunched
	JobStarted
	JobAgain
	JobCancelled
	JobEnded

	TaskStaging
	TaskStarted
	TaskBackfilled
	TaskRecalled
	TaskEnded
	TaskMoved

	StealTried
	StealWon
	StealGiven

	HistoryLost
	Note
	Warning
	Fault

	RanksStarted
	RankEnded
	RanksWired

	numKinds
)

// field is a set of fields of an event.
type field uint16

// The fields, besides the time, the node, the number and the kind.
const (
	fieldJob field = 1 << iota
	fieldTask
	fieldTry
	fieldState
	fieldCode
	fieldPeer
	fieldCount
	fieldReason
	// The rank is in the Count of an Event, and the slots are in the Reason.
	fieldRank
	fieldSlots
)

// spec describes a kind.
type spec struct {
	name   string
	fields field
	count  string // meaning of the count
	text   string
}

const (
	ofTask = fieldJob | fieldTask
	ofTry  = fieldJob | fieldTask | fieldTry
)

// specs is the table of kinds.
var specs = [numKinds]spec{
	LauncherUp:   {"launcher-up", fieldReason, "", "the launcher of the node began; the reason is the build"},
	LauncherDown: {"launcher-down", 0, "", "the launcher of the node ends"},
	NodeUp:       {"node-up", fieldPeer, "", "the peer joined, or is up again"},
	NodeSuspect:  {"node-suspect", fieldPeer, "", "the peer does not answer"},
	NodeGone:     {"node-gone", fieldPeer, "", "the host of the peer refuses connections"},
	NodeLost:     {"node-lost", fieldPeer, "", "the peer was declared dead"},
	NodeLeft:     {"node-left", fieldPeer, "", "the peer left the instance"},
	NodeDrains:   {"node-drains", fieldReason, "", "the node takes no new work"},
	NodeBack:     {"node-back", 0, "", "the node takes work again after a drain"},
	DiskFull:     {"disk-full", fieldJob | fieldReason, "", "the output of a task found no space on a disk of the node"},
	PolicyChanged: {
		"policy-changed", fieldReason, "", "the node works by another scheduling policy, which is the reason",
	},

	JobSubmitted: {"job-submitted", fieldJob | fieldCount | fieldReason, "ranks or tasks", "the node accepted a job; the reason is the kind of the job"},
	JobGathers:   {"job-gathers", fieldJob | fieldTry | fieldCount, "ranks", "a gang collects slots on other nodes"},
	JobLaunched:  {"job-launched", fieldJob | fieldTry | fieldCount, "nodes", "a run has its slots and goes to its nodes"},
	JobStarted:   {"job-started", fieldJob | fieldTry | fieldCount, "ranks", "all ranks of a run began"},
	JobAgain:     {"job-again", fieldJob | fieldTry | fieldReason, "", "an attempt of a run is over, and the run starts again"},
	JobCancelled: {"job-cancelled", fieldJob | fieldReason, "", "a person ends a job, or a part of a job"},
	JobEnded:     {"job-ended", fieldJob | fieldTry | fieldState | fieldCode | fieldReason, "", "the job has ended"},

	RanksStarted: {"ranks-started", ofTry | fieldCount, "ranks", "the ranks of a run, or of a task that is a gang, began on the node"},
	RanksWired:   {"ranks-wired", ofTry | fieldCount, "microseconds since the ranks of the node began", "the ranks of a run or a gang on the node have left their first fence: MPI is wired up"},
	RankEnded:    {"rank-ended", ofTry | fieldState | fieldCode | fieldRank | fieldSlots, "", "a rank ended"},

	TaskStaging:    {"task-staging", ofTry, "", "the node fetches the inputs of a task"},
	TaskStarted:    {"task-started", ofTry, "", "a task, or a part of a job's tasks, began"},
	TaskBackfilled: {"task-backfilled", ofTry, "", "a task began in slots that a gang holds and cannot use yet"},
	TaskRecalled:   {"task-recalled", ofTry, "", "a task was stopped because the gang with its slots can start"},
	TaskEnded:      {"task-ended", ofTry | fieldState | fieldCode, "", "an attempt of a task ended"},
	TaskMoved:      {"task-moved", ofTask | fieldPeer, "", "tasks of the peer's queue are in this node's queue now"},

	StealTried: {"steal-tried", fieldPeer, "", "the node asks the peer for tasks"},
	StealWon:   {"steal-won", fieldJob | fieldPeer | fieldCount, "tasks", "the node has tasks of the peer; the job is the first task's"},
	StealGiven: {"steal-given", fieldJob | fieldPeer | fieldCount, "tasks", "the peer has tasks of this node"},

	HistoryLost: {"history-lost", fieldCount | fieldReason, "jobs", "ends of jobs are missing in the history on disk"},
	Note:        {"note", fieldJob | fieldPeer | fieldReason, "", "another event of the node, as in the log"},
	Warning:     {"warning", fieldJob | fieldPeer | fieldReason, "", "a fault that the node handled"},
	Fault:       {"fault", fieldJob | fieldPeer | fieldReason, "", "a fault that needs a person"},
}

// String returns the name of a kind, as in JSON.
func (k Kind) String() string {
	if k == None || k >= numKinds {
		return "unknown"
	}
	return specs[k].name
}

// has returns the fields that an event of the kind may have.
func (k Kind) has() field {
	if k >= numKinds {
		return 0
	}
	return specs[k].fields
}

// Known reports whether k is a kind of this version.
func (k Kind) Known() bool { return k > None && k < numKinds }
