package plan

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/graph"
)

// Coming are the tasks of a graph that become ready as soon as the end of their last parent
// is recorded. A slot that the parent gave back is theirs: otherwise a task of less urgency
// would take the slot meanwhile, and every link of a chain would wait for the end of such a
// task. The zero Coming has none.
type Coming struct {
	list []coming
	took time.Duration // a record takes so long
}

type coming struct {
	parent int32
	level  time.Duration
	since  time.Duration
}

// comingWait bounds the wait for a record: a store that is away leaves no slot empty.
const comingWait = 200 * time.Millisecond

// comingMax bounds the tasks: a node has few slots that came free in comingWait.
const comingMax = 1024

// Ending takes in that a task ended well on this node, and that the end is being recorded.
func (p *Plan) Ending(now time.Duration, i int32, t *graph.Tracker) {
	level := time.Duration(0)
	for _, c := range p.graph.Children(i) {
		if t.Last(c) {
			level = max(level, p.levels[c])
		}
	}
	// The record of an end may be in vain.
	p.Coming.list = slices.DeleteFunc(p.Coming.list, func(c coming) bool { return c.since+comingWait < now })
	if level > 0 && len(p.Coming.list) < comingMax {
		p.Coming.list = append(p.Coming.list, coming{i, level, now})
	}
}

// Recorded takes in that the end of a task is recorded.
func (k *Coming) Recorded(now time.Duration, i int32) {
	for at := range k.list {
		if c := k.list[at]; c.parent == i {
			k.took = now - c.since
			k.list = slices.Delete(k.list, at, at+1)
			return
		}
	}
}

// Ahead is how many slots are to stay free for tasks that are more urgent than a ready task
// of a level and a length, and until when at most.
func (k *Coming) Ahead(now, level, length time.Duration) (n int32, until time.Duration) {
	until = filch.Never
	if length <= k.took {
		return 0, until // the task ends sooner than the record comes
	}
	for _, c := range k.list {
		if end := c.since + comingWait; c.level > level && end > now {
			n, until = n+1, min(until, end)
		}
	}
	return n, until
}
