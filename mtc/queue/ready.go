package queue

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Ready holds the ready tasks of one job on one node: ranges and single tasks, dedicated
// to the node or shared with thieves. Tasks of the last five lists do not start here for
// now.
type Ready struct {
	Ranges    policy.Ranges
	Shared    Heap
	Dedicated Heap
	Cooling   []Delayed // failed here; a thief may have them at once, this node later
	Resting   []Delayed // failed here; nobody may have them before a delay is over
	Late      []Late    // cannot finish here
	Unfit     []Item    // may run on other nodes only
	Lacking   []Item    // wait for their part of a resource, in this order
	held      map[int32]stamp
}

// stamp tells apart the times at which the same index came to a node.
type stamp struct {
	index   int32
	attempt filch.Attempt
	hop     uint32
}

// Delayed is a task that failed here, and the end of its wait.
type Delayed struct {
	Item
	Until time.Duration
	// Behind is the dead owner of an earlier attempt, whose ranks may still run: until they
	// are gone nobody starts the task. The zero Owner: none.
	Behind record.Owner
}

// Late is a task that cannot finish here.
type Late struct {
	Item
	Need time.Duration // the task's own limit; 0: unknown, and the end is near
}

// Empty reports whether the queue has no tasks.
func (q *Ready) Empty() bool {
	return !q.Startable() && len(q.Cooling) == 0 && len(q.Resting) == 0 && len(q.Late) == 0 && len(q.Unfit) == 0 && len(q.Lacking) == 0
}

// Startable reports whether the queue has tasks that are not set aside.
func (q *Ready) Startable() bool {
	return len(q.Ranges) > 0 || len(q.Shared) > 0 || len(q.Dedicated) > 0
}

// Drop empties the queue.
func (q *Ready) Drop() {
	*q = Ready{held: q.held}
}

// Shareable is how many tasks the node may give to a thief.
func (q *Ready) Shareable() int64 {
	return int64(len(q.Shared)+len(q.Cooling)+len(q.Late)+len(q.Lacking)) + q.Ranges.Left()
}

// Hold notes that a single task is this node's by name.
func (q *Ready) Hold(it *Item) {
	if q.held == nil {
		q.held = make(map[int32]stamp)
	}
	q.held[it.Index] = stamp{it.Index, it.Attempt, it.Hop}
}

// Holds reports whether the node holds a task as the task came.
func (q *Ready) Holds(it *Item) bool {
	return q.held[it.Index] == stamp{it.Index, it.Attempt, it.Hop}
}

// Knows reports whether the node holds the task with this index, however the task came.
func (q *Ready) Knows(index int32) bool {
	_, ok := q.held[index]
	return ok
}

// Forget ends the hold of a task.
func (q *Ready) Forget(index int32) { delete(q.held, index) }

// Unhold forgets a single task, unless this node received the task again.
func (q *Ready) Unhold(it *Item) {
	if q.Holds(it) {
		q.Forget(it.Index)
	}
}

