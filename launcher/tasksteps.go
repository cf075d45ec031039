package launcher

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/slots"
)

// A run that a task starts is a step on what that task has: it needs no slots of
// anybody, and it is over before the task is. The task is on this node, and so
// are the step, its origin and who grants the slots.

// host is a task that has steps. It stands where the job of other steps does, as
// a job of one rank that has all of the task's room, and is in no list of jobs.
type host struct {
	index int32
	end   *taskOver // it has ended, and its steps are being ended
}

// taskOver is the end of a task that is told when its steps are over.
type taskOver struct {
	end  mtc.End
	left bool
}

// host is the parent of steps whose slots this node grants: a job of this origin
// or a task that runs here. It is nil where there is none.
func (n *Node) host(parent filch.JobID, task uint64) *job {
	if task == 0 {
		return n.jobs[parent]
	}
	r := n.taskOf(parent, task)
	if r == nil {
		return nil
	}
	if r.host == nil {
		at := NodeRanks{
			Node: n.cfg.Name, Lease: filch.LeaseID{Incarnation: n.cfg.Incarnation, Serial: task}, Ranks: []Span{{Count: 1}},
		}
		r.host = &job{id: parent, attempt: 1, hosting: hosting{task: &host{index: r.index}}}
		r.host.need.Ranks, r.host.need.Each = 1, r.loan.Room
		r.host.run = &run{going: true, seats: make([]seat, 1), launch: Launch{Nodes: []NodeRanks{at}}}
	}
	return r.host
}

// taskOf is a task that runs here and may have steps, or nil.
func (n *Node) taskOf(parent filch.JobID, task uint64) *taskRun {
	r := n.work.runs[task]
	if r == nil || r.job != parent || r.host != nil && r.host.task.end != nil {
		return nil
	}
	return r
}

// called is what a parent of steps is called.
func (j *job) called() string {
	if j.task != nil {
		return fmt.Sprintf("task %d.%d", j.id, j.task.index)
	}
	return fmt.Sprintf("job %d", j.id)
}

// inside is what the parent of a step is called.
func (j *job) inside() string {
	if j.req.Task != 0 {
		return fmt.Sprintf("task %d.%d", j.req.Parent, j.step.index)
	}
	return fmt.Sprintf("job %d", j.req.Parent)
}

// borrowTask takes room for a step from what its task has.
func (n *Node) borrowTask(a slots.Ask, l *Launch) (slots.Loan, bool) {
	r := n.taskOf(l.Parent, l.Task)
	if r == nil {
		return slots.Loan{}, false
	}
	return n.ledger.SubTask(a, &r.loan)
}

// endTaskSteps ends the steps of a task that has ended, and reports whether its
// end has to wait for that: whoever hears of it may start the task anew.
func (n *Node) endTaskSteps(serial uint64, e mtc.End, left bool, out *Outbox) bool {
	r := n.work.runs[serial]
	if r == nil || r.host == nil {
		return false
	}
	r.host.task.end = &taskOver{e, left}
	n.guestsOver(r.host, out)
	for _, p := range n.sortedParts() {
		if p.launch.Task == serial && !p.over() {
			n.stopTaskStep(p, "the task that it is a step of ended", out)
		}
	}
	return n.hasSteps(serial) && !mutantStepsOutlive
}

// hasSteps reports whether a step of a task may have processes here.
func (n *Node) hasSteps(serial uint64) bool {
	for _, p := range n.parts { // in any order: one is enough
		if p.launch.Task == serial && !p.flags.freed {
			return true
		}
	}
	return false
}

// stopTaskStep ends the ranks of a step that its task leaves behind.
func (n *Node) stopTaskStep(p *part, why string, out *Outbox) {
	if p.fault.cause == CauseNone {
		p.fault = fault{cause: CauseCancel, err: *filch.Errorf(filch.Canceled, "%s", why)}
	}
	n.stop(p, sigTerm, min(FailGrace, p.launch.KillWait), why, out)
}

// taskStepOver tells the end of a task when the last of its steps is over.
func (n *Node) taskStepOver(now time.Duration, serial uint64) {
	if serial == 0 {
		return
	}
	r := n.work.runs[serial]
	if r != nil && r.host != nil && r.host.task.end != nil && !n.hasSteps(serial) {
		over := r.host.task.end
		n.taskEnded(now, serial, over.end, over.left)
	}
}

// tasksInTheWay names the job whose tasks have most slots here.
func (n *Node) tasksInTheWay() (job filch.JobID, most int32) {
	held := make(map[filch.JobID]int32)
	for _, r := range n.work.runs { // in any order: sums, and of equals the lowest
		held[r.job] += r.loan.Room.Slots
	}
	for id, k := range held { // in any order: there is one that is most
		if k > most || k == most && id < job {
			job, most = id, k
		}
	}
	return job, most
}
