package origin

import (
	"fmt"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/stealer"
)

// walltime is the node's knowledge of its own end, and of the run times of its clients'
// runs.
type walltime struct {
	*local.Self
	drainAt time.Duration    // when the node stops lending
	runs    policy.Estimates // by kind
}

func newWalltime(s *local.Self) *walltime {
	w, end := &walltime{Self: s, drainAt: filch.Never}, s.Cfg.Walltime
	if end.End > 0 && end.Drain > 0 {
		w.drainAt = max(end.End-end.Drain, 0)
	}
	return w
}

// kindOf returns the common kind of runs expected to take equally long: the name or the
// command line, and the number of ranks; "" for a step, and for a run with its own limit.
func kindOf(r *launcher.Request, ranks int32) string {
	if r.Like == "" || r.Parent != 0 || r.Policy.TimeLimit > 0 {
		return ""
	}
	return strconv.Itoa(int(ranks)) + ":" + r.Like
}

// expectedRun returns how long a run may take, from the times of other runs of its kind;
// 0 if unknown.
func (w *walltime) expectedRun(r *launcher.Request, ranks int32) time.Duration {
	if w.Cfg.Walltime.Blind || w.Cfg.Walltime.End == 0 {
		return 0
	}
	return w.runs.Limit(kindOf(r, ranks))
}

// takes returns how long a job may take, from its limit or from other runs of its kind; 0
// if unknown.
func (w *walltime) takes(j *job) time.Duration {
	if j.req.Policy.TimeLimit > 0 {
		return j.req.Policy.TimeLimit
	}
	if w.Cfg.Walltime.Blind {
		return 0
	}
	return w.runs.Limit(kindOf(&j.req, j.need.Ranks))
}

// withOutlook returns the info of a live run with its outlook.
func (e *explainer) withOutlook(now time.Duration, j *job) launcher.JobInfo {
	i := e.liveInfo(now, j)
	mean, off, n := e.walltime.runs.Spread(kindOf(&j.req, j.need.Ranks))
	i.Outlook = &launcher.Outlook{Each: j.need.Each.Slots, Limit: j.req.Policy.TimeLimit.Seconds(), Runs: n, Mean: mean.Seconds(), Deviation: off.Seconds()}
	return i
}

// fitWalltime refuses a run too long to finish before the end of the node, judged by
// other runs of its kind, and bounds how long the run may wait.
func (w *walltime) fitWalltime(t *local.Turn, r *launcher.Request, d *stealer.Need) *filch.Error {
	ranks := d.Ranks
	need := w.expectedRun(r, ranks)
	if need == 0 {
		return w.unknownLate(t, r, d)
	}
	wait := w.Cfg.Walltime.End - policy.EndMargin - need - t.Now
	if wait < 0 {
		return filch.Errorf(filch.Busy, "cannot finish: %s, and the nodes are taken away in %s", durationText(r, ranks, need),
			filch.ShortTime(max(w.Cfg.Walltime.End-t.Now, 0).Round(time.Second))).
			WithHint("nothing was started; set the time of the job with -t LIMIT, or use limits only with filch up --learn=false")
	}
	if wait = max(wait, time.Millisecond); r.Patient == 0 || wait < r.Patient {
		r.Patient = wait
	}
	return nil
}

// unknownLate refuses a run of unknown length when no node of this allocation starts such
// runs any more. Nodes of other allocations may be there for longer.
func (w *walltime) unknownLate(t *local.Turn, r *launcher.Request, d *stealer.Need) *filch.Error {
	if r.Parent != 0 || r.Policy.TimeLimit > 0 || w.expectedRun(r, d.Ranks) > 0 || w.Cfg.Walltime.Fits(t.Now, 0) {
		return nil
	}
	for i := range w.Members.Len() {
		p := w.Members.At(int32(i))
		if p.Group != w.Cfg.Group && p.Standing < filch.Dead && d.Allows(p) {
			return nil
		}
	}
	what := r.Like
	if what == "" {
		what = "this run"
	}
	return filch.Errorf(filch.Busy, "cannot start: the run time of %s is not known, and the nodes are taken away in %s", what,
		filch.ShortTime(max(w.Cfg.Walltime.End-t.Now, 0).Round(time.Second))).
		WithHint("nothing was started; set the time of the job with -t LIMIT")
}

// giveUpLate ends a waiting run that no node will start, and reports whether it did so.
func (o *Origin) giveUpLate(t *local.Turn, j *job) bool {
	if o.jobs[j.id] != j || j.run != nil {
		return false
	}
	err := o.walltime.unknownLate(t, &j.req, &j.need)
	if err != nil {
		o.gatherqueue.releaseHolds(t, j, nil)
		o.refuse(t, j, err)
	}
	return err != nil
}

// durationText says how long other runs took.
func durationText(r *launcher.Request, ranks int32, took time.Duration) string {
	return fmt.Sprintf("%s took up to %s on %s before", r.Like, filch.ShortTime(took), filch.Plural(ranks, "rank"))
}

// learnRun stores how long a run took, and appends the time to the queue's mirror.
func (w *walltime) learnRun(t *local.Turn, j *job, i *launcher.JobInfo, e *launcher.EndRecord) {
	kind := kindOf(&j.req, j.need.Ranks)
	if kind == "" || e.State != filch.OK || j.run == nil || !j.run.going {
		return
	}
	took := queue.RunTime{Kind: kind, Ended: w.Cfg.Tasks.WallNS + int64(t.Now), Took: time.Duration(i.Elapsed * float64(time.Second))}
	w.runs.Add(kind, "", took.Took)
	if w.Cfg.Tasks.Mirror {
		t.Out.Mirror = queue.AppendRun(t.Out.Mirror, took)
	}
}

// Learn stores how long runs took in ended instances.
func (w *walltime) Learn(runs []queue.RunTime) {
	for i := range runs {
		w.runs.Add(runs[i].Kind, "", runs[i].Took)
	}
}

// TickWalltime lends only to runs known to finish when the end is near. If the instance
// has nodes of other allocations, these nodes get the records kept here for all: leaves
// says so.
func (o *Origin) TickWalltime(t *local.Turn) (leaves bool) {
	if o.walltime.drainAt > t.Now {
		return false
	}
	o.walltime.drainAt = filch.Never
	o.Ledger.NearsEnd(t.Now)
	t.Note(local.NoteInfo, 0, o.Cfg.Name, "%s is taken away in %s: from now on, only jobs and tasks that are known to finish are started", o.Cfg.Name,
		filch.ShortTime(max(o.Cfg.Walltime.End-t.Now, 0)))
	for _, j := range o.sortedJobs() {
		o.giveUpLate(t, j)
	}
	for i := range o.Members.Len() {
		if p := o.Members.At(int32(i)); p.Group != "" && p.Group != o.Cfg.Group && p.Standing == filch.Up {
			return true
		}
	}
	return false
}
