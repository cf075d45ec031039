package mtc

import "time"

// shedAgain is how long a node that drains gives nothing away after a gift was
// refused, or not answered: who refused drains too, and the word of that is on
// its way. Thieves may come meanwhile.
const shedAgain = 200 * time.Millisecond

// shed is that this node drains: what is queued here leaves for nodes that take
// work, whether they are hungry or not, and nothing more begins here.
type shed struct {
	on   bool
	wait time.Duration // until then nothing is given
}

// Drain has all that is queued here leave, and nothing more begin; what runs goes
// on to its end. With on false the node takes work again.
func (c *Core) Drain(now time.Duration, on bool, out *Out) {
	if c.shed.on == on {
		return
	}
	c.shed = shed{on: on}
	c.victim.fresh = true
	if !on {
		c.heardNews(now, out)
	}
	c.settle(now, out)
}

// giveAway offers what is queued here to nodes that take work, to each an equal
// part; one that has not answered the last such offer gets none. Thieves may
// take of what is left meanwhile.
func (c *Core) giveAway(now time.Duration, out *Out) {
	if !c.shed.on || mutantDrainKeeps {
		return
	}
	left := int64(0)
	for _, j := range c.order {
		for _, it := range j.queue.dedicated.bottom(len(j.queue.dedicated.list)) {
			j.queue.shared.push(it) // its data are where nothing begins
		}
		left += j.queue.shareable()
	}
	if left == 0 {
		return
	}
	if c.shed.wait > now {
		c.waits.at = min(c.waits.at, c.shed.wait)
		return
	}
	n := c.members.others(c.cfg.Self)
	takers := c.members.draw(c.cfg.Self, min(2*root(n+1), n), &c.rng, func(p *Member) bool {
		return p.Up && !c.victim.gives(p)
	})
	for k, to := range takers {
		part := int64(len(takers) - k)
		x := &xfer{thief: to, gift: true, offer: &Offer{Life: c.self.Incarnation}}
		left -= c.pack(now, x, (left+part-1)/part)
		if len(x.items) == 0 {
			return
		}
		c.openXfer(now, x)
		c.send(to, x.offer, out)
	}
}

// gives reports whether a node has not answered a gift yet.
func (v *victim) gives(to *Member) bool {
	for _, id := range v.order {
		if x := v.open[id]; x != nil && x.gift && x.thief == to.Name {
			return true
		}
	}
	return false
}

// pack takes want tasks off the queues, as many as an offer has space for.
func (c *Core) pack(now time.Duration, x *xfer, want int64) (n int64) {
	space := offerSpace
	for _, j := range c.order {
		if n >= want {
			break
		}
		before := n
		for _, it := range j.queue.takeTasks(min(want-n, int64(offerTasks-len(x.offer.Tasks))), &space) {
			x.addTask(j, it, false)
			n++
		}
		for _, s := range j.queue.takeRanges(want-n, offerRange-len(x.offer.Ranges)) {
			x.addRange(j, s)
			n += s.left()
		}
		if n > before && j.queue.empty() {
			c.lingerTokens(now, j)
		}
	}
	return n
}

// takeTasks takes single tasks off a queue, at most want and as long as there is
// space for them.
func (q *queue) takeTasks(want int64, space *int) (cut []item) {
	for len(q.late) > 0 && int64(len(cut)) < want && q.late[0].fits(space) {
		cut = append(cut, q.late[0].item)
		q.late = q.late[1:]
	}
	for len(q.cooling) > 0 && int64(len(cut)) < want && q.cooling[0].fits(space) {
		cut = append(cut, q.cooling[0].item)
		q.cooling = q.cooling[1:]
	}
	for len(q.shared.list) > 0 && int64(len(cut)) < want && q.shared.list[0].fits(space) {
		cut = append(cut, q.shared.pop())
	}
	return cut
}

// takeRanges takes ranges off the end of a queue, want tasks at most.
func (q *queue) takeRanges(want int64, most int) (cut []span) {
	for len(q.ranges) > 0 && want > 0 && len(cut) < most {
		s := &q.ranges[len(q.ranges)-1]
		n := min(s.left(), want)
		cut = append(cut, q.cutRange(len(q.ranges)-1, n))
		want -= n
	}
	return cut
}
