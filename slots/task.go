package slots

import (
	"slices"
	"time"
)

// tasks is the room of the node's tasks, and the state of their queue. Tasks need
// no lease: they belong to the node, and no other node gives their room back.
//
// Gangs and tasks take turns. A waiting gang gets the room freed by tasks, since
// tasks end all the time and would never let the gang in. But once tasks wait here,
// a gang enqueued after the start of the last task waits for one more task.
type tasks struct {
	held    Room
	stuck   Room // of tasks with processes left unkilled
	slots   set  // of held and stuck
	gpus    set
	lent    []*claim      // claims of tasks with steps
	next    Room          // of the waiting task
	waiting bool          // a task waits
	since   time.Duration // when the last task was started, or tasks began to wait
}

// TaskLoan is the room given to a task.
type TaskLoan struct {
	Room  Room
	slots set
	gpus  set
	lent  *claim // for the steps of the task; nil before the first step
}

// Slots are the numbers of the slots of a loan.
func (n TaskLoan) Slots() []int32 { return n.slots.list() }

// TaskCores are the cores of a loan; none where slots are not cores.
func (l *Ledger) TaskCores(n TaskLoan) []int32 {
	if !l.capacity.Bound() {
		return nil
	}
	cores := n.slots.list()
	for i, s := range cores {
		cores[i] = l.capacity.Cores[s]
	}
	return cores
}

// TaskGPUs are the names of the GPUs of a loan.
func (l *Ledger) TaskGPUs(n TaskLoan) []string {
	if n.Room.GPUs == 0 {
		return nil
	}
	var names []string
	for _, g := range n.gpus.list() {
		names = append(names, l.capacity.GPUs[g])
	}
	return names
}

// TaskRoom is the room available to tasks at the moment, including the room they
// have: all free room, unless a gang has the turn.
func (l *Ledger) TaskRoom() Room {
	if l.drained() || l.shut || len(l.wait) > 0 && !l.tasksFirst(l.wait[0]) {
		return l.tasks.held
	}
	return l.tasks.held.Plus(l.free)
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
	if mutantTasksBlock || l.free.Fits(Room{}, l.tasks.next) > 0 {
		return false
	}
	room := l.Total().Minus(l.tasks.stuck)
	for _, c := range l.holds {
		if c.state == Held {
			room = room.Minus(c.room)
		}
	}
	return room.Fits(Room{}, l.tasks.next) < 1
}

// open is the free room available to c.
func (l *Ledger) open(c *claim) Room {
	if !l.tasksFirst(c) {
		return l.free
	}
	next := l.tasks.next
	return l.free.Minus(Room{
		Slots: min(next.Slots, l.free.Slots), MemBytes: min(next.MemBytes, l.free.MemBytes), GPUs: min(next.GPUs, l.free.GPUs),
	})
}

// TakeTask gives a task room at once, or returns false if another has the turn. A
// draining node gives the room, too: the starter of tasks keeps to
// [Ledger.TaskRoom], but the start of some tasks was recorded before the drain.
func (l *Ledger) TakeTask(now time.Duration, each Room) (TaskLoan, bool) {
	room := l.TaskRoom().Minus(l.tasks.held)
	if l.drained() && !l.shut {
		room = l.free
	}
	if room.Fits(Room{}, each) < 1 {
		return TaskLoan{}, false
	}
	n := TaskLoan{Room: each}
	if mutantOversell {
		n.slots = l.slots.clone().low(nil, each.Slots)
	} else {
		n.slots = l.slots.low(nil, each.Slots)
	}
	if each.GPUs > 0 {
		n.gpus = l.gpus.low(nil, each.GPUs)
	}
	l.free = l.free.Minus(each)
	l.tasks.held = l.tasks.held.Plus(each)
	l.tasks.slots = l.tasks.slots.grown(len(l.slots))
	l.tasks.slots.plus(n.slots)
	l.tasks.gpus = l.tasks.gpus.grown(len(l.gpus))
	l.tasks.gpus.plus(n.gpus)
	l.tasks.since = now
	l.pump(now) // it may be a gang's turn now
	return n, true
}

// EndTask takes back the room of a task. A task with unkillable processes keeps the
// room for good; a running step of the task keeps the step's room until the step
// ends.
func (l *Ledger) EndTask(now time.Duration, n TaskLoan, left bool) {
	if left {
		l.tasks.held = l.tasks.held.Minus(n.Room)
		l.tasks.stuck = l.tasks.stuck.Plus(n.Room)
		return
	}
	l.tasks.slots.minus(n.slots)
	l.tasks.gpus.minus(n.gpus)
	l.tasks.held = l.tasks.held.Minus(n.Room)
	if c := n.lent; c != nil {
		l.orphan(c)
		n.Room, n.slots, n.gpus = c.room, c.slots, c.gpus
		l.tasks.lent = slices.DeleteFunc(l.tasks.lent, func(o *claim) bool { return o == c })
	}
	l.free = l.free.Plus(n.Room)
	l.slots.plus(n.slots)
	l.gpus.plus(n.gpus)
	l.pump(now)
}

// SubTask launches ranks of a step on the part of a task's room not used by other
// steps of the task.
func (l *Ledger) SubTask(a Ask, n *TaskLoan) (Loan, bool) {
	c := n.lent
	if c == nil {
		c = &claim{state: Running, room: n.Room, slots: n.slots.clone(), gpus: n.gpus.grown(len(l.gpus)).clone()}
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
func (l *Ledger) TasksWait(now time.Duration, waiting bool, next Room) {
	waiting = waiting && l.Total().Fits(Room{}, next) > 0
	if waiting && !l.tasks.waiting {
		l.tasks.since = now
	}
	changed := l.tasks.waiting != waiting || l.tasks.next != next
	l.tasks.waiting, l.tasks.next = waiting, next
	if changed {
		l.pump(now)
	}
}
