package instance

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// deadMax is how long after its last sign of life a node is declared dead by all:
// five seconds, a redial, a witness, and gossip.
const deadMax = 6500 * time.Millisecond

// Bounds of the checkers, beyond what the table of ends grants (DESIGN section
// 7): word of an end may be lost and said again a few times.
const (
	goneBound  = 2 * time.Second  // ranks on hosts that can be reached, after their job's end
	leaseBound = 10 * time.Second // ranks on the side that was cut off
	saidAgain  = 3 * time.Second  // slack for what was lost
	// orphanBound is for jobs whose client is gone with the origin's launcher:
	// it may come back late and only then find that nobody asks.
	orphanBound = deadMax + leaseBound + clientPatience + 2*saidAgain
)

// occupy takes the cores that a Start lends; a core that another keeper still
// has was sold twice.
func (w *World) occupy(k *keeper) {
	h, shape := k.h, &k.truth.job.request.Shape
	want := len(k.alive) * int(max(shape.PerRank.Slots, 1))
	if shape.Exclusive {
		want = len(h.cores)
	}
	if got := len(k.start.Processors); got != want {
		w.Fail("wrong-room", "%s: Start of %s lends %d cores for %d ranks x %d", h.Name, k.start.Launch.Ident, got, len(k.alive), shape.PerRank.Slots)
	}
	if k.truth.job.task != nil {
		w.takeFromTask(k)
		return
	}
	parent := h.keeperOf(k.truth.job.parent)
	for _, c := range coresOf(k.start.Processors) {
		if c < 0 || int(c) >= len(h.cores) {
			w.Fail("no-such-core", "%s: Start of %s lends core %d of %d", h.Name, k.start.Launch.Ident, c, len(h.cores))
			continue
		}
		if p := h.taskOn(c, nil); p != nil {
			w.Fail("oversold", "%s: core %d lent to %s while task %d.%d has it", h.Name, c, k.start.Launch.Ident, p.launch.Start.Job, p.launch.Start.Index)
		}
		other := h.cores[c]
		if s := h.stepOn(c); s != nil && other == nil {
			other = s
		}
		if parent != nil && other == parent {
			other = h.subs[c]
			h.subs[c] = k
		} else {
			h.cores[c] = k
		}
		if other != nil {
			w.Fail("oversold", "%s: core %d lent to %s while %s has it", h.Name, c, k.start.Launch.Ident, other.start.Launch.Ident)
		}
	}
	if k.truth.job.parent != nil {
		return // its memory is part of its parent's
	}
	for _, name := range k.start.GPUs {
		if other := h.gpus[name]; other != nil {
			w.Fail("oversold", "%s: %s lent to %s while %s has it", h.Name, name, k.start.Launch.Ident, other.start.Launch.Ident)
		}
		h.gpus[name] = k
	}
	if got, want := len(k.start.GPUs), len(k.alive)*int(shape.PerRank.GPUs/filch.GPU); got != want && !shape.Exclusive {
		w.Fail("wrong-room", "%s: Start of %s lends %d GPUs, want %d", h.Name, k.start.Launch.Ident, got, want)
	}
	h.memory += k.start.Memory
	if h.memory > hostMemory {
		w.Fail("oversold", "%s: %d bytes lent of %d", h.Name, h.memory, int64(hostMemory))
	}
}

// vacate gives the cores of k back; it may be called twice.
func (w *World) vacate(k *keeper) {
	if k.vacated {
		return
	}
	k.vacated = true
	h := k.h
	for _, c := range coresOf(k.start.Processors) {
		switch {
		case c < 0 || int(c) >= len(h.cores):
		case h.subs[c] == k:
			h.subs[c] = nil
		case h.cores[c] == k:
			h.cores[c], h.subs[c] = h.subs[c], nil // a step outlives its parent's keeper
		}
	}
	for _, name := range k.start.GPUs {
		if h.gpus[name] == k {
			delete(h.gpus, name)
		}
	}
	if k.truth.job.parent == nil {
		h.memory -= k.start.Memory
	}
}

// keeperOf finds the keeper of a running job here, nil without one.
func (h *host) keeperOf(j *job) *keeper {
	for _, k := range h.keepers {
		if j != nil && k.truth.job == j && !k.vacated {
			return k
		}
	}
	return nil
}

