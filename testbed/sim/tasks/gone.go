package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// In half of the worlds hosts answer for a launcher that has ended, so that the
// others call it gone at once; and a firewall answers so now and then for one that
// lives. The dice are their own: the other half is as without.

func answering(seed uint64) *engine.Dice {
	if d := engine.NewDice(seed, 13); d.N(2) == 0 {
		return d
	}
	return nil
}

// goneWithin is how soon others hear that a launcher has ended.
const goneWithin = 100 * time.Millisecond

// missed has all others call a host gone, most of them if it lives.
func (w *World) missed(h *host, all bool) {
	m := word{filch.Member{Name: h.Name, Incarnation: h.incarnation, Standing: filch.Gone, Group: group(int(h.Index)), Labels: w.needs.labels(int(h.Index))}, h.seen.version}
	for _, o := range w.hosts {
		if o == h || !all && w.gone.N(8) == 0 {
			continue
		}
		life := o.incarnation
		w.At(w.Now()+w.gone.Between(time.Millisecond, goneWithin), func() {
			if h.incarnation == m.Incarnation && !h.seen.dead && (!h.Up() || h.seen.gone) {
				w.learn(o, life, m)
			}
		})
	}
	w.rehome(goneWithin)
}

// rehome has all hosts look at the records that are homed at them now.
func (w *World) rehome(within time.Duration) {
	for _, o := range w.hosts {
		life := o.incarnation
		w.At(w.Now()+w.gone.Between(0, within), func() {
			o.input(life, "homes", func(now time.Duration, out *mtc.Out) { o.core.Homed(now, o.homed(), out) })
		})
	}
}

// rejectOne has a host that lives called gone for a while, and then plans the
// next.
func (w *World) rejectOne(left int) {
	d := w.gone
	if left == 0 {
		return
	}
	h := w.hosts[d.N(len(w.hosts))]
	if h.Up() && !h.seen.dead && !h.seen.gone && !h.Paused() && !h.cut {
		w.note(h, "rejected")
		w.shake()
		h.seen.gone = true
		life := h.incarnation
		w.missed(h, false)
		w.At(w.Now()+d.Between(goneWithin, 3*time.Second), func() {
			if h.incarnation != life || !h.Up() {
				return
			}
			w.note(h, "refuted")
			w.shake()
			h.seen.gone = false
			h.seen.version++
			if !h.seen.dead {
				w.hear(h.word())
				w.rehome(500 * time.Millisecond)
			}
		})
	}
	w.At(w.Now()+d.Between(200*time.Millisecond, 8*time.Second), func() { w.rejectOne(left - 1) })
}

// wronged reports whether a task is lost that a node started which may live.
func (t *truth) wronged(id filch.JobID, i int32, k *record.Task) bool {
	h := t.w.byName(k.By.Node)
	return k.State == filch.Lost && t.jobs[id].Spec.Once && t.jobs[id].starts[i] > 0 && h != nil && h.incarnation == k.By.Incarnation && !h.seen.dead
}
