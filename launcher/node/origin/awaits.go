package origin

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/record"
)

// lookWait is how long the store may take for the records of the jobs that a job waits for.
const lookWait = 5 * time.Second

// awaits keeps jobs from gathering slots before the jobs that they wait for have ended or
// started, and before their time. The conditions are part of the job's request, and so of
// its records, until they are met; another owner of the job looks again at all of them.
type awaits struct {
	*joblist
	records asker
	origin  awaiter
}

// asker reads and writes records in the store.
type asker interface {
	Ask(t *local.Turn, ops []dht.Op, wait time.Duration, then func(*local.Turn, []dht.Result))
}

// awaiter goes on with jobs, or ends them.
type awaiter interface {
	beginner
	keep(t *local.Turn, j *job)
	dismiss(t *local.Turn, j *job, e launcher.EndRecord, last launcher.Event)
}

// mustWait reports whether a job has to wait before it gathers slots, and looks up what the
// job waits for.
func (a *awaits) mustWait(t *local.Turn, j *job) bool {
	if j.req.Before.None() {
		return false
	}
	if j.wait == nil {
		j.wait = before.New(j.id, j.req.Name, &j.req.Before)
	}
	if j.wait != nil {
		a.look(t, j)
		if met, _ := j.wait.Verdict(a.wall(t.Now)); !met {
			return true
		}
	}
	a.met(j)
	return false
}

// met drops the conditions of a job. Records that tell of them may be dropped later, so
// no owner looks again.
func (a *awaits) met(j *job) {
	j.wait, j.req.Before, j.clock.look = nil, record.Conditions{}, filch.Never
}

// look asks for the records that are due.
func (a *awaits) look(t *local.Turn, j *job) {
	w := j.wait
	for _, k := range w.Looks(t.Now) {
		var ops []dht.Op
		ends := make([]int, len(k.Proposals)) // of each proposal's ops
		for i := range k.Proposals {
			ops = append(ops, records.TaskOps(&k.Proposals[i])...)
			ends[i] = len(ops)
		}
		a.records.Ask(t, ops, lookWait, func(t *local.Turn, rs []dht.Result) {
			answers, from := make([]record.Answer, len(ends)), 0
			for i, end := range ends {
				answers[i], from = records.TaskAnswers(rs[from:end]), end
			}
			w.Answered(t.Now, &k, answers)
			if a.jobs[j.id] == j && j.wait == w {
				a.judge(t, j)
			}
		})
	}
	j.clock.look = w.Next(t.Now, a.wall(t.Now))
}

// judge begins a job whose conditions are met, and ends a job whose conditions never will.
func (a *awaits) judge(t *local.Turn, j *job) {
	a.look(t, j)
	met, never := j.wait.Verdict(a.wall(t.Now))
	switch {
	case never != "":
		a.skip(t, j, never)
		return
	case met:
		a.met(j)
		a.origin.begin(t, j)
	}
	if a.jobs[j.id] == j {
		a.wakeJob(j, j.deadline())
	}
}

// skip ends a job that never started because its conditions can never be met.
func (a *awaits) skip(t *local.Turn, j *job, why string) {
	err := filch.Errorf(filch.Busy, "job %d is skipped: %s", j.id, why)
	e := launcher.EndRecord{
		State: filch.Skipped, Code: filch.ExitOurs,
		Cause: launcher.Cause{Kind: launcher.CauseOurs, Rank: -1, Text: "skipped: " + why},
	}
	a.origin.dismiss(t, j, e, launcher.Refused{Err: *err, Code: filch.ExitOurs})
}

// wall is the time of day on this node.
func (a *awaits) wall(now time.Duration) int64 { return a.Cfg.Tasks.WallNS + int64(now) }
