package tasks

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// process is a task that was started.
type process struct {
	start  mtc.Start
	fetch  fetch
	host   *host
	life   uint64
	gone   bool
	killed bool
}

// truth is what the processes did, and what the records said over time.
type truth struct {
	w    *World
	jobs map[filch.JobID]*job
}

// job is a submission and what became of it.
type job struct {
	submit.Job
	length  func(*engine.Dice, mtc.Start) time.Duration
	fails   func(mtc.Start) int32
	writes  func(i int32) int64
	total   int32
	starts  []uint16
	tries   []tries
	began   []time.Duration // last start
	order   []int32         // of the starts
	ended   []filch.State   // as first recorded
	endAt   []time.Duration
	running int32
	peak    int32
	last    int32 // of the tally
	rec     *record.Job
	added   []addition
	orders  orders
	from    filch.NodeName // the host of the submission
}

func (t *truth) init(w *World) { t.w, t.jobs = w, map[filch.JobID]*job{} }

func (t *truth) submitted(s submit.Job, length func(*engine.Dice, mtc.Start) time.Duration) {
	n := s.Total
	if len(s.Nodes) > 0 {
		n = int32(len(s.Nodes))
	}
	j := &job{Job: s, length: length, total: n}
	j.grow(n)
	t.jobs[s.Job] = j
}

func (j *job) grow(n int32) {
	j.total = n
	for int32(len(j.starts)) < n {
		j.starts, j.tries, j.began = append(j.starts, 0), append(j.tries, tries{}), append(j.began, 0)
		j.ended, j.endAt = append(j.ended, 0), append(j.endAt, 0)
	}
}

func (t *truth) breach(format string, args ...any) {
	t.w.Fail("tasks", format, args...)
}

// start makes a process, or keeps a successor until the task before it has ended.
func (h *host) start(s mtc.Start) {
	w := h.w
	if h.running[s.Succeeds] != nil {
		h.waiting[s.Succeeds] = s
		w.At(w.Now()+successorWait, func() {
			if h.waiting[s.Succeeds].Run == s.Run {
				h.takeBack(s.Succeeds)
			}
		})
		return
	}
	j := w.truth.jobs[s.Job]
	p := &process{start: s, host: h, life: h.incarnation, fetch: h.fetch(j, &s)}
	h.running[s.Run] = p
	h.ran++
	w.Stats.Starts++
	w.Stats.LastStart = w.Now()
	w.truth.outside(h, s)
	j.starts[s.Index]++
	j.began[s.Index] = w.Now()
	j.order = append(j.order, s.Index)
	j.running++
	j.peak = max(j.peak, j.running)
	w.truth.obeyed(h, j, s)
	w.truth.needed(h, j, s)
	if n := p.takes(); n > 0 {
		w.licenses.begun(n)
		w.Stats.Seats++
	}
	w.truth.begun(j, s)
	w.At(w.Now()+p.fetch.takes+j.length(w.rng, s), func() { h.end(p) })
}

// begun checks a start: what it waits for was recorded before.
func (t *truth) begun(j *job, s mtc.Start) {
	t.tried(j, s)
	if j.Spec.Payloads && len(j.Nodes) == 0 {
		t.line(j, s)
	}
	if len(j.Nodes) > 0 {
		for _, p := range j.Nodes[s.Index].Parents {
			if j.ended[p] == 0 || j.ended[p] != filch.OK && j.Spec.OnFail == record.FailSkip {
				t.breach("task %d.%d began although task %d is %v", s.Job, s.Index, p, j.ended[p])
			}
		}
	}
	for _, after := range j.After {
		if a := t.jobs[after]; a.rec == nil || !a.rec.Finished() {
			t.breach("task %d.%d began before job %d ended", s.Job, s.Index, after)
		}
	}
}

