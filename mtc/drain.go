package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
)

// shedAgain is how long a draining node offers nothing after another node refused a gift,
// or did not answer. A node that refuses is draining too, and its news is on the way.
// Thieves may take tasks meanwhile.
const shedAgain = 200 * time.Millisecond

// drain is the drain state of this node: a draining node offers its queued tasks to nodes
// that take work, hungry or not, and starts no more tasks.
type drain struct {
	on   bool
	wait time.Duration // until then the node offers no gift
}

// Drain makes the node give its queued tasks away and start no more; running tasks go on
// to their end. With on false the node takes work again.
func (c *Core) Drain(now time.Duration, on bool, out *Out) {
	c.enter(now, out)
	if c.drain.on == on {
		return
	}
	c.drain = drain{on: on}
	c.exec.health.Worked()
	if on {
		c.exec.wake(true)
	}
	c.victim.Fresh = true
	if !on {
		c.thief.News("", "")
	}
	c.settle()
}

// giveAway offers queued tasks to nodes that take work and suit the tasks, an equal part
// to each: all tasks of a node that drains, else the tasks that may run on other nodes
// only. A
// node that has not answered the last such offer gets none. Thieves may take from the rest
// meanwhile.
func (v *victim) giveAway() {
	if mutants.DrainKeeps {
		return
	}
	left := int64(0)
	for _, j := range v.core.order {
		left += int64(len(j.queue.Unfit))
		if !v.gives(j) {
			continue
		}
		j.queue.Share(len(j.queue.Dedicated)) // their data are on a node that starts nothing
		left += j.queue.Shareable()
	}
	if left == 0 {
		return
	}
	if v.core.drain.wait > v.now {
		v.core.waits.at = min(v.core.waits.at, v.core.drain.wait)
		return
	}
	n := v.core.cfg.Members.Others(v.core.cfg.Self)
	takers := v.core.cfg.Members.Draw(v.core.cfg.Self, min(2*filch.Root(n+1), n), &v.core.rng, func(p *filch.Member) bool {
		return p.Standing == filch.Up && !v.owes(p) && slices.ContainsFunc(v.core.order, func(j *job) bool { return v.gives(j) && policy.Suits(j.spec, p) || j.unfitFor(p) })
	})
	for k, to := range takers {
		part := int64(len(takers) - k)
		v.gift(to, "", func(x *xfer) { left -= v.pack(x, v.core.cfg.Members.Get(to), (left+part-1)/part) })
	}
}

// owes reports whether a node still owes the answer to a gift.
func (v *victim) owes(to *filch.Member) bool {
	for _, id := range v.order {
		if x := v.open[id]; x != nil && x.gift && x.thief == to.Name {
			return true
		}
	}
	return false
}

// pack takes want tasks for a node off the queues, as far as an offer has space.
func (v *victim) pack(x *xfer, to *filch.Member, want int64) (n int64) {
	space := message.OfferSpace
	for _, j := range v.core.order {
		if n >= want {
			break
		}
		before := n
		for _, it := range j.queue.CutUnfit(j.suits(to), min(want-n, int64(v.core.cfg.Bounds.Offer-len(x.offer.Tasks))), &space) {
			x.addTask(j, it, false)
			n++
		}
		if !v.gives(j) || !policy.Suits(j.spec, to) {
			continue
		}
		for _, it := range j.queue.Take(j.suits(to), min(want-n, int64(v.core.cfg.Bounds.Offer-len(x.offer.Tasks))), &space) {
			x.addTask(j, it, false)
			n++
		}
		for _, s := range j.queue.Ranges.Take(want-n, message.OfferRangesMax-len(x.offer.Ranges)) {
			x.addRange(j, s)
			n += s.Left()
		}
		if n > before && j.queue.Empty() {
			v.core.caps.Linger(j)
		}
	}
	return n
}
