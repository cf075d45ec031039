package instance

import (
	"strconv"
	"time"

	"github.com/filch-hpc/filch/pool"
)

// batchSystem starts allocations of one machine each, late, or not at all; refuses, holds,
// loses and ends them, and is silent for a while.
type batchSystem struct {
	e        *elastic
	jobs     []*batchJob
	submits  map[string]int // by the names of jobs
	silent   time.Duration  // answers nobody until then
	accepted int
}

// batchJob is one job of the batch system.
type batchJob struct {
	id, name string
	host     *host // nil: waits
	state    pool.JobState
	said     string
	person   bool          // a person cancelled it
	hidden   bool          // the batch system does not know it
	lost     bool          // and did not for a while
	asked    bool          // the pool cancelled it
	leaves   bool          // its script has ended, or got TERM
	came     bool          // its node has joined
	doomed   bool          // ends soon
	unnamed  time.Duration // since when the record does not name it; 0: it does
	start    time.Duration
	began    time.Duration
	over     time.Duration
}

// group is how the nodes of a job call their allocation.
func (j *batchJob) group() string { return "slurm-" + j.id }

const (
	batchRemembers = 5 * time.Minute
	// termWait is the time between TERM and KILL at the end of a job.
	termWait = 30 * time.Second
	// heldFor is how long a person holds a job, or the batch system does not know the job.
	heldFor = 50 * time.Second
)

// submit is what sbatch does.
func (b *batchSystem) submit(name string) (id, err string) {
	e, d := b.e, b.e.dice
	if e.w.Now() < b.silent {
		return "", "Unable to contact slurm controller"
	}
	if e.plan.faults && !e.quiet && d.Chance(0.1) {
		return "", "Requested node configuration is not available"
	}
	j := &batchJob{id: strconv.Itoa(100 + len(b.jobs)), name: name, state: pool.JobQueued}
	j.start = e.w.Now() + d.Between(500*time.Millisecond, e.plan.delay)
	b.jobs = append(b.jobs, j)
	b.submits[name]++
	b.accepted++
	e.w.trace("", "sbatch", name+" "+j.id)
	e.accepted(j)
	if e.plan.faults && !e.quiet {
		switch d.N(12) {
		case 0: // long after the others
			j.start += time.Minute
		case 1:
			e.w.At(e.w.Now()+d.Between(0, e.plan.delay), func() { b.lose(j) })
		case 2:
			j.state = pool.JobHeld
			e.w.At(e.w.Now()+heldFor, func() {
				if j.state == pool.JobHeld {
					j.state, j.start = pool.JobQueued, e.w.Now()
					b.begin(j)
				}
			})
		}
	}
	e.w.At(j.start, func() { b.begin(j) })
	return j.id, ""
}

// live counts the jobs that are not over.
func (b *batchSystem) live() (n int) {
	for _, j := range b.jobs {
		if j.state != pool.JobOver {
			n++
		}
	}
	return n
}

// begin starts a job as soon as a machine is free.
func (b *batchSystem) begin(j *batchJob) {
	e, w := b.e, b.e.w
	if j.state != pool.JobQueued || j.hidden {
		return
	}
	for _, h := range w.hosts[e.plan.logins:] {
		if e.jobs[h] == nil && h.lost {
			e.jobs[h], j.host, j.state, j.began = j, h, pool.JobRunning, w.Now()
			w.trace(h.Name, "begins", j.name+" "+j.id)
			w.At(w.Now()+e.plan.wall, func() { b.term(j, "TIMEOUT") })
			if e.plan.dies == diesEarly {
				w.At(w.Now()+e.dice.Between(100*time.Millisecond, 90*time.Second), func() { b.finish(j, "FAILED") })
				return
			}
			(&allocation{e: e, j: j, h: h}).begin()
			return
		}
	}
	w.At(w.Now()+time.Second, func() { b.begin(j) })
}

