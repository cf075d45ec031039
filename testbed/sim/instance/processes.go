package instance

import (
	"encoding/binary"
	"slices"
	"syscall"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc"
)

// process is a task that a launcher started. It ends with its launcher, as the
// runner does that has it.
type process struct {
	bag    *bag
	launch launcher.TaskLaunch
	host   *host
	began  time.Duration
	over   bool
	told   bool // to end
}

// taskBody is the body of the tasks of a bag: its number among the bags.
func taskBody(bagIndex int) []byte {
	return binary.LittleEndian.AppendUint32([]byte{launcher.BodyOrder}, uint32(bagIndex))
}

// startTask makes a process of a launch.
func (w *World) startTask(h *host, l launcher.TaskLaunch) {
	b := w.bagOf(h, &l.Start)
	switch {
	case b == nil:
		return
	case b.gangs():
		w.startGang(h, b, l)
		return
	case l.After != 0 && h.tasks[l.After] != nil:
		h.await(l)
		return
	}
	p := &process{bag: b, launch: l, host: h, began: w.Now()}
	if h.tasks[l.Serial] != nil {
		w.Fail("double-start", "%s: a second task %d", h.Name, l.Serial)
		return
	}
	h.tasks[l.Serial] = p
	w.takeCores(p)
	w.began(b, &l, h)
	if w.elastic != nil {
		w.elastic.began(h)
	}
	w.checkFill(p)
	length := b.length(w.taskRng) * max(h.slow, 1)
	w.beginTaskSteps(p, length)
	w.At(w.Now()+length, func() { p.finish(b.endOf(&l.Start)) })
}

// successorWait is how long a task waits at most for the end of the task before it.
const successorWait = 20 * time.Millisecond

// await keeps a task until the task before it has ended, as a runner does, or gives the task
// back.
func (h *host) await(l launcher.TaskLaunch) {
	if o, ok := h.waiting[l.After]; ok {
		h.w.Fail("two-successors", "%s: tasks %d and %d wait for the end of task %d", h.Name, o.Serial, l.Serial, l.After)
	}
	h.waiting[l.After] = l
	h.w.stats.Successors++
	h.w.At(h.w.Now()+successorWait, func() {
		if h.waiting[l.After].Serial == l.Serial {
			h.takeBack(l.After)
		}
	})
}

// takeBack ends a task that waits for the end of another.
func (h *host) takeBack(after uint64) {
	l := h.waiting[after]
	delete(h.waiting, after)
	h.tellEnd(launcher.TaskEnd{Serial: l.Serial, Kind: launcher.CauseSignal, Code: int32(syscall.SIGTERM), Told: true})
}

// takeCores marks the cores of a task; one that a keeper or another task has was
// sold twice. A step's ranks use what their task has, so those are not looked at.
func (w *World) takeCores(p *process) {
	h, cores := p.host, coresOf(p.launch.Processors)
	if got, want := len(cores), int(max(p.launch.Start.Room().Slots, 1)); got != want {
		w.Fail("wrong-room", "%s: task %d.%d gets %d cores, want %d", h.Name, p.launch.Start.Job, p.launch.Start.Index, got, want)
	}
	for _, c := range cores {
		switch {
		case c < 0 || int(c) >= len(h.cores):
			w.Fail("no-such-core", "%s: a task gets core %d of %d", h.Name, c, len(h.cores))
		case h.cores[c] != nil:
			w.Fail("oversold", "%s: core %d given to task %d.%d while %s has it", h.Name, c, p.launch.Start.Job, p.launch.Start.Index, h.cores[c].start.Launch.Ident)
		case h.stepOn(c) != nil:
			w.Fail("oversold", "%s: core %d given to task %d.%d while %s has it", h.Name, c, p.launch.Start.Job, p.launch.Start.Index, h.stepOn(c).start.Launch.Ident)
		case h.taskOn(c, p) != nil:
			o := h.taskOn(c, p).launch.Start
			w.Fail("oversold", "%s: core %d given to task %d.%d while task %d.%d has it", h.Name, c, p.launch.Start.Job, p.launch.Start.Index, o.Job, o.Index)
		}
	}
}

// taskOn is a task other than p that has a core, nil without one.
func (h *host) taskOn(core int32, p *process) *process {
	for _, o := range h.tasks { // any order: there is one at most
		if o != p && slices.Contains(coresOf(o.launch.Processors), core) {
			return o
		}
	}
	return nil
}

// finish is the end of a process. Its launcher hears of it; a machine that
// stands still goes on with it later.
func (p *process) finish(e launcher.TaskEnd) {
	h := p.host
	switch {
	case p.over:
		return
	case h.frozen && h.Paused():
		h.w.At(h.PausedUntil(), func() { p.finish(e) })
		return
	}
	p.gone()
	p.recalled()
	e.Serial = p.launch.Serial
	e.Began, e.Ended = wallClock+int64(p.began), wallClock+int64(h.w.Now())
	if p.told {
		p.bag.tear(p.launch.Start.Index)
		e.Kind, e.Code, e.Told = launcher.CauseSignal, int32(syscall.SIGTERM), true
	}
	if len(p.bag.request.Nodes) > 0 { // for the placement of the tasks behind
		e.Bytes = p.bag.outputOf(p.launch.Start.Index)
	}
	h.w.ended(p, &e)
	h.tellEnd(e)
	if l, ok := h.waiting[e.Serial]; ok {
		delete(h.waiting, e.Serial)
		h.w.startTask(h, l)
	}
}

// tellEnd tells the launcher of an end.
func (h *host) tellEnd(e launcher.TaskEnd) {
	at := h.w.Now() + h.w.taskRng.Between(keeperWordMin, keeperWordMax)
	h.give(at, &input{what: "<- runner", body: e, do: func(now time.Duration, out *launcher.Outbox) {
		h.node.TaskEnds(now, []launcher.TaskEnd{e}, out)
	}})
}

// gone takes a process away.
func (p *process) gone() {
	p.over = true
	delete(p.host.tasks, p.launch.Serial)
	p.bag.running--
	p.bag.lastAt = p.host.w.Now()
}

// stopTask ends a task as a runner does that is told to.
func (w *World) stopTask(h *host, s launcher.TaskStop) {
	if g := h.gangs[s.Serial]; g != nil {
		w.stopGang(g)
	}
	for after, l := range h.waiting { // any order: one at most
		if l.Serial == s.Serial {
			h.takeBack(after)
			return
		}
	}
	p := h.tasks[s.Serial]
	if p == nil || s.Unrun {
		return
	}
	p.told = true
	w.At(w.Now()+w.taskRng.Between(100*time.Microsecond, 3*time.Millisecond)+min(p.grace(), s.Grace), func() { p.finish(launcher.TaskEnd{}) })
}

// killTasks ends the tasks of a launcher that is gone.
func (h *host) killTasks() {
	clear(h.waiting)
	for _, p := range h.tasks { // any order: each is gone
		p.bag.tear(p.launch.Start.Index)
		h.w.loseTaskSteps(p)
		p.gone()
	}
}

// endOf is how an attempt of a task ends by its bag's plan.
func (b *bag) endOf(s *mtc.Start) (e launcher.TaskEnd) {
	if s.Copy && s.Index%copyFails == 0 {
		e.Kind, e.Code = launcher.CauseExit, copyCode
	}
	if b.failEvery > 0 && (int(s.Index)+int(s.Attempt))%b.failEvery == 0 {
		e.Kind, e.Code = launcher.CauseExit, 1+s.Index%7
	}
	return e
}
