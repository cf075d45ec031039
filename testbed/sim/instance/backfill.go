package instance

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Tasks in slots held for gangs. The promise: whatever limits and usual times say, tasks that
// were let through delay the oldest waiting job by no more than they may take to end, and a
// second; and a task that was stopped for a gang starts again.

// Bounds of the checker.
const (
	delayEvery = 50 * time.Millisecond // between two looks
	delayMax   = time.Second           // beside the kill-wait of what was let through
	gatherSpan = 500 * time.Millisecond
)

// backfill is what the checker remembers between two looks.
type backfill struct {
	oldest *job
	since  time.Duration // when the oldest could first have started, had nothing been let through
	grace  time.Duration // of what was let through since
	filled int           // starts in held slots
	halted int           // of those, stopped
	moved  int           // tasks offered to nodes with held slots
	asks   map[heldAsk]*message.Steal
}

// heldAsk names a question for tasks that may run in held slots: the thief, and its number.
type heldAsk struct {
	host, life, ask uint64
}

// factor is between 1/most and most, the same in both directions.
func factor(d *engine.Dice, most float64) float64 {
	return math.Exp((2*d.Unit() - 1) * math.Log(most))
}

// drawFills draws bags whose tasks may run in held slots, and runs for which slots are held.
// Usual times and limits are wrong by any factor, but no task outlives its limit.
func (w *World) drawFills(d *engine.Dice, span time.Duration) {
	for range 1 + d.N(3) {
		b := &bag{index: len(w.bags), host: int32(d.N(len(w.hosts))), submit: d.Between(time.Millisecond, span)}
		b.longest = d.Between(50*time.Millisecond, 5*time.Second)
		b.shortest, b.stubborn = b.longest/4, d.Chance(0.15)
		s := &b.request
		s.Name, s.Follow, s.Total = fmt.Sprint("fill", b.index), true, int32(20+d.N(20*len(w.hosts)))
		s.Spec = record.Spec{Body: taskBody(b.index), Each: filch.Room{Slots: 1}, Once: d.Chance(0.15), Retries: int32(d.N(2)), CrashLimit: 100}
		if d.Chance(0.7) {
			s.Spec.Expect = time.Duration(float64(b.longest) * factor(d, 100))
		}
		if d.Chance(0.4) {
			s.Spec.Limit = time.Duration(float64(b.longest) * max(factor(d, 1000), 1.1))
		}
		if d.Chance(0.2) {
			b.failEvery = 3 + d.N(20)
		}
		b.grow(s.Total)
		w.bags = append(w.bags, b)
		w.At(b.submit, func() { w.submitBag(b) })
	}
	total := len(w.hosts) * int(w.opt.Slots)
	for range 3 + d.N(4) {
		j := &job{host: int32(d.N(len(w.hosts)))}
		j.Submit, j.Runs = d.Between(1, span), d.Between(500*time.Millisecond, 6*time.Second)
		if j.Slots = 1 + d.N(int(w.opt.Slots)); d.Chance(0.6) {
			j.Slots = total/2 + d.N(total/2) + 1
		}
		plain(j, len(w.jobs))
		if d.Chance(0.6) {
			j.request.Policy.TimeLimit = time.Duration(float64(j.Runs) * max(factor(d, 100), 1.1))
		}
		w.add(j)
	}
}

// backfillWorld has few nodes with tasks and runs that take turns, some faults, and the
// checker of the promise.
func backfillWorld(seed uint64, looks engine.Looks) *World {
	d := engine.NewDice(seed, streamFills)
	w := NewWorld(Options{Seed: seed, Hosts: 2 + d.N(4), Slots: int32(3 + d.N(6)), Links: engine.Quiet(), Looks: looks, Words: true, MaxSteps: 3e6})
	w.drawFills(d, 8*time.Second)
	if d.Chance(0.3) {
		w.drawGangBag(d)
	}
	if d.Chance(0.3) {
		h, at := w.hosts[d.N(len(w.hosts))], d.Between(time.Second, 10*time.Second)
		w.At(at, func() { w.killLauncher(h) })
		w.At(at+d.Between(20*time.Millisecond, 8*time.Second), func() { w.restart(h) })
	}
	w.At(delayEvery, w.checkDelay)
	return w
}

// backfillRun runs a seed to the end.
func backfillRun(seed uint64, looks engine.Looks) *World {
	w := backfillWorld(seed, looks)
	w.Run(3 * time.Minute)
	w.settleBags()
	if len(w.Broken()) == 0 {
		w.checkQuiet()
	}
	if len(w.Broken()) == 0 {
		w.checkBags()
	}
	return w
}