// checkLaunch holds a launch against the request: every rank has one place, no
// node is named twice, no bound of the shape is broken.
func (w *World) checkLaunch(a *attempt) {
	l, shape := &a.launch, &a.job.request.Shape
	if shape.Ranks > 0 && l.Size != shape.Ranks {
		w.Fail("wrong-size", "%s has %d ranks, %d were asked for", l.Ident, l.Size, shape.Ranks)
	}
	placed := make([]bool, l.Size)
	seen := make(map[filch.NodeName]bool, len(l.Nodes))
	total := 0
	for _, n := range l.Nodes {
		if seen[n.Node] {
			w.Fail("node-twice", "%s names %s twice", l.Ident, n.Node)
		}
		seen[n.Node] = true
		here := 0
		for _, s := range n.Ranks {
			for r := s.First; r < s.First+filch.Rank(s.Count); r++ {
				if int(r) >= len(placed) || placed[r] {
					w.Fail("rank-placed-twice", "%s places rank %d of %d twice or too far", l.Ident, r, l.Size)
					return
				}
				placed[r] = true
				here++
			}
		}
		if here == 0 || shape.PerNode > 0 && here > int(shape.PerNode) {
			w.Fail("wrong-room", "%s places %d ranks on %s", l.Ident, here, n.Node)
		}
		total += here
	}
	if total != int(l.Size) {
		w.Fail("ranks-missing", "%s places %d ranks of %d", l.Ident, total, l.Size)
	}
	if n := int32(len(l.Nodes)); n < shape.MinNodes || shape.MaxNodes > 0 && n > shape.MaxNodes {
		w.Fail("wrong-nodes", "%s takes %d nodes, asked for %d-%d", l.Ident, n, shape.MinNodes, shape.MaxNodes)
	}
}

// checkSameLaunch: two keepers of an attempt were told the same.
func (w *World) checkSameLaunch(a *attempt, l *launcher.Launch) {
	if !a.is(l) {
		w.Fail("two-launches", "%s has two launches: %d ranks on %d nodes and %d on %d", l.Ident, l.Size, len(l.Nodes), a.launch.Size, len(a.launch.Nodes))
	}
}

// checkExec: no rank is exec'ed before every keeper of the gang is ready, nor
// after its job has ended, nor while another attempt of it runs. What is on a machine
// that stands still does not run, and nobody can end it: the others cannot tell that
// machine from one that is dead. It must be gone soon after that goes on.
func (w *World) checkExec(k *keeper) {
	a := k.truth
	if a.job.gang != nil {
		w.checkAlone(k)
	}
	for i, r := range a.ready {
		if !r {
			w.Fail("gate", "%s execs on %s before the keeper on %s was ready", a.launch.Ident, k.h.Name, a.launch.Nodes[i].Node)
			return
		}
	}
	for _, o := range a.job.attempts {
		if o == a || o.live == 0 {
			continue
		}
		if n := o.live - w.standStill(o); n > 0 {
			w.Fail("two-attempts", "%s execs on %s while %d ranks of %s run", a.launch.Ident, k.h.Name, n, o.launch.Ident)
			return
		}
	}
	if a.job.over() && !w.endMayBeLost(a.job) && w.Now() > a.job.endedAt+leaseBound+saidAgain {
		w.Fail("exec-after-end", "%s execs on %s, %v after its end", a.launch.Ident, k.h.Name, w.Now()-a.job.endedAt)
	}
}

// endMayBeLost: an owner that is cut off from most others is as good as dead for them,
// and the detached job that it ended goes on elsewhere. What was recorded and not called
// durable is lost with the memory of those who hold it.
func (w *World) endMayBeLost(j *job) bool {
	return j.request.Detach && (j.apart || !j.request.Durable && w.mayForget(j.endedAt-time.Second))
}

// mayForget reports whether what was recorded at some time may be lost: two machines
// were turned off since.
func (w *World) mayForget(since time.Duration) bool {
	off := 0
	for _, h := range w.hosts {
		if h.offAt > since {
			off++
		}
	}
	return off > 1
}

// apart reports whether a host reaches no more than half of all, itself included.
func (w *World) apart(h *host) bool {
	_, reached := w.reach(h)
	return 2*reached <= len(w.hosts)
}

// cutOff reports whether a host reaches no more than half of those that are up, itself
// included.
func (w *World) cutOff(h *host) bool {
	up, reached := w.reach(h)
	return 2*reached <= up
}

// reach counts the hosts that are up, and those of them that a host reaches both ways;
// that host is among both.
func (w *World) reach(h *host) (up, reached int) {
	for _, o := range w.hosts {
		if o != h && !o.Up() {
			continue
		}
		up++
		if o == h || !w.Net.IsCut(h.Index, o.Index) && !w.Net.IsCut(o.Index, h.Index) {
			reached++
		}
	}
	return up, reached
}