// bottom takes the n last tasks off the heap, the last first.
func bottom(h *Heap, n int) []Item {
	slices.SortFunc(*h, func(a, b Item) int {
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

// Share shares the n last of the dedicated tasks, and returns their number.
func (q *Ready) Share(n int) int {
	list := bottom(&q.Dedicated, n)
	for _, it := range list {
		q.Shared.Push(it)
	}
	return len(list)
}

// Relevel gives the tasks that may start new bottom levels.
func (q *Ready) Relevel(level func(index int32) time.Duration) {
	for _, h := range [...]*Heap{&q.Shared, &q.Dedicated} {
		all := *h
		*h = make(Heap, 0, len(all))
		for i := range all {
			all[i].Level = level(all[i].Index)
			h.Push(all[i])
		}
	}
}

// Top takes the first of the shared tasks off the queue, at most n.
func (q *Ready) Top(n int) (list []Item) {
	for len(q.Shared) > 0 && len(list) < n {
		list = append(list, q.Shared.Pop())
	}
	return list
}

// Placed takes the tasks off the queue that a policy placed, the last first.
func (q *Ready) Placed() []Item {
	return append(bottom(&q.Dedicated, len(q.Dedicated)), bottom(&q.Shared, len(q.Shared))...)
}

// Singles takes all single tasks off the queue but the tasks that wait for ranks.
func (q *Ready) Singles() []Item {
	list := append(bottom(&q.Shared, len(q.Shared)), bottom(&q.Dedicated, len(q.Dedicated))...)
	for _, k := range q.Cooling {
		list = append(list, k.Item)
	}
	var rest []Delayed
	for _, k := range q.Resting {
		if k.Behind != (record.Owner{}) {
			rest = append(rest, k)
			continue
		}
		list = append(list, k.Item)
	}
	for _, k := range q.Late {
		list = append(list, k.Item)
	}
	list = append(append(list, q.Unfit...), q.Lacking...)
	q.Cooling, q.Resting, q.Late, q.Unfit, q.Lacking = nil, rest, nil, nil, nil
	return list
}

// Remove takes the single tasks off the queue whose index is to go, but the tasks that wait for
// ranks.
func (q *Ready) Remove(goes func(index int32) bool) (gone []Item) {
	drop := func(it *Item) bool {
		if !goes(it.Index) {
			return false
		}
		gone = append(gone, *it)
		return true
	}
	for _, h := range [...]*Heap{&q.Shared, &q.Dedicated} {
		if slices.ContainsFunc(*h, func(it Item) bool { return goes(it.Index) }) {
			all := *h
			*h = nil
			for i := range all {
				if !drop(&all[i]) {
					h.Push(all[i])
				}
			}
		}
	}
	q.Cooling = slices.DeleteFunc(q.Cooling, func(k Delayed) bool { return drop(&k.Item) })
	q.Resting = slices.DeleteFunc(q.Resting, func(k Delayed) bool { return k.Behind == (record.Owner{}) && drop(&k.Item) })
	q.Late = slices.DeleteFunc(q.Late, func(l Late) bool { return drop(&l.Item) })
	q.Unfit = slices.DeleteFunc(q.Unfit, func(it Item) bool { return drop(&it) })
	q.Lacking = slices.DeleteFunc(q.Lacking, func(it Item) bool { return drop(&it) })
	return gone
}

// Wake takes the resting tasks off the queue whose delay is over; with all, the other
// resting tasks too that wait for no ranks. Next is when the first of the rest is due.
func (q *Ready) Wake(now time.Duration, all bool) (list []Item, next time.Duration) {
	next = filch.Never
	q.Resting = slices.DeleteFunc(q.Resting, func(d Delayed) bool {
		if d.Until > now && (!all || d.Behind != record.Owner{}) {
			next = min(next, d.Until)
			return false
		}
		list = append(list, d.Item)
		return true
	})
	return list, next
}

// Warm makes tasks ready again whose time in cooling is over. Next is when the first of
// the rest is due.
func (q *Ready) Warm(now time.Duration) (next time.Duration) {
	next = filch.Never
	q.Cooling = slices.DeleteFunc(q.Cooling, func(d Delayed) bool {
		if d.Until > now {
			next = min(next, d.Until)
			return false
		}
		q.Shared.Push(d.Item)
		return true
	})
	return next
}

// Again is when the first resting task that failed is tried again; 0: none rests.
func (q *Ready) Again() (at time.Duration) {
	for i := range q.Resting {
		if q.Resting[i].Behind == (record.Owner{}) && (at == 0 || q.Resting[i].Until < at) {
			at = q.Resting[i].Until
		}
	}
	return at
}

// RestsUntil is when a resting task is tried again; 0: the task does not rest here, or waits
// for ranks.
func (q *Ready) RestsUntil(index int32) time.Duration {
	if i := q.resting(index); i >= 0 && q.Resting[i].Behind == (record.Owner{}) {
		return q.Resting[i].Until
	}
	return 0
}

// SetAside keeps a task that cannot finish here apart from the tasks that can. The task
// becomes a single task, and a thief with more time may take the task.
func (q *Ready) SetAside(it Item, need time.Duration) {
	it.Tracked = true
	q.Hold(&it)
	q.Late = append(q.Late, Late{it, need})
}

// First is the index of the task that starts next; false if the queue has no task to start.
func (q *Ready) First() (index int32, ok bool) {
	it, ok := q.FirstSingle()
	if !ok && len(q.Ranges) > 0 {
		return q.Ranges[0].Next, true
	}
	return it.Index, ok
}

// FirstSingle is the single task that starts next; false if there is none.
func (q *Ready) FirstSingle() (it *Item, ok bool) {
	if h := *q.Single(); len(h) > 0 {
		return &h[0], true
	}
	return &Item{}, false
}

// Single is the heap of the single task that starts next: dedicated tasks go before shared ones
// (MATRIX v2, III.B.2).
func (q *Ready) Single() *Heap {
	if len(q.Dedicated) > 0 && !(mutantSharedFirst && len(q.Shared) > 0) {
		return &q.Dedicated
	}
	return &q.Shared
}

// Next calls f with the first tasks of both heaps, about most of each.
func (q *Ready) Next(most int, f func(index int32)) {
	for _, h := range [...]*Heap{&q.Dedicated, &q.Shared} {
		for i := range min(len(*h), most) {
			f((*h)[i].Index)
		}
	}
}

// RangeAt is the end of the first range, if a task is in the range or just before; else 0.
func (q *Ready) RangeAt(index int32) (hi int32) {
	if len(q.Ranges) == 0 || q.Ranges[0].Next > index+1 {
		return 0
	}
	return q.Ranges[0].Hi
}

// FirstRecalls is how often the task that starts next was stopped for a gang.
func (q *Ready) FirstRecalls() uint8 {
	it, _ := q.FirstSingle()
	return it.Recalls
}

// SetUnfit keeps a task apart that may run on other nodes only. The task becomes a single
// task.
func (q *Ready) SetUnfit(it Item) {
	it.Tracked = true
	q.Hold(&it)
	q.Unfit = append(q.Unfit, it)
}

// CutUnfit takes at most `most` of the unfit tasks that suit another node, as long as the
// offer has space for each.
func (q *Ready) CutUnfit(suits Suits, most int64, space *int) []Item {
	return cutOf(&q.Unfit, suits, most, space)
}

func cutOf(list *[]Item, suits Suits, most int64, space *int) (cut []Item) {
	*list = slices.DeleteFunc(*list, func(it Item) bool {
		if int64(len(cut)) >= most || !suits.has(&it) || !it.Fits(space) {
			return false
		}
		cut = append(cut, it)
		return true
	})
	return cut
}

// SetLacking keeps a task apart that waits for its part of a resource, behind the tasks
// that wait already. The task becomes a single task.
func (q *Ready) SetLacking(it Item) {
	it.Tracked = true
	q.Hold(&it)
	q.Lacking = append(q.Lacking, it)
}

// PopLacking takes the first of the tasks that wait apart off the queue.
func (q *Ready) PopLacking() Item {
	it := q.Lacking[0]
	q.Lacking = q.Lacking[1:]
	return it
}

// LackingFor counts the tasks that wait for a resource and suit a thief.
func (q *Ready) LackingFor(suits Suits) (n int64) {
	for i := range q.Lacking {
		if suits.has(&q.Lacking[i]) {
			n++
		}
	}
	return n
}

// CutLacking takes at most `most` of the tasks of [Ready.LackingFor], the last first, as
// long as the offer has space for each: the first start here next.
func (q *Ready) CutLacking(suits Suits, most int64, space *int) []Item {
	slices.Reverse(q.Lacking)
	cut := cutOf(&q.Lacking, suits, most, space)
	slices.Reverse(q.Lacking)
	slices.Reverse(cut)
	return cut
}

// Suits reports whether a task may run on a certain node; nil: every task may.
type Suits func(it *Item) bool

func (s Suits) has(it *Item) bool { return s == nil || s(it) }

// Suited counts the shared and the cooling tasks that suit a node.
func (q *Ready) Suited(suits Suits) (shared, cooling int64) {
	if suits == nil {
		return int64(len(q.Shared)), int64(len(q.Cooling))
	}
	for i := range q.Shared {
		if suits(&q.Shared[i]) {
			shared++
		}
	}
	for i := range q.Cooling {
		if suits(&q.Cooling[i].Item) {
			cooling++
		}
	}
	return shared, cooling
}

// Reconsider shares the late tasks again whose own limit is not known.
func (q *Ready) Reconsider() {
	q.Late = slices.DeleteFunc(q.Late, func(l Late) bool {
		if l.Need == 0 {
			q.Shared.Push(l.Item)
		}
		return l.Need == 0
	})
}

// LateFor counts the late tasks that suit a thief, and end in time there by their length.
func (q *Ready) LateFor(suits Suits, ends func(need time.Duration) bool) (n int64) {
	for i := range q.Late {
		if ends(q.Late[i].Need) && suits.has(&q.Late[i].Item) {
			n++
		}
	}
	return n
}

// CutLate takes at most `most` of the tasks of [Ready.LateFor], as long as the offer has
// space for each.
func (q *Ready) CutLate(suits Suits, ends func(need time.Duration) bool, most int64, space *int) (cut []Item) {
	q.Late = slices.DeleteFunc(q.Late, func(l Late) bool {
		if int64(len(cut)) == most || !ends(l.Need) || !suits.has(&l.Item) || !l.Fits(space) {
			return false
		}
		cut = append(cut, l.Item)
		return true
	})
	return cut
}

// Cut takes shared tasks that suit a thief, at most half, at most want and as long as there is
// space. Of half, Cut takes every second task: thief and victim both go on with the most urgent
// tasks. Of less, Cut takes the first: the thief starts them at once.
func (q *Ready) Cut(suits Suits, want int64, space *int) (cut []Item) {
	shared, cooling := q.Suited(suits)
	left := shared + cooling
	half := policy.Half(left)
	n := int(min(half, want))
	q.Cooling = slices.DeleteFunc(q.Cooling, func(d Delayed) bool {
		if len(cut) >= n || !suits.has(&d.Item) || !d.Fits(space) {
			return false
		}
		cut = append(cut, d.Item)
		left--
		return true
	})
	var keep []Item
	stays := false // the next task that suits the thief
	for len(q.Shared) > 0 && len(cut) < n {
		switch {
		case !suits.has(&q.Shared[0]):
			keep = append(keep, q.Shared.Pop())
			continue
		case stays:
			keep, stays = append(keep, q.Shared.Pop()), false
			left--
			continue
		case !q.Shared[0].Fits(space):
			n = 0
			continue
		}
		cut = append(cut, q.Shared.Pop())
		left--
		stays = int64(n) == half && left > int64(n-len(cut))
	}
	for _, it := range keep {
		q.Shared.Push(it)
	}
	return cut
}

// Take takes single tasks off the queue that suit another node, at most want and as long
// as there is space.
func (q *Ready) Take(suits Suits, want int64, space *int) (cut []Item) {
	take := func(it *Item) bool {
		if int64(len(cut)) >= want || !suits.has(it) || !it.Fits(space) {
			return false
		}
		cut = append(cut, *it)
		return true
	}
	q.Late = slices.DeleteFunc(q.Late, func(l Late) bool { return take(&l.Item) })
	q.Cooling = slices.DeleteFunc(q.Cooling, func(d Delayed) bool { return take(&d.Item) })
	q.Lacking = slices.DeleteFunc(q.Lacking, func(it Item) bool { return take(&it) })
	var keep []Item
	for len(q.Shared) > 0 && int64(len(cut)) < want {
		it := q.Shared.Pop()
		if !take(&it) {
			keep = append(keep, it)
		}
	}
	for _, it := range keep {
		q.Shared.Push(it)
	}
	return cut
}

// Check panics where an invariant does not hold.
func (q *Ready) Check() {
	q.Ranges.Check()
	for _, h := range [...]*Heap{&q.Shared, &q.Dedicated} {
		if !h.Ordered() {
			panic(fmt.Sprintf("queue: %d tasks are out of order", len(*h)))
		}
	}
}
