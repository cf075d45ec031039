package engine

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Host is a machine on which one process runs, or none. Its inputs are handled
// one at a time and in order: what comes while the process is paused or busy
// waits.
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
	serves time.Duration // when the event comes that takes the next input; filch.Never: none is scheduled
	alarm  time.Duration
	due    func()
}

// Add makes the next host of an engine. Nothing runs on it yet.
func (e *Engine) Add(h *Host, name filch.NodeName) {
	*h = Host{Index: int32(len(e.hosts)), Name: name, engine: e, serves: filch.Never, alarm: filch.Never}
	e.hosts = append(e.hosts, h)
}

// Start begins a process whose own clock was 0 at the moment born, which may lie
// before the run. Due is called whenever the alarm of [Host.Wake] rings.
func (h *Host) Start(born time.Duration, due func()) {
	h.up, h.born, h.due = true, born, due
	h.life++
	h.busy, h.paused = h.engine.now, h.engine.now
	h.drop()
}

// Stop ends the process: what waits for it, or was scheduled for it, is void.
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

// Life is the number of the process that runs; it also changes when one stops.
func (h *Host) Life() int32 { return h.life }

// Local is the clock of the process.
func (h *Host) Local() time.Duration { return h.engine.now - h.born }

// Paused reports whether the process stands still.
func (h *Host) Paused() bool { return h.paused > h.engine.now }

// PausedUntil is when it goes on; a moment that has passed if it does not stand
// still.
func (h *Host) PausedUntil() time.Duration { return h.paused }

// Speaks reports whether the process runs and does not stand still.
func (h *Host) Speaks() bool { return h.up && !h.Paused() }

// Pause makes the process stand still until a moment; a longer pause that is
// under way counts.
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

// Input hands f to the process of now, at a moment or, if that has passed, now.
// It is void if another process runs by then.
func (h *Host) Input(at time.Duration, f func()) {
	h.engine.queue.Push(max(at, h.engine.now), event{h, h.life, f})
}

// Do hands f to the process of now, at once if that can take it. It is void if none
// runs.
func (h *Host) Do(f func()) { h.offer(&event{h, h.life, f}) }

// Arrive hands f to whichever process runs at that moment; void if none does.
func (h *Host) Arrive(at time.Duration, f func()) {
	h.engine.queue.Push(max(at, h.engine.now), event{h, 0, f})
}

// Send puts a message on its way; the network decides how often and when deliver
// is an input of the process that then runs on the other host.
func (h *Host) Send(to *Host, deliver func()) {
	at, n := h.engine.Net.Arrivals(max(h.busy, h.engine.now), h.Index, to.Index)
	for i := range n {
		to.Arrive(at[i], deliver)
	}
}

// Wake sets the alarm of the process by its own clock; filch.Never takes it
// away. There is one: the last call counts.
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

// ring lets the process do what is due, unless the alarm was set anew. After a
// pause it rings late.
func (h *Host) ring() {
	if h.alarm <= h.engine.now {
		h.alarm = filch.Never
		h.due()
	}
}

// offer hands an event to the process now, or puts it behind what waits.
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

// schedule makes the process take the next input once it can. An input that an
// event of the engine hands over is taken at once.
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

// serve takes the next input that waits.
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
