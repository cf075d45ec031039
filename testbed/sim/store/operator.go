package store

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// pleas is how often a person gives up what is lost until all is whole: once the
// roster, and once the shards that no disk brought back since.
const pleas = 3

// pleaMax is how long one of them may take, and what follows from it: longer than
// the disks of some are waited for.
const pleaMax = 2 * store.RecoverAfter

// operate is what a person does whose instance has lost its roster, or shards,
// for good: he accepts the loss. Then everything must be whole again and answer,
// whatever is in it: what the clients saw before is all that is judged.
func (w *World) operate() {
	if w.ground.sound {
		return
	}
	past := w.past
	w.past = past.copy()
	defer func() { w.past = past }()
	missing := ""
	for range pleas {
		// One that is on its way out says so, and a person goes to another.
		up := slices.DeleteFunc(w.up(), func(n *node) bool { return n.leaving && w.staying() > 0 })
		n := up[w.rng.fault.N(len(up))]
		r := w.acceptLoss(n)
		if !w.sound() {
			return
		}
		w.Trace(n.Name, "accepts", "the loss: %v %v %s", r.Outcome, r.Version, r.Err)
		for end := w.Now() + pleaMax; w.sound() && w.Now() < end; w.Run(w.Now() + 100*time.Millisecond) {
			if missing = w.whole(); missing == "" {
				w.probe()
				return
			}
		}
	}
	w.Fail("not-whole", "the loss was accepted %d times, and still: %s", pleas, missing)
}

// acceptLoss has a node give up what is lost, and waits for the answer.
func (w *World) acceptLoss(n *node) dht.Result {
	w.ground.tags++
	tag := w.ground.tags
	w.ground.pleas[tag] = dht.Result{}
	n.input(func() {
		n.call(func(now time.Duration, out *store.Out) { n.store.AcceptLoss(now, tag, nil, out) })
	})
	for end := w.Now() + pleaMax; w.sound() && w.Now() < end; w.Run(w.Now() + 50*time.Millisecond) {
		if r := w.ground.pleas[tag]; r.Outcome != 0 {
			return r
		}
	}
	w.Fail("plea", "%s did not say within %v whether the loss is accepted", n.Name, pleaMax)
	return dht.Result{}
}

// copy can go on without a change of h.
func (h *history) copy() history {
	c := history{step: h.step, keys: slices.Clone(h.keys), seen: maps.Clone(h.seen), byKey: maps.Clone(h.byKey)}
	for k, all := range c.byKey { // any order
		c.byKey[k] = slices.Clip(slices.Clone(all))
	}
	return c
}
