package sim

import (
	"time"

	"github.com/filch-hpc/filch/stealer"
)

// Delays of the failure detector (DESIGN section 4): suspected within 2 s,
// dead 5 s after the last sign of life on a failed redial and a witness; news
// spreads by gossip.
const (
	suspectMin = 1500 * time.Millisecond
	suspectMax = 2 * time.Second
	deadMin    = 5 * time.Second
	deadMax    = 5500 * time.Millisecond
	gossipMin  = 2 * time.Millisecond
	gossipMax  = 250 * time.Millisecond
	learnMax   = 400 * time.Millisecond // a node that was declared dead learns it
	goneSooner = 20                     // than a silence is a process noticed that has ended
)

// detector stands in for dht.Members: it sees the truth about hosts and links
// and tells Nodes about each other with the delays of the real one.
type detector struct {
	w *World
	n int

	silent  []time.Duration // by observer*n+subject: no sign of life since then; -1 when heard
	heard   []uint64        // by pair: the incarnation the observer holds
	opinion []stealer.Standing
	epoch   []uint32 // by pair: a change makes older alarms void
	told    []uint64 // by host: the incarnation that is about to learn that it was declared dead
}

const heardNow = time.Duration(-1)

func newDetector(w *World, n int) *detector {
	d := &detector{
		w: w, n: n, silent: make([]time.Duration, n*n), heard: make([]uint64, n*n),
		opinion: make([]stealer.Standing, n*n), epoch: make([]uint32, n*n), told: make([]uint64, n),
	}
	for i := range d.silent {
		d.silent[i] = heardNow
	}
	return d
}

// hears reports whether signs of life of host s reach host o at this moment.
func (d *detector) hears(o, s *host) bool {
	return s.speaks() && o.speaks() && !d.w.net.IsCut(s.index, o.index)
}

// speaks reports whether the launcher of h is alive to the network.
func (h *host) speaks() bool { return h.node != nil && h.w.now >= h.pausedUntil }

// look compares every pair with what it was before: called at each change of
// hosts or links.
func (d *detector) look() {
	for _, o := range d.w.hosts {
		for _, s := range d.w.hosts {
			if o != s {
				d.lookAt(o, s)
			}
		}
	}
}

func (d *detector) lookAt(o, s *host) {
	pair := int(o.index)*d.n + int(s.index)
	if o.node == nil {
		return
	}
	heard := d.hears(o, s)
	switch {
	case heard && (d.silent[pair] != heardNow || d.heard[pair] != s.incarnation):
		d.silent[pair] = heardNow
		d.epoch[pair]++
		d.resume(o, s, pair)
	case heard && d.opinion[pair] == stealer.Dead && d.heard[pair] == s.incarnation:
		d.meet(o, s)
	case !heard && d.silent[pair] == heardNow:
		d.silent[pair] = d.w.now
		d.epoch[pair]++
		d.arm(o, s, pair)
	}
}

// arm sets the alarms of a pair that fell silent.
func (d *detector) arm(o, s *host, pair int) {
	epoch, w := d.epoch[pair], d.w
	state, after := stealer.Suspect, w.faultRng.Between(suspectMin, suspectMax)
	if s.node == nil && !w.net.IsCut(s.index, o.index) {
		state, after = stealer.Gone, after/goneSooner // its host answers
	}
	w.do(w.now+after, func() {
		if d.epoch[pair] == epoch && d.opinion[pair] == stealer.Up && d.wakeful(o) {
			d.tell(o, s, state)
		}
	})
	w.do(w.now+w.faultRng.Between(deadMin, deadMax), func() { d.judge(o, s, pair, epoch) })
}

func (d *detector) wakeful(o *host) bool { return o.node != nil && d.w.now >= o.pausedUntil }

// judge declares s dead to o when it is silent still and a witness agrees; else
// it asks again a little later.
func (d *detector) judge(o, s *host, pair int, epoch uint32) {
	if d.epoch[pair] != epoch || d.opinion[pair] == stealer.Dead || o.node == nil {
		return
	}
	if !d.wakeful(o) || !d.witness(o, s) {
		d.w.do(d.w.now+500*time.Millisecond, func() { d.judge(o, s, pair, epoch) })
		return
	}
	d.declare(o, s, d.heard[pair])
}

func (d *detector) witness(o, s *host) bool {
	for _, x := range d.w.hosts {
		if x == o || x == s || !d.hears(o, x) {
			continue
		}
		since := d.silent[int(x.index)*d.n+int(s.index)]
		if since != heardNow && d.w.now-since >= suspectMax {
			return true
		}
	}
	return false
}

// declare makes o hold the incarnation dead, and what o can reach soon after.
func (d *detector) declare(o, s *host, incarnation uint64) {
	pair := int(o.index)*d.n + int(s.index)
	if o == s || o.node == nil || d.heard[pair] > incarnation || d.opinion[pair] == stealer.Dead {
		return
	}
	d.tell(o, s, stealer.Dead)
	for _, x := range d.w.hosts {
		if x != o && x != s && d.hears(x, o) {
			d.w.do(d.w.now+d.w.faultRng.Between(gossipMin, gossipMax), func() {
				if d.hears(x, o) {
					d.declare(x, s, incarnation)
				}
			})
		}
	}
	d.meet(o, s)
}

// resume is called when o hears s again, or a new incarnation of it.
func (d *detector) resume(o, s *host, pair int) {
	if d.opinion[pair] == stealer.Dead && d.heard[pair] == s.incarnation {
		d.meet(o, s)
		return
	}
	if d.opinion[pair] == stealer.Up && d.heard[pair] == s.incarnation {
		return
	}
	d.heard[pair] = s.incarnation
	d.w.do(d.w.now+d.w.faultRng.Between(gossipMin, gossipMax), func() {
		if d.silent[pair] == heardNow && d.heard[pair] == s.incarnation && s.node != nil {
			d.tell(o, s, stealer.Up)
		}
	})
}

// meet makes a host that o holds dead learn of it as soon as they speak: it
// reaps and comes back with a new incarnation.
func (d *detector) meet(o, s *host) {
	gen, incarnation := s.gen, d.heard[int(o.index)*d.n+int(s.index)]
	if d.told[s.index] == incarnation || !d.hears(o, s) || !d.hears(s, o) {
		return
	}
	d.told[s.index] = incarnation
	d.w.do(d.w.now+d.w.faultRng.Between(gossipMin, learnMax), func() {
		if s.gen == gen && s.incarnation == incarnation && s.speaks() {
			d.w.rejoin(s)
		} else {
			d.told[s.index] = 0
		}
	})
}

func (d *detector) tell(o, s *host, state stealer.Standing) {
	pair := int(o.index)*d.n + int(s.index)
	d.opinion[pair] = state
	o.tellOf(s, state, d.heard[pair])
}

// introduce tells a launcher that has just begun of every host that it hears.
func (d *detector) introduce(o *host) {
	for _, s := range d.w.hosts {
		if s == o {
			continue
		}
		pair := int(o.index)*d.n + int(s.index)
		d.epoch[pair]++
		d.opinion[pair] = stealer.Up
		d.silent[pair] = heardNow
		d.heard[pair] = 0
		if !d.hears(o, s) {
			d.opinion[pair] = stealer.Dead
			d.silent[pair] = d.w.now
			continue
		}
		d.heard[pair] = s.incarnation
		d.tell(o, s, stealer.Up)
	}
}
