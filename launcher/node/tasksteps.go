package node

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
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

// host returns the parent of steps whose slots this node grants: a job of this origin or
// a task running here. nil: there is no such parent.
func (p *parents) host(parent filch.JobID, task uint64) *job {
	if task == 0 {
		return p.jobs[parent]
	}
	r := p.tasks.taskOf(parent, task)
	if r == nil {
		return nil
	}
	h := p.hosts[task]
	if h == nil {
		at := launcher.NodeRanks{
			Node: p.cfg.Name, Lease: filch.LeaseID{Incarnation: p.cfg.Incarnation, Serial: task}, Ranks: []launcher.Span{{Count: 1}},
		}
		h = &job{id: parent, attempt: 1, task: &r.index}
		h.need.Ranks, h.need.Each = 1, r.loan.Room()
		h.run = &run{going: true, seats: make([]seat, 1), launch: launcher.Launch{Nodes: []launcher.NodeRanks{at}}}
		p.hosts[task] = h
	}
	return h
}

// onTaskEnd refuses the steps still waiting when their task ends, and reports whether the
// task has had steps.
func (p *parents) onTaskEnd(t *Turn, serial uint64) bool {
	h := p.hosts[serial]
	if h == nil {
		return false
	}
	delete(p.hosts, serial)
	p.guestsOver(t, h)
	return true
}

// taskOf returns a task that runs here and may have steps, or nil.
func (w *tasks) taskOf(parent filch.JobID, task uint64) *taskRun {
	r := w.runs[task]
	if r == nil || r.job != parent || r.over != nil {
		return nil
	}
	return r
}

// called returns the name of a parent of steps.
func (j *job) called() string {
	if j.task != nil {
		return fmt.Sprintf("task %d.%d", j.id, *j.task)
	}
	return fmt.Sprintf("job %d", j.id)
}

// inside returns the name of a step's parent.
func (j *job) inside() string {
	if j.req.Task != 0 {
		return fmt.Sprintf("task %d.%d", j.req.Parent, j.step.index)
	}
	return fmt.Sprintf("job %d", j.req.Parent)
}

// borrowTask takes room for a step from the room of its task.
func (w *tasks) borrowTask(a slots.Ask, l *launcher.Launch) (slots.Loan, bool) {
	r := w.taskOf(l.Parent, l.Task)
	if r == nil {
		return slots.Loan{}, false
	}
	return w.ledger.SubTask(a, &r.loan)
}

// endTaskSteps ends the steps of an ended task, and reports whether the task's end must
// wait for the steps: a node learning of the end may start the task again.
func (w *tasks) endTaskSteps(t *Turn, serial uint64, e mtc.End, left bool) bool {
	r := w.runs[serial]
	if r == nil || r.over == nil && !w.origin.onTaskEnd(t, serial) {
		return false
	}
	r.over = &taskOver{e, left}
	w.ranks.stopTaskSteps(t, serial, "the task that it is a step of ended")
	return w.ranks.hasSteps(serial) && !mutantStepsOutlive
}

// stopTaskSteps ends the ranks here of the steps of a task.
func (h *ranks) stopTaskSteps(t *Turn, serial uint64, why string) {
	for _, p := range h.sortedParts() {
		if p.launch.Task == serial && !p.over() {
			h.stopTaskStep(t, p, why)
		}
	}
}

// hasSteps reports whether a step of a task may have processes here.
func (h *ranks) hasSteps(serial uint64) bool {
	for _, p := range h.parts { // in any order: a single step is enough
		if p.launch.Task == serial && !p.flags.freed {
			return true
		}
	}
	return false
}

// stopTaskStep ends the ranks of a step left behind by its task.
func (h *ranks) stopTaskStep(t *Turn, p *part, why string) {
	if p.fault.cause == launcher.CauseNone {
		p.fault = fault{cause: launcher.CauseCancel, err: *filch.Errorf(filch.Canceled, "%s", why)}
	}
	h.stop(t, p, sigTerm, min(FailGrace, p.launch.KillWait), why)
}

// taskStepOver reports the end of a task when the task's last step is over.
func (w *tasks) taskStepOver(t *Turn, serial uint64) {
	if serial == 0 {
		return
	}
	r := w.runs[serial]
	if r != nil && r.over != nil && !w.ranks.hasSteps(serial) {
		w.taskEnded(t, serial, r.over.end, r.over.left)
	}
}

// tasksInTheWay names the job whose tasks have most slots here.
func (w *tasks) tasksInTheWay() (job filch.JobID, most int32) {
	held := make(map[filch.JobID]int32)
	for _, r := range w.runs { // in any order: only sums
		held[r.job] += r.loan.Room().Slots
	}
	// In any order: the most slots win, and among equals the lowest id.
	for id, k := range held {
		if k > most || k == most && id < job {
			job, most = id, k
		}
	}
	return job, most
}
