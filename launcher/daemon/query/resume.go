package query

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/mirror"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/queue"
)

// resumeWait limits the time for writing the records of a queue: a bag of ten million
// lines has more than a million records.
const resumeWait = 10 * time.Minute

// resume continues the queue of an instance that has ended. Before any job begins, the
// rest of the queue is stored in the folder of this instance's queue, so that the queue
// can be resumed again whenever this instance ends.
func (sv *Server) resume(folder string, local bool) (any, error) {
	if sv.daemon.Mirror.Queue() == "" || !local {
		return nil, filch.Errorf(filch.Invalid, "%s cannot continue a queue: it has no mirror of its own", sv.in.Self)
	}
	from := mirror.Queue(folder)
	if from == sv.daemon.Mirror.Queue() {
		return nil, filch.Errorf(filch.Invalid, "%s is the queue of this instance", from)
	}
	if err := from.Close(); err != nil {
		return nil, err
	}
	left, damage := from.Read()
	info := wire.ResumeInfo{Lines: damage.Lines, Files: damage.Files, First: damage.First}
	var jobs []*queue.RecoveredJob
	var base []byte
	for _, r := range left.Jobs() {
		if !r.Whole() {
			info.Broken = append(info.Broken, r.ID)
			continue
		}
		if !r.Job.Finished() {
			if tasks, anew := sv.moveWorkflow(r); anew {
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
		base = queue.AppendRun(base, t)
	}
	if err := sv.daemon.Mirror.Queue().Begin(from, base); err != nil {
		return nil, err
	}
	if err := from.HandOver(sv.daemon.Mirror.Queue()); err != nil {
		sv.daemon.Mirror.Queue().Drop() // the lines of the folder belong to another instance
		return nil, err
	}
	from.Drop()
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.Learn(runs) }); err != nil {
		return nil, err
	}
	return sv.restore(jobs, info)
}

// restore has the Node continue jobs.
func (sv *Server) restore(jobs []*queue.RecoveredJob, info wire.ResumeInfo) (any, error) {
	done := make(chan struct{})
	var all []launcher.Resumption
	if err := sv.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		t.Node.ResumeTasks(t.Now, jobs, func(have []launcher.Resumption) { all = have; close(done) }, t.Out)
	}); err != nil {
		return nil, err
	}
	if !sv.in.Await(done, resumeWait) {
		return nil, filch.Errorf(filch.Unavailable, "%d jobs could not be recorded within %s", len(jobs), filch.ShortTime(resumeWait)).
			WithHint("filch doctor says what is wrong; filch up --resume %s tries again in another instance", sv.daemon.Dir.Instance)
	}
	for _, r := range all {
		if r.Err != nil {
			info.Refused = append(info.Refused, r)
		}
	}
	return info, nil
}

// moveWorkflow makes this node the source of files that no task of a workflow writes, and
// of the inputs of a bag: the node reads those files in their old folder. The output of the tasks was on disks
// of nodes, so a workflow usually begins again from its first task; moveWorkflow
// reports whether, and how many ended tasks run again.
func (sv *Server) moveWorkflow(r *queue.RecoveredJob) (tasks int32, anew bool) {
	o, extra, err := wire.DecodeOrder(r.Spec.Body)
	switch {
	case err != nil || o.Graph == nil && extra.Stage == nil:
		return 0, false
	case extra.Stage != nil:
		extra.Stage.Origin = sv.in.Self
	default:
		o.Graph.Origin = sv.in.Self
	}
	if b, err := wire.EncodeOrder(o, extra); err == nil {
		r.Spec.Body = b
	}
	if o.Graph == nil || o.Graph.InPlace {
		return 0, false
	}
	return r.Forget(), true
}
