package tasks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// TasksHere counts this node's tasks of a job.
func (w *Tasks) TasksHere(id filch.JobID) launcher.TasksHere {
	j, ok := w.core.Job(id)
	if !ok {
		return launcher.TasksHere{}
	}
	h := launcher.TasksHere{
		Waiting: j.Here.Waiting, Ready: j.Here.Dedicated + j.Here.Shared, Running: j.Here.Running,
		Expected: j.Pace.Expected.Seconds(), Of: j.Pace.Of, Limited: j.Spec != nil && j.Spec.Limit > 0,
	}
	if j.Spec != nil {
		h.Cap = j.Spec.Cap
	}
	h.Tied = w.origin.TiedTasks(id)
	if h.Late = j.Pace.Aside; j.Pace.Late {
		h.Late = h.Ready
	}
	for i := range w.late { // a run took the slots planned for this task
		if w.late[i].Job == id {
			h.Running--
			h.Ready++
		}
	}
	h.Opening = j.Opening
	h.Running -= h.Opening
	h.Ready += h.Opening
	return h
}
