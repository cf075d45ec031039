package report

import (
	"cmp"
	"slices"
)

// bar is the last attempt of a task. The times are Unix nanoseconds.
type bar struct {
	Begin, End int64
	Queued     int64 // ns on the queue of its node before Begin
	Node       int32
	Slots      int32
}

func (b *bar) length() int64 { return b.End - b.Begin }

// span is a time in which a node takes no work.
type span struct{ Begin, End int64 }

// gathering is a time in which a gang collects slots, up to a number.
type gathering struct {
	Time  span
	Slots int32
}

// nodeTime is a node that a job may have used.
type nodeTime struct {
	Slots  int32
	Drains []span
	Lost   []span
}

// cause is a cause of idle slots.
type cause uint8

// The causes, in the order of the page. At each moment the idle slots of nodes that are
// lost or drain have that cause, and of the others as many as gangs gather have the next. The
// rest has the first cause after these that holds.
const (
	idleLost    cause = iota // the node was lost
	idleDrain                // the node drained
	idleGather               // gangs of this job or of others gathered the slots
	idleBefore               // no task had started yet
	idleLimit                // as many tasks ran as the job allows
	idleQueued               // a task was queued: it starts, or moves
	idleWaiting              // tasks wait for the ends of others
	idleNothing              // all tasks of the job had started
	numCauses
)

// texts are the causes for people.
var texts = [numCauses]string{
	idleLost:    "node lost",
	idleDrain:   "node drained",
	idleGather:  "gangs gathered slots",
	idleBefore:  "before the first start",
	idleLimit:   "limit of the job",
	idleQueued:  "tasks queued: start, or move",
	idleWaiting: "tasks waited for others",
	idleNothing: "nothing left to start",
}

// runTexts are the causes of a run, of which only the slots with ranks count.
var runTexts = [numCauses]string{
	idleLost:    texts[idleLost],
	idleDrain:   texts[idleDrain],
	idleGather:  "the run gathered slots",
	idleBefore:  "before the first start",
	idleLimit:   texts[idleLimit],
	idleQueued:  "ranks about to start",
	idleWaiting: texts[idleWaiting],
	idleNothing: "the rank had ended, and others ran",
}

// work is what a job of tasks did, for the bill.
type work struct {
	Begin, End int64 // of the job
	Bars       []bar
	Gathers    []gathering
	Nodes      []nodeTime
	Limit      int32 // of running tasks; 0: none
	Tasks      int32 // of the job
	Each       int32 // slots of a task
	Graph      bool  // tasks may wait for others
	Never      int32 // tasks that were skipped, or cancelled before a start
	// Spread is set for gangs: the records have the owner of a gang, not the nodes of its
	// ranks, so the slots of all nodes count together.
	Spread bool
	Chain  int64 // ns of the longest chain of tasks that wait for each other; 0: not known
}

// bill is the time of all slots between the begin and the end of a job, in slot-nanoseconds.
type bill struct {
	Busy int64
	Idle [numCauses]int64
}

// Sum is the time of all slots.
func (b *bill) Sum() int64 {
	n := b.Busy
	for _, v := range b.Idle {
		n += v
	}
	return n
}

// change is a moment at which a count of the sweep changes.
type change struct {
	at      int64
	node    int32 // -1: of no node
	running int32 // slots
	tasks   int32 // running
	queued  int32
	begun   int32
	lost    int32
	drains  int32
	gather  int64 // slots
}

// changes are all moments of a job, in the order of time.
func (w *work) changes() []change {
	list := make([]change, 0, 3*len(w.Bars)+8)
	for i := range w.Bars {
		b := &w.Bars[i]
		if b.Queued > 0 {
			list = append(list, change{at: b.Begin - b.Queued, node: -1, queued: 1}, change{at: b.Begin, node: -1, queued: -1})
		}
		list = append(list, change{at: b.Begin, node: b.Node, running: b.Slots, tasks: 1, begun: 1}, change{at: b.End, node: b.Node, running: -b.Slots, tasks: -1})
	}
	for _, g := range w.Gathers {
		list = append(list, change{at: g.Time.Begin, node: -1, gather: int64(g.Slots)}, change{at: g.Time.End, node: -1, gather: -int64(g.Slots)})
	}
	for i := range w.Nodes {
		for _, s := range w.Nodes[i].Lost {
			list = append(list, change{at: s.Begin, node: int32(i), lost: 1}, change{at: s.End, node: int32(i), lost: -1})
		}
		for _, s := range w.Nodes[i].Drains {
			list = append(list, change{at: s.Begin, node: int32(i), drains: 1}, change{at: s.End, node: int32(i), drains: -1})
		}
	}
	// At one moment ends come first: a task may begin when another ends.
	slices.SortStableFunc(list, func(a, b change) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.tasks, b.tasks))
	})
	return list
}

