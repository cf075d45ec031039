package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// The lower bound of tt, and how often the mover looks at the dedicated queue.
const (
	localTimeMin = 10 * time.Millisecond
	moverPeriod  = 100 * time.Millisecond
)

// mover shares tasks dedicated to this node that would wait too long (FLDS).
type mover struct {
	*turn
	core *Core
	policy.Policy
	ends  policy.Throughput
	tt    time.Duration
	at    time.Duration // of the next look
	loads policy.Loads
}

func (m *mover) init(c *Core, p policy.Policy) {
	m.core, m.turn = c, &c.turn
	m.Policy = p
	m.tt = m.LocalTimeMax()
	m.at = filch.Never
}

// length is the estimated length of a task.
func (m *mover) length() time.Duration { return m.ends.Mean(m.Guess) }

// stealFailed doubles tt again, up to the configured bound (IV.E): otherwise a node that
// failed to steal before its first work would never share tasks.
func (m *mover) stealFailed() { m.tt = min(2*m.tt, m.LocalTimeMax()) }

// place puts a ready task of a graph where the policy decides: into a queue of this node,
// or into a peer's.
func (m *mover) place(j *job, it queue.Item) {
	if m.Kind == policy.ADAGE {
		m.soonest(j, it, true)
		return
	}
	to, peer := m.Place(it.Inputs, m.core.cfg.Self, m.length())
	if to == policy.ToPeer {
		if p := m.core.cfg.Members.Get(peer); p != nil && p.Standing == filch.Up && policy.Suits(j.spec, p) {
			m.core.victim.give(j, it, peer, true)
			return
		}
		to = policy.ToShared // the node with the task's data takes no work
	}
	if to == policy.ToDedicated && !j.unfit {
		j.queue.Dedicated.Push(it)
		m.at = min(m.at, m.now+moverPeriod)
	} else {
		j.queue.Shared.Push(it)
	}
	m.core.active(j)
}

// SetPolicy changes the policy and places the queued tasks again.
func (c *Core) SetPolicy(now time.Duration, p policy.Policy, out *Out) {
	c.enter(now, out)
	c.mover.Policy = p
	c.mover.tt = c.mover.LocalTimeMax()
	for _, j := range c.sortedJobs() {
		list := j.queue.Placed()
		for _, it := range list {
			if !j.Graph() || len(it.Inputs) == 0 && p.Kind != policy.ADAGE {
				j.queue.Shared.Push(it)
				continue
			}
			c.mover.place(j, it)
		}
	}
	c.settle()
}

// Policy is the present policy, with the adapted tt as LocalTime, and the choice of victims.
func (c *Core) Policy() policy.Policy {
	p := c.mover.Policy
	p.LocalTime, p.Victims = c.mover.tt, c.mover.victims()
	return p
}

// victims is the present choice of victims.
func (m *mover) victims() policy.Victims {
	if m.Victims == policy.ByDefault {
		return m.core.cfg.Victims
	}
	return m.Victims
}

// tick shares dedicated tasks that would wait too long (FLDS).
func (m *mover) tick() {
	if m.at > m.now {
		return
	}
	m.at = filch.Never
	if m.Kind == policy.ADAGE {
		m.again()
		return
	}
	n := 0
	for _, j := range m.core.order {
		n += len(j.queue.Dedicated)
	}
	if n == 0 || m.Kind != policy.FLDS {
		return
	}
	m.at = m.now + moverPeriod
	k := policy.Excess(n, m.ends.Rate(m.now), m.tt)
	if k == 0 {
		return
	}
	m.tt = max(m.tt/2, localTimeMin)
	for i := len(m.core.order) - 1; i >= 0 && k > 0; i-- {
		k -= m.core.order[i].queue.Share(k)
	}
}
