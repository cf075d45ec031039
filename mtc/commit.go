package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// How long until a proposal whose outcome is unknown is made again.
const (
	commitAgain    = 20 * time.Millisecond
	commitAgainMax = time.Second
)

// commit is a proposal that was made. Then hears its answer once, or every
// answer of a watch.
type commit struct {
	Proposal
	then  func(now time.Duration, a Answer, out *Out)
	tries int
	again time.Duration // filch.Never: waiting for the answer
}

// commits are those under way.
type commits struct {
	last    uint64
	open    map[uint64]*commit
	retry   []*commit
	retryAt time.Duration
}

// propose asks the store for an operation and remembers who wants the answer.
// Its outcome is asked for until it is known: an operation may have happened
// although nobody heard of it.
func (c *Core) propose(p Proposal, out *Out, then func(now time.Duration, a Answer, out *Out)) uint64 {
	c.commits.last++
	p.Tag = c.commits.last
	c.commits.open[p.Tag] = &commit{Proposal: p, then: then, again: filch.Never}
	out.Proposals = append(out.Proposals, p)
	return p.Tag
}

func (c *Core) merge(key string, kind RecordKind, delta []byte, out *Out, then func(now time.Duration, a Answer, out *Out)) {
	c.propose(Proposal{Op: OpMerge, Key: key, Kind: kind, Delta: delta}, out, then)
}

func (c *Core) lookup(key string, kind RecordKind, out *Out, then func(now time.Duration, a Answer, out *Out)) {
	c.propose(Proposal{Op: OpLookup, Key: key, Kind: kind}, out, then)
}

// Answered takes in the store's word on a proposal.
func (c *Core) Answered(now time.Duration, tag uint64, a Answer, out *Out) {
	p := c.commits.open[tag]
	if p == nil {
		return
	}
	if a.Status == AnswerUnknown {
		if p.again == filch.Never {
			p.again = now + min(commitAgain<<min(p.tries, 8), commitAgainMax)
			p.tries++
			c.commits.retry = append(c.commits.retry, p)
			c.commits.retryAt = min(c.commits.retryAt, p.again)
		}
		return
	}
	if p.Op != OpWatch {
		delete(c.commits.open, tag)
	}
	if p.again != filch.Never {
		c.commits.retry = slices.DeleteFunc(c.commits.retry, func(q *commit) bool { return q == p })
	}
	p.again, p.tries = filch.Never, 0
	p.then(now, a, out)
	c.settle(now, out)
}

func (c *Core) retryCommits(now time.Duration, out *Out) {
	if c.commits.retryAt > now {
		return
	}
	c.commits.retryAt = filch.Never
	left := c.commits.retry[:0]
	for _, p := range c.commits.retry {
		if p.again > now {
			left = append(left, p)
			c.commits.retryAt = min(c.commits.retryAt, p.again)
			continue
		}
		p.again = filch.Never
		out.Proposals = append(out.Proposals, p.Proposal)
	}
	clear(c.commits.retry[len(left):])
	c.commits.retry = left
}

// watchJob keeps j's record in sight.
func (c *Core) watchJob(j *job, out *Out) {
	if j.watch != 0 {
		return
	}
	j.watch = c.propose(Proposal{Op: OpWatch, Key: KeyJob(j.id), Kind: RecordJob}, out, func(now time.Duration, a Answer, out *Out) {
		c.sawJob(now, j, a, out)
	})
}

func (c *Core) unwatch(j *job, out *Out) {
	if j.watch == 0 {
		return
	}
	delete(c.commits.open, j.watch)
	c.commits.retry = slices.DeleteFunc(c.commits.retry, func(q *commit) bool { return q.Tag == j.watch })
	out.Proposals = append(out.Proposals, Proposal{Tag: j.watch, Op: OpUnwatch, Key: KeyJob(j.id)})
	j.watch = 0
}

// lookJob asks for j's record once. Those who ask before there is an answer have
// one more together: the store may be away for long, and each would be repeated.
func (c *Core) lookJob(j *job, out *Out) {
	if j.again = j.looking; j.again {
		return
	}
	j.looking = true
	c.lookup(KeyJob(j.id), RecordJob, out, func(now time.Duration, a Answer, out *Out) {
		j.looking = false
		c.sawJob(now, j, a, out)
		if j.again && c.jobs[j.id] == j {
			c.lookJob(j, out)
		}
	})
}

// know asks for what a node must know of a job before it runs tasks of it.
func (c *Core) know(j *job, out *Out) {
	if j.asked || j.spec != nil && j.rec != nil {
		return
	}
	j.asked = true
	c.lookJob(j, out)
	c.lookup(KeySpec(j.id), RecordFact, out, func(now time.Duration, a Answer, out *Out) {
		s, err := DecodeSpec(a.Value)
		if a.Status != AnswerDone || err != nil {
			note(out, noteWarn, j.id, "the specification of job %d is not in the store: %v", j.id, err)
			j.asked = false
			return
		}
		if j.spec == nil {
			j.spec = s
		}
		c.known(now, j, out)
	})
}

// known goes on with a job of which all is there now.
func (c *Core) known(now time.Duration, j *job, out *Out) {
	if j.spec == nil || j.rec == nil {
		return
	}
	c.active(j)
	if j.void != 0 {
		c.void(now, j, j.void, out)
	}
	for _, f := range j.queue.onceKnown {
		f(now, out)
	}
	j.queue.onceKnown = nil
}

// whenKnown does f when spec and record are there.
func (c *Core) whenKnown(now time.Duration, j *job, out *Out, f func(now time.Duration, out *Out)) {
	if j.spec != nil && j.rec != nil {
		f(now, out)
		return
	}
	j.queue.onceKnown = append(j.queue.onceKnown, f)
	c.know(j, out)
}
