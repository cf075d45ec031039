package tasks

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/slots"
)

// Fills are the tasks in slots held for gangs that still gather. Fills tells the core the
// room of the holds, and stops the tasks that the ledger recalls.
type Fills struct {
	tasks *Tasks
	gap   policy.Gap // as last told to the core
	buf   []uint64   // memory of recall
}

// tell tells the core the room of held slots.
func (f *Fills) tell(t *local.Turn) {
	w, now := f.tasks, policy.Gap{}
	if g := w.Ledger.Backfill.Gap(); g.Room.Slots > 0 && !w.over {
		now = policy.Gap{Room: g.Room, Since: g.Since, Starts: g.Starts, KillWait: launcher.TaskGrace}
	}
	if now != f.gap {
		f.gap = now
		w.core.Fills.SetGap(t.Now, now, &w.out)
	}
}

// take takes the room of a task from a hold. If the hold has no room any more, the core has
// the task back, and take reports false.
func (f *Fills) take(t *local.Turn, s *mtc.Start) (slots.TaskLoan, bool) {
	w := f.tasks
	loan, ok := w.Ledger.Backfill.Take(t.Now, w.serial+1, s.Room())
	if !ok {
		w.ready(t).Ended(t.Now, mtc.End{Run: s.Run, State: filch.Killed, Code: filch.ExitCancelled, Recalled: true}, &w.out)
	}
	return loan, ok
}

// recall stops the tasks that the ledger recalls, and reports whether there were some.
func (f *Fills) recall(t *local.Turn) bool {
	w := f.tasks
	f.buf = w.Ledger.Backfill.Recalled(f.buf[:0])
	for _, serial := range f.buf {
		r := w.runs[serial]
		if r == nil || r.over != nil {
			continue
		}
		if i := slices.IndexFunc(w.starts.sleeps, func(p sleep) bool { return p.run == serial }); i >= 0 {
			w.starts.sleeps.Remove(i)
			w.taskEnded(t, serial, mtc.End{State: filch.Killed, Code: filch.ExitCancelled, Recalled: true}, false)
			continue
		}
		t.Out.TaskStops = append(t.Out.TaskStops, launcher.TaskStop{Serial: serial, Signal: launcher.SigTerm, Grace: launcher.TaskGrace})
	}
	return len(f.buf) > 0
}

// judge makes the end of a task that was stopped for a gang one that is not counted. The
// task may have taken the signal as a reason to end well: then its work is not done.
func (f *Fills) judge(e *launcher.TaskEnd, end *mtc.End) {
	if r := f.tasks.runs[e.Serial]; r != nil && e.Told && r.Loan.Recalled() {
		end.State, end.Recalled = filch.Killed, true
	}
}

// In returns the number of tasks in the hold of a claim, and the job with most of them.
func (f *Fills) In(k slots.Key) (job filch.JobID, n int32) {
	by := make(map[filch.JobID]int32)
	f.tasks.Ledger.Backfill.Fills(k, func(serial uint64) {
		if r := f.tasks.runs[serial]; r != nil {
			by[r.job]++
			n++
		}
	})
	for id, k := range by { // in any order: the most win, and among equals the lowest id
		if k > by[job] || k == by[job] && id < job {
			job = id
		}
	}
	return job, n
}

// Occupants are the tasks here that are in no hold, with the times of their ends.
func (f *Fills) Occupants() (all []slots.Occupant) {
	w := f.tasks
	for _, r := range w.runs { // in any order: the ledger sorts by the end
		if r.gang != nil || r.prev != 0 || r.Loan.Borrowed() {
			continue
		}
		o := slots.Occupant{Room: r.Loan.Room()}
		if s, ok := w.core.Look().Started(r.run); ok && r.life == w.life {
			if need := w.core.Fills.Needs(r.run); need > 0 {
				o.Ends = s.Began + need
			}
		}
		all = append(all, o)
	}
	return all
}
