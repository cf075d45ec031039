package mtc

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// caps keeps the number of running tasks of capped jobs, and the use of resources that
// the nodes share (pools), in the whole instance, within their limits. A node asks the
// store for tokens and starts a task for the tokens that the task takes.
type caps struct {
	*turn
	core  *Core
	pools []*tokens // in the order of first use
}

func (k *caps) init(c *Core) { k.core, k.turn = c, &c.turn }

// tokens are this node's tokens of a capped job, or of a pool, and their record.
type tokens struct {
	policy.Tokens
	key    string
	job    *job   // with this cap; nil: a pool
	pool   string // name of the pool
	seq    uint32 // of the last request, or of this node's entry in the record if that is ahead
	asking bool
}

// tokensOf are the tokens that the tasks of j run under: the job's own, or those of the
// pool.
func (k *caps) tokensOf(j *job) *tokens {
	if j.spec.Pool.Name == "" {
		return &tokens{key: record.KeyCap(j.id), job: j, Tokens: policy.Tokens{Limit: j.spec.Cap}}
	}
	return k.pool(j.spec.Pool.Name)
}

func (k *caps) pool(name string) *tokens {
	for _, t := range k.pools {
		if t.pool == name {
			return t
		}
	}
	t := &tokens{pool: name, key: record.KeyPool(name)}
	k.pools = append(k.pools, t)
	return t
}

// more reports whether another task of a capped job, which takes a number of tokens, may run
// here. A node asks for tokens as needed, in a single operation with the total number wanted.
func (k *caps) more(j *job, each int32) bool {
	t := j.tokens
	switch {
	case each == 0:
		return true
	case t.Waiting() > 0:
		return false // a run is first
	case t.Over > 0:
		return false // tokens have to go back first
	case each <= t.Idle():
		return true
	case t.Limit > 0 && t.Held >= t.Limit:
		return false // the next end of a task frees a token
	}
	tasks := int64(j.alike())
	if j.spec.Pool.Name == "" || len(j.spec.Needs) == 0 {
		tasks = j.queue.Shareable() + int64(len(j.queue.Dedicated))
	}
	tasks = min(tasks, int64(k.core.exec.slotsFor(j)), maxTokens/int64(each))
	k.ask(t, t.Used+max(int32(tasks), 1)*each, each)
	return false
}

// Reserve asks for n tokens of a pool for a run, which [Out.Reserved] names once it has
// them. Runs get tokens in the order of asking, and before the tasks of this node.
func (c *Core) Reserve(now time.Duration, run filch.JobID, pool string, n int32, out *Out) {
	c.enter(now, out)
	c.caps.pool(pool).Tokens.Reserve(run, n)
	c.settle()
}

// Unreserve gives back the tokens of a run, or ends the run's wait for tokens.
func (c *Core) Unreserve(now time.Duration, run filch.JobID, pool string, out *Out) {
	c.enter(now, out)
	t := c.caps.pool(pool)
	t.Tokens.Unreserve(run)
	t.Back = now + tokenLinger
	c.waits.at = min(c.waits.at, t.Back)
	c.settle()
}

// reserve grants tokens to the runs that wait, or asks for more.
func (k *caps) reserve() {
	for _, t := range k.pools {
		for run, ok := t.Grant(); ok; run, ok = t.Grant() {
			k.out.Reserved = append(k.out.Reserved, run)
		}
		if n := t.Waiting(); n > 0 {
			k.ask(t, t.Used+n, n)
		}
	}
}

// ask asks for tokens, unless the node waits after an answer without tokens.
func (k *caps) ask(t *tokens, want, each int32) {
	switch {
	case t.asking:
	case k.now < t.At:
		k.core.waits.at = min(k.core.waits.at, t.At)
	default:
		k.hold(t, want, each)
	}
}

// maxTokens bounds what a node asks at once.
const maxTokens = 1 << 20

