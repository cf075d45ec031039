package sim

import (
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/stealer"
	"github.com/filch-hpc/filch/testbed/sim/fate"
)

// MessageCost is the cpu time that a message costs its sender and its receiver.
const MessageCost = 2 * time.Microsecond

// Options says what world to make.
type Options struct {
	Seed       uint64
	Hosts      int
	Slots      int32 // of each host
	Links      fate.Links
	Gather     stealer.Policy
	Check      bool // call Node.Check after every input
	Words      bool // check the messages: promises kept, launches on the newest word
	Trace      func(line string)
	Calm       bool   // no host or link ever fails: no failure detector
	CountKinds bool   // count messages by kind
	MaxSteps   uint64 // a run with more events than this has not quiesced; 0 for 1e9
}

// World is one simulated instance.
type World struct {
	opt      Options
	now      time.Duration
	queue    fate.Queue[event]
	net      *fate.Network
	childRng *fate.Dice // keepers
	faultRng *fate.Dice // faults and the failure detector
	hosts    []*host
	byName   map[filch.NodeName]*host
	jobs     []*job
	attempts map[filch.Ident]*attempt
	hooks
	memory
	out    launcher.Outbox
	hash   uint64
	stats  Stats
	broken []Violation
}

// hooks are the parts of a world that not every run has.
type hooks struct {
	members *stealer.Members // shared by all launchers; nil: each has its own
	detect  *detector
	fuse    *fuse
	watch   func(from, to *host, m launcher.Message) // sees every message sent
	peek    func(h *host, e *event)                  // sees every input before the Node does
}

// memory is what the checkers remember of the messages; nil maps in a run that
// does not look at them.
type memory struct {
	byID   map[filch.JobID]*job
	heard  map[heardKey]*launcher.Grant
	judged map[filch.Ident]bool // launches that were checked
}

// Stats counts what happened.
type Stats struct {
	Events   uint64
	Messages uint64 // sent from one host to another
	ByKind   map[string]uint64
	Ended    int // jobs whose client heard the end
}

// Violation is something that must never be, with the moment it was seen.
type Violation struct {
	At   time.Duration
	Rule string
	Text string
}

// wallClock is the Unix time at the beginning of a run.
const wallClock = 1_700_000_000 * int64(time.Second)

// NewWorld makes hosts whose launchers run and know each other.
func NewWorld(opt Options) *World {
	w := &World{
		opt: opt, childRng: fate.NewDice(opt.Seed, 2), faultRng: fate.NewDice(opt.Seed, 3),
		net:      fate.NewNetwork(opt.Hosts, opt.Links, fate.NewDice(opt.Seed, 4)),
		byName:   make(map[filch.NodeName]*host, opt.Hosts),
		attempts: make(map[filch.Ident]*attempt),
	}
	if opt.CountKinds {
		w.stats.ByKind = make(map[string]uint64)
	}
	if opt.Words {
		w.memory = memory{make(map[filch.JobID]*job), make(map[heardKey]*launcher.Grant), make(map[filch.Ident]bool)}
	}
	boots := fate.NewDice(opt.Seed, 5)
	for i := range opt.Hosts {
		h := &host{w: w, index: int32(i), name: filch.NodeName("n" + strconv.Itoa(i+1)), wake: filch.Never}
		h.cores, h.subs = make([]*keeper, opt.Slots), make([]*keeper, opt.Slots)
		h.records = make(map[string]launcher.Record)
		h.promises, h.gpus = make(promises), make(map[string]*keeper)
		h.trouble = -filch.Never
		h.born = -boots.Between(0, time.Hour)
		w.hosts = append(w.hosts, h)
		w.byName[h.name] = h
	}
	if opt.Calm {
		w.share()
	} else {
		w.detect = newDetector(w, opt.Hosts)
	}
	for _, h := range w.hosts {
		h.born = -boots.Between(0, time.Hour)
		h.make()
	}
	if w.detect != nil {
		w.introduceAll()
	}
	return w
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Rule, v.Text) }

// maxViolations bounds what one run reports; it stops at the first anyway, but
// one event may break several rules.
const maxViolations = 16