// standStill counts the ranks of an attempt on machines that stand still, and has it
// looked whether they are gone when those have gone on for a while.
func (w *World) standStill(a *attempt) (n int) {
	for _, h := range w.hosts {
		if k := h.keeper(a.launch.Ident); k != nil && a.started[k.start.Index] && h.frozen && h.Paused() && len(k.alive) > 0 {
			n += len(k.alive)
			thaw := h.PausedUntil()
			w.At(thaw+reapBound+a.job.killWait(), func() { w.checkThaw(k, thaw) })
		}
	}
	return n
}

// checkThaw looks for ranks that stood still, while another attempt began, on a machine
// that went on at a moment and that no fault has touched since.
func (w *World) checkThaw(k *keeper, thaw time.Duration) {
	if len(k.alive) > 0 && !k.killed && k.h.trouble <= thaw {
		w.Fail("two-attempts", "%s: %d ranks of %s that stood still run on, and another attempt has begun", k.h.Name, len(k.alive), k.truth.launch.Ident)
	}
}

// checkGone looks, some time after the end of a job, for ranks that still run.
func (w *World) checkGone(j *job, final bool) {
	wait := time.Duration(0)
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			if k.truth.job != j || k.phase == done || len(k.alive) == 0 {
				continue
			}
			excused := h.trouble > j.endedAt-deadMax || w.hosts[j.host].trouble > j.endedAt-deadMax
			if final && h.frozen && h.Paused() || !final && excused {
				wait = max(wait, h.PausedUntil()-w.Now(), w.hosts[j.host].PausedUntil()-w.Now(), 0) + leaseBound + j.killWait() + saidAgain
				continue
			}
			w.Fail("survivor", "%s: %s still runs %d ranks %v after the job's end", h.Name, k.start.Launch.Ident, len(k.alive), w.Now()-j.endedAt)
			return
		}
	}
	if wait > 0 {
		w.At(w.Now()+wait, func() { w.checkGone(j, true) })
	}
}

// killWaitMax is the longest kill-wait of the jobs of a fault run.
const killWaitMax = 2 * time.Second

// checkLease looks, when leases must have run out, for ranks of jobs whose
// origin they have been cut off from since a moment.
func (w *World) checkLease(since time.Duration) {
	if w.Net.Links.LateDup > 0 {
		return // what was sent before may still come, and counts as a word
	}
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			a := k.truth
			origin := w.byName[a.launch.Origin]
			cut := w.Net.IsCut(h.Index, origin.Index) && w.Net.IsCut(origin.Index, h.Index)
			if !cut || !a.started[k.start.Index] || len(k.alive) == 0 || a.firstAt > since || h.Life() != k.born || h.PausedUntil() > since {
				continue
			}
			w.Fail("lease", "%s: %s still runs %v after it was cut off from its origin %s", h.Name, a.launch.Ident, w.Now()-since, origin.Name)
			return
		}
	}
}

// paceSlack is what the jobs of a fault run may take together, once nothing is
// wrong any more, beyond running one after the other.
const paceSlack = 30 * time.Second

// checkPace: after the last fault every job ends in the time that they would
// take one by one.
func (w *World) checkPace() {
	at := faultSpan
	for _, h := range w.hosts {
		if !h.lost {
			at = max(at, h.trouble)
		}
	}
	at += paceSlack
	for _, j := range w.jobs {
		at += j.Runs + j.killWait()/2
	}
	for _, b := range w.bags {
		if b.gangs() { // jobs and gangs take turns
			at += time.Duration(b.request.Total)*b.longest + gangBound
		}
	}
	if at > w.Now() {
		w.At(at, w.checkPace)
		return
	}
	for _, j := range w.jobs {
		if j.submittedAt < 0 || j.over() || j.orphaned || j.request.Detach || w.Net.Links.Loss > 0.02 || !w.couldFit(j) || j.awaits != nil {
			continue
		}
		w.Fail("slow", "job %d (index %d) of %d slots from %s has not ended %v after the last fault", j.id, j.index, j.Slots, w.hosts[j.host].Name, w.Now())
		return
	}
}

// mustEnd lets a checker look whether all ranks of an attempt are gone, a time
// after something that ends its job (the table of ends, DESIGN section 7).
func (w *World) mustEnd(a *attempt, within time.Duration, why string) {
	began := w.Now()
	w.At(w.Now()+within+w.slack(), func() {
		if a.live > 0 && !w.touched(a.job, a) {
			w.Fail("late", "%d ranks of %s still run %v after %s", a.live, a.launch.Ident, w.Now()-began, why)
		}
	})
}

