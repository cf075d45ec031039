package origin

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// host returns the parent of steps whose slots this node grants: a job of this origin or
// a task running here. nil: there is no such parent.
func (p *parents) host(parent filch.JobID, task uint64) *job {
	if task == 0 {
		return p.jobs[parent]
	}
	r := p.tasks.TaskOf(parent, task)
	if r == nil {
		return nil
	}
	h := p.hosts[task]
	if h == nil {
		at := launcher.NodeRanks{
			Node: p.Cfg.Name, Lease: filch.LeaseID{Incarnation: p.Cfg.Incarnation, Serial: task}, Ranks: []launcher.Span{{Count: 1}},
		}
		h = &job{id: parent, attempt: 1, task: &r.Index}
		h.need.Ranks, h.need.Each = 1, r.Loan.Room()
		h.run = &run{going: true, participants: make([]participant, 1), launch: launcher.Launch{Nodes: []launcher.NodeRanks{at}}}
		p.hosts[task] = h
	}
	return h
}

// OnTaskEnd refuses the steps still waiting when their task ends, and reports whether the
// task has had steps.
func (p *parents) OnTaskEnd(t *local.Turn, serial uint64) bool {
	h := p.hosts[serial]
	if h == nil {
		return false
	}
	delete(p.hosts, serial)
	p.onParentOver(t, h)
	return true
}

// called returns the name of a parent of steps.
func (j *job) called() string {
	if j.task != nil {
		return fmt.Sprintf("task %d.%d", j.id, *j.task)
	}
	if j.gang != 0 {
		return "task " + j.req.Of.String()
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
