package mtc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
)

// This file decides which tasks of a job a thief may have.

// spare is how many tasks of a job exceed the number that can start here as soon as the
// awaited answers (a front, a payload, a committed start) arrive. If thieves took those
// tasks too, a task could go round among idle nodes for ever. Where the tasks are stuck
// (see [stuck]), a thief may have as many as its free room holds.
func (v *victim) spare(j *job, suits queue.Suits, m *message.Means, thief *filch.Member) int64 {
	keep := v.core.exec.slotsFor(j)
	if j.pace.late || v.core.drain.on || j.unfit {
		keep = 0
	}
	if j.spec.Capped() && j.least > 0 {
		keep = min(keep, j.tokens.Idle()/j.takes)
	}
	shared, cooling := j.queue.Suited(suits)
	all := j.queue.Ranges.Left() + shared
	spare := max(all-int64(max(keep, 0)), 0)
	if keep > 0 && all > 0 && v.core.exec.sticks(j) {
		spare = max(spare, min(all, int64(j.fits(m, thief))))
	}
	return spare + cooling
}

// bound is how many dedicated tasks of a job would wait here, while a thief has their data.
func (v *victim) bound(j *job, thief *filch.Member) int64 {
	if thief == nil || j.spec.Capped() || !v.core.mover.Kind.Asks() {
		return 0
	}
	return j.queue.BoundFor(thief.Name, v.core.exec.slotsFor(j))
}

// stealable reports whether tasks of a job are worth moving to a thief: tasks of a capped
// job are if the thief has tokens for each of them, or there may be free tokens: nodes with
// tokens for a few of the tasks would pass the others to and fro. A draining node keeps
// nothing. A thief that does not suit the tasks gets none.
func (v *victim) stealable(j *job, m *message.Means, thief *filch.Member) bool {
	if m.Better && j.ticket.Class >= m.Class || thief != nil && !policy.Suits(j.spec, thief) {
		return false
	}
	if v.Keeps(j.id, v.now) && !v.core.drain.on || j.void != 0 || j.leader != nil && !j.leader.open || j.held() && !v.core.drain.on {
		return false
	}
	return !j.spec.Capped() || v.core.drain.on || j.least == 0 || v.serves(j, m, j.most)
}

// serves reports whether a thief has tokens for a task of j that takes n, or there may be
// free tokens.
func (v *victim) serves(j *job, m *message.Means, n int32) bool {
	if n == 0 {
		return true
	}
	for _, k := range m.Caps {
		if k.Job == j.id || k.Job == 0 && k.License == j.spec.License.Name {
			return k.Idle >= n
		}
	}
	return j.tokens.MayServe(n)
}

// served returns whether a task of j that waits for a resource suits a thief, and may start
// there.
func (v *victim) served(j *job, m *message.Means, suits queue.Suits) queue.Suits {
	return func(it *queue.Item) bool {
		return (suits == nil || suits(it)) && (v.core.drain.on || v.serves(j, m, j.spec.Tokens(int(it.Need)-1)))
	}
}