// end is a process's own end; it is heard of if its launcher still lives.
func (h *host) end(p *process) {
	if p.gone {
		return
	}
	p.gone = true
	h.w.licenses.used -= p.takes()
	h.w.truth.jobs[p.start.Job].running--
	if h.incarnation != p.life {
		return
	}
	delete(h.running, p.start.Run)
	if h.results.add(h.w.Now()) {
		h.w.Stats.Bundles++
	}
	j := h.w.truth.jobs[p.start.Job]
	e := mtc.End{Run: p.start.Run, State: filch.OK, Bytes: j.output(p.start.Index), Moved: p.fetch.bytes, Moving: p.fetch.takes, In: p.fetch.takes}
	if p.killed {
		e.State, e.Code = filch.Killed, 143
	} else if h.w.truth.stopped(h, j, p.start); j.fails != nil {
		if e.Code = j.fails(p.start); e.Code != 0 {
			e.State = filch.Failed
		}
	}
	h.input(p.life, "end", func(now time.Duration, out *mtc.Out) { h.core.Ended(now, e, out) })
	if s, ok := h.waiting[p.start.Run]; ok {
		delete(h.waiting, p.start.Run)
		h.start(s)
	}
}

// successorWait is how long a task waits at most for the end of the task before it.
const successorWait = 20 * time.Millisecond

// takeBack ends a task that waits for the end of another.
func (h *host) takeBack(prev uint64) {
	e := mtc.End{Run: h.waiting[prev].Run, State: filch.Killed, Code: filch.ExitCancelled, Unstarted: true}
	delete(h.waiting, prev)
	h.input(h.incarnation, "back", func(now time.Duration, out *mtc.Out) { h.core.Ended(now, e, out) })
}

func (h *host) stop(s mtc.Stop) {
	for prev, x := range h.waiting { // any order: one at most
		if x.Run == s.Run {
			h.takeBack(prev)
			return
		}
	}
	if p := h.running[s.Run]; p != nil {
		p.killed = true
		h.w.At(h.w.Now()+time.Millisecond, func() { h.end(p) })
	}
}

// killAll ends the processes of a launcher that is gone.
func (h *host) killAll() {
	for _, p := range h.running {
		if !p.gone {
			p.gone = true
			h.w.licenses.used -= p.takes()
			h.w.truth.jobs[p.start.Job].running--
		}
	}
	h.running, h.waiting = map[uint64]*process{}, map[uint64]mtc.Start{}
}

// stored looks at a record that changed: an end stays what it was, a tally only
// grows.
func (t *truth) stored(key string, kind record.RecordKind, _, val []byte) {
	id, number := parse(key)
	j := t.jobs[id]
	switch kind {
	case record.RecordBlock:
		b, err := record.DecodeBlock(val)
		if err != nil {
			t.breach("%s: %v", key, err)
			return
		}
		for k, off := range b.Offs {
			i := number*record.BlockSize + int32(off)
			s := b.Tasks[k].State
			t.counted(id, j, i, &b.Tasks[k])
			switch {
			case s == 0:
			case j.ended[i] == 0:
				j.ended[i], j.endAt[i] = s, t.w.Now()
				if t.wronged(id, i, &b.Tasks[k]) {
					t.breach("task %d.%d runs once and is lost, and %v, which started it, was not declared dead", id, i, b.Tasks[k].By)
				}
				if s == filch.OK && j.starts[i] == 0 {
					t.breach("task %d.%d is recorded as ok and never ran", id, i)
				}
			case j.ended[i] != s:
				t.breach("task %d.%d ended as %v and is recorded as %v", id, i, j.ended[i], s)
				j.ended[i] = s
			}
		}
	case record.RecordJob:
		rec, err := record.DecodeJob(val)
		if err != nil {
			t.breach("%s: %v", key, err)
			return
		}
		sum := rec.Tally().Sum()
		if sum < j.last || sum > rec.Total {
			t.breach("job %d: the tally went from %d to %d of %d", id, j.last, sum, rec.Total)
		}
		t.ordered(id, j, rec)
		j.last, j.rec = sum, rec
		j.grow(rec.Total)
		if _, seen := t.w.Stats.Finished[id]; rec.Finished() && !seen {
			t.w.Stats.Finished[id] = t.w.Now()
		}
	}
}

func parse(key string) (id filch.JobID, number int32) {
	f := strings.Split(key, "/")
	n, _ := strconv.Atoi(f[1])
	if len(f) > 3 {
		k, _ := strconv.Atoi(f[3])
		number = int32(k)
	}
	return filch.JobID(n), number
}

