package origin

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/request"
)

// A gang is a task of ranks. The node that owns the task is the origin of the gang's run:
// the run has no client and no record of its own, since the records of tasks have the end
// of the task. The id of the run is in the leases and the launch of this attempt alone.

// gangTasks is the interface of the origin to the tasks that are gangs.
type gangTasks interface {
	// OnLaunched tells that the gang has its slots; if goes is false, the launch waits for
	// [Gangs.Go].
	OnLaunched(t *local.Turn, serial uint64) (goes bool)
	// OnEnd tells that nothing of the gang is left, but for ranks on lost nodes. Nodes had its
	// ranks. Of silent nodes not all output may have come.
	OnEnd(t *local.Turn, serial uint64, last filch.Ident, nodes, lost, silent []filch.NodeName, e launcher.EndRecord)
}

// Gangs are the runs of tasks that are gangs.
type Gangs struct {
	*joblist
	origin *Origin
	tasks  gangTasks
}

// Begin begins the run of a task, under the ticket of the task's job: runs of a job gather in
// the order of their ids. The job fit when it was submitted: a gang for which nodes are
// missing now waits for them. An error says that the request makes no sense.
func (g *Gangs) Begin(t *local.Turn, serial uint64, id filch.JobID, r launcher.Request, unixNS int64) *filch.Error {
	need, err := request.NeedOf(r)
	if err != nil {
		return err
	}
	request.Even(&r.Shape, &need, func() bool { ranks, _ := need.Ceiling(g.Members); return ranks >= int64(need.Ranks) })
	j := g.origin.newJob(t.Now, id, r, need, unixNS)
	j.gang = serial
	j.req.Policy.Requeue = false // --spare implies it for runs; the task starts again, not the run
	j.spares = g.origin.spares.between.Enter(j.req.Of)
	g.origin.begin(t, j)
	return nil
}

// Stop ends the run of a task.
func (g *Gangs) Stop(t *local.Turn, id filch.JobID) {
	if j := g.jobs[id]; j != nil {
		g.origin.cancelBy(t, j, 0, "")
	}
}

// Go sends the launch of a gang whose start is committed.
func (g *Gangs) Go(t *local.Turn, id filch.JobID) {
	if j := g.jobs[id]; j != nil && j.run != nil {
		g.origin.attempts.send(t, j, j.run)
	}
}

// Gathers reports whether the run of a gang gathers slots, the first time or again.
func (g *Gangs) Gathers(id filch.JobID) bool {
	j := g.jobs[id]
	return j != nil && j.run == nil
}

// Lacks says what the run of a gang waits for; "" if that is unknown.
func (g *Gangs) Lacks(id filch.JobID) string {
	if !g.Gathers(id) {
		return ""
	}
	j, x := g.jobs[id], g.origin.explainer
	if err := g.NeverFits(&j.need); err != nil && j.gather == nil && !g.ListPartial && !g.Grows && x.before(j) == "" {
		return local.LacksText(err)
	}
	return x.missing(j)
}

// Nodes are the nodes of the ranks of a gang, the node of rank 0 first; none before the launch.
func (g *Gangs) Nodes(id filch.JobID) []filch.NodeName {
	if j := g.jobs[id]; j != nil {
		return j.rankNodes()
	}
	return nil
}

// dismiss ends the run of a task: the task has the end.
func (g *Gangs) dismiss(t *local.Turn, j *job, e launcher.EndRecord) {
	delete(g.jobs, j.id)
	g.origin.parents.onParentOver(t, j)
	g.origin.spares.leave(t, j, e.Cause.Kind == launcher.CauseNodeLost && j.run != nil)
	var lost, silent []filch.NodeName
	if j.run != nil {
		for i := range j.run.participants {
			if s := &j.run.participants[i]; (s.lost || s.unsent) && e.State == filch.OK {
				silent = append(silent, j.run.launch.Nodes[i].Node)
			}
		}
		all, _ := j.run.lostParticipants()
		for i := range all {
			lost = append(lost, all[i].Node)
		}
	}
	g.tasks.OnEnd(t, j.gang, filch.Ident{Job: j.id, Attempt: j.attempt}, j.rankNodes(), lost, silent, e)
}

// renewEvery is the time between renewals of the leases of a run.
func (j *job) renewEvery() time.Duration {
	if j.gang != 0 {
		return ranks.RenewGangs
	}
	return renewEvery
}

// life is the incarnation in the launches of a gang; 0 in those of a run.
func (j *job) life(incarnation uint64) uint64 {
	if j.gang == 0 {
		return 0
	}
	return incarnation
}

// rankNodes are the nodes of the last attempt, the node of rank 0 first.
func (j *job) rankNodes() []filch.NodeName {
	if j.run == nil {
		return nil
	}
	var names []filch.NodeName
	for _, n := range j.run.launch.Nodes {
		names = append(names, n.Node)
		if len(n.Ranks) > 0 && n.Ranks[0].First == 0 {
			k := len(names) - 1
			names[0], names[k] = names[k], names[0]
		}
	}
	return names
}
