package mtc

import (
	"slices"
	"time"
)

// lateMax bounds the tasks of a job that a node keeps aside. With so many it
// starts no more of the job: what they need is known to few other nodes.
const lateMax = 4096

// late is a task that cannot finish here.
type late struct {
	item
	need time.Duration // its own limit; 0: not known, and the end is near
}

// needs is how long a task may take: its own limit, else what is expected of
// all of the job; 0 if nobody knows. Own says that it has one.
func (c *Core) needs(j *job, it *item) (need time.Duration, own bool) {
	if j.spec.Limits && c.cfg.Limit != nil {
		line := j.payloads.take(it.index)
		if j.rec.Graph {
			n, _ := DecodeGraphNode(line) // else its start says that it makes no sense
			line = n.Body
		}
		if need = c.cfg.Limit(line); need > 0 {
			return need, true
		}
	}
	return c.expected(j), false
}

// setAside keeps a task that cannot finish here from those that can. It is a
// single one from now on, which a thief with more time may have.
func (c *Core) setAside(now time.Duration, j *job, it item) bool {
	if !j.spec.Limits || c.cfg.Walltime.End == 0 {
		return false
	}
	need, own := c.needs(j, &it)
	if c.cfg.Walltime.Fits(now, need) {
		return false
	}
	if !own {
		need = 0 // what is expected changes
	}
	it.tracked = true
	j.queue.held[it.index] = stamp{it.index, it.attempt, it.hop}
	j.queue.late = append(j.queue.late, late{it, need})
	c.victim.fresh = true
	c.lateTokens(now, j)
	return true
}

// reconsider queues again what was kept aside for how long others took, where
// that is less by now.
func (c *Core) reconsider(now time.Duration, j *job) {
	if len(j.queue.late) == 0 || !c.fits(now, j) {
		return
	}
	j.queue.late = slices.DeleteFunc(j.queue.late, func(l late) bool {
		if l.need == 0 {
			j.queue.shared.push(l.item)
		}
		return l.need == 0
	})
}

// Means are what a thief could run tasks with: its tokens, and the time for
// which it is there; 0 for good.
type Means struct {
	Caps []CapWord
	Left time.Duration
}

// means are this node's.
func (c *Core) means(now time.Duration) Means {
	m := Means{Caps: c.capWords()}
	if end := c.cfg.Walltime.End; end > 0 {
		m.Left = max(end-now, 1)
	}
	return m
}

// suits reports whether a thief could finish a task that this node cannot.
func (c *Core) suits(l *late, m *Means) bool {
	need := l.need
	if need == 0 {
		need = c.cfg.Walltime.Drain
	}
	return m.Left == 0 || m.Left > need+EndMargin
}

// lateFor counts the tasks of a job that cannot finish here and could with a
// thief.
func (c *Core) lateFor(j *job, m *Means) (n int64) {
	for i := range j.queue.late {
		if c.suits(&j.queue.late[i], m) {
			n++
		}
	}
	return n
}

// cutLate takes them, at most so many and as long as there is space for them.
func (c *Core) cutLate(j *job, m *Means, most int64, space *int) (cut []item) {
	j.queue.late = slices.DeleteFunc(j.queue.late, func(l late) bool {
		if int64(len(cut)) == most || !c.suits(&l, m) || !l.fits(space) {
			return false
		}
		cut = append(cut, l.item)
		return true
	})
	return cut
}
