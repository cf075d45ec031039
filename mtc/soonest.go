package mtc

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// againMax bounds the waiting tasks of a job that are placed again with the answers of nodes.
const againMax = 256

// soonest puts a task of a workflow on the node that would finish the task first (ADAGE), as
// far as this node knows the loads of others. The loads are asked for meanwhile, and tasks
// that still wait here are placed again when the answers come. A task that would wait for a
// slot on another node, without input there, waits here, where any thief may take it.
func (m *mover) soonest(j *job, it queue.Item, ask bool) {
	c, self := m.core, m.core.cfg.Self
	defer c.active(j)
	if j.spec.Capped() || j.spec.Gangs() || j.held() || j.unfit || c.drain.on {
		j.queue.Shared.Push(it)
		return
	}
	inputs, length := it.Inputs, m.length()
	if l := j.leader; l != nil && l.plan != nil {
		if length = l.plan.Length(it.Index); l.plan.Initial(it.Index) > 0 && j.rec.Hop == 0 {
			inputs = append(slices.Clone(inputs), policy.Input{Node: self, Bytes: l.plan.Initial(it.Index)})
		}
	}
	names := m.loads.Candidates(inputs, self, c.cfg.Members, &c.rng, func(p *filch.Member) bool {
		return p.Standing == filch.Up && policy.Suits(j.spec, p)
	})
	if ask {
		for _, n := range m.loads.Ask(m.now, names, self) {
			m.send(n, &message.WorkAsk{})
			m.at = min(m.at, m.now+policy.AskWait)
		}
	}
	if m.ownAt != m.number {
		m.own, m.ownAt = m.load(), m.number
	}
	to, stays := m.loads.Choose(names, self, m.own, inputs, length, &c.pace.estimates, c.cfg.Members)
	if to == self {
		m.own.Gave(length)
	}
	switch {
	case to == self && stays:
		m.dedicate(j, it)
	case to == self:
		j.queue.Shared.Push(it)
	default:
		c.victim.give(j, it, to, stays)
	}
}

// load is what this node has to do.
func (m *mover) load() policy.Load {
	e, q := &m.core.exec, m.core.Queues()
	return policy.LoadOf(e.room.Slots, e.used.Slots, q.Shared+q.Dedicated, q.Running, m.length(), m.core.pace.estimates.Measured())
}

// sooner places waiting tasks of the workflows that this node leads once more.
func (m *mover) sooner() {
	for _, j := range slices.Clone(m.core.order) {
		if j.leader == nil || j.leader.plan == nil || !j.Graph() || m.Kind == policy.Auto && j.leader.plan.Choice.Kind != policy.ADAGE {
			continue
		}
		list := j.queue.Top(againMax)
		m.ownAt = 0 // these tasks do not wait here now
		for _, it := range list {
			m.soonest(j, it, false)
		}
	}
}