// sum makes the bill of a job from its changes.
func (w *work) sum(changes []change) bill {
	var b bill
	at := w.Begin
	now := make([]change, len(w.Nodes))
	var all change
	for _, c := range changes {
		if to := min(max(c.at, w.Begin), w.End); to > at {
			w.add(&b, to-at, now, &all)
			at = to
		}
		all.tasks, all.queued, all.begun, all.running = all.tasks+c.tasks, all.queued+c.queued, all.begun+c.begun, all.running+c.running
		all.gather += c.gather
		if c.node >= 0 {
			n := &now[c.node]
			n.running, n.lost, n.drains = n.running+c.running, n.lost+c.lost, n.drains+c.drains
		}
	}
	if w.End > at {
		w.add(&b, w.End-at, now, &all)
	}
	return b
}

// add adds a time in which nothing changes.
func (w *work) add(b *bill, span int64, now []change, all *change) {
	idle, spread := int64(0), int64(all.running)
	for i := range w.Nodes {
		slots, n := int64(w.Nodes[i].Slots), &now[i]
		busy := min(int64(n.running), slots)
		if w.Spread {
			if busy = min(spread, slots); n.lost+n.drains > 0 {
				busy = 0
			}
			spread -= busy
		}
		b.Busy += busy * span
		switch rest := slots - busy; {
		case n.lost > 0:
			b.Idle[idleLost] += rest * span
		case n.drains > 0:
			b.Idle[idleDrain] += rest * span
		default:
			idle += rest
		}
	}
	held := min(idle, all.gather)
	b.Idle[idleGather] += held * span
	idle -= held
	waiting := w.Tasks - w.Never - all.begun - all.queued
	switch {
	case all.begun == 0:
		b.Idle[idleBefore] += idle * span
		return
	case w.Limit > 0 && all.tasks >= w.Limit:
		b.Idle[idleLimit] += idle * span
		return
	}
	queued := all.queued
	if !w.Graph {
		queued, waiting = queued+waiting, 0 // also tasks that have not come to their node
	}
	part := min(idle, int64(max(queued, 0))*int64(max(w.Each, 1)))
	if w.Spread { // no event tells of the gather
		b.Idle[idleGather] += part * span
	} else {
		b.Idle[idleQueued] += part * span
	}
	if idle -= part; waiting > 0 {
		b.Idle[idleWaiting] += idle * span
	} else {
		b.Idle[idleNothing] += idle * span
	}
}

// peaks are the most slots in use at a time, by node.
func (w *work) peaks(changes []change) []int32 {
	now, most := make([]int32, len(w.Nodes)), make([]int32, len(w.Nodes))
	for _, c := range changes {
		if c.node >= 0 {
			now[c.node] += c.running
			most[c.node] = max(most[c.node], now[c.node])
		}
	}
	return most
}

// bound is the least time that the job could have taken on these slots and with its limit: all
// work evenly on all slots, the longest task, or the longest chain.
func (w *work) bound() int64 {
	var sum, longest, slots int64
	for i := range w.Bars {
		b := &w.Bars[i]
		sum += b.length() * int64(b.Slots)
		longest = max(longest, b.length())
	}
	for i := range w.Nodes {
		slots += int64(w.Nodes[i].Slots)
	}
	if w.Limit > 0 {
		slots = min(slots, int64(w.Limit)*int64(max(w.Each, 1)))
	}
	return max(longest, w.Chain, sum/max(slots, 1))
}

// samples are the slots in use at n equal steps.
func (w *work) samples(changes []change, n int) []int32 {
	list := make([]int32, n)
	step := max((w.End-w.Begin)/int64(n), 1)
	use, next := int32(0), 0
	for _, c := range changes {
		for next < n && w.Begin+int64(next)*step < c.at {
			list[next] = use
			next++
		}
		use += c.running
	}
	for ; next < n; next++ {
		list[next] = use
	}
	return list
}
