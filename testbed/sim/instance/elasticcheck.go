package instance

import (
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/pool"
)

// The checkers of a pool believe the batch system and the processes, and of the record only
// what was stored.

const (
	checkEvery = 10 * time.Second
	// noticedWithin is the time in which the pool notices the loss of an allocation.
	noticedWithin = 30 * time.Second
	// strayMost is how long a batch job may stay that the record does not name.
	strayMost = 3 * time.Minute
	// submitsMost bounds the submissions of a pool whose allocations come to nothing.
	submitsMost = 40
)

// stored takes in a record that a holder has stored.
func (e *elastic) stored(p *pool.Pool) {
	if e.last == nil || p.Beat >= e.last.Beat {
		e.last = p
	}
}

// trouble notes that a holder died, or waited for a slow batch system.
func (e *elastic) trouble() { e.troubled = e.w.Now() }

// undisturbed reports whether nothing has kept the holders and the batch system from their work
// since a moment.
func (e *elastic) undisturbed(since time.Duration) bool {
	if e.troubled > since || e.batch.silent > since || e.w.Net.Links.Loss > 0.02 {
		return false
	}
	for _, h := range e.w.hosts[:e.plan.logins] {
		if h.trouble > since || h.node == nil || h.Paused() {
			return false
		}
	}
	return true
}

// second reports whether a job is in the second half of its time: its successor may come.
func (e *elastic) second(j *batchJob) bool {
	return j.state == pool.JobRunning && e.w.Now() >= j.began+e.plan.wall/2
}

// accepted checks a submission: each has a name of its own, and no more jobs than --max are
// there. A job that the batch system did not know for a while counts as gone.
func (e *elastic) accepted(j *batchJob) {
	if n := e.batch.submits[j.name]; n > 1 {
		e.w.Fail("submitted-twice", "%s was submitted %d times", j.name, n)
	}
	live := 0
	for _, o := range e.batch.jobs {
		if o.state != pool.JobOver && !o.lost && !o.asked && !o.leaves && !o.person && !e.second(o) {
			live++
		}
	}
	if live > e.plan.spec.Max {
		e.w.Fail("too-many", "%d batch jobs, --max is %d", live, e.plan.spec.Max)
	}
}

// checkNeed checks that no more allocations are asked for than there was work for.
func (e *elastic) checkNeed(p *pool.Pool, orders []pool.Order) {
	if !slices.ContainsFunc(orders, func(o pool.Order) bool { return o.Kind == pool.Submit }) {
		return
	}
	live := 0
	for i := range p.Allocs {
		a := &p.Allocs[i]
		j := e.jobOf(a)
		if a.State != pool.Ending && (j == nil || !e.second(j) && j.state != pool.JobOver) {
			live++
		}
	}
	want := max(slices.Max(append(e.wants, 0)), e.work())
	if slots := int(e.w.opt.Slots); live > (want+slots-1)/slots+1 {
		e.w.Fail("over-ask", "%d allocations of %d slots, and there was work for %d slots", live, slots, want)
	}
}

func (e *elastic) jobOf(a *pool.Alloc) *batchJob {
	i := slices.IndexFunc(e.batch.jobs, func(j *batchJob) bool { return j.id == a.Job })
	if i < 0 {
		return nil
	}
	return e.batch.jobs[i]
}

// checkShrink: an allocation that the pool gives back has no work.
func (e *elastic) checkShrink(j *batchJob, why string) {
	if n := j.host.works(); n > 0 {
		e.w.Fail("shrink", "%s: job %s ends (%s) while %d tasks and ranks run there", j.host.Name, j.id, why, n)
	}
}

// checkCancel: the pool cancels no job with work.
func (e *elastic) checkCancel(j *batchJob) {
	if j.host != nil && j.came {
		e.checkShrink(j, "the pool cancels it")
	}
}

// works counts the tasks and keepers with ranks on a host.
func (h *host) works() int {
	n := len(h.tasks)
	for _, k := range h.keepers {
		if k.phase != done && len(k.alive) > 0 {
			n++
		}
	}
	return n
}

// mustNotice lets a checker look whether the pool has noticed that a job is over or lost.
func (e *elastic) mustNotice(j *batchJob) {
	since := e.w.Now() - checkEvery
	e.w.At(e.w.Now()+noticedWithin, func() {
		if e.last == nil || !e.undisturbed(since) {
			return
		}
		for i := range e.last.Allocs {
			if a := &e.last.Allocs[i]; a.Job == j.id && a.State != pool.Ending {
				e.w.Fail("not-noticed", "job %s is over or lost for %s, and allocation %d is %s", j.id, noticedWithin, a.N, a.State)
			}
		}
	})
}

