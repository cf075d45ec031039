package queue

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// bindsTo reports whether a dedicated task may go to a node after all: the node has most of its
// input, and the task was not offered so before.
func (a *Item) bindsTo(node filch.NodeName) bool {
	there, all := int64(0), int64(0)
	for i := range a.Inputs {
		all += a.Inputs[i].Bytes
		if a.Inputs[i].Node == node || slices.Contains(a.Inputs[i].Copies, node) {
			there += a.Inputs[i].Bytes
		}
	}
	return !a.Rebound && there > 0 && 2*there > all && !mutantBound
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
