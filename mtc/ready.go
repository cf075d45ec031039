package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
)

// item is a single task in a queue.
type item struct {
	index   int32
	attempt filch.Attempt
	hop     uint32
	crashes uint8
	tracked bool // commit the start before the task begins
	maybe   bool // as [record.Task.Maybe]
	bytes   int64
	inputs  []policy.Input
}

// span is a range of a bag: this node owns the range, and no node has started its tasks.
type span struct {
	next, hi int32
	front    int32 // committed: indices below may be started without a commit
	ask      int32 // where the higher front under proposal begins
	asking   bool
	hop      uint32
}

func (s *span) left() int64 { return int64(s.hi - s.next) }

// readyQueue holds the ready tasks of one job on one node: ranges and single tasks,
// dedicated to the node or shared with thieves.
type readyQueue struct {
	listed    bool
	ranges    []span
	shared    heap
	dedicated heap
	cooling   []cooling  // failed here; a thief may have them at once, this node later
	resting   []cooling  // failed here; nobody may have them before a delay is over
	late      []lateTask // cannot finish here; see setAside
	frozen    int64
	pending   int // takeovers and moves under way
	onceKnown []func()
	held      map[int32]stamp // single tasks that are this node's by name
}

// cooling is a task that failed here and should be tried on another node.
type cooling struct {
	item
	until time.Duration
}

func (q *readyQueue) empty() bool {
	return !q.startable() && len(q.cooling) == 0 && len(q.resting) == 0 && len(q.late) == 0
}

// startable reports whether the queue has tasks that are not set aside.
func (q *readyQueue) startable() bool {
	return len(q.ranges) > 0 || len(q.shared) > 0 || len(q.dedicated) > 0
}

// drop empties the queue.
func (q *readyQueue) drop() {
	q.ranges, q.shared, q.dedicated, q.cooling, q.resting, q.late = nil, nil, nil, nil, nil, nil
}

// shareable is how many tasks the node may give to a thief.
func (q *readyQueue) shareable() int64 {
	n := int64(len(q.shared) + len(q.cooling) + len(q.late))
	for i := range q.ranges {
		n += q.ranges[i].left()
	}
	return n
}

// heap orders single tasks: most input first (MATRIX v2, III.B.2: descending by required
// data), then by index, so that tasks without data keep the order of submission.
type heap = filch.Heap[item, *item]

// Before reports whether a goes before b.
func (a *item) Before(b *item) bool {
	if a.bytes != b.bytes {
		if mutantAscending {
			return a.bytes < b.bytes
		}
		return a.bytes > b.bytes
	}
	return a.index < b.index
}

// bottom takes the n last tasks off the heap, the last first.
func bottom(h *heap, n int) []item {
	slices.SortFunc(*h, func(a, b item) int {
		if a.Before(&b) {
			return -1
		}
		return 1
	})
	k := len(*h) - min(n, len(*h))
	out := slices.Clone((*h)[k:])
	slices.Reverse(out)
	clear((*h)[k:])
	*h = (*h)[:k] // sorted is a heap
	return out
}

// fits subtracts a task's greatest need of space in an offer from the space left; false
// if the task needs more.
func (it *item) fits(space *int) bool {
	n := 64
	for i := range it.inputs {
		n += 16 + len(it.inputs[i].Node)
	}
	if n > *space {
		return false
	}
	*space -= n
	return true
}

// addRange adds a range, ordered by first index. If the queue already has a part of the
// range, other nodes called this node gone, and the range went elsewhere and came back:
// of the overlap, the higher hop counts.
func (q *readyQueue) addRange(s span) {
	for i := range q.ranges {
		r := &q.ranges[i]
		if s.next >= r.hi || r.next >= s.hi {
			continue
		}
		old := *r
		if old.hop < s.hop {
			q.ranges = slices.Delete(q.ranges, i, i+1)
			q.addParts(old, s.next, s.hi)
			q.addRange(s)
		} else {
			q.addParts(s, old.next, old.hi)
		}
		return
	}
	i, _ := slices.BinarySearchFunc(q.ranges, s.next, func(a span, n int32) int { return int(a.next - n) })
	q.ranges = slices.Insert(q.ranges, i, s)
}

// addParts adds the parts of a range outside lo..hi.
func (q *readyQueue) addParts(s span, lo, hi int32) {
	below, above := s, s
	below.hi, below.front = min(s.hi, lo), min(s.front, lo)
	above.next, above.front, above.asking = max(s.next, hi), max(s.front, hi), false
	if below.next < below.hi {
		q.addRange(below)
	}
	if above.next < above.hi {
		q.addRange(above)
	}
}

// unhold forgets a single task, unless this node received the task again.
func (q *readyQueue) unhold(it *item) {
	if q.held[it.index] == (stamp{it.index, it.attempt, it.hop}) {
		delete(q.held, it.index)
	}
}

// cutRanges takes about half off the end of each range, at most want in all.
func (q *readyQueue) cutRanges(want int64, most int) (cut []span) {
	for i := len(q.ranges) - 1; i >= 0 && want > 0 && len(cut) < most; i-- {
		s := &q.ranges[i]
		n := min(policy.Half(s.left()), want)
		if n <= 0 {
			continue
		}
		cut = append(cut, q.cutRange(i, n))
		want -= n
	}
	return cut
}

// cutRange takes n tasks off the end of the i-th range.
func (q *readyQueue) cutRange(i int, n int64) span {
	s := &q.ranges[i]
	mid := s.hi - int32(n)
	cut := span{next: mid, hi: s.hi, front: mid, hop: s.hop}
	s.hi = mid
	s.front = min(s.front, mid)
	if s.left() == 0 {
		q.ranges = slices.Delete(q.ranges, i, i+1)
	}
	return cut
}

// cutTasks takes every second shared task, at most want and as long as there is space:
// thief and victim both go on with the heaviest tasks.
func (q *readyQueue) cutTasks(want int64, space *int) (cut []item) {
	n := int(min(policy.Half(int64(len(q.shared)+len(q.cooling))), want))
	for len(q.cooling) > 0 && len(cut) < n && q.cooling[0].fits(space) {
		cut = append(cut, q.cooling[0].item)
		q.cooling = slices.Delete(q.cooling, 0, 1)
	}
	var keep []item
	for len(q.shared) > 0 && len(cut) < n && q.shared[0].fits(space) {
		cut = append(cut, q.shared.Pop())
		if len(q.shared) > n-len(cut) {
			keep = append(keep, q.shared.Pop())
		}
	}
	for _, it := range keep {
		q.shared.Push(it)
	}
	return cut
}
