package mtc

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// give offers waiting tasks to the least loaded of some nodes, if the policy says so (ADAGE,
// listing 4).
func (m *mover) give() {
	if m.Balance == policy.ByStealing {
		return
	}
	c, g := m.core, &m.giver
	c.waits.at = min(c.waits.at, g.At(m.now, c.Load() > 0))
	if g.Due(m.now) {
		names := c.cfg.Members.Sample(c.cfg.Self, &c.rng, func(p *filch.Member) bool { return p.Standing == filch.Up })
		for _, n := range names {
			m.send(n, &message.WorkAsk{})
		}
		g.Ask(m.now, names)
		c.waits.at = min(c.waits.at, g.At(m.now, true))
	}
	if g.Over(m.now) {
		if to, n := g.End(m.now, m.load(), c.Load()); to != "" {
			c.victim.push(to, n)
		}
		c.waits.at = min(c.waits.at, g.At(m.now, c.Load() > 0))
	}
}

// dedicate keeps a task for this node. Where ADAGE places the task, and the task would wait for
// longer here than its input takes to another node, the task is shared.
func (m *mover) dedicate(j *job, it queue.Item) {
	e := &m.core.pace.estimates
	if m.kind(j) == policy.ADAGE && len(j.queue.Dedicated) >= policy.Kept(m.core.exec.room.Slots, policy.TransferTime(it.Bytes, e.Bandwidth()), m.length()) {
		j.queue.Shared.Push(it)
		return
	}
	j.queue.Dedicated.Push(it)
	m.at = min(m.at, m.now+moverPeriod)
}

// push offers a node so many of the tasks that the node could steal, without a question.
func (v *victim) push(to filch.NodeName, want int64) {
	p := v.core.cfg.Members.Get(to)
	if p == nil || v.owes(p) {
		return
	}
	m := message.Means{Free: p.Total}
	if m.Free.Slots == 0 {
		m.Free.Slots = int32(min(want, filch.Unbounded)) // not known
	}
	v.gift(to, "", func(x *xfer) { v.freeze(x, &m, p, want) })
}

// gift offers a node the tasks that fill puts into the offer; the nodes through last share them.
func (v *victim) gift(to, last filch.NodeName, fill func(x *xfer)) {
	x := &xfer{thief: to, gift: true, offer: &message.Offer{Life: v.core.self.Incarnation, Last: last}}
	if fill(x); len(x.items) > 0 {
		v.openXfer(x)
		v.send(to, x.offer)
	}
}

// spread offers parts of a bag to as many nodes as the submission says, and keeps a part. Of a bag
// that grows, each addition goes so.
func (v *victim) spread(j *job) {
	b := policy.BagOf(v.core.cfg.Self, j.spec, j.queue.Ranges.Left(), v.core.exec.room.Left(&v.core.exec.used))
	if branches := j.leader.spread.Branches(v.core.cfg.Members, &b, &v.core.rng); len(branches) > 0 {
		v.branch(j, branches)
	}
}

// branch offers parts of a bag, each to the first node of a segment. Thieves get nothing of the
// rest until the tree of the bag has reached the other nodes.
func (v *victim) branch(j *job, branches []policy.Branch) {
	for _, b := range slices.Backward(branches) {
		v.gift(b.To, b.Last, func(x *xfer) {
			for _, s := range j.queue.Ranges.Take(b.Tasks, message.OfferRangesMax) {
				x.addRange(j, s)
			}
		})
	}
	v.Keep(j.id, v.now)
}

// goOn offers parts of the tasks that came with the tree of a bag to the other nodes of the segment.
func (v *victim) goOn(j *job, last filch.NodeName, tasks int64) {
	b := policy.BagOf(v.core.cfg.Self, j.spec, tasks, filch.Room{})
	v.branch(j, v.core.cfg.Members.Branches(&b, last))
}
