package pmi

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
)

// fence is this node's state of the open fence. All nodes number fences alike: a child
// can send its part of the next fence only after the previous fence came down through its
// parent.
type fence struct {
	seq      uint32
	open     bool          // a rank below or here has entered the fence
	since    time.Duration // the time of the first entry
	asked    bool          // the parent has asked
	sent     bool          // our part has gone up, or the fence is stuck
	put      bool          // this node has put pairs into the fence
	eligible bool          // for an early release: an earlier fence carried addresses
	noted    bool          // an early release was logged
	stuck    bool          // the fence can never close
	parts    []part        // of the children
	body     chunks
}

// part is a child's part of the fence.
type part struct {
	done  bool
	asked bool
	count counts
}

// firstFence is the number of the first fence of a job.
const firstFence = 1

func newFence(children int) fence { return fence{seq: firstFence, parts: make([]part, children)} }

// enter takes a rank into the fence.
func (e *Engine) enter(now time.Duration, c *client, out *Out) {
	if c.entry == released {
		c.entry = queued
	} else {
		c.entry = waiting
		e.openFence(now)
	}
	c.entered = now
	e.progress(now, out)
}

func (e *Engine) openFence(now time.Duration) {
	if !e.fence.open {
		e.fence.open, e.fence.since = true, now
	}
}

// own counts the ranks of this node. At is the time from which the last departures are
// certain; never while a rank may still enter.
func (e *Engine) own() (n counts, at time.Duration) {
	for i := range e.ranks {
		c := &e.ranks[i]
		switch {
		case c.entry != outside:
			n.in++
		case c.state == Finalized:
			n = n.add(counts{out: 1, who: c.rank, why: goneFinal})
			at = max(at, c.left+goneGrace)
		case c.gone && c.state == Fresh:
			n = n.add(counts{out: 1, who: c.rank, why: goneFresh})
			at = max(at, c.left+goneGrace)
		case c.gone:
			n = n.add(counts{out: 1, who: c.rank, why: goneInited})
			at = max(at, c.left+goneGrace)
		default:
			return counts{}, filch.Never
		}
	}
	return n, at
}

// settled counts the ranks of this node and below once no rank is still to come, with the
// time from which this is certain.
func (e *Engine) settled() (counts, time.Duration) {
	f := &e.fence
	if f.sent || !f.open && !f.asked {
		return counts{}, filch.Never
	}
	n, at := e.own()
	for i := range f.parts {
		l := e.tree.link(e.tree.children[i])
		switch {
		case f.parts[i].done:
			n = n.add(f.parts[i].count)
		case l.gone && !e.forgiven():
			n = n.add(counts{out: 1, who: e.lowest(l.peer), why: goneNode})
			at = max(at, l.goneAt+goneGrace)
		default:
			return counts{}, filch.Never
		}
	}
	if n.in == 0 && e.tree.root() {
		return counts{}, filch.Never
	}
	return n, at
}

// forgiven reports whether neighbors may leave while the fence is open: their ranks were
// released early, and the ranks still waiting here will be, too.
func (e *Engine) forgiven() bool { return e.fence.eligible && e.early > 0 }

// lowest is the lowest rank of a node, -1 when unknown.
func (e *Engine) lowest(node int32) filch.Rank {
	if int(node) < len(e.cfg.Lowest) {
		return e.cfg.Lowest[node]
	}
	return -1
}

// orphanAt is the time from which an open fence here or below certainly cannot close,
// since the parent is gone.
func (e *Engine) orphanAt() time.Duration {
	f := &e.fence
	if e.tree.root() || !e.tree.parent().gone || !f.open || f.stuck || e.forgiven() {
		return filch.Never
	}
	return max(e.tree.parent().goneAt, f.since) + goneGrace
}

func (e *Engine) orphaned(out *Out) {
	n := counts{out: 1, who: e.lowest(e.tree.parent().peer), why: goneNode}
	for i := range e.ranks {
		if e.ranks[i].entry != outside {
			n.in++
		}
	}
	e.stuck(n, out)
}

func (e *Engine) stuckAt() time.Duration {
	_, at := e.settled()
	return at
}

// progress contributes settled fences, ends a fence whose parent is gone, and queues
// frames for the neighbors.
func (e *Engine) progress(now time.Duration, out *Out) {
	for {
		n, at := e.settled()
		if now < at {
			break
		}
		e.fence.sent = true
		e.contribute(now, n, out)
	}
	if now >= e.orphanAt() {
		e.orphaned(out)
	}
	e.flush(now, out)
}

// contribute acts on a fence settled here and below.
func (e *Engine) contribute(now time.Duration, n counts, out *Out) {
	f := &e.fence
	f.put = f.put || len(e.kvs.fresh) > 0
	e.kvs.take(&f.body)
	if f.body.bytes > maxKVS {
		e.full(out)
		return
	}
	list := f.body.list
	f.body = chunks{}
	switch {
	case !e.tree.root():
		for i := range max(len(list), 1) {
			m := message{kind: kindUp, fence: f.seq, last: i >= len(list)-1, count: n}
			if i < len(list) {
				m.pairs = list[i]
			}
			e.tree.parent().say(m)
		}
	case n.out > 0:
		e.stuck(n, out)
	default:
		for i := range max(len(list), 1) {
			m := message{kind: kindDown, fence: f.seq, last: i >= len(list)-1}
			if i < len(list) {
				m.pairs = list[i]
			}
			e.down(now, m, out)
		}
	}
}