// checkDelay looks whether the oldest waiting run could start, had no task been let through.
func (w *World) checkDelay() {
	f := &w.fills
	j := w.oldestRun()
	switch {
	case j == nil || j.submittedAt+gatherSpan > w.Now() || !w.calm(w.Now()-staleSpan) || w.roomFor(j) < j.Slots:
		f.oldest = nil
	case f.oldest != j:
		f.oldest, f.since, f.grace = j, w.Now(), 0
	}
	if f.oldest != nil {
		for _, h := range w.hosts {
			for _, p := range h.tasks { // any order: the longest
				if p.launch.Start.Borrows {
					f.grace = max(f.grace, p.grace())
				}
			}
		}
		if late := w.Now() - f.since; late > delayMax+f.grace {
			w.Fail("delayed", "job %d, the oldest that waits, could have its %d slots since %v but for tasks in held slots, which may take %v to end", j.id, j.Slots, late, f.grace)
			return
		}
	}
	if w.Now() < 2*time.Minute {
		w.At(w.Now()+delayEvery, w.checkDelay)
	}
}

// oldestRun is the waiting run with the oldest ticket whose origin was never lost; nil without
// one, or if an older gang of a bag may wait.
func (w *World) oldestRun() (oldest *job) {
	for _, j := range w.jobs {
		if lost := w.hosts[j.host].trouble >= j.submittedAt; lost || j.submittedAt < 0 || j.id == 0 || j.over() || j.last() != nil && j.last().firstAt >= 0 {
			continue
		}
		if oldest == nil || j.submittedAt < oldest.submittedAt || j.submittedAt == oldest.submittedAt && j.id < oldest.id {
			oldest = j
		}
	}
	for _, b := range w.bags {
		if oldest != nil && b.gangs() && b.asked && !b.finished && b.submit <= oldest.submittedAt {
			return nil
		}
	}
	return oldest
}

// roomFor is the slots that neither ranks of other jobs nor tasks in slots of their own have.
func (w *World) roomFor(j *job) (n int) {
	for _, h := range w.hosts {
		n += int(w.opt.Slots)
		for _, k := range h.cores {
			if k != nil && k.truth.job != j {
				n--
			}
		}
		for _, p := range h.tasks { // any order: a sum
			if !p.launch.Start.Borrows {
				n--
			}
		}
	}
	return n
}

// grace is how long a process takes to end when its launcher wants it to.
func (p *process) grace() time.Duration {
	if p.bag.stubborn {
		return launcher.TaskGrace
	}
	return 0
}

// checkFill: only tasks that may start again run in held slots.
func (w *World) checkFill(p *process) {
	if !p.launch.Start.Borrows {
		return
	}
	if w.fills.filled++; p.bag.request.Spec.Once {
		w.Fail("fill-once", "task %d.%d, which starts at most once, runs in slots held for a gang", p.launch.Start.Job, p.launch.Start.Index)
	}
}

// noteHeldAsk remembers a question for tasks for held slots.
func (w *World) noteHeldAsk(from *host, m *message.Steal) {
	f := &w.fills
	if !m.Fill.Held() {
		return
	}
	if f.asks == nil {
		f.asks = make(map[heldAsk]*message.Steal)
	}
	f.asks[heldAsk{uint64(from.Index), from.incarnation, m.Ask}] = m
}

// checkHeldOffer: a node that asks for tasks for held slots is offered tasks that may start
// again, that end in time as far as the victim knows, and no more than the slots hold.
func (w *World) checkHeldOffer(from, to *host, m *message.Offer) {
	f := &w.fills
	asked := f.asks[heldAsk{uint64(to.Index), to.incarnation, m.Ask}]
	if m.Ask == 0 || asked == nil {
		return
	}
	n := len(m.Tasks) + len(m.Copies)
	jobs := make([]filch.JobID, 0, n)
	for i := range m.Tasks {
		jobs = append(jobs, m.Tasks[i].Job)
	}
	for _, r := range m.Ranges {
		n += int(r.Hi - r.Lo)
		jobs = append(jobs, r.Job)
	}
	if f.moved += n; n > int(asked.Free.Slots) || len(m.Copies) > 0 {
		w.Fail("fill-many", "%s offers %d tasks and %d copies to %s, which has %d held slots", from.Name, n-len(m.Copies), len(m.Copies), to.Name, asked.Free.Slots)
	}
	for _, b := range w.bags {
		if s := &b.request.Spec; b.id == 0 || !slices.Contains(jobs, b.id) {
			continue
		} else if s.Once || s.Firm || b.gangs() {
			w.Fail("fill-firm", "%s offers tasks of job %d, which nobody may stop, to %s for held slots", from.Name, b.id, to.Name)
		} else if len(b.request.Nodes) == 0 && !s.Limits && !asked.Fill.Admits(s.Limit, m.Usual) {
			w.Fail("fill-long", "%s offers tasks of job %d, limit %v, usually %v, to %s for held slots that take limits up to %v and usual times up to %v", from.Name, b.id, s.Limit, m.Usual, to.Name, asked.Fill.Limit, asked.Fill.Usual)
		}
	}
}

// recalled takes in that a process in held slots was stopped: its start does not count.
func (p *process) recalled() {
	if p.told && p.launch.Start.Borrows && !p.bag.cancelled && !p.bag.ordered {
		p.host.w.fills.halted++
		p.bag.recalls[p.launch.Start.Index]++
	}
}

// slantBackfill has runs wait for slots beside tasks that may use the slots meanwhile.
func slantBackfill(w *World, d *engine.Dice) { w.drawFills(d, submitSpan) }
