package mtc

import (
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/mtc/message"
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
	if on {
		c.exec.wake(true)
	}
	c.victim.fresh = true
	if !on {
		c.thief.onNews()
	}
	c.settle()
}

// giveAway offers the queued tasks to nodes that take work, an equal part to each. A node
// that has not answered the last such offer gets none. Thieves may take from the rest
// meanwhile.
func (v *victim) giveAway() {
	if !v.core.drain.on || mutantDrainKeeps {
		return
	}
	left := int64(0)
	for _, j := range v.core.order {
		for _, it := range bottom(&j.queue.dedicated, len(j.queue.dedicated)) {
			j.queue.shared.Push(it) // the task's data are on a node that starts nothing
		}
		left += j.queue.shareable()
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
		return p.Standing == filch.Up && !v.gives(p)
	})
	for k, to := range takers {
		part := int64(len(takers) - k)
		x := &xfer{thief: to, gift: true, offer: &message.Offer{Life: v.core.self.Incarnation}}
		left -= v.pack(x, (left+part-1)/part)
		if len(x.items) == 0 {
			return
		}
		v.openXfer(x)
		v.send(to, x.offer)
	}
}

// gives reports whether a node still owes the answer to a gift.
func (v *victim) gives(to *filch.Member) bool {
	for _, id := range v.order {
		if x := v.open[id]; x != nil && x.gift && x.thief == to.Name {
			return true
		}
	}
	return false
}

// pack takes want tasks off the queues, as far as an offer has space.
func (v *victim) pack(x *xfer, want int64) (n int64) {
	space := message.OfferSpace
	for _, j := range v.core.order {
		if n >= want {
			break
		}
		before := n
		for _, it := range j.queue.takeTasks(min(want-n, int64(message.OfferTasksMax-len(x.offer.Tasks))), &space) {
			x.addTask(j, it, false)
			n++
		}
		for _, s := range j.queue.takeRanges(want-n, message.OfferRangesMax-len(x.offer.Ranges)) {
			x.addRange(j, s)
			n += s.left()
		}
		if n > before && j.queue.empty() {
			v.core.lingerTokens(j)
		}
	}
	return n
}

// takeTasks takes single tasks off a queue, at most want and as long as there is space.
func (q *readyQueue) takeTasks(want int64, space *int) (cut []item) {
	for len(q.late) > 0 && int64(len(cut)) < want && q.late[0].fits(space) {
		cut = append(cut, q.late[0].item)
		q.late = q.late[1:]
	}
	for len(q.cooling) > 0 && int64(len(cut)) < want && q.cooling[0].fits(space) {
		cut = append(cut, q.cooling[0].item)
		q.cooling = q.cooling[1:]
	}
	for len(q.shared) > 0 && int64(len(cut)) < want && q.shared[0].fits(space) {
		cut = append(cut, q.shared.Pop())
	}
	return cut
}

// takeRanges takes ranges off the end of a queue, want tasks at most.
func (q *readyQueue) takeRanges(want int64, most int) (cut []span) {
	for len(q.ranges) > 0 && want > 0 && len(cut) < most {
		s := &q.ranges[len(q.ranges)-1]
		n := min(s.left(), want)
		cut = append(cut, q.cutRange(len(q.ranges)-1, n))
		want -= n
	}
	return cut
}