// crashBound is how long ranks may go on elsewhere after a machine died: until
// it is declared dead, or came back before that and was found without them.
const crashBound = deadMax + 7*time.Second + goneBound

// mustEndWithout lets a checker look, after a machine died, whether the rest of
// an attempt that had ranks there is gone.
func (w *World) mustEndWithout(h *host, a *attempt) {
	j := a.job
	if j.request.Policy.NoKill || j.request.Detach || a.live == 0 {
		return
	}
	began := w.Now()
	w.At(w.Now()+crashBound+j.killWait()+w.slack(), func() {
		if a.live == 0 || w.hosts[j.host] != h && w.hosts[j.host].trouble > began-leaseBound {
			return
		}
		for _, n := range a.launch.Nodes {
			if x := w.byName[n.Node]; x != h && x.trouble > began-leaseBound {
				return
			}
		}
		w.Fail("late", "%d ranks of %s still run %v after %s died", a.live, a.launch.Ident, w.Now()-began, h.Name)
	})
}

// checkOrphan looks for ranks of a job that nobody waits for any more.
func (w *World) checkOrphan(j *job) {
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			if k.truth.job != j || len(k.alive) == 0 || k.phase == done {
				continue
			}
			recent := max(h.trouble, w.hosts[j.host].trouble) + orphanBound + j.killWait()
			if recent > w.Now() {
				w.At(recent, func() { w.checkOrphan(j) })
				return
			}
			w.Fail("survivor", "%s: %s still runs %d ranks, long after its client was gone", h.Name, k.start.Launch.Ident, len(k.alive))
			return
		}
	}
}

// checkQuiet: after everything has ended and healed, every launcher has all its
// slots free and knows of no open job, and no keeper is left.
func (w *World) checkQuiet() {
	for _, h := range w.hosts { // first: with less room than [World.couldFit] counts, jobs wait for ever
		if h.node != nil && h.node.Slots().Draining {
			w.Fail("drained", "%s takes no work when all is over: no plan leaves a node out of service", h.Name)
		}
	}
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			w.Fail("keeper-left", "%s: keeper of %s in phase %d", h.Name, k.start.Launch.Ident, k.phase)
		}
		for c, k := range h.cores {
			if k != nil {
				w.Fail("core-left", "%s: core %d is with %s", h.Name, c, k.start.Launch.Ident)
			}
		}
		for c, k := range h.subs {
			if k != nil {
				w.Fail("core-left", "%s: core %d is with step %s", h.Name, c, k.start.Launch.Ident)
			}
		}
		for _, p := range h.tasks { // any order: a run with one is broken
			w.Fail("task-left", "%s: task %d.%d runs when all is over", h.Name, p.launch.Start.Job, p.launch.Start.Index)
		}
		if h.node == nil {
			continue
		}
		for key, r := range h.records { // in any order: a run with one is broken
			if r.Job == nil || !r.Job.Request.Detach {
				w.Fail("record-left", "%s: record %s is left when all is over", h.Name, key)
			}
		}
		if w.opt.Looks.Any() {
			h.node.Check()
		}
		if s := h.node.Slots(); s.Free != s.Slots || s.MemFree != s.MemBytes || len(s.GPUsFree) != len(s.GPUs) {
			w.Fail("leak", "%s: %d of %d slots free when all is over: %+v", h.Name, s.Free, s.Slots, s)
		}
		for _, ji := range h.node.Jobs(h.Local()) {
			if !isFinal(ji.State) {
				w.Fail("job-left", "%s: job %d is %s when all is over", h.Name, ji.ID, ji.State)
			}
		}
	}
	for _, j := range w.jobs {
		w.checkEnded(j)
	}
}

// checkEnded: every submission had its end, unless the one who would be told is
// gone for good.
func (w *World) checkEnded(j *job) {
	if j.submittedAt < 0 || j.over() || j.orphaned {
		return
	}
	if j.request.Detach {
		w.checkDetached(j)
		return
	}
	w.Fail("no-end", "job %d (index %d) of %d slots from %s never ended: accepted %v started %v", j.id, j.index, j.Slots, w.hosts[j.host].Name, j.id > 0, j.startedAt)
}

func isFinal(state string) bool {
	for s := filch.OK; s <= filch.Cancelled; s++ {
		if s.String() == state {
			return true
		}
	}
	return false
}

// coresOf are the numbers of processors: every processor of a simulated host is a core.
func coresOf(list []filch.Processor) []int32 {
	cores := make([]int32, len(list))
	for i, p := range list {
		cores[i] = p.Core
	}
	return cores
}
