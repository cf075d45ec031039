// Package events has the schema of what happens in an instance: the kinds of events, the
// fields of each kind, and the encodings.
//
// The parts of a node report events with typed fields, and format nothing. The launcher
// stamps each event with the time and a number, and keeps the event in a ring in memory
// (package ring). An event is encoded when a client asks. The line that `filch events
// --json` prints for an event is a JSON object with fixed keys; docs/events.md has the
// table of kinds and keys, made by [Table].
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

	numKinds
)

// Field is a set of fields of an event.
type Field uint16

// The fields, besides the time, the node, the number and the kind.
const (
	FieldJob Field = 1 << iota
	FieldTask
	FieldTry
	FieldState
	FieldCode
	FieldPeer
	FieldCount
	FieldReason
)

// spec describes a kind.
type spec struct {
	name   string
	fields Field
	count  string // meaning of the count
	text   string
}

const (
	ofTask = FieldJob | FieldTask
	ofTry  = FieldJob | FieldTask | FieldTry
)

// specs is the table of kinds.
var specs = [numKinds]spec{
	LauncherUp:   {"launcher-up", FieldReason, "", "the launcher of the node began; the reason is the build"},
	LauncherDown: {"launcher-down", 0, "", "the launcher of the node ends"},
	NodeUp:       {"node-up", FieldPeer, "", "the peer joined, or is up again"},
	NodeSuspect:  {"node-suspect", FieldPeer, "", "the peer does not answer"},
	NodeGone:     {"node-gone", FieldPeer, "", "the host of the peer refuses connections"},
	NodeLost:     {"node-lost", FieldPeer, "", "the peer was declared dead"},
	NodeLeft:     {"node-left", FieldPeer, "", "the peer left the instance"},
	NodeDrains:   {"node-drains", FieldReason, "", "the node takes no new work"},
	NodeBack:     {"node-back", 0, "", "the node takes work again after a drain"},
	DiskFull:     {"disk-full", FieldJob | FieldReason, "", "output or records found no space on a disk of the node"},
	PolicyChanged: {
		"policy-changed", FieldReason, "", "the node works by another scheduling policy, which is the reason",
	},

	JobSubmitted: {"job-submitted", FieldJob | FieldCount | FieldReason, "ranks or tasks", "the node accepted a job; the reason is the kind of the job"},
	JobGathers:   {"job-gathers", FieldJob | FieldTry | FieldCount, "ranks", "a gang collects slots on other nodes"},
	JobLaunched:  {"job-launched", FieldJob | FieldTry | FieldCount, "nodes", "a run has its slots and goes to its nodes"},
	JobStarted:   {"job-started", FieldJob | FieldTry | FieldCount, "ranks", "all ranks of a run began"},
	JobAgain:     {"job-again", FieldJob | FieldTry | FieldReason, "", "an attempt of a run is over, and the run starts again"},
	JobCancelled: {"job-cancelled", FieldJob | FieldReason, "", "a person ends a job, or a part of a job"},
	JobEnded:     {"job-ended", FieldJob | FieldTry | FieldState | FieldCode | FieldReason, "", "the job has ended"},

	TaskStaging:    {"task-staging", ofTry, "", "the node fetches the inputs of a task"},
	TaskStarted:    {"task-started", ofTry, "", "a task, or a part of a job's tasks, began"},
	TaskBackfilled: {"task-backfilled", ofTry, "", "a task began in slots that a gang holds and cannot use yet"},
	TaskRecalled:   {"task-recalled", ofTry, "", "a task was stopped because the gang with its slots can start"},
	TaskEnded:      {"task-ended", ofTry | FieldState | FieldCode, "", "an attempt of a task ended"},
	TaskMoved:      {"task-moved", ofTask | FieldPeer, "", "tasks of the peer's queue are in this node's queue now"},

	StealTried: {"steal-tried", FieldPeer, "", "the node asks the peer for tasks"},
	StealWon:   {"steal-won", FieldJob | FieldPeer | FieldCount, "tasks", "the node has tasks of the peer; the job is the first task's"},
	StealGiven: {"steal-given", FieldJob | FieldPeer | FieldCount, "tasks", "the peer has tasks of this node"},

	HistoryLost: {"history-lost", FieldCount | FieldReason, "jobs", "ends of jobs are missing in the history on disk"},
	Note:        {"note", FieldJob | FieldPeer | FieldReason, "", "another event of the node, as in the log"},
	Warning:     {"warning", FieldJob | FieldPeer | FieldReason, "", "a fault that the node handled"},
	Fault:       {"fault", FieldJob | FieldPeer | FieldReason, "", "a fault that needs a person"},
}

// String returns the name of a kind, as in JSON.
func (k Kind) String() string {
	if k == None || k >= numKinds {
		return "unknown"
	}
	return specs[k].name
}

// Fields returns the fields that an event of the kind may have.
func (k Kind) Fields() Field {
	if k >= numKinds {
		return 0
	}
	return specs[k].fields
}

// Known reports whether k is a kind of this version.
func (k Kind) Known() bool { return k > None && k < numKinds }

// KindOf returns the kind with a name.
func KindOf(name string) (Kind, bool) {
	for k := None + 1; k < numKinds; k++ {
		if specs[k].name == name {
			return k, true
		}
	}
	return None, false
}

// Names lists the names of all kinds, in the order of their numbers.
func Names() (list []string) {
	for k := None + 1; k < numKinds; k++ {
		list = append(list, specs[k].name)
	}
	return list
}