// hold sets the total number of tokens that this node wants. From the moment of the
// request, the node no longer holds the tokens that it gives back. More tokens come in
// multiples of each.
func (k *caps) hold(t *tokens, want, each int32) {
	if t.Limit > 0 {
		want = min(want, t.Limit)
	}
	t.asking = true
	// The record remembers the last request of this incarnation, also if the node forgot
	// the job meanwhile, and is ahead of that if others called the node dead.
	t.seq = max(uint32(k.core.commits.Next()), t.seq+1)
	t.Held = min(t.Held, want)
	op := record.CapOp{Limit: t.Limit, Owner: k.core.self, Seq: t.seq, Want: want, Step: each}
	k.core.commits.merge(t.key, record.RecordCap, op.Encode(), func(a record.Answer) {
		t.asking, t.Looked = false, k.now
		r, err := record.DecodeCap(a.Value)
		if a.Status != record.AnswerDone || err != nil {
			return
		}
		if h := r.Holder(k.core.self); h != nil {
			t.seq = max(t.seq, h.Seq)
		}
		spare := t.Spare
		t.Answered(k.now, r, k.core.self)
		// Beside free slots, tokens that stay free wake nobody twice.
		k.core.victim.fresh = k.core.victim.fresh || t.Spare > 0 && (t.Spare > spare || k.core.exec.full())
		if t.job == nil {
			k.core.waits.at = min(k.core.waits.at, k.now+policy.TokenWaitMax)
		}
		if j := t.job; j != nil && j.queue.Empty() && (j.running == 0 || t.Held > j.running) {
			k.linger(j)
			k.core.forget(j)
		}
	})
}

// linger keeps unneeded tokens for tokenLinger, in which the node may steal tasks
// to use the tokens.
func (k *caps) linger(j *job) {
	if j.tokens != nil && j.tokens.Held > 0 {
		j.tokens.Back = k.now + tokenLinger
		k.core.waits.at = min(k.core.waits.at, j.tokens.Back)
	}
}

// allLate reports whether none of a job's queued tasks can finish here.
func (k *caps) allLate(j *job) bool {
	q := &j.queue
	return j.spec != nil && len(q.Cooling) == 0 && !((q.Startable() || len(q.Lacking) > 0) && j.mayStart())
}

// late gives tokens back that came too late for the tasks here.
func (k *caps) late(j *job) {
	if t := j.tokens; t != nil && t.Held > t.Used && t.Back <= k.now && k.allLate(j) {
		k.linger(j)
	}
}

const tokenLinger = 20 * time.Millisecond

// tickJob gives back the tokens that a capped job has not needed for a while, or cannot
// use.
func (k *caps) tickJob(j *job) {
	switch t := j.tokens; {
	case !j.ownTokens() || t.Held == 0 || j.over:
	case j.queue.Empty() || k.allLate(j):
		k.spare(t)
	case k.kept(j) && t.Held > t.Used && !t.asking && t.Looked+policy.TokenWaitMax <= k.now:
		k.hold(t, t.Used, 1)
	}
}

// kept reports whether a job has tasks here that cannot start beside the tasks that run:
// no slot is free, or the tasks are stuck.
func (k *caps) kept(j *job) bool {
	return (k.core.exec.full() || k.core.exec.sticks(j)) && j.queue.Startable() && !j.barred()
}

// watch plans a look at the tokens of tasks that cannot start here: other nodes may have
// use for the tokens that this node has idle, and for the tasks where tokens are free.
func (k *caps) watch() {
	for _, j := range k.core.order {
		if !j.spec.Capped() || j.tokens.asking || !k.kept(j) {
			continue
		}
		if t := j.tokens; t.job == nil && k.looks(t) || t.job != nil && t.Held > t.Used {
			k.core.waits.at = min(k.core.waits.at, max(t.Looked+policy.TokenWaitMax, k.now))
		}
	}
}

// tickPools gives back the tokens of pools that this node has not needed for a while, and
// asks for the state of pools that queued tasks wait for.
func (k *caps) tickPools() {
	for _, t := range k.pools {
		want, looks := t.Held, k.looks(t)
		if !k.usable(t) {
			want = t.Used
		}
		switch {
		case t.asking:
		case t.Owes():
			k.hold(t, t.Used, 1)
		case t.Held > t.Used && !k.wanted(t, t.Idle()):
			k.spare(t)
		case looks && t.Looked+policy.TokenWaitMax <= k.now:
			k.hold(t, want, 1)
		case looks:
			k.core.waits.at = min(k.core.waits.at, t.Looked+policy.TokenWaitMax)
		}
	}
}