// check looks for batch jobs that nobody knows of, and lets a user resume a paused pool.
func (e *elastic) check() {
	w := e.w
	for _, j := range e.batch.jobs {
		named := e.last != nil && slices.ContainsFunc(e.last.Allocs, func(a pool.Alloc) bool { return a.Job == j.id || a.State == pool.Planned })
		switch {
		case j.state == pool.JobOver || named || j.hidden || j.leaves:
			j.unnamed = 0
		case j.unnamed == 0:
			j.unnamed = w.Now()
		case w.Now()-j.unnamed >= strayMost:
			w.Fail("stray", "job %s (%s) is there since %s, and the record does not name it", j.id, j.name, j.unnamed)
		}
	}
	e.checkIdle()
	if e.plan.resumes && e.last != nil && e.last.Paused != "" {
		e.resume()
	}
	w.At(w.Now()+checkEvery, e.check)
}

// idleSlack is the time beyond --idle in which an allocation without work gets the order to
// end: looks, the drain, and the looks of the allocation.
const idleSlack = 15 * time.Second

// checkIdle: without work, allocations are given back in the time of --idle.
func (e *elastic) checkIdle() {
	w := e.w
	since := w.Now() - e.plan.spec.Idle - idleSlack
	if e.idle > since || !e.undisturbed(since) {
		return
	}
	for _, j := range e.batch.jobs {
		if j.state == pool.JobRunning && j.came && !j.leaves && j.began < since-joinSoon && !j.lost {
			w.Fail("idle", "job %s is there without work for %s, --idle is %s", j.id, w.Now()-max(e.idle, j.began), e.plan.spec.Idle)
			return
		}
	}
}

// resume is filch pool resume.
func (e *elastic) resume() {
	if h := e.w.someHost(e.dice); h != nil {
		e.readPool(h, func(p *pool.Pool, v dht.Version) {
			if p != nil {
				p.Resume()
				e.writePool(h, p, v, func(bool) {})
			}
		})
	}
}

// checkEnd: once all is over nothing is left.
func (e *elastic) checkEnd() {
	w := e.w
	if e.plan.dies != livesOn {
		if e.last == nil || e.last.Paused == "" || e.batch.accepted > submitsMost {
			w.Fail("endless", "%d submissions came to nothing, and the pool asks on", e.batch.accepted)
		}
		return
	}
	for _, b := range w.bags {
		if !b.finished && !(b.gone && e.allOK(b)) {
			w.Fail("no-end", "bag %d of %d tasks of %d slots has not ended: accepted %v, pool %s", b.index, b.request.Total, b.need(), b.id > 0, e.text())
		}
	}
	for _, j := range w.jobs {
		if !j.over() && !j.orphaned {
			w.Fail("no-end", "run %d of %d slots has not ended: accepted %v, pool %s", j.index, j.Slots, j.id > 0, e.text())
		}
	}
	for _, j := range e.batch.jobs {
		if j.state != pool.JobOver {
			w.Fail("leak", "batch job %s (%s) is left, pool %s", j.id, j.name, e.text())
		}
	}
	if e.last != nil && len(e.last.Allocs) > 0 {
		w.Run(w.Now() + 2*noticedWithin) // the last ended a moment ago
		if len(e.last.Allocs) > 0 {
			w.Fail("leak", "the record names allocations that are over: %s", e.text())
		}
	}
	for _, h := range w.hosts[e.plan.logins:] {
		if h.node != nil {
			w.Fail("leak", "%s has a launcher, and no allocation", h.Name)
		}
	}
	if len(w.Broken()) > 0 {
		return
	}
	e.checkTasks()
	w.checkBags()
}

// checkTasks: every task ended well, and ran once, or once more for each start that came to
// nothing with its node.
func (e *elastic) checkTasks() {
	for _, b := range e.w.bags {
		if b.finished && b.tally.OK != b.request.Total {
			e.w.Fail("task-lost", "bag %d ended with %+v of %d tasks", b.index, b.tally, b.request.Total)
		}
		if b.gangs() {
			continue // the attempts of gangs have checkers of their own
		}
		for i, starts := range b.starts {
			if most := 1 + b.torn[int32(i)]; int(starts) > most {
				e.w.Fail("ran-twice", "task %d.%d began %d times, and %d of its starts came to nothing", b.id, i, starts, most-1)
				return
			}
		}
	}
}

// text is the record in short.
func (e *elastic) text() string {
	if e.last == nil {
		return "never stored"
	}
	var text strings.Builder
	text.WriteString(e.last.Said + "; " + e.last.Trouble + "; " + e.last.Paused)
	for i := range e.last.Allocs {
		a := &e.last.Allocs[i]
		text.WriteString("; " + string(a.State) + " " + a.Job)
	}
	return text.String()
}

// began has allocations of some plans end soon after work began there.
func (e *elastic) began(h *host) {
	if j := e.jobs[h]; j != nil && e.plan.dies == diesOfWork && !j.doomed {
		j.doomed = true
		e.w.At(e.w.Now()+2*time.Second, func() { e.batch.kill(j, "NODE_FAIL") })
	}
}
