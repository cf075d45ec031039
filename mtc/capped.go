package mtc

import (
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/tokens"
)

// Reserve asks for n tokens of a license for a run, which [Out.Reserved] names once it has
// them. Runs get tokens in the order of asking, and before the tasks of this node.
func (c *Core) Reserve(now time.Duration, run filch.JobID, license string, n int32, out *Out) {
	c.enter(now, out)
	c.caps.Reserve(run, license, n)
	c.settle()
}

// Unreserve gives back the tokens of a run, or ends the run's wait for tokens.
func (c *Core) Unreserve(now time.Duration, run filch.JobID, license string, out *Out) {
	c.enter(now, out)
	c.caps.Unreserve(run, license)
	c.settle()
}

// License describes a resource that the nodes share: see [tokens.Caps.License].
func (l Look) License(name string) (used, free int32, ok bool) { return l.core.caps.License(name) }

// The methods below are the Core as the use of tokens sees the Core: see [tokens.Node].

func (n node) Next() uint64             { return n.commits.Next() }
func (n node) Full() bool               { return n.exec.full() }
func (n node) Reserved(run filch.JobID) { n.out.Reserved = append(n.out.Reserved, run) }

func (n node) Order() iter.Seq[tokens.Job] {
	return func(yield func(tokens.Job) bool) {
		for _, j := range n.order {
			if !yield(j) {
				return
			}
		}
	}
}

func (n node) Jobs() iter.Seq[tokens.Job] {
	return func(yield func(tokens.Job) bool) {
		for _, j := range n.jobs { // any order, as [tokens.Node] says
			if !yield(j) {
				return
			}
		}
	}
}

// The methods below are a job as the use of tokens sees the job: see [tokens.Job].

func (j *job) Spec() *record.Spec  { return j.spec }
func (j *job) Tokens() *tokens.Set { return j.tokens }
func (j *job) Queue() *queue.Ready { return &j.queue.Ready }
func (j *job) Running() int32      { return j.running }
func (j *job) Slots() int32        { return j.core.exec.slotsFor(j) }
func (j *job) Barred() bool        { return j.barred() }
func (j *job) MayStart() bool      { return j.mayStart() }
func (j *job) Sticks() bool        { return j.core.exec.sticks(j) }

// Wants is the number of tokens of the next task that waits for tokens.
func (j *job) Wants() int32 {
	if len(j.queue.Lacking) > 0 {
		return j.spec.Tokens(int(j.queue.Lacking[0].Need) - 1)
	}
	return j.takes
}
