package engine

import (
	"fmt"
	"path"
	"runtime"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// Options are the options of an engine.
type Options struct {
	Seed  uint64
	Hosts int // the most that [Engine.Add] takes
	Links Links
	Trace func(line string) // nil: nothing is traced
	Steps uint64            // a run with more events has no end; 0 is StepsMax
	Begin time.Duration     // the first moment; before 0 where a run has a prologue
}

// StepsMax is the default of [Options.Steps].
const StepsMax = 1_000_000_000

// violationsMax bounds the violations reported by a run. A run stops at the first event
// that breaks a rule, but an event may break several rules.
const violationsMax = 16

// netStream is the stream of dice of the network; simulators use the streams below
// netStream.
const netStream = 1 << 32

// Engine runs one simulated instance.
type Engine struct {
	Net    *Network
	opt    Options
	now    time.Duration
	queue  filch.Timeline[event]
	hosts  []*Host
	steps  uint64
	hash   uint64
	broken []Violation
}

// event is a call at a moment, to a host or to no host. The event is for the process
// with the number life; 0 means the process running at that moment.
type event struct {
	host *Host
	life int32
	do   func()
}

// Violation is a broken rule, with the moment of the finding.
type Violation struct {
	At   time.Duration
	Rule string
	Text string
}

func (v Violation) String() string { return fmt.Sprintf("%v %s: %s", v.At, v.Rule, v.Text) }

// New returns an engine without hosts.
func New(opt Options) *Engine {
	if opt.Steps == 0 {
		opt.Steps = StepsMax
	}
	e := &Engine{opt: opt, now: opt.Begin}
	e.Net = NewNetwork(opt.Hosts, opt.Links, e.Dice(netStream))
	return e
}

// Dice returns the generator of a stream of the seed. Streams are independent: if a part
// of a simulator draws more than before, the draws of other parts do not change.
func (e *Engine) Dice(stream uint64) *Dice { return NewDice(e.opt.Seed, stream) }

// Now is the moment of the present event.
func (e *Engine) Now() time.Duration { return e.now }

// Steps is how many events have happened.
func (e *Engine) Steps() uint64 { return e.steps }

// Hash is a hash of all events so far and of the words given to [Engine.Mix]: two runs
// of a seed have the same hash.
func (e *Engine) Hash() uint64 { return e.hash }

// Mix folds a word into the hash.
func (e *Engine) Mix(v uint64) {
	e.hash = (e.hash ^ v) * 0x100000001b3
	e.hash ^= e.hash >> 29
}

// At schedules f for no host. A moment in the past means now.
func (e *Engine) At(at time.Duration, f func()) { e.queue.Push(max(at, e.now), event{do: f}) }

// After schedules f a while from now.
func (e *Engine) After(d time.Duration, f func()) { e.At(e.now+d, f) }

// Pending is the moment of the next event; filch.Never without one.
func (e *Engine) Pending() time.Duration { return e.queue.Next() }

// Run handles the events up to a moment, or until a rule is broken, and moves
// the clock there. Until may be filch.Never: the run ends with the last event.
func (e *Engine) Run(until time.Duration) { e.RunUntil(until, nil) }

// RunUntil is Run that also ends once done returns true after an event. RunUntil
// reports whether done returned true.
func (e *Engine) RunUntil(until time.Duration, done func() bool) bool {
	for len(e.broken) == 0 && e.queue.Len() > 0 && e.queue.Next() <= until {
		at, ev := e.queue.Pop()
		e.now = at
		if e.steps++; e.steps > e.opt.Steps {
			e.Fail("endless", "more than %d events", e.opt.Steps)
			return false
		}
		e.step(&ev)
		if done != nil && done() {
			return true
		}
	}
	if len(e.broken) == 0 && until < filch.Never {
		e.now = max(e.now, until)
	}
	return false
}

// step handles an event. A panic, of an invariant or not, breaks a rule.
func (e *Engine) step(ev *event) {
	defer func() {
		if p := recover(); p != nil {
			e.Fail("panic", "%v at%s", p, site())
		}
	}()
	if ev.host == nil {
		e.Mix(uint64(e.now))
		ev.do()
		return
	}
	e.Mix(uint64(e.now)<<10 ^ uint64(ev.host.Index))
	ev.host.offer(ev)
}

// site names the nearest callers of a panic.
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

// Fail notes that a rule is broken; the run ends with this event.
func (e *Engine) Fail(rule, format string, args ...any) {
	v := Violation{e.now, rule, fmt.Sprintf(format, args...)}
	if len(e.broken) < violationsMax {
		e.broken = append(e.broken, v)
	}
	e.Trace("", "VIOLATION", "%s: %s", v.Rule, v.Text)
}

// Broken lists the rules that were broken, in order.
func (e *Engine) Broken() []Violation { return e.broken }

// Tracing reports whether Trace writes lines.
func (e *Engine) Tracing() bool { return e.opt.Trace != nil }

// Trace writes a line: the moment, the host, the event there, and details.
func (e *Engine) Trace(host filch.NodeName, event, format string, args ...any) {
	if e.opt.Trace != nil {
		e.opt.Trace(strings.TrimRight(fmt.Sprintf("%12.6f %-4s %-10s %s", e.now.Seconds(), host, event, fmt.Sprintf(format, args...)), " "))
	}
}
