package tasks

import (
	"time"

	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// startsWithin is how long after the drain of a host a task may begin there whose
// start was being committed: an answer of the store may be late, and lost.
const startsWithin = 5 * time.Second

// orderAgain is how often a host that does not answer is told to drain. It is short:
// one that was declared dead and goes on is to hear that, too, before it knows.
const orderAgain = 50 * time.Millisecond

// drains plans that hosts drain, and which of them take work again. Of some seeds
// all drain for a while; one takes work in the end.
func (w *World) drains(d *engine.Dice) {
	if d.Chance(0.4) {
		return
	}
	stays, t := d.N(len(w.hosts)), d.Between(0, 3*time.Second)
	for range 1 + d.N(6) {
		i, again := d.N(len(w.hosts)), d.Between(0, 10*time.Second)
		// One of the hosts with the common label takes work in the end, too.
		undo := i == stays || stays == w.needs.bare && i == (stays+1)%len(w.hosts) || d.Chance(0.5)
		w.At(t, func() { w.drain(i, true) })
		if undo {
			w.At(t+again, func() { w.drain(i, false) })
		}
		t += d.Between(0, 4*time.Second)
	}
}

// drain has a host drain, or take work again. Who does not answer is asked again
// later, as its operator would who has not changed his mind.
func (w *World) drain(i int, on bool) {
	h := w.hosts[i]
	h.orders++
	h.order(on, h.orders)
}

func (h *host) order(on bool, nth int) {
	w := h.w
	switch {
	case nth < h.orders:
		return
	case !h.Up() || h.Paused() || h.cut:
		w.At(w.Now()+orderAgain, func() { h.order(on, nth) })
		return
	}
	h.drains = on
	h.drained = w.Now()
	w.Stats.Drains++
	w.Call(int(h.Index), "drain", func(c *mtc.Core, now time.Duration, out *mtc.Out) { c.Drain(now, on, out) })
	if h.seen.version++; !h.seen.gone { // else the refutation says it
		w.hear(h.word())
	}
}

// outside checks that nothing begins on a host that drains.
func (t *truth) outside(h *host, s mtc.Start) {
	w := t.w
	if h.drains && !h.Paused() && !h.cut && w.Now()-h.drained > startsWithin {
		t.breach("task %d.%d began on %s, which has drained for %v", s.Job, s.Index, h.Name, w.Now()-h.drained)
	}
}
