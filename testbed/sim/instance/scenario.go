package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/stealer"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Scenario is a workload on a cluster without faults, to be held against an
// ideal central queue.
type Scenario struct {
	Name   string
	Hosts  int
	Slots  int
	Seed   uint64
	Policy stealer.Policy
	Until  time.Duration // virtual time after which the run is cut short; 0 never
	Jobs   func(hosts, total int, d *engine.Dice) []job
}

// Submitted is a scenario of jobs of the given slots, each submitted within ten milliseconds to
// a host drawn at random.
func Submitted(name string, hosts, slotsEach int, sizes []int, runs time.Duration, seed uint64) Scenario {
	return Scenario{
		Name: name, Hosts: hosts, Slots: slotsEach, Seed: seed,
		Jobs: func(hosts, _ int, d *engine.Dice) []job {
			jobs := burst(hosts, len(sizes), 0, 10*time.Millisecond, runs, d)
			for i := range jobs {
				jobs[i].Slots = sizes[i]
			}
			return jobs
		},
	}
}

// Result is what a scenario showed.
type Result struct {
	Scenario
	Count     int // jobs submitted
	Started   int
	Makespan  time.Duration
	FIFO      Ideal
	EASY      Ideal
	Busy      float64 // share of the slots in use until the makespan
	PerNode   float64 // messages per node and job
	BigWait   time.Duration
	SmallWait time.Duration
	Latest    time.Duration // the most that a job starts after the ideal first-come start
	Wounds    uint64
	Nacks     uint64
	Events    uint64
	Kinds     map[string]uint64
	Broken    []engine.Violation
}

// Ideal is what an oracle made of the same jobs.
type Ideal struct{ Makespan, BigWait, SmallWait time.Duration }

// Ratio is the makespan against that of the ideal first-come queue.
func (r *Result) Ratio() float64 { return float64(r.Makespan) / float64(r.FIFO.Makespan) }

// stepsPerJob bounds the events per host and job: a run with more goes round in
// circles.
const stepsPerJob = 500

// Run runs the scenario to its end.
func (s Scenario) Run() *Result {
	total := s.Hosts * s.Slots
	jobs := s.Jobs(s.Hosts, total, engine.NewDice(s.Seed, 9))
	w := NewWorld(Options{
		Seed: s.Seed, Hosts: s.Hosts, Slots: int32(s.Slots), Links: engine.Quiet(),
		Gather: s.Policy, Calm: true, CountKinds: true,
		MaxSteps: stepsPerJob * uint64(s.Hosts) * uint64(len(jobs)),
	})
	watch := newWoundWatch()
	w.watch = watch.see
	for i := range jobs {
		w.add(plain(&jobs[i], i))
	}
	until := s.Until
	if until == 0 {
		until = filch.Never
	}
	w.Run(until)
	r := &Result{Scenario: s, Count: len(jobs), Events: w.Steps(), Kinds: w.stats.ByKind}
	r.Wounds, r.Nacks = watch.wounds, watch.nacks
	r.measure(w, jobs)
	if s.Until == 0 {
		w.checkQuiet()
	}
	r.Broken = w.Broken()
	return r
}

// plain makes a request of a workload's demand: ranks of one slot each that
// end well.
func plain(j *job, i int) *job {
	j.outcome = newOutcome()
	j.request = launcher.Request{
		Shape:  launcher.Shape{Ranks: int32(j.Slots), PerRank: filch.Room{Slots: 1}},
		Policy: launcher.Policy{KillOnBad: true, KillWait: time.Second},
		Order:  order(i),
	}
	j.plan = plan{checksMin: 100 * time.Microsecond, checksMax: 300 * time.Microsecond, unready: -1}
	return j
}

