package tasks

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
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
	h.Tied, h.Inner = w.origin.TiedTasks(id)
	if h.Late = j.Pace.Aside; j.Pace.Late {
		h.Late = h.Ready
	}
	for i := range w.late { // a run took the slots planned for this task
		if w.late[i].Job == id {
			h.Running--
			h.Ready++
		}
	}
	h.Resting = j.Pace.Resting
	h.Opening = j.Opening
	h.Running -= h.Opening
	h.Ready += h.Opening
	return h
}

// Live counts the tasks on this node that have no recorded end, by job. Jobs without such
// a task are left out.
func (w *Tasks) Live() (all []launcher.Live) {
	for id := range w.core.Live() {
		if h := w.TasksHere(id); h.Ready+h.Running > 0 {
			all = append(all, launcher.Live{Job: id, Ready: h.Ready, Running: h.Running})
		}
	}
	return all
}

// Led lists the live jobs of tasks that this node leads, by id, from their records as last
// seen. wall is the time of day. The home of a record may be silent while the leader of
// the job answers.
func (w *Tasks) Led(wall int64) (all []launcher.JobInfo) {
	for id := range w.core.Live() {
		if j, ok := w.core.Job(id); ok && j.Leads && j.Record != nil && !j.Record.Finished() {
			all = append(all, records.TaskJobInfo(id, j.Record, wall))
		}
	}
	return all
}

// TaskNow returns this node's knowledge of a task without a recorded end. wall is the
// time of day at now.
func (w *Tasks) TaskNow(now time.Duration, wall int64, id filch.JobID, index int32) (h launcher.TaskNow) {
	for _, r := range w.runs { // in any order: at most one attempt runs
		if r.job == id && r.Index == index && r.over == nil {
			h.Running, h.Attempt, h.Took, h.Left = true, r.attempt, (now - r.began).Seconds(), r.left(now).Seconds()
			h.BeganNS = wall - int64(now-r.began)
		}
	}
	here := w.TasksHere(id)
	h.Queued = here.Ready+here.Running > 0
	h.Behind, h.Leads = w.core.Behind(id, index, launcher.MaxBehind)
	return h
}

// TaskHolders returns the jobs whose tasks have slots here, by id.
func (w *Tasks) TaskHolders(now time.Duration) (all []launcher.Holder) {
	at := make(map[filch.JobID]int)
	for _, r := range w.runs { // in any order: sums, and the longest
		h := launcher.Holder{Job: r.job, Slots: r.Loan.Room().Slots, Tasks: 1, Left: r.left(now).Seconds()}
		if i, known := at[r.job]; known {
			all[i].Add(&h)
		} else {
			at[r.job] = len(all)
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b launcher.Holder) int { return cmp.Compare(a.Job, b.Job) })
	return all
}

// left is the time until the limit ends a task; 0 without a limit.
func (r *Running) left(now time.Duration) time.Duration {
	if r.limit <= 0 {
		return 0
	}
	return max(r.began+r.limit-now, time.Millisecond)
}

// limitOf returns the time limit of a task, 0 for none.
func limitOf(s *mtc.Start) time.Duration {
	if s.Spec.Limits {
		if own := launcher.TaskLimit(s.Payload); own > 0 {
			return own
		}
	}
	return s.Spec.Limit
}

// RunningTasks lists the tasks of a job that run on this node.
func (w *Tasks) RunningTasks(now time.Duration, id filch.JobID) (list launcher.RunningTasks) {
	var all launcher.RunningTasks
	for serial, r := range w.runs { // in any order: Add sorts
		if r.job == id && r.over == nil {
			all.Tasks = append(all.Tasks, launcher.RunningTask{
				Index: r.Index, Node: w.Cfg.Name, Attempt: r.attempt, Maybe: r.maybe, Took: (now - r.began).Seconds(), Serial: serial,
			})
		}
	}
	list.Add(&all)
	return list
}
