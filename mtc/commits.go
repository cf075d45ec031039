package mtc

import (
	"time"

	"github.com/filch-hpc/filch/mtc/record"
)

// commits are the proposals under way.
type commits struct {
	*turn
	record.Proposals
}

func (k *commits) init(c *Core) { k.turn, k.Proposals = &c.turn, record.NewProposals() }

// propose sends an operation to the store and keeps the callback for the answer.
func (k *commits) propose(p record.Proposal, then func(a record.Answer)) uint64 {
	p = k.Begin(p, then)
	k.out.Proposals = append(k.out.Proposals, p)
	return p.Tag
}

func (k *commits) merge(key string, kind record.RecordKind, delta []byte, then func(a record.Answer)) {
	k.propose(record.Proposal{Op: record.OpMerge, Key: key, Kind: kind, Delta: delta}, then)
}

func (k *commits) lookup(key string, kind record.RecordKind, then func(a record.Answer)) {
	k.propose(record.Proposal{Op: record.OpLookup, Key: key, Kind: kind}, then)
}

// Answered receives the store's answer to a proposal.
func (c *Core) Answered(now time.Duration, tag uint64, a record.Answer, out *Out) {
	c.enter(now, out)
	if then := c.commits.Proposals.Answered(now, tag, a); then != nil {
		then(a)
		c.settle()
	}
}

// watchJob watches j's record.
func (c *Core) watchJob(j *job) {
	if j.view.watch == 0 {
		j.view.watch = c.commits.propose(record.Proposal{Op: record.OpWatch, Key: record.KeyJob(j.id), Kind: record.RecordJob}, func(a record.Answer) {
			c.onJobAnswer(j, a)
		})
	}
}

func (c *Core) unwatch(j *job) {
	if j.view.watch != 0 {
		c.out.Proposals = append(c.out.Proposals, c.commits.Unwatch(j.view.watch))
		j.view.watch = 0
	}
}

// lookJob looks up j's record. All calls before the answer share a single further lookup:
// the store may be away for long, and the Core would repeat each lookup.
func (c *Core) lookJob(j *job) {
	if j.view.again = j.view.looking; j.view.again {
		return
	}
	j.view.looking = true
	c.commits.lookup(record.KeyJob(j.id), record.RecordJob, func(a record.Answer) {
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
	c.commits.lookup(record.KeySpec(j.id), record.RecordFact, func(a record.Answer) {
		s, err := record.DecodeSpec(a.Value)
		if a.Status != record.AnswerDone || err != nil {
			c.note(noteWarn, j.id, "the specification of job %d is not in the store: %v", j.id, err)
			j.view.asked = false
			return
		}
		if j.spec == nil {
			c.specify(j, s)
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
