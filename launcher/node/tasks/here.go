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
		return w.Gangs.remaining(id, launcher.TasksHere{})
	}
	h := launcher.TasksHere{
		Waiting: j.Here.Waiting, Ready: j.Here.Dedicated + j.Here.Shared, Running: j.Here.Running, Ending: j.Ending, Began: j.Began,
		Expected: j.Pace.Expected.Seconds(), Of: j.Pace.Of, Limited: j.Spec != nil && j.Spec.Limit > 0,
	}
	if j.Spec != nil {
		need := j.Spec.Need(j.Need)
		h.Cap, h.Each = j.Spec.Cap, need.Room().Slots
		if len(j.Spec.Needs) == 0 || h.Ready > 0 {
			h.Kind, h.Suited = w.TaskKind(need)
			h.Named = need.Each.Named
		}
		if first := w.core.Look().First(); h.Ready > 0 && first != id {
			h.After = first
		}
		if _, free, ok := w.core.Look().License(j.Spec.License.Name); ok {
			h.License, h.LicenseEach, h.LicenseFree = j.Spec.License.Name, j.Takes, free
		}
	}
	for _, end := range w.core.Look().Ending(id) {
		if h.Ended == nil {
			h.Ended = &launcher.TaskCounts{}
		}
		h.Ended.Total++
		*h.Ended.Of(end.State)++
	}
	if c, ok := w.core.Look().Choice(id); ok {
		h.Placed = c.String()
	}
	h.Tied, h.Inner = w.origin.TiedTasks(id)
	if h.Late = j.Pace.Aside; j.Pace.Late {
		h.Late = h.Ready
	}
	for i := range w.starts.late { // a run took the slots planned for this task
		if w.starts.late[i].Job == id {
			h.Running--
			h.Ready++
		}
	}
	for _, r := range w.runs { // in any order: a sum
		if r.job == id && r.gang != nil && (!r.gang.placed || w.gangs.Gathers(r.gang.run)) {
			if h.Gathers++; h.Lacks == "" {
				h.Lacks = w.gangs.Lacks(r.gang.run)
			}
			if r.gang.goes { // the gang lost its slots before its ranks began
				h.Running--
				h.Ready++
			}
		} else if r.job == id && r.gang != nil && w.Gangs.isRunning(r) {
			h.GangSlots += int64(r.gang.need.Room().Slots)
		}
	}
	if h.Gathers == 0 && h.Ready > 0 && j.Spec != nil {
		h.Lacks = w.Gangs.turnText(j.Spec.Need(j.Need))
	}
	h.Resting, h.TryAt = j.Pace.Resting, j.Pace.Again
	h.Opening = j.Opening
	h.Running -= h.Opening
	h.Ready += h.Opening
	return w.Gangs.remaining(id, h)
}

// Live counts the tasks on this node that have no recorded end, by job. Jobs without such
// a task are left out.
func (w *Tasks) Live() (all []launcher.Live) {
	for id := range w.core.Look().Live() {
		if h := w.TasksHere(id); h.Ready+h.Running > 0 || h.Ending {
			all = append(all, launcher.Live{Job: id, Ready: h.Ready, Running: h.Running, Ending: h.Ending, Ended: h.Ended, Began: h.Began})
		}
	}
	return all
}

// Led lists the live jobs of tasks that this node leads, by id, from their records as last
// seen. wall is the time of day. The home of a record may be silent while the leader of
// the job answers.
func (w *Tasks) Led(wall int64) (all []launcher.JobInfo) {
	for id := range w.core.Look().Live() {
		if j, ok := w.core.Job(id); ok && j.Leads && j.Record != nil && !j.Record.Finished() {
			all = append(all, records.TaskJobInfo(id, j.Record, wall))
		}
	}
	return all
}

// TaskNow returns this node's knowledge of a task without a recorded end. wall is the
// time of day at now, index the number of the task in its first job, and place the number in
// this job.
func (w *Tasks) TaskNow(now time.Duration, wall int64, id filch.JobID, index, place int32) (h launcher.TaskNow) {
	for _, a := range w.core.Look().Arrivals(id, place) {
		s := launcher.TaskTime{Stage: launcher.StageQueued, UnixNS: wall - int64(now-a.At), Node: w.Cfg.Name, From: a.From}
		if a.From != "" {
			s.Stage = launcher.StageMoved
		}
		h.Times = append(h.Times, s)
	}
	for serial, r := range w.runs { // in any order: at most one attempt runs
		if r.job == id && r.Index == index && r.over == nil && w.Gangs.isRunning(r) {
			h.Running, h.Serial, h.Nodes = true, serial, w.Gangs.nodes(r)
			var s mtc.Started
			h.Took, h.Left, s = w.since(now, r)
			h.Attempt, h.Copy = s.Attempt, s.Copy
			h.BeganNS = wall - int64(h.Took*float64(time.Second))
		}
	}
	here := w.TasksHere(id)
	h.Queued = here.Ready+here.Running > 0
	if at := w.core.Look().RestsUntil(id, index); at > 0 {
		h.Again = max(at-now, time.Millisecond).Seconds()
	}
	if o, ok := w.core.Look().RestsBehind(id, index); ok {
		h.Ranks = w.remains.OwnerText(o.Node, o.Incarnation)
	}
	h.Behind, h.Leads = w.core.Look().Behind(id, index, launcher.MaxBehind)
	return h
}

// TaskHolders returns the jobs whose tasks have slots here, by id.
func (w *Tasks) TaskHolders(now time.Duration) (all []launcher.Holder) {
	at := make(map[filch.JobID]int)
	for _, r := range w.runs { // in any order: sums, and the longest
		if !w.Gangs.isRunning(r) {
			continue
		}
		h := launcher.Holder{Job: r.job, Slots: r.Loan.Room().Slots, Named: r.Loan.Room().Named, Tasks: 1}
		_, h.Left, _ = w.since(now, r)
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

// since returns how long a task has run, in seconds, how long at most the time limit lets
// the task run on, 0 for no limit, and the start.
func (w *Tasks) since(now time.Duration, r *Running) (took, left float64, s mtc.Started) {
	if r.life != w.life {
		return 0, 0, s // started before the node was declared dead
	}
	s, ok := w.core.Look().Started(r.run)
	if !ok {
		return 0, 0, s
	}
	if s.Limit > 0 {
		left = max(s.Began+s.Limit-now, time.Millisecond).Seconds()
	}
	return (now - s.Began).Seconds(), left, s
}

// RunningTasks lists the tasks of a job that run on this node, and those that ended here and
// have no recorded end yet.
func (w *Tasks) RunningTasks(now time.Duration, id filch.JobID) (list launcher.RunningTasks) {
	var all launcher.RunningTasks
	for serial, r := range w.runs { // in any order: Add sorts
		if r.job == id && r.over == nil && w.Gangs.isRunning(r) {
			took, _, s := w.since(now, r)
			all.Tasks = append(all.Tasks, launcher.RunningTask{
				Index: r.Index, Node: w.Cfg.Name, Nodes: w.Gangs.nodes(r), Slots: w.starts.slots(r), Attempt: s.Attempt, Maybe: s.Maybe, Copy: s.Copy, Took: took, Serial: serial,
			})
		}
	}
	for i, end := range w.core.Look().Ending(id) {
		if len(all.Ended) == launcher.MaxRunning {
			break
		}
		t := launcher.Task{Job: id, Index: i}
		if t.Fill(end); end.Began > 0 {
			t.Node = w.Cfg.Name
		}
		all.Ended = append(all.Ended, t)
	}
	list.Add(&all)
	return list
}
