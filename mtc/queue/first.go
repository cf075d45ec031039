package queue

import (
	"math"

	"github.com/filch-hpc/filch"
)

// CountFirst counts the shared tasks that suit a node, of the first looks.
func (q *Ready) CountFirst(suits Suits, looks int) (n int64) {
	space := math.MaxInt
	list := q.CutFirst(suits, looks, filch.Unbounded, &space)
	for _, it := range list {
		q.Shared.Push(it)
	}
	return int64(len(list))
}

// CutFirst takes shared tasks that suit a node, of the first looks, at most `most` and as long
// as there is space.
func (q *Ready) CutFirst(suits Suits, looks int, most int64, space *int) (cut []Item) {
	var keep []Item
	for ; looks > 0 && len(q.Shared) > 0 && int64(len(cut)) < most; looks-- {
		if it := q.Shared.Pop(); suits.has(&it) && it.Fits(space) {
			cut = append(cut, it)
		} else {
			keep = append(keep, it)
		}
	}
	for _, it := range keep {
		q.Shared.Push(it)
	}
	return cut
}
