package mtc

import (
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Took remembers how long the last of some alike took that ended well: tasks of
// a job, or runs of one name.
type Took struct {
	last  []time.Duration // the oldest is replaced first
	next  int
	stale int // added since limit was made
	limit time.Duration
}

// tookMax bounds what is remembered of one; tookStale how many of many may end
// before they count.
const (
	tookMax   = 64
	tookStale = 8
)

// Add takes in one more.
func (t *Took) Add(d time.Duration) {
	d = max(d, time.Microsecond)
	t.stale++
	if len(t.last) < tookMax {
		t.last = append(t.last, d)
		return
	}
	t.last[t.next] = d
	t.next = (t.next + 1) % tookMax
}

// Count is how many are remembered.
func (t *Took) Count() int { return len(t.last) }

// Limit is what nine of ten of them took at most, of fewer than ten all of them;
// 0 where none is remembered.
func (t *Took) Limit() time.Duration {
	if n := len(t.last); t.stale > 0 && (n < tookMax || t.stale >= tookStale) {
		all := slices.Sorted(slices.Values(t.last))
		t.limit, t.stale = all[n-1-n/10], 0
	}
	return t.limit
}

// Habits are those of several names.
type Habits struct {
	byName map[string]*Took
	names  []string // the one that was heard of first goes first
}

// habitsMax bounds the names.
const habitsMax = 1024

// Add takes in one more of a name; "" is none.
func (h *Habits) Add(name string, d time.Duration) {
	if name == "" {
		return
	}
	t := h.byName[name]
	if t == nil {
		if h.byName == nil {
			h.byName = make(map[string]*Took)
		}
		if len(h.names) == habitsMax {
			delete(h.byName, h.names[0])
			h.names = h.names[1:]
		}
		t = &Took{}
		h.byName[name] = t
		h.names = append(h.names, name)
	}
	t.Add(d)
}

// Limit is [Took.Limit] of a name.
func (h *Habits) Limit(name string) time.Duration {
	if t := h.byName[name]; t != nil {
		return t.Limit()
	}
	return 0
}

// Walltime is when a node is taken away, and what is not started before that.
// The zero Walltime is a node that stays.
type Walltime struct {
	End   time.Duration // 0: not known
	Drain time.Duration // so long before, nothing is started of which nobody knows how long it takes; 0: everything is
	Blind bool          // how long tasks and runs took is not taken for how long the next will take
}

// EndMargin is kept between the end of what is started and that of the node:
// for the clock of who takes it away, which may count in seconds, and for the
// word of the end to reach a disk.
const EndMargin = time.Second

// Fits reports whether what takes that long, 0 if nobody knows, may start now.
func (w Walltime) Fits(now, need time.Duration) bool {
	switch {
	case w.End == 0:
		return true
	case need > 0:
		return now+need+EndMargin <= w.End
	}
	return w.Drain == 0 || now+w.Drain < w.End
}

// lateRest is how long a node that has tasks which cannot finish on it does not
// look for more: it would take them from those who have more time.
const lateRest = 5 * time.Second

// pace is what a node knows of how long tasks take.
type pace struct {
	habits Habits
	late   time.Duration // until then it does not look for work; see lateRest
}

// jobPace is the same for one job.
type jobPace struct {
	took   Took
	late   bool // a task was not started here, as it cannot finish
	barren barren
}

// expected is how long a task of a job may take: its limit, else what others of
// the job took, else what tasks of its kind took before; 0 if nobody knows. The
// tasks of a workflow are not alike.
func (c *Core) expected(j *job) time.Duration {
	switch {
	case j.spec.Limit > 0 || c.cfg.Walltime.Blind || j.rec != nil && j.rec.Graph:
		return j.spec.Limit
	case j.pace.took.Count() > 0:
		return j.pace.took.Limit()
	}
	return j.spec.Expect
}

// fits reports whether a task of a job can finish here, as far as is known.
func (c *Core) fits(now time.Duration, j *job) bool {
	return c.cfg.Walltime.End == 0 || c.cfg.Walltime.Fits(now, c.expected(j))
}

// mayStart reports whether tasks of a job are looked at for a start: those that
// have limits of their own one by one, see setAside.
func (c *Core) mayStart(now time.Duration, j *job) bool {
	if j.spec.Limits {
		return len(j.queue.late) < lateMax
	}
	return c.fits(now, j)
}

// tooLate notes that there are tasks here that are not started any more, and
// tells those who look for work.
func (c *Core) tooLate(now time.Duration, j *job) {
	if !j.pace.late {
		j.pace.late, c.victim.fresh = true, true
	}
	c.pace.late = now + lateRest
	c.lateTokens(now, j)
}

// learn takes in how long a task took that ended well.
func (c *Core) learn(now time.Duration, j *job, took time.Duration) {
	j.pace.took.Add(took)
	j.pace.late = false // it may be less than was expected
	c.reconsider(now, j)
	c.pace.habits.Add(j.spec.Like, took)
}

// Learn takes in what was known of tasks of a name when an instance ended.
func (c *Core) Learn(name string, took time.Duration) { c.pace.habits.Add(name, took) }

// learnt has the spec of a remnant say how long its tasks took.
func (r *Remnant) learnt() {
	if r.Spec == nil || r.Job.Graph {
		return
	}
	var t Took
	for _, num := range slices.Sorted(maps.Keys(r.tasks)) {
		b := r.tasks[num]
		for i := range b.Tasks {
			if k := &b.Tasks[i]; k.State == filch.OK {
				t.Add(time.Duration(k.TookUS) * time.Microsecond)
			}
		}
	}
	if t.Count() > 0 {
		r.Spec.Expect = t.Limit()
	}
}
