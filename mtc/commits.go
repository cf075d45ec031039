package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// The wait before the Core repeats a proposal whose outcome is unknown.
const (
	commitAgain    = 20 * time.Millisecond
	commitAgainMax = time.Second
)

// commit is a proposal under way. Then receives the answer once, or every answer of a
// watch.
type commit struct {
	op    Proposal
	then  func(a Answer)
	tries int
	again time.Duration // filch.Never: waiting for the answer
}

// commits are the proposals under way.
type commits struct {
	*turn
	core    *Core
	last    uint64
	open    map[uint64]*commit
	retry   []*commit
	retryAt time.Duration
}

func (k *commits) init(c *Core) {
	k.core, k.turn = c, &c.turn
	k.open = make(map[uint64]*commit)
	k.retryAt = filch.Never
}

// propose sends an operation to the store and keeps the callback for the answer. The Core
// repeats the operation until the outcome is known: the store may have executed an
// operation whose answer was lost.
func (k *commits) propose(p Proposal, then func(a Answer)) uint64 {
	k.last++
	p.Tag = k.last
	k.open[p.Tag] = &commit{op: p, then: then, again: filch.Never}
	k.out.Proposals = append(k.out.Proposals, p)
	return p.Tag
}

func (k *commits) merge(key string, kind record.RecordKind, delta []byte, then func(a Answer)) {
	k.propose(Proposal{Op: OpMerge, Key: key, Kind: kind, Delta: delta}, then)
}

func (k *commits) lookup(key string, kind record.RecordKind, then func(a Answer)) {
	k.propose(Proposal{Op: OpLookup, Key: key, Kind: kind}, then)
}

// Answered receives the store's answer to a proposal.
func (c *Core) Answered(now time.Duration, tag uint64, a Answer, out *Out) {
	c.enter(now, out)
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
	if p.op.Op != OpWatch {
		delete(c.commits.open, tag)
	}
	if p.again != filch.Never {
		c.commits.retry = slices.DeleteFunc(c.commits.retry, func(q *commit) bool { return q == p })
	}
	p.again, p.tries = filch.Never, 0
	p.then(a)
	c.settle()
}

func (k *commits) repeat() {
	if k.retryAt > k.now {
		return
	}
	k.retryAt = filch.Never
	left := k.retry[:0]
	for _, p := range k.retry {
		if p.again > k.now {
			left = append(left, p)
			k.retryAt = min(k.retryAt, p.again)
			continue
		}
		p.again = filch.Never
		k.out.Proposals = append(k.out.Proposals, p.op)
	}
	clear(k.retry[len(left):])
	k.retry = left
}

// watchJob watches j's record.
func (c *Core) watchJob(j *job) {
	if j.view.watch != 0 {
		return
	}
	j.view.watch = c.commits.propose(Proposal{Op: OpWatch, Key: record.KeyJob(j.id), Kind: record.RecordJob}, func(a Answer) {
		c.onJobAnswer(j, a)
	})
}

func (c *Core) unwatch(j *job) {
	if j.view.watch == 0 {
		return
	}
	delete(c.commits.open, j.view.watch)
	c.commits.retry = slices.DeleteFunc(c.commits.retry, func(q *commit) bool { return q.op.Tag == j.view.watch })
	c.out.Proposals = append(c.out.Proposals, Proposal{Tag: j.view.watch, Op: OpUnwatch, Key: record.KeyJob(j.id)})
	j.view.watch = 0
}

// lookJob looks up j's record. All calls before the answer share a single further lookup:
// the store may be away for long, and the Core would repeat each lookup.
func (c *Core) lookJob(j *job) {
	if j.view.again = j.view.looking; j.view.again {
		return
	}
	j.view.looking = true
	c.commits.lookup(record.KeyJob(j.id), record.RecordJob, func(a Answer) {
		j.view.looking = false
		c.onJobAnswer(j, a)
		if j.view.again && c.jobs[j.id] == j {
			c.lookJob(j)
		}
	})
}

// know looks up the record and the spec of a job, which a node needs before it runs the
// job's tasks.
func (c *Core) know(j *job) {
	if j.view.asked || j.spec != nil && j.rec != nil {
		return
	}
	j.view.asked = true
	c.lookJob(j)
	c.commits.lookup(record.KeySpec(j.id), record.RecordFact, func(a Answer) {
		s, err := record.DecodeSpec(a.Value)
		if a.Status != AnswerDone || err != nil {
			c.note(noteWarn, j.id, "the specification of job %d is not in the store: %v", j.id, err)
			j.view.asked = false
			return
		}
		if j.spec == nil {
			j.spec = s
		}
		c.known(j)
	})
}

// known goes on with a job whose record and spec are here.
func (c *Core) known(j *job) {
	if j.spec == nil || j.rec == nil {
		return
	}
	c.active(j)
	c.orders.obey(j)
	for _, f := range j.queue.onceKnown {
		f()
	}
	j.queue.onceKnown = nil
}

// whenKnown calls f when spec and record are here.
func (c *Core) whenKnown(j *job, f func()) {
	if j.spec != nil && j.rec != nil {
		f()
		return
	}
	j.queue.onceKnown = append(j.queue.onceKnown, f)
	c.know(j)
}