func (r *Result) measure(w *World, jobs []job) {
	total := r.Hosts * r.Slots
	ds := demands(jobs)
	started := make([]time.Duration, len(jobs))
	var work float64
	for i, j := range w.jobs {
		started[i] = -1
		if a := j.last(); a != nil && a.allRan() {
			started[i] = a.execAt
			r.Started++
			r.Makespan = max(r.Makespan, a.execAt+j.Runs)
			work += float64(j.Slots) * float64(j.Runs)
		}
	}
	if r.Makespan > 0 {
		r.Busy = work / float64(r.Makespan) / float64(total)
	}
	r.PerNode = float64(w.stats.Messages) / float64(r.Hosts) / float64(len(jobs))
	r.BigWait, r.SmallWait = waits(ds, started, total/2)
	for i, ideal := range oracle(total, ds, false) {
		if started[i] >= 0 {
			r.Latest = max(r.Latest, started[i]-ideal)
		}
	}
	r.FIFO = idealOf(total, ds, false)
	r.EASY = idealOf(total, ds, true)
}

func idealOf(total int, ds []demand, easy bool) (i Ideal) {
	starts := oracle(total, ds, easy)
	for k, at := range starts {
		i.Makespan = max(i.Makespan, at+ds[k].Runs)
	}
	i.BigWait, i.SmallWait = waits(ds, starts, total/2)
	return i
}

// waits returns the mean waits of jobs of at least big slots, and of the rest.
// A job that never started counts for nothing.
func waits(ds []demand, starts []time.Duration, big int) (bigs, smalls time.Duration) {
	var sum [2]time.Duration
	var n [2]time.Duration
	for i, at := range starts {
		if at < 0 {
			continue
		}
		k := 0
		if ds[i].Slots < big {
			k = 1
		}
		sum[k] += at - ds[i].Submit
		n[k]++
	}
	return sum[0] / max(n[0], 1), sum[1] / max(n[1], 1)
}

// woundWatch counts, from the messages alone, holds that shrank and locks that
// were refused.
type woundWatch struct {
	held   map[claim]*launcher.Grant
	wounds uint64
	nacks  uint64
}

type claim struct {
	job  filch.JobID
	node int32
}

func newWoundWatch() *woundWatch { return &woundWatch{held: make(map[claim]*launcher.Grant)} }

func (x *woundWatch) see(from, _ *host, m launcher.Message) {
	switch m := m.(type) {
	case *launcher.Progress:
		if m.Phase == launcher.PhaseRefused && m.Cause == launcher.CauseNone {
			x.nacks++
		}
	case *launcher.Grant:
		c := claim{m.Job, from.Index}
		if old := x.held[c]; old != nil && m.Version > old.Version && m.Held < old.Held {
			x.wounds++
		}
		x.held[c] = m
	}
}

// Scenarios are the sizes of the acceptance; small ones stand in for them in
// CI.
func Scenarios(hosts, slotsEach, halves int) []Scenario {
	share := func(name string, count int, part float64) Scenario {
		return Scenario{
			Name: name, Hosts: hosts, Slots: slotsEach, Seed: 1,
			Jobs: func(hosts, total int, d *engine.Dice) []job {
				return burst(hosts, count, int(part*float64(total)), 10*time.Millisecond, 10*time.Second, d)
			},
		}
	}
	all := []Scenario{
		share("half-cluster jobs", halves, 0.5),
		share("60 % jobs", max(5, halves/5), 0.6),
		share("whole-cluster jobs", max(5, halves/10), 1),
	}
	mix := Scenario{
		Name: "75 % stream + big jobs", Hosts: hosts, Slots: slotsEach, Seed: 1,
		Jobs: func(hosts, total int, d *engine.Dice) []job {
			return stream(hosts, total, 0.75, 120*time.Second, 10, d)
		},
	}
	papers := share("half-cluster jobs, release-all", halves, 0.5)
	papers.Policy = stealer.Policy{Kind: stealer.ReleaseAll}
	papers.Until = 60 * time.Second
	all = append(all, mix, papers)
	return slices.Clip(all)
}
