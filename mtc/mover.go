package mtc

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// moverPeriod is how often the mover looks at the dedicated queue.
const moverPeriod = 100 * time.Millisecond

// mover places ready tasks, and shares tasks dedicated to this node that would wait too long
// (FLDS).
type mover struct {
	*turn
	core *Core
	policy.Policy
	ends  policy.Throughput
	share policy.Sharing
	at    time.Duration // of the next look
	loads policy.Loads
	giver policy.Giver
	own   policy.Load // of this node, in the turn with the number ownAt
	ownAt uint64
}

func (m *mover) init(c *Core, p policy.Policy) {
	m.core, m.turn = c, &c.turn
	m.set(p)
	m.at = filch.Never
}

func (m *mover) set(p policy.Policy) {
	m.Policy = p
	m.share.Set(m.LocalTimeMax())
}

// length is the estimated length of a task.
func (m *mover) length() time.Duration { return m.ends.Mean(m.Guess) }

// place puts a ready task of a graph where the policy decides: into a queue of this node,
// or into a peer's.
func (m *mover) place(j *job, it queue.Item) {
	p := m.Policy
	if p.Kind = m.kind(j); p.Kind == policy.ADAGE {
		m.soonest(j, it, true)
		return
	}
	to, peer := p.Place(it.Inputs, m.core.cfg.Self, m.length())
	if to == policy.ToPeer {
		if p := m.core.cfg.Members.Get(peer); p != nil && p.Standing == filch.Up && policy.Suits(j.spec, p) {
			m.core.victim.give(j, it, peer, true)
			return
		}
		to = policy.ToShared // the node with the task's data takes no work
	}
	if to == policy.ToDedicated && !j.unfit {
		m.dedicate(j, it)
	} else {
		j.queue.Shared.Push(it)
	}
	m.core.active(j)
}

// kind is the policy that places the tasks of a workflow. Away from the leader, where
// [policy.Auto] knows nothing of the workflow, no task is bound for good.
func (m *mover) kind(j *job) policy.Kind {
	switch {
	case m.Kind != policy.Auto:
		return m.Kind
	case j.leader != nil && j.leader.plan != nil:
		return j.leader.plan.Choice.Kind
	}
	return policy.ADAGE
}

// SetPolicy changes the policy and places the queued tasks again.
func (c *Core) SetPolicy(now time.Duration, p policy.Policy, out *Out) {
	c.enter(now, out)
	c.mover.set(p)
	for _, j := range c.sortedJobs() {
		c.mover.again(j)
	}
	c.settle()
}

// again places the queued tasks of a job again.
func (m *mover) again(j *job) {
	for _, it := range j.queue.Placed() {
		if j.spec == nil || !j.Graph() || len(it.Inputs) == 0 && !m.Kind.Asks() { // the spec may be on its way
			j.queue.Shared.Push(it)
			continue
		}
		m.place(j, it)
	}
}

// Policy is the present policy, with the adapted tt as LocalTime, and the choice of victims.
func (c *Core) Policy() policy.Policy {
	p := c.mover.Policy
	p.LocalTime, p.Victims = c.mover.share.TT(), c.mover.victims()
	return p
}

// victims is the present choice of victims.
func (m *mover) victims() policy.Victims {
	if v := m.Thieves(m.core.cfg.Victims); v != policy.NoStealing || !mutants.StealsOn {
		return v
	}
	return policy.Random
}

// said takes in the load of a node.
func (m *mover) said(from filch.NodeName, w *message.WorkSay) {
	m.core.pace.estimates.Heard(w.Rate)
	if m.loads.Said(from, w.Load) {
		m.at = m.now
	}
	m.giver.Said(from, w.Load)
}

// tick shares dedicated tasks that would wait too long (FLDS).
func (m *mover) tick() {
	if m.at > m.now {
		return
	}
	m.at = filch.Never
	if m.Kind.Asks() {
		m.sooner()
	}
	n := 0
	for _, j := range m.core.order {
		n += len(j.queue.Dedicated)
	}
	if n == 0 || m.Kind != policy.FLDS {
		return
	}
	m.at = m.now + moverPeriod
	k := m.share.Excess(n, m.ends.Rate(m.now))
	for i := len(m.core.order) - 1; i >= 0 && k > 0; i-- {
		k -= m.core.order[i].queue.Share(k)
	}
}
