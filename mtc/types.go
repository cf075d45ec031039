package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Room is an amount of what a node has, with the fields of slots.Room.
type Room struct {
	Slots    int32
	MemBytes int64
	GPUs     int32
}

func (r Room) plus(s Room) Room {
	return Room{r.Slots + s.Slots, r.MemBytes + s.MemBytes, r.GPUs + s.GPUs}
}

func (r Room) minus(s Room) Room {
	return Room{r.Slots - s.Slots, r.MemBytes - s.MemBytes, r.GPUs - s.GPUs}
}

// holds reports whether s fits in r; what s does not need may be overdrawn.
func (r Room) holds(s Room) bool {
	return s.Slots <= r.Slots && (s.MemBytes == 0 || s.MemBytes <= r.MemBytes) && (s.GPUs == 0 || s.GPUs <= r.GPUs)
}

// Spec is what all tasks of a job have in common.
type Spec struct {
	Body       []byte // what to run, opaque here: the launcher's own template
	Each       Room   // what one task takes
	Cap        int32  // at most so many run at a time in the whole instance; 0 no limit
	Retries    int32  // after an end that is not ok
	CrashLimit uint8  // committed starts that may die with their node; 0 is [CrashLimit]
	Sure       bool   // the first start of each task is committed too
	Once       bool   // started at most once
	OnFail     FailMode
	Payloads   bool // each task has a line of its own
	Limits     bool // which may have a limit of its own, in place of Limit
	First      int32
	Step       int32         // the number of task i is First+i*Step; 0 is 1
	Picks      []Pick        // or the i-th of these, when failures are submitted again
	Limit      time.Duration // of one attempt; its spawner keeps it
	Like       string        // tasks of the same kind: those of a name, or of a command line; "" none
	Expect     time.Duration // what tasks of that kind took before, where nothing is known of this job's; 0 not known
}

// Pick is a run of numbers.
type Pick struct{ From, Count int32 }

// CrashLimit is the default of [Spec.CrashLimit].
const CrashLimit = 5

// FailMode says what a failed task means for the rest of a graph.
type FailMode uint8

// The modes.
const (
	FailSkip FailMode = iota // what depends on it is skipped, the rest goes on
	FailStop                 // nothing more is started
	FailOn                   // what depends on it is started all the same
)

// Number is what task i of the job is called by its submitter.
func (s *Spec) Number(i int32) int32 {
	for _, p := range s.Picks {
		if i < p.Count {
			return p.From + i
		}
		i -= p.Count
	}
	if s.Step == 0 {
		return s.First + i
	}
	return s.First + i*s.Step
}

func (s *Spec) crashes() uint8 {
	if s.CrashLimit == 0 {
		return CrashLimit
	}
	return s.CrashLimit
}

// sure reports whether nothing is started without its start being committed first.
func (s *Spec) sure() bool { return s.Once || s.Sure }

// MaxLike bounds [Spec.Like], in bytes.
const MaxLike = 256

// MaxPicks bounds the runs of numbers of a spec.
const MaxPicks = 1 << 14

// Encode is the spec's bytes.
func (s *Spec) Encode() []byte {
	var w writer
	w.bytes(s.Body)
	w.room(s.Each)
	w.uint(uint64(s.Cap))
	w.uint(uint64(s.Retries))
	w.u8(s.CrashLimit)
	w.bool(s.Once)
	w.u8(uint8(s.OnFail))
	w.bool(s.Payloads)
	w.int(int64(s.First))
	w.int(int64(s.Step))
	w.int(int64(s.Limit))
	w.uint(uint64(len(s.Picks)))
	for _, p := range s.Picks {
		w.int(int64(p.From))
		w.uint(uint64(p.Count))
	}
	w.string(s.Like)
	w.int(int64(s.Expect))
	w.bool(s.Limits)
	w.bool(s.Sure)
	return w.b
}

// DecodeSpec reads a spec.
func DecodeSpec(v []byte) (*Spec, error) {
	r := reader{b: v}
	s := &Spec{Body: r.bytes(maxBlob), Each: r.room(), Cap: r.index(), Retries: r.index()}
	s.CrashLimit, s.Once = r.u8(), r.bool()
	s.OnFail = FailMode(r.upTo(uint64(FailOn)))
	s.Payloads = r.bool()
	s.First, s.Step, s.Limit = r.i32(), r.i32(), time.Duration(r.int())
	s.Picks = make([]Pick, r.count(MaxPicks, 2))
	for i := range s.Picks {
		s.Picks[i] = Pick{r.i32(), r.index()}
	}
	s.Like, s.Expect = string(r.view(MaxLike)), time.Duration(r.int())
	s.Limits = len(r.b) > 0 && r.bool() // none was written before tasks had their own
	s.Sure = len(r.b) > 0 && r.bool()   // nor before a limit of crashes could be 0
	return s, r.done()
}

