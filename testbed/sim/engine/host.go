package engine

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Host is a machine with at most one process. The process handles its inputs in order,
// and each input alone: an input that arrives while the process is paused or busy waits.
type Host struct {
	Index  int32
	Name   filch.NodeName
	engine *Engine
	up     bool
	life   int32         // counts processes
	born   time.Duration // when the clock of the process was 0
	busy   time.Duration // the cpu works until then
	paused time.Duration // the process stands still until then
	inbox  []event
	head   int
	serves time.Duration // the moment of the event that takes the next input; filch.Never: no event is scheduled
	alarm  time.Duration
	due    func()
}

// Add makes the next host of an engine, without a process.
func (e *Engine) Add(h *Host, name filch.NodeName) {
	*h = Host{Index: int32(len(e.hosts)), Name: name, engine: e, serves: filch.Never, alarm: filch.Never}
	e.hosts = append(e.hosts, h)
}

// Start begins a process. The clock of the process was 0 at the moment born; born may
// lie before the run. The engine calls due when the alarm of [Host.Wake] rings.
func (h *Host) Start(born time.Duration, due func()) {
	h.up, h.born, h.due = true, born, due
	h.life++
	h.busy, h.paused = h.engine.now, h.engine.now
	h.drop()
}

// Stop ends the process: its waiting and its scheduled inputs are void.
func (h *Host) Stop() {
	h.up = false
	h.life++
	h.paused = h.engine.now
	h.drop()
}

func (h *Host) drop() {
	clear(h.inbox)
	h.inbox, h.head, h.serves, h.alarm = h.inbox[:0], 0, filch.Never, filch.Never
}

// Up reports whether a process runs, paused or not.
func (h *Host) Up() bool { return h.up }

// Life is the number of the running process; the end of a process changes Life, too.
func (h *Host) Life() int32 { return h.life }

// Local is the clock of the process.
func (h *Host) Local() time.Duration { return h.engine.now - h.born }

// Paused reports whether the process stands still.
func (h *Host) Paused() bool { return h.paused > h.engine.now }

// PausedUntil is when the process goes on; a moment in the past if the process does not
// stand still.
func (h *Host) PausedUntil() time.Duration { return h.paused }

// Speaks reports whether the process runs and does not stand still.
func (h *Host) Speaks() bool { return h.up && !h.Paused() }

// Pause makes the process stand still until a moment; an earlier pause that ends later
// counts.
func (h *Host) Pause(until time.Duration) {
	if h.up {
		h.paused = max(h.paused, until)
	}
}

// Resume ends a pause.
func (h *Host) Resume() {
	if h.Paused() {
		h.paused = h.engine.now
		h.schedule()
	}
}

// Work makes the cpu busy for a while.
func (h *Host) Work(cost time.Duration) { h.busy = max(h.busy, h.engine.now) + cost }

// Input passes f to the present process, at a moment or, if the moment is in the past,
// now. The input is void if another process runs at that moment.
func (h *Host) Input(at time.Duration, f func()) {
	h.engine.queue.Push(max(at, h.engine.now), event{h, h.life, f})
}

// Do passes f to the present process, at once unless the process is paused or busy. The
// input is void without a process.
func (h *Host) Do(f func()) { h.offer(&event{h, h.life, f}) }

// Arrive passes f to the process running at that moment; void without a process.
func (h *Host) Arrive(at time.Duration, f func()) {
	h.engine.queue.Push(max(at, h.engine.now), event{h, 0, f})
}

// Send sends a message. The network decides how often and when deliver is an input of
// the process then running on the other host.
func (h *Host) Send(to *Host, deliver func()) {
	at, n := h.engine.Net.Arrivals(max(h.busy, h.engine.now), h.Index, to.Index)
	for i := range n {
		to.Arrive(at[i], deliver)
	}
}

// Wake sets the alarm of the process by its own clock; filch.Never takes the alarm away.
// A process has one alarm: the last call counts.
func (h *Host) Wake(local time.Duration) {
	if local == filch.Never {
		h.alarm = filch.Never
		return
	}
	at := max(local+h.born, h.engine.now+1)
	if at == h.alarm {
		return
	}
	h.alarm = at
	h.Input(at, h.ring)
}

// ring calls due, unless a later call of Wake has moved the alarm. After a pause the
// alarm rings late.
func (h *Host) ring() {
	if h.alarm <= h.engine.now {
		h.alarm = filch.Never
		h.due()
	}
}

// offer passes an event to the process now, or puts the event behind the waiting inputs.
func (h *Host) offer(ev *event) {
	if !h.up || ev.life != 0 && ev.life != h.life {
		return
	}
	if h.head == len(h.inbox) && h.busy <= h.engine.now && !h.Paused() {
		ev.do()
		return
	}
	h.inbox = append(h.inbox, *ev)
	h.schedule()
}

// schedule schedules the next input for the moment at which the process is neither
// paused nor busy.
func (h *Host) schedule() {
	at := max(h.busy, h.paused, h.engine.now)
	if h.serves <= at || h.head == len(h.inbox) {
		return
	}
	h.serves = at
	life := h.life
	h.engine.At(at, func() {
		if h.life == life && h.up && h.serves == at {
			h.serves = filch.Never
			h.serve()
		}
	})
}

// serve takes the next waiting input.
func (h *Host) serve() {
	if h.head == len(h.inbox) {
		return
	}
	if h.busy > h.engine.now || h.Paused() {
		h.schedule()
		return
	}
	ev := h.inbox[h.head]
	h.inbox[h.head] = event{}
	if h.head++; h.head == len(h.inbox) {
		h.inbox, h.head = h.inbox[:0], 0
	}
	life := h.life
	ev.do()
	if h.life == life {
		h.schedule()
	}
}
