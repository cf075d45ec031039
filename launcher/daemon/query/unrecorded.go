package query

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/wire"
)

// findUnrecorded finds a job of tasks without a record among the live jobs of all nodes: the leader has
// taken the job in, and the store has not accepted the record yet, for example on a full disk.
func findUnrecorded(sv *Server, job filch.JobID) (launcher.JobInfo, bool) {
	v, err := sv.ps(true)
	jobs, _ := v.([]launcher.JobInfo)
	i := slices.IndexFunc(jobs, func(j launcher.JobInfo) bool { return j.ID == job && j.Code == nil })
	if err != nil || i < 0 {
		return launcher.JobInfo{}, false
	}
	info := jobs[i]
	info.Cause = "waits until the record of the job is stored"
	fault := ""
	if sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { fault = t.Node.StoreFault() }) == nil && fault != "" {
		info.Cause += ": " + fault
	}
	return info, true
}

// aboutUnrecorded answers a query about such a job.
func aboutUnrecorded(q wire.Query, i *launcher.JobInfo) (any, error) {
	switch q.Verb {
	case wire.VerbInfo, wire.VerbWait:
		return *i, nil
	case wire.VerbExplain:
		return launcher.Explanation{Job: i.ID, State: i.State, Phase: "wait", Text: i.Cause, Need: i.Tasks.Total, Stuck: true}, nil
	}
	return nil, filch.Errorf(filch.Unavailable, "cannot %s job %d: it %s", q.Verb, i.ID, i.Cause)
}
