package policy

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// SweepAgain is how often a node looks through the records homed at the node, while tasks
// of dead nodes may need a new owner.
const SweepAgain = 2 * time.Second

const (
	sweepFor    = 20 * time.Second
	rehomePause = 100 * time.Millisecond
)

// Sweeps says when a node looks through the records homed at the node for tasks of dead
// owners: when records came home, and for some time after a death, since homes move, and not
// all nodes learn of a death at once.
type Sweeps struct {
	Unseen
	at     time.Duration // of the next sweep
	until  time.Duration // end of the sweeps after the last death
	asked  bool          // this node asked for the sweep; else homes changed
	retold bool          // tallies were sent again since the last death
}

// NewSweeps makes Sweeps without a sweep.
func NewSweeps() Sweeps { return Sweeps{at: filch.Never} }

// At is when [Sweeps.Due] begins a sweep.
func (s *Sweeps) At() time.Duration { return s.at }

// By makes a sweep due at a time, or before.
func (s *Sweeps) By(at time.Duration) { s.at = min(s.at, at) }

// Ask takes in that the node asks for a sweep now.
func (s *Sweeps) Ask() { s.asked = true }

// Due begins the sweep that is due.
func (s *Sweeps) Due(now time.Duration) bool {
	if s.at > now {
		return false
	}
	s.at, s.asked = filch.Never, true
	return true
}

// Died takes in a death, and asks for a sweep now.
func (s *Sweeps) Died(now time.Duration) {
	s.at, s.until = now+SweepAgain, now+sweepFor
	s.asked, s.retold = true, false
}

// Rehomed takes in that records came home.
func (s *Sweeps) Rehomed(now time.Duration) {
	s.By(now + rehomePause)
	s.retold = false
}

// Swept takes in the records of a sweep. Retell says whether the node sends the tallies
// again, which may have died with their reporter.
func (s *Sweeps) Swept(now time.Duration) (retell bool) {
	retell = !s.asked || !s.retold || now+SweepAgain >= s.until
	if s.asked, s.retold = false, true; now < s.until {
		s.By(now + SweepAgain)
	}
	return retell
}

// Gone reports whether an owner is dead, or at least gone. A node that no member list ever
// had counts as dead after a wait.
func (s *Sweeps) Gone(o record.Owner, m *Members, now time.Duration) bool {
	if o == (record.Owner{}) || m.Get(o.Node) != nil {
		return m.Dead(o) || m.Gone(o)
	}
	end := s.Until(o.Node, now)
	if end > now {
		s.By(end)
	}
	return end <= now
}