func (t *truth) told(_ *host, k report.Tell) {
	switch {
	case k.What == report.TellAdded:
		t.addedOne(k)
	case k.What == report.TellRefused && k.Token == 0:
		t.breach("job %d: %v", k.Job, k.Error)
	}
}

// AllFinished reports whether every job is.
func (w *World) AllFinished() bool { return len(w.Stats.Finished) == len(w.truth.jobs) }

// Verdict is what was broken first in a run that is over. If that is nothing, it
// looks that each task has one end, that no task was started more often than its
// record says, and that all jobs ended.
func (w *World) Verdict() (broken []string) {
	if len(w.Broken()) == 0 {
		w.judge()
	}
	for _, v := range w.Broken() {
		broken = append(broken, v.String())
	}
	return broken
}

func (w *World) judge() {
	t := &w.truth
	for id := filch.JobID(1); int(id) <= len(t.jobs); id++ {
		j := t.jobs[id]
		if j.rec == nil || !j.rec.Finished() {
			t.breach("job %d is not finished: %+v, total %d, cap %d%s", id, j.rec, j.total, j.Spec.Cap, w.where(id))
			continue
		}
		t.kept(id, j)
		void := t.voids(id, j.total)
		var count record.Tally
		var block *record.Block
		for i := range j.total {
			if i%record.BlockSize == 0 {
				block = t.block(id, i/record.BlockSize)
			}
			k := record.Task{}
			if p := block.Find(uint8(i % record.BlockSize)); p != nil {
				k = *p
			}
			if (k.State == 0) == (void[i] == 0) {
				t.breach("task %d.%d has the ends %v and %v", id, i, k.State, void[i])
			}
			if int32(j.starts[i]) > k.Starts() {
				t.breach("task %d.%d was started %d times, its record says %d at most (%+v)", id, i, j.starts[i], k.Starts(), k)
			}
			count = count.Plus(one(max(k.State, void[i])))
		}
		if got := j.rec.Tally(); got != count {
			t.breach("job %d: the tally is %+v, the ends are %+v", id, got, count)
		}
	}
}

// where says what each host has of a job.
func (w *World) where(id filch.JobID) (s string) {
	for _, h := range w.hosts {
		if st, ok := h.core.Job(id); ok {
			s += fmt.Sprintf("; %s#%d leads %v %+v", h.Name, h.incarnation, st.Leads, st.Here)
		}
	}
	return s
}

func one(s filch.State) (t record.Tally) {
	for k, n := range map[filch.State]*int32{
		filch.OK: &t.OK, filch.Failed: &t.Failed, filch.Killed: &t.Killed, filch.Lost: &t.Lost,
		filch.Skipped: &t.Skipped, filch.Cancelled: &t.Cancelled,
	} {
		if k == s {
			*n = 1
		}
	}
	return t
}

// voids are the ends of tasks that a zone's record has, all at once.
func (t *truth) voids(id filch.JobID, total int32) []filch.State {
	v := make([]filch.State, total)
	for z := int32(0); z*record.ZoneSize < total; z++ {
		rec, err := record.DecodeZone(t.w.record(record.KeyZone(id, z)))
		if err != nil {
			t.breach("zone %d of job %d: %v", z, id, err)
			continue
		}
		for _, s := range rec.Spans {
			for i := s.Lo; i < s.Hi && s.Void != 0; i++ {
				v[i] = s.Void
			}
		}
	}
	return v
}

func (t *truth) block(id filch.JobID, n int32) *record.Block {
	b, err := record.DecodeBlock(t.w.record(record.KeyBlock(id, n)))
	if err != nil {
		t.breach("block %d of job %d: %v", n, id, err)
		return &record.Block{}
	}
	return b
}

// Spread is the coefficient of variation of the tasks that each host ran.
func (w *World) Spread() float64 {
	n, sum, squares := float64(len(w.hosts)), 0.0, 0.0
	for _, h := range w.hosts {
		sum += float64(h.ran)
		squares += float64(h.ran) * float64(h.ran)
	}
	mean := sum / n
	return math.Sqrt(max(squares/n-mean*mean, 0)) / mean
}