// looks reports whether the node looks at a pool's record again and again: a person may
// lower the limit of tokens in use, and where the tasks cannot start, thieves may find free
// tokens, and the node gives back the tokens that it cannot use.
func (k *caps) looks(t *tokens) bool {
	return t.Used > 0 || t.Over > 0 || !k.usable(t) && k.wanted(t, maxTokens)
}

// wanted reports whether a queued task here could use n tokens of a pool, or the run that
// waits first.
func (k *caps) wanted(t *tokens, n int32) bool {
	if run := t.Waiting(); run > 0 {
		return run <= n
	}
	return slices.ContainsFunc(k.core.order, func(j *job) bool {
		takes := j.wants()
		return j.tokens == t && takes > 0 && takes <= n && (j.queue.Startable() || len(j.queue.Lacking) > 0) && !j.barred()
	})
}

// usable reports whether the next tokens of a pool could be used here: a run waits for
// them, or a task that could start.
func (k *caps) usable(t *tokens) bool {
	return t.Waiting() > 0 || slices.ContainsFunc(k.core.order, func(j *job) bool {
		return j.tokens == t && (j.queue.Startable() || len(j.queue.Lacking) > 0) && !j.barred() && !k.kept(j)
	})
}

// spare gives back tokens that this node has not needed for a while: tasks that
// cannot finish here need none, and nodes that could run the tasks do.
func (k *caps) spare(t *tokens) {
	if t.Held <= t.Used || t.asking {
		return
	}
	if t.Back > k.now {
		k.core.waits.at = min(k.core.waits.at, t.Back)
		return
	}
	k.hold(t, t.Used, 1)
}

// ownTokens reports whether the job has a cap of its own.
func (j *job) ownTokens() bool { return j.tokens != nil && j.tokens.job == j && j.spec.Cap > 0 }

// words lists the capped jobs of this node, and the pools that this node looked at a
// moment ago, each with its idle tokens. Free tokens count too, unless tasks or a run wait
// for them here: two nodes without tokens would pass tasks to and fro.
func (k *caps) words() (list []message.CapWord) {
	for _, t := range k.pools {
		if t.seq == 0 || t.Looked+policy.TokenWaitMax <= k.now || len(list) >= message.CapWordsMax {
			continue
		}
		w := message.CapWord{Pool: t.pool, Idle: t.Idle()}
		if !k.wanted(t, maxTokens) {
			w.Idle += max(t.Spare, 0)
		}
		list = append(list, w)
	}
	for _, j := range k.sorted() {
		w, fresh := message.CapWord{Job: j.id, Idle: max(j.tokens.Held-j.running, 0)}, j.tokens.Looked+policy.TokenWaitMax > k.now
		switch {
		case len(list) >= message.CapWordsMax, w.Idle == 0 && !fresh && !j.queue.Startable():
			continue // the victim may know better
		case fresh && !j.queue.Startable():
			w.Idle += max(j.tokens.Spare, 0)
		}
		list = append(list, w)
	}
	return list
}

// sorted are the capped jobs for which this node ever asked tokens.
func (k *caps) sorted() (list []*job) {
	for _, j := range k.core.jobs { // any order: sorted below
		if j.ownTokens() && j.tokens.seq > 0 && !j.over {
			list = append(list, j)
		}
	}
	slices.SortFunc(list, func(a, b *job) int { return cmp.Compare(a.id, b.id) })
	return list
}

// Pool describes a resource that the nodes share, as this node saw the resource last:
// tokens that this node's tasks use, and free tokens; false if the node never asked.
func (l Look) Pool(name string) (used, free int32, ok bool) {
	for _, t := range l.core.caps.pools {
		if t.pool == name && t.seq > 0 {
			return t.Used, t.Spare, true
		}
	}
	return 0, 0, false
}
