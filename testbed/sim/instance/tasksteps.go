package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Steps of tasks: the process of a task starts runs on the slots that it has, as
// `filch run` does inside of it. Their client ends with the launcher of the task.

// taskStepsMax bounds the steps of tasks of a run.
const taskStepsMax = 60

// drawTaskSteps has tasks of some bags start steps.
func (w *World) drawTaskSteps(d *engine.Dice) {
	for _, b := range w.bags {
		if !d.Chance(0.3) {
			continue
		}
		b.stepEvery = 1 + d.N(6)
		if b.request.Spec.Each.Slots == 1 && d.Chance(0.5) {
			b.request.Spec.Each.Slots = int32(1 + d.N(int(w.opt.Slots)))
		}
	}
}

// beginTaskSteps has a task that has just begun start its steps, some of which
// last longer than it does.
func (w *World) beginTaskSteps(p *process, lasts time.Duration) {
	b, s := p.bag, &p.launch.Start
	if b.stepEvery == 0 || int(s.Index)%b.stepEvery > 0 {
		return
	}
	d := w.stepRng
	for range 1 + d.N(2) {
		at, runs := w.Now()+d.Between(0, lasts), d.Between(time.Millisecond, lasts+lasts/4+2*time.Millisecond)
		n, deaf := 1+d.N(int(max(s.Spec.Each.Slots, 1))), d.Chance(0.3)
		w.At(at, func() { w.submitTaskStep(p, n, runs, deaf) })
	}
}

func (w *World) submitTaskStep(p *process, n int, runs time.Duration, deaf bool) {
	h := p.host
	if p.over || h.node == nil || h.frozen && h.Paused() || w.taskSteps >= taskStepsMax {
		return
	}
	w.taskSteps++
	j := &job{outcome: newOutcome(), host: h.Index, index: len(w.jobs), task: p}
	j.Submit, j.Slots, j.Runs = w.Now(), n, runs
	j.request = launcher.Request{
		Parent: p.launch.Start.Job, Task: p.launch.Serial, Order: order(j.index),
		Shape:  launcher.Shape{Ranks: int32(n), PerRank: filch.Room{Slots: 1}},
		Policy: launcher.Policy{KillOnBad: true, KillWait: 200 * time.Millisecond},
	}
	j.plan = plan{checksMin: 50 * time.Microsecond, checksMax: time.Millisecond, unready: -1, deaf: deaf}
	w.jobs = append(w.jobs, j)
	h.submit(j)
}

// hostCloses reports whether what a step runs inside of is over or being ended:
// a job, or a task. The step may be refused, and is stopped.
func (j *job) hostCloses() bool {
	switch {
	case j.parent != nil:
		return j.parent.closing()
	case j.task != nil:
		return j.task.over || j.task.told || j.task.host.trouble > j.submittedAt-leaseBound
	}
	return false
}

// loseTaskSteps: the clients of the steps of a task end with its launcher.
func (w *World) loseTaskSteps(p *process) {
	for _, j := range w.jobs {
		if j.task == p && j.submittedAt >= 0 && !j.over() {
			w.orphan(j)
		}
	}
}

// takeFromTask marks the cores of a step of a task: each is one that the task has
// and no other step uses.
func (w *World) takeFromTask(k *keeper) {
	h, p := k.h, k.truth.job.task
	for _, c := range coresOf(k.start.Processors) {
		switch {
		case !slices.Contains(coresOf(p.launch.Processors), c):
			w.Fail("oversold", "%s: core %d lent to %s is not one of task %d.%d", h.Name, c, k.start.Launch.Ident, p.launch.Start.Job, p.launch.Start.Index)
			continue
		case h.subs[c] != nil:
			w.Fail("oversold", "%s: core %d lent to %s while %s has it", h.Name, c, k.start.Launch.Ident, h.subs[c].start.Launch.Ident)
		}
		h.subs[c] = k
	}
}

// stepOn is a step of a task that uses a core and has outlived that task, nil
// without one.
func (h *host) stepOn(core int32) *keeper {
	if k := h.subs[core]; k != nil && k.truth.job.task != nil {
		return k
	}
	return nil
}

// checkStepsOver: when a task is said to have ended, so that it may start again,
// nothing of its steps runs. Those of a host in trouble are found there later, and so are those
// of a start that another start of the task outdid: see [World.awaitLosers].
func (w *World) checkStepsOver(b *bag, index int32, what string) {
	if b.request.Spec.Replicas > 0 {
		return
	}
	for _, j := range w.jobs {
		p := j.task
		if p == nil || p.bag != b || index >= 0 && p.launch.Start.Index != index || !j.live() || !p.over {
			continue
		}
		if p.host.trouble+leaseBound+j.killWait() < w.Now() {
			w.Fail("step-left", "%s while ranks of step %d of task %d.%d run on %s", what, j.id, p.launch.Start.Job, p.launch.Start.Index, p.host.Name)
		}
	}
}