func (w *World) fail(rule, format string, args ...any) {
	if len(w.broken) < maxViolations {
		w.broken = append(w.broken, Violation{w.now, rule, fmt.Sprintf(format, args...)})
	}
	w.trace("", "VIOLATION "+rule, fmt.Sprintf(format, args...))
}

// trace writes one dense line: the moment, who, what, and the thing itself.
func (w *World) trace(who filch.NodeName, what string, thing any) {
	if w.opt.Trace != nil {
		w.opt.Trace(fmt.Sprintf("%12.6f %-4s %-8s %s", w.now.Seconds(), who, what, show(thing)))
	}
}

// said lets the checkers see a message that leaves.
func (w *World) said(from, to *host, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Grant:
		w.promised(from, to, m)
	case *launcher.Dispatch:
		w.checkDispatch(from, m)
	}
}

// show prints a thing with its type, on one line, without the encoded order.
func show(thing any) string {
	v := reflect.ValueOf(thing)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	return fmt.Sprintf("%s%+v", v.Type().Name(), v.Interface())
}

// run handles events until none is left, the horizon is passed or a rule is
// broken.
func (w *World) run(until time.Duration) {
	most := w.opt.MaxSteps
	if most == 0 {
		most = 1e9
	}
	for w.queue.Len() > 0 && len(w.broken) == 0 {
		if w.queue.Next() > until {
			break
		}
		at, e := w.queue.Pop()
		w.now = at
		w.stats.Events++
		if w.stats.Events > most {
			w.fail("endless", "more than %d events", most)
			return
		}
		w.mix(uint64(at)<<8 | uint64(e.kind))
		w.mix(uint64(uint32(e.from))<<32 | uint64(uint32(e.to)))
		w.step(&e)
	}
	if len(w.broken) == 0 && until < filch.Never {
		w.now = max(w.now, until)
	}
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
	w.handle(e)
}

// site says where a panic came from: the callers in the cores.
func site() string {
	pcs := make([]uintptr, 24)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(4, pcs)])
	var text strings.Builder
	for range 5 {
		f, more := frames.Next()
		fmt.Fprintf(&text, " %s:%d", path.Base(f.File), f.Line)
		if !more {
			break
		}
	}
	return text.String()
}

func (w *World) handle(e *event) {
	if e.kind == evDo {
		e.body.(func())()
		return
	}
	h := w.hosts[e.to]
	switch e.kind {
	case evChild:
		s := e.body.(*step)
		if h.frozen && w.now < h.pausedUntil {
			w.queue.Push(h.pausedUntil, *e)
		} else if s.gen == s.k.gen && !s.k.killed {
			s.do(s.k)
		}
	case evServe:
		h.serving = false
		h.serve()
	case evWake:
		if w.now == h.wake && int32(h.gen) == e.from {
			h.wake = filch.Never
			h.offer(*e)
		}
	default:
		h.offer(*e)
	}
}

// do schedules f, which belongs to no host.
func (w *World) do(at time.Duration, f func()) {
	w.queue.Push(max(at, w.now), event{kind: evDo, from: -1, to: -1, body: f})
}

// send puts a message of one host on its way to another.
func (w *World) send(from *host, to filch.NodeName, m launcher.Message) {
	target := w.byName[to]
	if target == nil {
		w.fail("unknown-node", "%s sends %T to %q, which does not exist", from.name, m, to)
		return
	}
	if target == from {
		w.fail("self-send", "%s sends %T to itself", from.name, m)
		return
	}
	w.stats.Messages++
	if w.watch != nil {
		w.watch(from, target, m)
	}
	if w.byID != nil {
		w.said(from, target, m)
	}
	if w.stats.ByKind != nil {
		w.stats.ByKind[nameOf(m)]++
	}
	from.busy = max(from.busy, w.now) + MessageCost
	at, n := w.net.Arrivals(from.busy, from.index, target.index)
	for i := range n {
		w.queue.Push(at[i], event{kind: evMessage, from: from.index, to: target.index, body: m})
	}
}
