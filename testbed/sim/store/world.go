package store

import (
	"fmt"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/testbed/sim/fate"
)

// event is something that happens to a node at a moment.
type event struct {
	kind eventKind
	from int32
	to   int32
	gen  int32 // the process that it is for; 0 for whichever runs
	body any
}

type eventKind uint8

const (
	evMessage eventKind = iota // body is a dht.StoreMessage, or its encoding
	evWake                     // a deadline of the store
	evInput                    // body is a func(*node): another input of the store
	evDo                       // body is a func(): clients, faults, the list of members
)

// World is one simulated instance.
type World struct {
	plan    plan
	now     time.Duration
	queue   fate.Queue[event]
	net     *fate.Network
	rng     dices
	nodes   []*node
	byName  map[filch.NodeName]*node
	members *members
	clients []*client
	past    history
	faults  faultState
	ground  truth
	out     dht.StoreOut
	log     func(line string)
	tally
}

// tally is what a run comes to.
type tally struct {
	hash   uint64
	calls  uint64 // inputs of stores
	stats  Stats
	broken []Violation
}

// dices are one stream for each part, so that a change of one does not disturb
// what the others draw.
type dices struct{ fault, client, disk, member *fate.Dice }

// Stats counts what happened in a run.
type Stats struct {
	Events    uint64
	Messages  uint64
	Faults    int
	Asked     int // operations begun by clients
	Done      int // of those, answered for good
	Unknown   int // of those, never answered or answered with unknown
	Epochs    uint64
	Restarts  int
	Lost      int           // shards whose last replica was lost, and that came back from disk
	Bereft    int           // shards whose last replicas were lost with what their disks had
	Seatless  int           // rosters whose seats were lost with what most of their disks had
	Lacking   int           // records that lost something with the last of their shard, as no disk had it
	Plain     int           // plain lookups that were judged
	Stale     int           // of those, the ones that missed something
	Undecided int           // keys whose history took porcupine too long
	Healing   time.Duration // from calm until all was whole
}

func (s *Stats) add(t *Stats) {
	s.Events += t.Events
	s.Messages += t.Messages
	s.Faults += t.Faults
	s.Asked += t.Asked
	s.Done += t.Done
	s.Unknown += t.Unknown
	s.Epochs += t.Epochs
	s.Restarts += t.Restarts
	s.Lost += t.Lost
	s.Bereft += t.Bereft
	s.Seatless += t.Seatless
	s.Lacking += t.Lacking
	s.Plain += t.Plain
	s.Stale += t.Stale
	s.Undecided += t.Undecided
	s.Healing = max(s.Healing, t.Healing)
}

// Violation is something that must never be, with the moment it was seen.
type Violation struct {
	At   time.Duration
	Rule string
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Rule, v.Text) }

func newWorld(p plan, trace func(line string)) *World {
	w := &World{
		plan: p, log: trace, byName: make(map[filch.NodeName]*node),
		net: fate.NewNetwork(p.nodes+p.joiners, p.links, fate.NewDice(p.seed, 2)),
		rng: dices{fate.NewDice(p.seed, 3), fate.NewDice(p.seed, 4), fate.NewDice(p.seed, 5), fate.NewDice(p.seed, 6)},
	}
	w.past.init()
	w.ground.init()
	w.members = newMembers(w, p.nodes+p.joiners)
	for i := range p.nodes + p.joiners {
		n := &node{w: w, index: int32(i), name: filch.NodeName(fmt.Sprintf("n%d", i+1)), wake: filch.Never}
		w.nodes = append(w.nodes, n)
		w.byName[n.name] = n
	}
	return w
}

// maxViolations bounds what one run reports; it stops at the first anyway, but
// one event may break several rules.
const maxViolations = 16

func (w *World) fail(rule, format string, args ...any) {
	v := Violation{w.now, rule, fmt.Sprintf(format, args...)}
	if len(w.broken) < maxViolations {
		w.broken = append(w.broken, v)
	}
	w.trace("", "VIOLATION", "%s: %s", v.Rule, v.Text)
}

// trace writes one dense line: the moment, who, what, and the thing itself.
func (w *World) trace(who filch.NodeName, what, format string, args ...any) {
	if w.log != nil {
		w.log(fmt.Sprintf("%12.6f %-4s %-9s %s", w.now.Seconds(), who, what, fmt.Sprintf(format, args...)))
	}
}

// eventsMax is far beyond what a run of sound cores needs.
const eventsMax = 5_000_000

// run handles events up to a moment, or until a rule is broken.
func (w *World) run(until time.Duration) {
	for len(w.broken) == 0 && w.queue.Next() <= until {
		at, e := w.queue.Pop()
		w.now = at
		if w.stats.Events++; w.stats.Events > eventsMax {
			w.fail("endless", "more than %d events", eventsMax)
			return
		}
		w.mix(uint64(at)<<8 | uint64(e.kind))
		w.mix(uint64(uint32(e.from))<<32 | uint64(uint32(e.to)))
		w.step(&e)
		if !w.plan.bare && w.stats.Events%acrossEvery == 0 {
			w.across()
		}
	}
	if len(w.broken) == 0 {
		w.now = max(w.now, until)
	}
}

// acrossEvery is how often the stores are held against each other, in events.
const acrossEvery = 1024

func (w *World) across() {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v at %s", p, site())
		}
	}()
	var all []*dht.Store
	for _, n := range w.up() {
		all = append(all, n.store)
	}
	dht.CheckStores(all...)
}

// mix folds a word into the trace hash (FNV over words).
func (w *World) mix(v uint64) {
	w.hash = (w.hash ^ v) * 0x100000001b3
	w.hash ^= w.hash >> 29
}

// step handles an event; a panic, of an invariant or not, breaks a rule.
func (w *World) step(e *event) {
	defer func() {
		if p := recover(); p != nil {
			w.fail("panic", "%v at %s", p, site())
		}
	}()
	if e.kind == evDo {
		e.body.(func())()
		return
	}
	n := w.nodes[e.to]
	n.wakeUp()
	if n.pausedUntil > w.now {
		n.inbox = append(n.inbox, *e)
		return
	}
	if n.store == nil || e.gen != 0 && e.gen != n.gen {
		return
	}
	switch e.kind {
	case evMessage:
		n.receive(w.nodes[e.from], e.body)
	case evWake:
		if n.wake <= w.now {
			n.wake = filch.Never
			n.tick()
		}
	case evInput:
		e.body.(func(*node))(n)
	}
}

// site says where a panic came from: the callers in the cores.
func site() string {
	pcs := make([]uintptr, 24)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var text strings.Builder
	for range 6 {
		f, more := frames.Next()
		fmt.Fprintf(&text, " %s:%d", path.Base(f.File), f.Line)
		if !more {
			break
		}
	}
	return text.String()
}

// do schedules f, which belongs to no node.
func (w *World) do(at time.Duration, f func()) {
	w.queue.Push(max(at, w.now), event{kind: evDo, from: -1, to: -1, body: f})
}

// after schedules f a while from now.
func (w *World) after(d time.Duration, f func()) { w.do(w.now+d, f) }

// up lists the nodes whose process runs, paused ones too.
func (w *World) up() []*node {
	var all []*node
	for _, n := range w.nodes {
		if n.store != nil {
			all = append(all, n)
		}
	}
	return all
}
