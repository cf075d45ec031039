package tasks

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
)

// Serve sets the ranks and the parents of the tasks' steps, the runs of gangs, and the waits
// for lost ranks.
func (w *Tasks) Serve(ranks taskSteps, origin taskParents, gangs gangRuns, remains gangRemains) {
	w.ranks, w.origin, w.gangs, w.remains = ranks, origin, gangs, remains
}

// begin makes the core of another life of this node.
func (w *Tasks) begin() {
	w.life++
	w.over = false
	w.core = mtc.New(mtc.Config{
		Self: w.Cfg.Name, Incarnation: w.Cfg.Incarnation, Seed: w.Cfg.Seed, WallNS: w.Cfg.Tasks.WallNS,
		Group: w.Cfg.Group, Labels: w.Cfg.Labels, Role: w.Cfg.Role, Total: w.Cfg.Capacity.Total(), Policy: w.Cfg.Tasks.Policy, Victims: w.Cfg.Tasks.Victims, Walltime: w.Cfg.Walltime, Limit: launcher.TaskLimit, Retry: launcher.TaskRetry, Need: launcher.TaskNeed, Fits: w.Gangs.fits, DrainBad: w.Cfg.Tasks.DrainBad, Bounds: w.Cfg.Tasks.Bounds,
	})
	w.out, w.room, w.drains, w.starts.late, w.starts.sleeps = mtc.Out{}, filch.Room{}, false, nil, nil
	w.serials, w.Fills.gap = make(map[uint64]uint64), policy.Gap{}
	clear(w.watches)
}

// EndAll ends all tasks here, since this node leaves, or was declared dead. The tasks
// are not reported as killed: the node responsible for a task sees that the task's node
// is gone, and either starts the task again or reports it lost.
func (w *Tasks) EndAll(t *local.Turn) {
	w.over = true
	w.life++ // tasks ending from now on do not concern the core
	for _, serial := range slices.Sorted(maps.Keys(w.runs)) {
		if mutantTasksStay {
			break
		}
		if r := w.runs[serial]; r.gang != nil {
			w.Gangs.stop(t, serial, r)
			continue
		}
		t.Out.TaskStops = append(t.Out.TaskStops, launcher.TaskStop{Serial: serial})
	}
	for _, sleep := range w.starts.sleeps {
		w.Ledger.EndTask(t.Now, w.runs[sleep.run].Loan, false)
		delete(w.runs, sleep.run)
	}
	w.starts.sleeps, w.starts.late = nil, nil
}

// OnReborn starts another life after the node was declared dead: other nodes own the
// node's former jobs and tasks now.
func (w *Tasks) OnReborn(t *local.Turn) {
	for _, tag := range slices.Sorted(maps.Values(w.watches)) {
		w.records.Unwatch(t, tag)
	}
	for _, id := range slices.Sorted(maps.Keys(w.pending)) {
		err := filch.Errorf(filch.Unavailable, "%s was declared dead before all of job %d was recorded", w.Cfg.Name, id).
			WithHint("filch info %d shows whether the job exists", id)
		u := w.pending[id]
		if u.accept {
			for _, c := range w.follow[id] {
				w.refuseTasks(t, c, id, err)
			}
			delete(w.follow, id)
		}
		// The clients continue to wait for the job's end, like clients that only wait.
		for _, a := range u.adding {
			w.refuseAdded(t, a.client, id, a.token, err)
		}
	}
	clear(w.pending)
	clear(w.partial) // the nodes keeping these jobs going now cancel them
	w.resumesEnd()
	w.policy.at = t.Now
	w.begin()
	for i := range w.Members.Len() {
		w.OnMember(t, *w.Members.At(int32(i)))
	}
	for _, id := range slices.Sorted(maps.Keys(w.follow)) {
		w.ready(t).Follow(t.Now, id, &w.out)
	}
}

// OnMember passes an entry of the list of members to the core.
func (w *Tasks) OnMember(t *local.Turn, p local.Peer) {
	clear(w.Gangs.fit)
	if p.Name == w.Cfg.Name {
		return
	}
	w.ready(t).SetMember(t.Now, p, &w.out)
}

// Tick does everything due in the tasks.
func (w *Tasks) Tick(t *local.Turn) {
	w.starts.burst = 0
	for len(w.starts.sleeps) > 0 && w.starts.sleeps[0].due <= t.Now {
		w.taskEnded(t, w.starts.sleeps.Pop().run, mtc.End{State: filch.OK}, false)
	}
	if w.core.Deadline() <= t.Now {
		w.ready(t).Tick(t.Now, &w.out)
	}
	if w.earlyAt <= t.Now {
		w.startEarly(t)
	}
	if w.policy.at <= t.Now {
		w.readPolicy(t)
	}
	if w.mirror.at <= t.Now {
		w.mirror.FlushMirror(t.Out)
	}
}

// Deadline is when Tick is due.
func (w *Tasks) Deadline() time.Duration {
	d := min(w.core.Deadline(), w.earlyAt, w.policy.at, w.mirror.at)
	if len(w.starts.sleeps) > 0 {
		d = min(d, w.starts.sleeps[0].due)
	}
	return d
}

// Unfollow forgets a client that is gone.
func (w *Tasks) Unfollow(t *local.Turn, client launcher.ClientID) {
	for id, all := range w.follow { // any order: each job by itself
		all = slices.DeleteFunc(all, func(c launcher.ClientID) bool { return c == client })
		if w.follow[id] = all; len(all) == 0 {
			delete(w.follow, id)
			w.core.Unfollow(id, &w.out)
		}
	}
	for id, u := range w.pending { // any order: each job by itself
		u.adding = slices.DeleteFunc(slices.Clone(u.adding), func(a adding) bool { return a.client == client })
		w.setPending(id, u)
	}
	for _, id := range slices.Sorted(maps.Keys(w.partial)) {
		if w.partial[id].client == client {
			w.partial[id] = partial{gone: true}
			w.cancelPartial(t, id)
		}
	}
	w.early = slices.DeleteFunc(w.early, func(e early) bool { return e.client == client })
}

// cancelPartial cancels a job whose client went before submitting all of it. The node
// cancels once more after the acceptance, since before then there is nothing to cancel.
func (w *Tasks) cancelPartial(t *local.Turn, id filch.JobID) {
	w.out.Notes = append(w.out.Notes, report.Note{
		Level: local.NoteWarn, Job: id, Text: fmt.Sprintf("job %d is cancelled: the client ended before all tasks were submitted", id),
	})
	w.ready(t).Cancel(t.Now, id, "", &w.out)
}

// sleep is a sleeping built-in task.
type sleep struct {
	due time.Duration
	run uint64 // the task's serial
}

// Before reports whether a ends before b.
func (a *sleep) Before(b *sleep) bool { return a.due < b.due || a.due == b.due && a.run < b.run }

// sweepTasks passes to the core the tasks' records whose home is this node.
func (w *Tasks) sweepTasks(t *local.Turn) {
	var list []record.Stored
	for r := range w.records.Homed(record.Prefix) {
		list = append(list, record.Stored{Key: string(r.Key), Value: r.Value})
	}
	w.ready(t).Homed(t.Now, list, &w.out)
}
