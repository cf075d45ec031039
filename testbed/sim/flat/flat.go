package flat

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unsafe"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Options is a bag, and the nodes of the bag. Node 0 is the node of submission, and the leader.
type Options struct {
	Nodes   int
	Slots   int   // of each node
	Tasks   int64 // at most 4 billion
	Length  time.Duration
	Vary    float64 // lengths are drawn evenly, from so much less than Length to so much more; 0: all are equal
	Victims policy.Victims
	Spread  policy.Spreading
	Seed    uint64
	Sees    func(now time.Duration, started, ended int64) // hears of tasks that start and end at a moment; nil: nobody does
	After   time.Duration                                 // the run goes on for so long after the bag is known to have ended
}

// Costs of the shipped nodes in testbed/sim/tasks.
const inputCost = 2 * time.Microsecond

// nobody is no node.
const nobody = math.MaxUint32

// Sim is a run. The slices are by node.
type Sim struct {
	opt    Options
	now    time.Duration
	rng    filch.Rand
	links  engine.Links
	events filch.Heap[event, *event]
	offers offers
	askers askers
	picked []int32 // buffer of a thief

	queue   []uint32        // ready tasks
	free    []uint16        // slots
	ran     []uint32        // tasks that ended
	busy    []time.Duration // the processor of the node works until then
	flags   []flags
	thieves []thief
	presses []policy.Press

	unstarted int64
	left      int64 // tasks that have not ended
	result    Result
}

// flags are what a node knows.
type flags uint8

const (
	knows   flags = 1 << iota // the job and its specification
	begun                     // the node has looked for work, or had work
	fronted                   // the front of the range is committed
	won                       // a steal of the node was won
)

// Result is what came out.
type Result struct {
	Makespan  time.Duration // until the record of the job says that the bag has ended
	LastEnd   time.Duration // of a task
	Messages  [kinds]uint64 // until the makespan
	After     [kinds]uint64 // until the end of the run
	Won       uint64        // steals with tasks
	First     time.Duration // of the first of these
	Delay     time.Duration // of the first won steal of a node, since the node looked for work: the mean
	Delays    uint64        // nodes with a won steal
	Variation float64       // of the tasks of a node
	Events    uint64
	Bytes     int64 // of all arrays at the end
}

// Sent is the messages until the makespan.
func (r *Result) Sent() (n uint64) {
	for _, k := range r.Messages {
		n += k
	}
	return n
}

// Ideal is the time in which all slots would do the work.
func (o *Options) Ideal() time.Duration {
	return time.Duration(float64(o.Length) * float64(o.Tasks) / float64(o.Nodes*o.Slots))
}

// untilMax bounds the virtual time of a run.
const untilMax = 1000 * time.Hour

// Run runs a bag to its end.
func Run(o Options) (Result, error) {
	if o.Nodes < 1 || o.Slots < 1 || o.Slots > math.MaxUint16 || o.Tasks < 1 || o.Tasks > math.MaxUint32 || o.Length <= 0 || o.Vary < 0 || o.Vary > 1 {
		return Result{}, fmt.Errorf("cannot run %d tasks of %v on %d nodes of %d slots, lengths drawn within %v", o.Tasks, o.Length, o.Nodes, o.Slots, o.Vary)
	}
	if o.Victims != policy.Random && o.Victims != policy.Lifeline {
		return Result{}, fmt.Errorf("cannot run victims %v: the flat model has %v and %v", o.Victims, policy.Random, policy.Lifeline)
	}
	s := newSim(o)
	s.submit()
	for len(s.events) > 0 {
		e := s.events.Pop()
		if s.result.Makespan > 0 && e.at > s.result.Makespan+o.After || e.at > untilMax {
			break
		}
		s.now = e.at
		s.result.Events++
		s.step(&e)
	}
	if s.result.Makespan == 0 || s.left != 0 || s.unstarted != 0 {
		return s.result, fmt.Errorf("%d of %d tasks have not ended, %d have not started after %v", s.left, o.Tasks, s.unstarted, s.now)
	}
	s.sums()
	return s.result, nil
}

// eventsEach is how many events of a node wait at a time, in most runs: room is made before, since a list
// that grows leaves its old places behind.
const eventsEach = 4

func newSim(o Options) *Sim {
	n := o.Nodes
	s := &Sim{
		opt: o, rng: filch.Rand(o.Seed << 8), links: engine.Quiet(), left: o.Tasks, unstarted: o.Tasks,
		queue: make([]uint32, n), free: make([]uint16, n), ran: make([]uint32, n), busy: make([]time.Duration, n),
		flags: make([]flags, n), thieves: make([]thief, n), presses: make([]policy.Press, n),
		events: make(filch.Heap[event, *event], 0, eventsEach*n),
	}
	s.offers.list = make([]offer, 0, n)
	s.askers.init(n)
	for i := range n {
		s.free[i] = uint16(o.Slots)
		s.thieves[i] = thief{teller: nobody}
		s.seek(uint32(i), 0)
	}
	return s
}

// sums makes the results of a run that ended.
func (s *Sim) sums() {
	r := &s.result
	n, sum, squares := float64(s.opt.Nodes), 0.0, 0.0
	for _, k := range s.ran {
		sum += float64(k)
		squares += float64(k) * float64(k)
	}
	r.Variation = math.Sqrt(max(squares/n-sum/n*sum/n, 0)) / (sum / n)
	if r.Delays > 0 {
		r.Delay /= time.Duration(r.Delays)
	}
	r.Bytes = bytesOf(s.queue) + bytesOf(s.free) + bytesOf(s.ran) + bytesOf(s.busy) + bytesOf(s.flags) + bytesOf(s.thieves) + bytesOf(s.presses) +
		bytesOf(s.events) + bytesOf(s.offers.list) + bytesOf(s.offers.spare) + s.askers.bytes()
}

func bytesOf[T any](list []T) int64 {
	var zero T
	return int64(cap(list)) * int64(unsafe.Sizeof(zero))
}

// Kinds lists the messages by kind, until the makespan.
func (r *Result) Kinds() string {
	var text strings.Builder
	for k, n := range r.Messages {
		fmt.Fprintf(&text, " %s %d", kind(k), n)
	}
	return text.String()
}
