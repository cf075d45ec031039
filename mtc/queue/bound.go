package queue

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// bindsTo reports whether a dedicated task may go to a node after all: the node has most of its
// input, and the task was not offered so before.
func (a *Item) bindsTo(node filch.NodeName) bool {
	return !a.Rebound && a.near(node) && !mutantBound
}

// near reports whether a node has most of the input of a task.
func (a *Item) near(node filch.NodeName) bool {
	there, all := int64(0), int64(0)
	for i := range a.Inputs {
		all += a.Inputs[i].Bytes
		if a.Inputs[i].Node == node || slices.Contains(a.Inputs[i].Copies, node) {
			there += a.Inputs[i].Bytes
		}
	}
	return there > 0 && 2*there > all
}

// BoundFor counts the dedicated tasks, without the first keep, that may go to a node after all.
func (q *Ready) BoundFor(node filch.NodeName, keep int32) (n int64) {
	for i := range q.Dedicated {
		if q.Dedicated[i].bindsTo(node) {
			n++
		}
	}
	return max(min(n, int64(len(q.Dedicated))-int64(keep)), 0)
}

// CutBound takes at most `most` of these tasks off the queue, the last first, as long as the offer
// has space for each. A task is offered so only once (Albatross's late binding).
func (q *Ready) CutBound(node filch.NodeName, most int64, space *int) (cut []Item) {
	if most <= 0 {
		return nil
	}
	all := bottom(&q.Dedicated, len(q.Dedicated))
	for _, it := range all {
		if int64(len(cut)) < most && it.bindsTo(node) && it.Fits(space) {
			it.Rebound = true
			cut = append(cut, it)
			continue
		}
		q.Dedicated.Push(it)
	}
	return cut
}

// nearLooks bounds the shared tasks that are looked at for the input of a thief, and nearPart is the
// part of the bottom level of the first task by which their levels may be lower.
const (
	nearLooks = 64
	nearPart  = 8
)

// CutNear takes at most `most` shared tasks that suit a thief off the queue, of which the thief has
// most of the input, and which are about as urgent as the first: the first of the others would move
// input here and there.
func (q *Ready) CutNear(suits Suits, node filch.NodeName, most int64, space *int) (cut []Item) {
	if most <= 0 || len(q.Shared) == 0 || len(q.Shared[0].Inputs) == 0 || mutantDataless {
		return nil
	}
	var keep []Item
	for least := q.Shared[0].Level - q.Shared[0].Level/nearPart; len(q.Shared) > 0 && len(keep) < nearLooks && int64(len(cut)) < most && q.Shared[0].Level >= least; {
		it := q.Shared.Pop()
		if it.near(node) && suits.has(&it) && it.Fits(space) {
			cut = append(cut, it)
			continue
		}
		keep = append(keep, it)
	}
	for _, it := range keep {
		q.Shared.Push(it)
	}
	return cut
}
