package slots

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// tasks is the room of the node's tasks, and the state of their queue. Tasks need
// no lease: they belong to the node, and no other node gives their room back.
//
// Gangs and tasks take turns. A waiting gang gets the room freed by tasks, since
// tasks end all the time and would never let the gang in. But once tasks wait here,
// a gang enqueued after the start of the last task waits for one more task.
type tasks struct {
	used    share         // by tasks, and by stuck
	stuck   filch.Room    // of tasks with processes left unkilled
	lent    []*claim      // claims of tasks with steps
	next    filch.Room    // of the waiting task
	waiting bool          // a task waits
	since   time.Duration // when the last task was started, or tasks began to wait
}

// held is the room of the tasks themselves.
func (t *tasks) held() filch.Room { return t.used.room.Minus(t.stuck) }

// TaskLoan is the room given to a task.
type TaskLoan struct {
	share
	lent *claim // for the steps of the task; nil before the first step
	fill *fill  // of a task that was let through; nil: of another
}

// Room is the amount of a loan.
func (n TaskLoan) Room() filch.Room { return n.room }

// Slots are the numbers of the slots of a loan.
func (n TaskLoan) Slots() []int32 { return n.slots.list() }

// ProcessorsOf are the processors of a loan; none where slots are not processors.
func (c Capacity) ProcessorsOf(n TaskLoan) []filch.Processor {
	return c.processorsOf(n.slots.list())
}

// GPUsOf are the names of the GPUs of a loan.
func (c Capacity) GPUsOf(n TaskLoan) []string {
	return c.gpusOf(n.gpus, n.room.GPUs)
}

// TaskRoom is the room available to tasks at the moment, including the room they
// have: all free room, unless a gang has the turn. See [Backfill] for further room.
func (l *Ledger) TaskRoom() filch.Room {
	room := l.Backfill.others()
	if l.closing.drained() || l.closing.shut {
		return room
	}
	if !l.GangsTurn() {
		room.Add(&l.free.room)
	}
	return room
}

// GangsTurn reports whether a gang waits for room, and comes before the next task.
func (l *Ledger) GangsTurn() bool {
	first := l.wait.first()
	return first != nil && !l.tasksFirst(first)
}

// tasksFirst reports whether a waiting task comes before c; c is nil for a claim
// not on the wait list.
func (l *Ledger) tasksFirst(c *claim) bool {
	return l.tasks.waiting && (c == nil || !c.queued || l.tasks.since < c.since) && !l.tasksBlocked()
}

// tasksBlocked reports whether gangs not yet launched hold room needed by the
// waiting task. Then the task keeps nothing from gangs: each would wait for the
// other.
func (l *Ledger) tasksBlocked() bool {
	if mutantTasksBlock || l.free.room.Fits(filch.Room{}, l.tasks.next) > 0 {
		return false
	}
	room := l.Total().Minus(l.tasks.stuck)
	for _, c := range l.holds {
		if c.state == Held && !c.kept {
			room = room.Minus(c.room)
		}
	}
	return room.Fits(filch.Room{}, l.tasks.next) < 1
}

// open is the free room available to c.
func (l *Ledger) open(c *claim) filch.Room {
	if !l.tasksFirst(c) {
		return l.free.room
	}
	next := l.tasks.next
	return l.free.room.Minus(filch.Room{
		Slots: min(next.Slots, l.free.room.Slots), MemBytes: min(next.MemBytes, l.free.room.MemBytes), GPUs: min(next.GPUs, l.free.room.GPUs),
	})
}

// TakeTask gives a task room at once, or returns false if another has the turn. A
// draining node gives the room, too: the starter of tasks keeps to
// [Ledger.TaskRoom], but the start of some tasks was recorded before the drain.
func (l *Ledger) TakeTask(now time.Duration, each filch.Room) (TaskLoan, bool) {
	room, held := l.TaskRoom(), l.Backfill.others()
	if room.Sub(&held); l.closing.drained() && !l.closing.shut {
		room = l.free.room
	}
	if room.Fits(filch.Room{}, each) < 1 || l.free.gpus.fits(0, each.GPUs) < 1 {
		return TaskLoan{}, false
	}
	n := TaskLoan{}
	l.lender().lend(each, each, &n.share)
	l.capacity.gather(&n.share, &l.free, 1)
	l.tasks.used.plus(&n.share)
	l.tasks.since = now
	l.pump(now) // it may be a gang's turn now
	return n, true
}

// asTask reports whether a gang that is a task may take the room of tasks, as tasks have
// the turn, and finds enough.
func (a *Ask) asTask(l *Ledger) bool {
	room, held := l.TaskRoom(), l.Backfill.others()
	room.Sub(&held)
	return a.Task && !a.Exclusive && !l.closing.refuses(*a) && !l.closing.shut && room.Fits(a.Base, a.Each) >= a.Want && fitsGPUs(l.free.gpus, nil, *a) >= a.Want
}

// EndTask takes back the room of a task. A task with unkillable processes keeps the
// room for good; a running step of the task keeps the step's room until the step
// ends.
func (l *Ledger) EndTask(now time.Duration, n TaskLoan, left bool) {
	if n.fill != nil && l.Backfill.end(now, &n, left) {
		l.tasks.lent = slices.DeleteFunc(l.tasks.lent, func(o *claim) bool { return o == n.lent })
		l.pump(now)
		return
	}
	if left {
		l.tasks.stuck = l.tasks.stuck.Plus(n.room)
		l.pump(now) // a hold may have lost parts of ranks with the room
		return
	}
	l.tasks.used.minus(&n.share)
	if c := n.lent; c != nil {
		l.orphan(c)
		n.share = c.share
		l.tasks.lent = slices.DeleteFunc(l.tasks.lent, func(o *claim) bool { return o == c })
	}
	l.free.plus(&n.share)
	l.pump(now)
}

// PassTask takes in that a task began in the room of a task that ended: a gang that waits
// since then comes before the next task.
func (l *Ledger) PassTask(now time.Duration) {
	l.tasks.since = now
	l.pump(now)
}

// SubTask launches ranks of a step on the part of a task's room not used by other
// steps of the task.
func (l *Ledger) SubTask(a Ask, n *TaskLoan) (Loan, bool) {
	c := n.lent
	if c == nil {
		c = &claim{state: Running, share: n.share.clone()}
	}
	loan, ok := l.sub(a, c)
	if ok && n.lent == nil {
		n.lent = c
		l.tasks.lent = append(l.tasks.lent, c)
	}
	return loan, ok
}

// TasksWait receives whether ready tasks found no room, and the room needed by the
// first such task. A task too large for this node keeps nothing from others: the
// task waits here for a thief.
func (l *Ledger) TasksWait(now time.Duration, waiting bool, next filch.Room) {
	waiting = waiting && l.Total().Fits(filch.Room{}, next) > 0
	if waiting && !l.tasks.waiting {
		l.tasks.since = now
	}
	changed := l.tasks.waiting != waiting || l.tasks.next != next
	l.tasks.waiting, l.tasks.next = waiting, next
	if changed {
		l.pump(now)
	}
}
