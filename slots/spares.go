package slots

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Spares keeps room for the next attempt of a job that may lose nodes: holds on nodes that the
// job does not use, and the room of ranks that ended. Kept room is a hold that no older ticket
// takes away. As of every hold, the origin is asked whether the job still wants the room.
type Spares struct{ ledger *Ledger }

// Keep makes a hold one that is kept, with room for ranks and no more. Keep fails if the hold
// has too few ranks, or is gone. Room in use by ranks stays as it is: the origin answered a
// Grant from before the launch.
func (s *Spares) Keep(now time.Duration, k Key, lease filch.LeaseID, ranks int32) bool {
	l := s.ledger
	c := l.find(k, lease)
	if c != nil && c.state > Held {
		return true
	}
	if c == nil || c.state != Held || c.firm() < ranks || ranks <= 0 {
		return false
	}
	c.heard(now)
	if c.kept {
		return true
	}
	if c.lends.on = false; len(c.fills) > 0 {
		l.Backfill.leave(c)
		l.Backfill.shrink(c)
	}
	l.wait.remove(c)
	c.kept, c.ask.Wait, c.ask.Want = true, false, ranks
	if !c.ask.Exclusive {
		l.strip(c, c.held-ranks)
	}
	c.held = ranks
	l.pump(now)
	return true
}

// Retain keeps the room of a launched claim whose processes are gone, where [Ledger.End] frees
// the room. The lease stays. Retain fails if steps use the room.
func (s *Spares) Retain(now time.Duration, k Key, lease filch.LeaseID) bool {
	l := s.ledger
	c := l.find(k, lease)
	if c == nil || c.state != Locked && c.state != Running || c.parent != nil || len(c.subs) > 0 {
		return false
	}
	c.state, c.kept, c.got, c.ends = Held, true, now, 0
	c.ask.Wait, c.ask.Want, c.lends = false, c.held, lending{}
	c.heard(now)
	l.reports.touch(now, c)
	return true
}

// move gives a kept hold to the attempt that is launched on its lease; nil if there is none.
func (s *Spares) move(k Key, lease filch.LeaseID) *claim {
	l := s.ledger
	i := slices.IndexFunc(l.holds, func(c *claim) bool { return c.kept && c.lease == lease })
	if i < 0 || l.claims[k] != nil {
		return nil
	}
	c := l.holds[i]
	delete(l.claims, c.ask.Key)
	c.ask.Key = k
	l.claims[k] = c
	return c
}

// free gives all kept room back: the node drains.
func (s *Spares) free(now time.Duration) {
	l := s.ledger
	for _, c := range slices.Clone(l.holds) {
		if c.kept {
			l.strip(c, c.held)
			l.drop(c)
			l.reports.touch(now, c)
		}
	}
}
