package tasks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// tries are the starts of a task, as its processes and its record tell them.
type tries struct {
	nths    uint64        // of the processes, as bits
	commits int           // starts that its record told of
	last    filch.Attempt // of these
}

// limits draws how often tasks of a job may die with their node.
func limits(s *record.Spec, d *engine.Dice) {
	s.CrashLimit = 100
	if d.Chance(0.5) {
		s.CrashLimit, s.Sure = uint8(1+d.N(3)), d.Chance(0.3)
	}
}

// most is how often a task of a job may be started: after each end that is not
// ok, after each death up to the limit, and where not every start is committed
// once more.
func (j *job) most() int {
	most := int(j.Spec.Crashes()) + int(j.Spec.Retries)
	switch {
	case j.Spec.Once:
		return 1
	case j.Spec.Sure || len(j.Nodes) > 0:
		return most
	}
	return most + 1
}

// tried checks a start against all others of its task.
func (t *truth) tried(j *job, s mtc.Start) {
	if n := int(j.starts[s.Index]); n > j.most() {
		t.breach("task %d.%d was started %d times, at most %d are allowed", s.Job, s.Index, n, j.most())
	}
	bit := uint64(1) << min(s.Nth, 63)
	if k := &j.tries[s.Index]; k.nths&bit != 0 && s.Nth < 63 {
		t.breach("start %d of task %d.%d happened twice", s.Nth, s.Job, s.Index)
	} else {
		k.nths |= bit
	}
}

// counted checks what a record says of a task's tries: a start counts if it was
// committed, and without one nothing is lost but what has no line.
func (t *truth) counted(id filch.JobID, j *job, i int32, k *record.Task) {
	n := &j.tries[i]
	if k.Started && k.Attempt > n.last {
		n.commits, n.last = n.commits+1, k.Attempt
	}
	switch {
	case int(k.Crashes) > n.commits:
		t.breach("task %d.%d counts %d crashes after %d committed starts", id, i, k.Crashes, n.commits)
	case k.State == filch.Lost && k.Crashes == 0 && len(j.added) == 0:
		t.breach("task %d.%d is lost without a committed start", id, i)
	}
}
