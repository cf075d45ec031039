package origin

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// A gang is a task of ranks. The node that owns the task is the origin of the gang's run:
// the run has no client and no record of its own, since the records of tasks have the end
// of the task. The id of the run is in the leases and the launch of this attempt alone.

// gangTasks is the interface of the origin to the tasks that are gangs.
type gangTasks interface {
	// OnGangLaunched tells that the gang has its slots.
	OnGangLaunched(t *local.Turn, serial uint64)
	// OnGangEnd tells that nothing of the gang is left.
	OnGangEnd(t *local.Turn, serial uint64, id filch.JobID, e launcher.EndRecord)
}

// BeginGang begins the run of a task, under the ticket of the task's job: runs of a job
// gather in the order of their ids. An error says that the gang can never start.
func (o *Origin) BeginGang(t *local.Turn, serial uint64, id filch.JobID, r launcher.Request, unixNS int64) *filch.Error {
	need, err := NeedOf(r)
	if err == nil {
		even(&r.Shape, &need, func() bool { ranks, _ := need.Ceiling(o.Members); return ranks >= int64(need.Ranks) })
		if err = o.NeverFits(&need); o.ListPartial && err != nil && err.Kind == filch.NoFit {
			err = nil
		}
	}
	if err != nil {
		return err
	}
	j := o.newJob(t.Now, id, r, need, unixNS)
	j.gang = serial
	o.begin(t, j)
	return nil
}

// StopGang ends the run of a task.
func (o *Origin) StopGang(t *local.Turn, id filch.JobID) {
	if j := o.jobs[id]; j != nil {
		o.cancelBy(t, j, 0, "")
	}
}

// Lacks says what the run of a gang waits for; "" if that is unknown.
func (o *Origin) Lacks(id filch.JobID) string {
	if j := o.jobs[id]; j != nil && j.run == nil {
		return o.explainer.missing(j)
	}
	return ""
}

// dismissGang ends the run of a task: the task has the end.
func (o *Origin) dismissGang(t *local.Turn, j *job, e launcher.EndRecord) {
	delete(o.jobs, j.id)
	o.parents.onParentOver(t, j)
	o.tasks.OnGangEnd(t, j.gang, j.id, e)
}
