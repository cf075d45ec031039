package tasks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/slots"
)

// A run started by a task is a step in the task's room: the step needs no other slots,
// and ends before the task does. The task is on this node, and so are the step, its
// origin and the granter of the slots.

// For its steps, a task takes the place of the parent job, as a job with a single rank
// holding all of the task's room. This job is in no list of jobs.

// taskOver is the end of a task, reported after the task's steps are over.
type taskOver struct {
	end  mtc.End
	left bool
}

// TaskOf returns a task that runs here and may have steps, or nil.
func (w *Tasks) TaskOf(parent filch.JobID, task uint64) *Running {
	r := w.runs[task]
	if r == nil || r.job != parent || r.over != nil {
		return nil
	}
	return r
}

// BorrowTask takes room for a step from the room of its task. Steps may outlive the process
// of their task, so the tasks of that job have no successors here any more.
func (w *Tasks) BorrowTask(t *local.Turn, a slots.Ask, l *launcher.Launch) (slots.Loan, bool) {
	r := w.TaskOf(l.Parent, l.Task)
	if r == nil {
		return slots.Loan{}, false
	}
	w.core.Alone(r.job)
	for serial, x := range w.runs { // in any order: each is asked for
		if x.job == r.job && x.prev != 0 {
			w.starts.askBack(t, serial, x)
		}
	}
	return w.Ledger.SubTask(a, &r.Loan)
}

// endTaskSteps ends the steps of an ended task, and reports whether the task's end must
// wait for the steps: a node learning of the end may start the task again.
func (w *Tasks) endTaskSteps(t *local.Turn, serial uint64, e mtc.End, left bool) bool {
	r := w.runs[serial]
	if r == nil || r.over == nil && !w.origin.OnTaskEnd(t, serial) {
		return false
	}
	r.over = &taskOver{e, left}
	w.ranks.StopTaskSteps(t, serial, "the task of this step ended")
	return w.ranks.HasSteps(serial) && !mutantStepsOutlive
}

// OnStepOver reports the end of a task when the task's last step is over.
func (w *Tasks) OnStepOver(t *local.Turn, serial uint64) {
	if serial == 0 {
		return
	}
	r := w.runs[serial]
	if r != nil && r.over != nil && !w.ranks.HasSteps(serial) {
		w.taskEnded(t, serial, r.over.end, r.over.left)
	}
}

// InTheWay names the job whose tasks have most slots here, or most of what else is lacking.
// Tasks in held slots are in nobody's way.
func (w *Tasks) InTheWay(lacks string) (job filch.JobID, most int64) {
	held := make(map[filch.JobID]int64)
	for _, r := range w.runs { // in any order: only sums
		if !r.Loan.Borrowed() {
			held[r.job] += slots.Amount(r.Loan.Room(), lacks)
		}
	}
	// In any order: the most win, and among equals the lowest id.
	for id, k := range held {
		if k > most || k == most && id < job {
			job, most = id, k
		}
	}
	return job, most
}
