package daemon

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc"
)

// resumeWait bounds how long the records of a queue may take to be written: a
// bag of ten million lines is more than a million of them.
const resumeWait = 10 * time.Minute

// resume goes on with the queue of an instance that is no more. What is left of
// it is in the folder of this instance's queue before anything is begun, so that
// it can be resumed again whenever this instance ends.
func (d *Daemon) resume(folder string, local bool) (any, error) {
	if !d.mirror.on() || !local {
		return nil, filch.Errorf(filch.Invalid, "%s cannot go on with a queue: it mirrors none", d.self)
	}
	from := mirror.Queue(folder)
	if from == d.mirror.queue {
		return nil, filch.Errorf(filch.Invalid, "%s is the queue of this instance", from)
	}
	if err := from.Close(); err != nil {
		return nil, err
	}
	left, damage := from.Read()
	info := wire.ResumeInfo{Lines: damage.Lines, Files: damage.Files, First: damage.First}
	var jobs []*mtc.Remnant
	var base []byte
	for _, r := range left.Jobs() {
		if !r.Whole() {
			info.Broken = append(info.Broken, r.ID)
			continue
		}
		if !r.Job.Finished() {
			if tasks, anew := d.moveWorkflow(r); anew {
				info.Anew = append(info.Anew, wire.Anew{Job: r.ID, Tasks: tasks})
			}
		}
		t := r.Settle()
		if r.Job.Finished() {
			info.Ended++
		} else {
			info.Jobs++
			if !r.Job.Closed {
				info.Open = append(info.Open, r.ID)
			}
			info.Tally = info.Tally.Plus(t)
		}
		base = r.Append(base)
		jobs = append(jobs, r)
	}
	runs := left.Runs()
	for _, t := range runs {
		base = mtc.MirrorRun(base, t)
	}
	if err := d.mirror.queue.Begin(from, base); err != nil {
		return nil, err
	}
	if err := from.HandOver(d.mirror.queue); err != nil {
		d.mirror.queue.Drop() // what it has is another's
		return nil, err
	}
	from.Drop()
	if err := d.ask(loopWait, func(t *turn) { t.node.Learn(runs) }); err != nil {
		return nil, err
	}
	return d.restore(jobs, info)
}

// restore has the brain go on with jobs.
func (d *Daemon) restore(jobs []*mtc.Remnant, info wire.ResumeInfo) (any, error) {
	done := make(chan struct{})
	var all []launcher.Resumption
	if err := d.ask(loopWait, func(t *turn) {
		t.node.ResumeTasks(t.now, jobs, func(have []launcher.Resumption) { all = have; close(done) }, t.out)
	}); err != nil {
		return nil, err
	}
	if !d.await(done, resumeWait) {
		return nil, filch.Errorf(filch.Unavailable, "%d jobs could not be recorded within %v", len(jobs), resumeWait).
			WithHint("filch doctor says what is wrong; filch up --resume %s tries again in another instance", d.cfg.Dir.Instance)
	}
	for _, r := range all {
		if r.Err != nil {
			info.Refused = append(info.Refused, r)
		}
	}
	return info, nil
}

// moveWorkflow makes this node the one that has the files which no task of a
// workflow writes: it reads them in the folder where they were. It reports
// whether the workflow begins anew, since what its tasks wrote was on disks of
// nodes, and how many tasks that had ended are done again.
func (d *Daemon) moveWorkflow(r *mtc.Remnant) (tasks int32, anew bool) {
	var o launcher.TaskOrder
	body := r.Spec.Body
	if len(body) == 0 || body[0] != launcher.BodyOrder || wire.Unmarshal(body[1:], &o) != nil || o.Graph == nil {
		return 0, false
	}
	o.Graph.Origin = d.self
	if b, err := wire.Marshal(&o); err == nil {
		r.Spec.Body = append([]byte{launcher.BodyOrder}, b...)
	}
	if o.Graph.InPlace {
		return 0, false
	}
	return r.Forget(), true
}