// finish ends a job; its machine is off, and free again.
func (b *batchSystem) finish(j *batchJob, said string) {
	w := b.e.w
	if j.state == pool.JobOver {
		return
	}
	j.state, j.over, j.said = pool.JobOver, w.Now(), said
	w.trace("", "over", j.name+" "+j.id+" "+said)
	b.e.mustNotice(j)
	if h := j.host; h != nil {
		if h.node != nil || !h.lost {
			b.e.disturbed(h)
			w.crash(h)
			h.lost, h.contacts, h.fullTill = true, nil, 0
			h.disk.Wipe()
			clear(h.records)
		}
		delete(b.e.past, h)
		delete(b.e.jobs, h)
		delete(b.e.holds, h)
	}
}

// term ends a job as a batch system does: TERM, and KILL later. The launcher leaves.
func (b *batchSystem) term(j *batchJob, said string) {
	w := b.e.w
	switch {
	case j.state == pool.JobOver:
	case j.host == nil || !j.came:
		b.finish(j, said)
	default:
		b.e.depart(j, said)
		w.At(w.Now()+termWait, func() { b.kill(j, said) })
	}
}

// kill turns a machine off, as soon as the others can do without its disk: more than that the
// store does not promise.
func (b *batchSystem) kill(j *batchJob, said string) {
	w := b.e.w
	if j.state == pool.JobOver {
		return
	}
	if j.host != nil && !b.e.spares(j.host) {
		w.At(w.Now()+time.Second, func() { b.kill(j, said) })
		return
	}
	b.finish(j, said)
}

// cancel is scancel by the pool.
func (b *batchSystem) cancel(id string) {
	w := b.e.w
	if w.Now() < b.silent {
		return
	}
	for _, j := range b.jobs {
		if j.id != id || j.state == pool.JobOver || j.hidden {
			continue
		}
		j.asked = true
		b.e.checkCancel(j)
		w.At(w.Now()+b.e.dice.Between(100*time.Millisecond, 2*time.Second), func() { b.term(j, "CANCELLED") })
	}
}

// hurt is one fault of the batch system: a job is lost for good or for a while, ends early,
// or a person cancels it.
func (b *batchSystem) hurt() {
	d := b.e.dice
	var live []*batchJob
	for _, j := range b.jobs {
		if j.state != pool.JobOver && !j.leaves {
			live = append(live, j)
		}
	}
	if len(live) == 0 {
		return
	}
	j := live[d.N(len(live))]
	switch pick := d.N(2); {
	case pick == 0 && j.host == nil:
		b.lose(j)
	case pick == 0:
		b.kill(j, "NODE_FAIL")
	default:
		j.person = true
		b.term(j, "CANCELLED by 0")
	}
}

// lose has the batch system forget a job in its queue, for good or for a while. A job that is
// found again waits for long.
func (b *batchSystem) lose(j *batchJob) {
	w := b.e.w
	if j.state != pool.JobQueued || j.hidden {
		return
	}
	j.hidden, j.lost = true, true
	w.trace("", "loses", j.name+" "+j.id)
	if b.e.dice.Chance(0.5) {
		b.finish(j, "")
		return
	}
	b.e.mustNotice(j)
	w.At(w.Now()+heldFor, func() {
		j.hidden = false
		w.At(w.Now()+2*strayMost, func() { b.begin(j) })
	})
}

// look is what squeue says; err: nothing.
func (b *batchSystem) look() *pool.Batch {
	now := b.e.w.Now()
	if now < b.silent {
		return &pool.Batch{Err: "Unable to contact slurm controller"}
	}
	v := &pool.Batch{Jobs: map[string]pool.Job{}, Name: map[string]string{}}
	for _, j := range b.jobs {
		if j.hidden || j.state == pool.JobOver && now-j.over > batchRemembers {
			continue
		}
		v.Jobs[j.id] = pool.Job{State: j.state, Said: j.said, Cancelled: j.person}
		v.Name[j.name] = j.id
	}
	return v
}

// spares reports whether the others go on without a host for good.
func (e *elastic) spares(h *host) bool {
	w := e.w
	if h.node == nil {
		return true
	}
	s := w.newestRoster()
	return len(s.Members) >= 3 && !s.Sealed && s.Short == 0 && len(s.Lost) == 0 && w.mayRot(h)
}
