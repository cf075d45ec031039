package tasks

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/slots"
)

// starts gives tasks their room, and passes them to the daemon.
//
// A successor has no room yet. It takes the room of a running task at the end of that task:
// see [mtc.Start.Succeeds]. The runner begins a successor without a word of the launcher,
// which hands the room on when it learns of the end. Until then a successor is no running
// task. While a gang comes before the next task, no task gets a successor: the gang waits for
// the running tasks and their successors, and not for the whole bag.
type starts struct {
	tasks  *Tasks
	late   []mtc.Start               // without room: a gang took their room while they were committed, or comes before
	sleeps filch.Heap[sleep, *sleep] // sleeping built-in tasks
	burst  int                       // built-in no-op tasks since the last tick
}

// noopBurst bounds the no-op tasks between two ticks, so that a bag of millions delays
// other inputs by a few milliseconds only.
const noopBurst = 4096

// start gives a task its room, or its place behind the task whose room it takes.
func (a *starts) start(t *local.Turn, s *mtc.Start) {
	w := a.tasks
	var loan slots.TaskLoan
	g := w.Gangs.of(s)
	after, prev := a.before(s)
	switch {
	case prev != nil && (prev.over != nil || w.Ledger.GangsTurn()): // steps, or a gang, come before
		a.late = append(a.late, *s)
		return
	case prev != nil:
		loan = prev.Loan
	case g == nil:
		var ok bool
		if s.Borrows {
			if loan, ok = w.Fills.take(t, s); !ok {
				return
			}
		} else if loan, ok = w.Ledger.TakeTask(t.Now, s.Room()); !ok {
			a.late = append(a.late, *s)
			return
		}
	}
	w.serial++
	r := &Running{run: s.Run, life: w.life, job: s.Job, Index: s.Name, try: s.Attempt, gang: g}
	w.runs[w.serial], w.serials[s.Run] = r, w.serial
	if prev != nil {
		r.prev, prev.next = after, w.serial
	} else {
		r.Loan = loan
		reportStart(t, r, s.Borrows)
	}
	a.begin(t, w.serial, r, s, loan)
}

// before finds the task whose room a start takes. There is none if that task has ended
// meanwhile.
func (a *starts) before(s *mtc.Start) (serial uint64, r *Running) {
	if s.Succeeds == 0 {
		return 0, nil
	}
	serial = a.tasks.serials[s.Succeeds]
	return serial, a.tasks.runs[serial]
}

// begin passes a task to the daemon, for the slots of a loan; built-in tasks end here.
func (a *starts) begin(t *local.Turn, serial uint64, r *Running, s *mtc.Start, loan slots.TaskLoan) {
	w, body := a.tasks, s.Spec.Body
	if len(s.Payload) > 0 && s.Payload[0] == launcher.PayloadBuiltin {
		body = s.Payload[1:]
	}
	noop, sleeps := len(body) > 0 && body[0] == launcher.BodyNoop, len(body) == 9 && body[0] == launcher.BodySleep
	switch {
	case r.gang != nil:
		t.Out.Tasks = append(t.Out.Tasks, launcher.TaskLaunch{Serial: serial, Start: *s})
	case (noop || sleeps) && r.prev != 0:
		r.held = new(*s)
	case noop && a.burst >= noopBurst:
		a.sleeps.Push(sleep{t.Now, serial})
	case noop:
		a.burst++
		w.taskEnded(t, serial, mtc.End{State: filch.OK}, false)
	case sleeps:
		a.sleeps.Push(sleep{t.Now + time.Duration(binary.BigEndian.Uint64(body[1:])), serial})
	default:
		after := r.prev
		if mutantNoWait {
			after = 0
		}
		t.Out.Tasks = append(t.Out.Tasks, launcher.TaskLaunch{
			Serial: serial, Start: *s, After: after, Processors: w.Cfg.Capacity.ProcessorsOf(loan), GPUs: w.Cfg.Capacity.GPUsOf(loan),
		})
	}
}

// again starts the tasks that found no room.
func (a *starts) again(t *local.Turn) {
	late := a.late
	a.late = nil
	for i := range late {
		a.start(t, &late[i])
	}
}

// pass gives the room of an ended task to its successor, which pass returns with its serial,
// or else back to the ledger.
func (a *starts) pass(t *local.Turn, r *Running, left bool) (serial uint64, next *Running) {
	w := a.tasks
	next = w.runs[r.next]
	switch {
	case r.gang != nil:
	case r.prev != 0:
		if prev := w.runs[r.prev]; prev != nil {
			prev.next = 0
		}
	case next == nil || left:
		w.Ledger.EndTask(t.Now, r.Loan, left)
	default:
		next.Loan, next.prev = r.Loan, 0
		w.Ledger.PassTask(t.Now)
		reportStart(t, next, false)
		return r.next, next
	}
	return 0, nil
}

// slots are the slots of a task: of a successor, those of the task before. A gang has slots of
// its ranks only, which each node tells: see [events.RankEnded].
func (a *starts) slots(r *Running) filch.Slots {
	for r.prev != 0 && a.tasks.runs[r.prev] != nil {
		r = a.tasks.runs[r.prev]
	}
	return filch.SlotsOf(r.Loan.Slots())
}

// askBack takes a successor back, unless it has begun.
func (a *starts) askBack(t *local.Turn, serial uint64, r *Running) {
	if r.held != nil {
		a.tasks.taskEnded(t, serial, mtc.End{State: filch.Killed, Code: filch.ExitCancelled, Unstarted: true}, false)
		return
	}
	t.Out.TaskStops = append(t.Out.TaskStops, launcher.TaskStop{Serial: serial, Unrun: true})
}
