package store

import (
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// hosts are those of the nodes where they answer for a process that has ended:
// in half of the worlds. There also is a firewall now and then that answers so for
// a process that lives. The dice are its own, so that the other half of the worlds
// is as without hosts.
type hosts struct{ dice *engine.Dice }

// answering are the dice of the hosts of a world, or nil.
func answering(seed uint64) *engine.Dice {
	if d := engine.NewDice(seed, 14); d.N(2) == 0 {
		return d
	}
	return nil
}

// ended has all who reach the host of a process that has ended call it gone.
func (m *members) ended(s *node) {
	if m.hosts.dice == nil {
		return
	}
	incarnation := s.incarnation
	for _, o := range m.w.nodes {
		m.w.After(m.hosts.dice.Between(time.Millisecond, gossipMax), func() {
			if o != s && o.Speaks() && !m.w.Net.IsCut(s.Index, o.Index) && !m.w.Net.IsCut(o.Index, s.Index) {
				m.miss(o, s, incarnation, 0)
			}
		})
	}
}

// miss makes o call s gone until it hears it after a moment.
func (m *members) miss(o, s *node, incarnation uint64, until time.Duration) {
	if v := m.view(o, s); v.incarnation == incarnation && (v.standing == upright || v.standing == suspected) {
		v.rejected = until
		m.tell(o, s, v, missing)
	}
}

// reject has most nodes call one gone that lives, for a while.
func (m *members) reject() {
	w, d := m.w, m.hosts.dice
	if w.faults.over || d == nil {
		return
	}
	if up := w.up(); len(up) > 0 && !w.faults.hold {
		s := up[d.N(len(up))]
		until := w.Now() + d.Between(20*time.Millisecond, 1500*time.Millisecond)
		w.stats.Faults++
		s.disturb()
		w.Trace(s.Name, "rejected", "until %v", until)
		incarnation := s.incarnation
		for _, o := range w.nodes {
			if o == s || d.N(8) == 0 {
				continue
			}
			w.After(d.Between(time.Millisecond, gossipMax), func() {
				if o.Speaks() {
					m.miss(o, s, incarnation, until)
				}
			})
		}
	}
	w.After(d.Between(0, 3*w.plan.gap), m.reject)
}