// full ends the job, whose ranks have put too many bytes.
func (e *Engine) full(out *Out) {
	if len(e.ranks) == 0 {
		return
	}
	e.broken(&e.ranks[0], out, fmt.Sprintf("is part of a job that put more than %d MiB of addresses", maxKVS>>20))
}

// stuck ends the job, here and below, over a fence that can never be complete.
func (e *Engine) stuck(n counts, out *Out) {
	if e.fence.stuck {
		return
	}
	e.tree.toChildren(message{kind: kindStuck, count: n})
	e.fence.sent, e.fence.stuck = true, true
	for i := range e.ranks {
		c := &e.ranks[i]
		if c.entry != waiting || c.gone {
			continue
		}
		others := ""
		if n.in > 1 {
			others = fmt.Sprintf(" with %d more", n.in-1)
		}
		whom := fmt.Sprintf("rank %d, which", n.who)
		if n.who < 0 {
			whom = "a rank of another node, which"
		}
		e.broken(c, out, fmt.Sprintf("waits%s for %s %s", others, whom, n.why))
		return
	}
}

// down takes a frame of the set of a complete fence.
func (e *Engine) down(now time.Duration, m message, out *Out) {
	e.tree.toChildren(m)
	for b := m.pairs; len(b) > 0; {
		p, n := firstPair(b)
		b = b[n:]
		if !e.kvs.commit(p) {
			e.full(out)
			return
		}
	}
	if !m.last {
		return
	}
	if e.kvs.cards && !e.fence.eligible {
		e.early = min(max(e.cfg.Early, 4*(now-e.began)), EarlyMost*e.cfg.Early)
	}
	e.fence = fence{seq: e.fence.seq + 1, eligible: e.kvs.cards, parts: e.fence.parts}
	clear(e.fence.parts)
	for i := range e.ranks {
		c := &e.ranks[i]
		switch c.entry {
		case waiting:
			c.entry = outside
			e.leave(c, out)
		case released:
			c.entry = outside
		case queued:
			c.entry = waiting
			e.openFence(now)
		}
	}
}

// leave answers a rank waiting in a fence.
func (e *Engine) leave(c *client, out *Out) {
	if c.gone || c.state != Inited {
		return
	}
	if c.v2 {
		out.write(c.rank, reply2("kvs-fence", c.thrid, attr{"rc", "0"}))
		return
	}
	out.write(c.rank, "cmd=barrier_out\n")
}

// deliver acts on a message of a neighbor.
func (e *Engine) deliver(now time.Duration, l *link, m message, out *Out) {
	f := &e.fence
	child := e.tree.child(l)
	switch {
	case m.kind == kindUp && child >= 0 && m.fence == f.seq && !f.parts[child].done && !f.sent:
		f.body.append(m.pairs)
		if f.body.bytes > maxKVS {
			e.full(out)
			f.body = chunks{}
		}
		if m.last {
			f.parts[child].done, f.parts[child].count = true, m.count
			if m.count.in > 0 {
				e.openFence(now)
			}
		}
	case m.kind == kindDown && child < 0 && m.fence == f.seq && f.sent:
		e.down(now, m, out)
	case m.kind == kindAsk && child < 0 && m.fence == f.seq:
		if !f.asked {
			f.asked = true
			e.askNow()
		}
	case m.kind == kindAsk && child < 0 && m.fence < f.seq:
		// Our part and the question crossed.
	case m.kind == kindStuck && child < 0:
		e.stuck(m.count, out)
	case m.kind == kindName && child >= 0:
		e.nameUp(m, out)
	case m.kind == kindAnswer && child < 0:
		e.nameDown(m, out)
	default:
		out.Notes = append(out.Notes, fmt.Sprintf("dropped a fence frame of kind %d for fence %d, which is not open here", m.kind, m.fence))
	}
	e.progress(now, out)
}

// askAt is the time to ask the children without a message.
func (e *Engine) askAt() time.Duration {
	f := &e.fence
	if !f.open || f.sent {
		return filch.Never
	}
	for i := range f.parts {
		if !f.parts[i].done && !f.parts[i].asked {
			return f.since + askAfter
		}
	}
	return filch.Never
}

func (e *Engine) askChildren(now time.Duration) {
	if now >= e.askAt() {
		e.askNow()
	}
}

func (e *Engine) askNow() {
	for i := range e.fence.parts {
		if p := &e.fence.parts[i]; !p.done && !p.asked {
			p.asked = true
			e.tree.link(e.tree.children[i]).say(message{kind: kindAsk, fence: e.fence.seq})
		}
	}
}

// earlyAt is the time of the next early release; see [EarlyDefault].
func (e *Engine) earlyAt() time.Duration {
	f := &e.fence
	if e.early <= 0 || !f.eligible || f.put || len(e.kvs.fresh) > 0 {
		return filch.Never
	}
	at := filch.Never
	for i := range e.ranks {
		if c := &e.ranks[i]; c.early() {
			at = min(at, c.entered+e.early)
		}
	}
	return at
}

func (c *client) early() bool {
	return c.entry == waiting && !c.v2 && !c.gone && c.state == Inited
}

func (e *Engine) releaseEarly(now time.Duration, out *Out) {
	if now < e.earlyAt() {
		return
	}
	for i := range e.ranks {
		c := &e.ranks[i]
		if !c.early() || now < c.entered+e.early {
			continue
		}
		c.entry = released
		e.leave(c, out)
		if !e.fence.noted {
			e.fence.noted = true
			out.Notes = append(out.Notes, fmt.Sprintf("let rank %d out of the barrier of MPI_Finalize after %v, "+
				"with others missing: MPICH before 4.2 deadlocks there", c.rank, e.early))
		}
	}
}