func (w *writer) room(m Room) {
	w.uint(uint64(m.Slots))
	w.uint(uint64(m.MemBytes))
	w.uint(uint64(m.GPUs))
}

func (r *reader) room() Room {
	return Room{r.index(), int64(r.upTo(1<<62 - 1)), r.index()}
}

// Submission is a new job.
type Submission struct {
	Job    filch.JobID
	Name   string
	Ticket filch.Ticket
	Spec   Spec
	Total  int32 // tasks of a bag
	Open   bool  // more are added later
	After  []filch.JobID

	// Partial says that more of the submission itself is to come before the job
	// is closed: without this node it will never be whole.
	Partial bool

	Lines [][]byte    // of a bag with payloads, Total of them, none empty
	Nodes []GraphNode // of a workflow
}

// GraphNode is one task of a workflow.
type GraphNode struct {
	Name    string // for messages about cycles
	Parents []int32
	Bytes   int64  // of input that no parent makes
	Body    []byte // opaque
}

// Member is a node of the instance.
type Member struct {
	Name        filch.NodeName
	Incarnation uint64
	Up          bool // neither suspected nor draining: work may come from and go to it
	Draining    bool // not suspected: work may come from it, none goes to it
	Gone        bool // its launcher is, and may be back in the same life: what it owned is taken, but for what would be lost
	Dead        bool // or left: what it owned is taken from it
	Group       string
}

// End is how a task that was started ended.
type End struct {
	Run   uint64
	State filch.State // OK, Failed or Killed
	Code  int32
	Bytes int64 // of its output, for its dependents' placement
	Cut   bool  // of what it printed some found no room on its node's disk
	Final bool  // it is not to be started again, whatever the spec says
	Gone  bool  // nobody knows how it ended: what ran it has crashed
}

// Start says that a task is to be started.
type Start struct {
	Run     uint64 // names this start in [End] and [Stop]
	Job     filch.JobID
	Index   int32
	Number  int32
	Attempt filch.Attempt
	Nth     int32 // of all starts of this task that may have happened; no two are the same
	Spec    *Spec
	Payload []byte
	Inputs  []Input // of a workflow's task: where its parents ran
}

// Input is a parent's output.
type Input struct {
	Parent int32
	Node   filch.NodeName
	Bytes  int64
}

// Stop says that a running task is to be ended: its [End] is awaited.
type Stop struct {
	Run uint64
	Job filch.JobID
}

// Op is what a [Proposal] asks of the store.
type Op uint8

// The operations.
const (
	OpMerge Op = iota + 1
	OpLookup
	OpWatch
	OpUnwatch
)

// Proposal is an operation on a record. The same tag again is the same
// operation again: its answer was lost or unknown.
type Proposal struct {
	Tag   uint64
	Op    Op
	Key   string
	Kind  RecordKind
	Delta []byte
	// Durable has it answered when all who keep the record have it on disk.
	Durable bool
}

// AnswerStatus is what became of a proposal.
type AnswerStatus uint8

// The answers.
const (
	AnswerDone AnswerStatus = iota
	AnswerAbsent
	AnswerUnknown // unknown or unavailable: it is proposed again
	AnswerInvalid // the store refused it for good
)

// Answer is the store's word on a proposal. Value is a merge's reply, or the
// record that was looked up or watched.
type Answer struct {
	Status AnswerStatus
	Value  []byte
}

// Stored is a record whose home is this node.
type Stored struct {
	Key   string
	Value []byte
}

// Send is a message to another node, never to this one.
type Send struct {
	To      filch.NodeName
	Message Message
}

// Tell is news for the clients of a job at this node.
type Tell struct {
	Job      filch.JobID
	What     TellKind
	Tally    Tally
	Total    int32
	State    filch.State
	Error    *filch.Error // TellRefused
	Token    int32        // TellAdded
	Base     int32        // TellAdded: the index of the first
	Finished bool
}

// TellKind is a kind of [Tell].
type TellKind uint8

// What is told.
const (
	TellAccepted TellKind = iota // every record of the submission is committed
	TellRefused
	TellAdded
	TellProgress // to those who follow
	TellFinished // to those who follow
)

// Note is an event for the log: level as slog has it.
type Note struct {
	Level int8
	Text  string
	Job   filch.JobID
}

// Out is what is to be done, in the order of its fields. The caller reuses it;
// the Core only appends.
type Out struct {
	Notes     []Note
	Proposals []Proposal
	Starts    []Start
	Stops     []Stop
	Sends     []Send
	Tells     []Tell
	Sweep     bool // call [Core.Homed] with the records whose home is this node
}

// Reset empties o and keeps its memory.
func (o *Out) Reset() {
	clear(o.Starts)
	clear(o.Proposals)
	o.Notes, o.Proposals, o.Starts, o.Stops = o.Notes[:0], o.Proposals[:0], o.Starts[:0], o.Stops[:0]
	o.Sends, o.Tells, o.Sweep = o.Sends[:0], o.Tells[:0], false
}
