package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// remainsMax bounds the dead owners that are remembered; a forgotten owner is waited for once
// more.
const remainsMax = 256

// Remains are the waits for the ranks of dead owners of gangs. Until the end of the wait no
// gang of the owner starts again, and none counts as lost: a job that waits for the end of the
// gang would begin beside the ranks.
type Remains struct {
	until map[record.Owner]time.Duration
	// astray counts the started gangs of dead owners which are lost after the wait.
	astray map[blockID]astray
}

type blockID struct {
	job filch.JobID
	num int32
}

type astray struct {
	from record.Owner
	n    int64
}

// NewRemains makes an empty list.
func NewRemains() Remains {
	return Remains{make(map[record.Owner]time.Duration), make(map[blockID]astray)}
}

// WaitFor is the end of the wait for an owner; first: the wait begins now, and takes rest.
func (r *Remains) WaitFor(o record.Owner, now, rest time.Duration) (until time.Duration, first bool) {
	if until, known := r.until[o]; known {
		return until, false
	}
	if len(r.until) >= remainsMax {
		maps.DeleteFunc(r.until, func(_ record.Owner, until time.Duration) bool { return until <= now })
		maps.DeleteFunc(r.astray, func(_ blockID, a astray) bool { return r.until[a.from] <= now })
	}
	r.until[o] = now + rest
	return now + rest, true
}

// Forget takes in that an owner lives after all: its ranks are waited for at its next death.
func (r *Remains) Forget(o record.Owner) { delete(r.until, o) }

// End ends the wait for an owner. lose: gangs are lost now. ok: there was a wait.
func (r *Remains) End(o record.Owner, now time.Duration) (lose, ok bool) {
	if _, ok = r.until[o]; !ok {
		return false, false
	}
	r.until[o] = now
	for _, a := range r.astray { // any order: whether there is one
		lose = lose || a.from == o
	}
	return lose, true
}

// SetAstray counts the started gangs in a block which stay with their dead owner for now.
func (r *Remains) SetAstray(job filch.JobID, num int32, b *record.Block, from record.Owner) {
	n := int64(0)
	for i := range b.Tasks {
		if t := &b.Tasks[i]; t.State == 0 && t.Started && t.Owner == from {
			n++
		}
	}
	if r.astray[blockID{job, num}] = (astray{from, n}); n == 0 {
		delete(r.astray, blockID{job, num})
	}
}

// Astray counts the gangs of a job that are lost after the wait, and names their owners. A wait
// that ended before since is over: other nodes look after the gangs.
func (r *Remains) Astray(job filch.JobID, since time.Duration) (n int64, owners []record.Owner) {
	for b, a := range r.astray { // any order: a sum, and sorted below
		if b.job == job && r.until[a.from] > since {
			n, owners = n+a.n, append(owners, a.from)
		}
	}
	slices.SortFunc(owners, func(a, b record.Owner) int { return cmp.Compare(a.Node, b.Node) })
	return n, slices.Compact(owners)
}

// Lift makes the tasks ready again that wait for the ranks of a dead owner, and returns
// their number.
func (q *Ready) Lift(o record.Owner) (n int) {
	q.Resting = slices.DeleteFunc(q.Resting, func(d Delayed) bool {
		if d.Behind != o {
			return false
		}
		q.Shared.Push(d.Item)
		n++
		return true
	})
	return n
}

// Remaining counts the resting tasks that wait for ranks, and adds the dead owners to a list.
func (q *Ready) Remaining(owners []record.Owner) (n int64, all []record.Owner) {
	for i := range q.Resting {
		o := q.Resting[i].Behind
		if o == (record.Owner{}) {
			continue
		}
		if n++; !slices.Contains(owners, o) {
			owners = append(owners, o)
		}
	}
	return n, owners
}

// RestsBehind is the dead owner whose ranks a task waits for; the zero Owner: none.
func (q *Ready) RestsBehind(index int32) (o record.Owner) {
	if i := q.resting(index); i >= 0 {
		o = q.Resting[i].Behind
	}
	return o
}

func (q *Ready) resting(index int32) int {
	return slices.IndexFunc(q.Resting, func(d Delayed) bool { return d.Index == index })
}
