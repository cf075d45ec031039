package instance

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Ensemble is a bag of gangs of half the cluster each beside a bag of small tasks, without
// faults, held against an ideal central queue with backfill.
type Ensemble struct {
	Hosts, Slots int
	Gangs, Tasks int
	GangRuns     time.Duration
	TaskRuns     time.Duration
	Seed         uint64
}

// EnsembleResult is what became of an [Ensemble].
type EnsembleResult struct {
	Ensemble
	Makespan time.Duration
	Ideal    time.Duration // the makespan of the ideal queue
	Started  int           // gangs
	Ended    int           // tasks that ended well
	Filled   int           // starts in held slots
	Halted   int           // of those, stopped
	Longest  time.Duration // between the starts of two gangs that follow each other
	Events   uint64
	Messages uint64
	Broken   []engine.Violation
}

// ensembleMost bounds a run, in times of the ideal.
const ensembleMost = 3

// Run runs the ensemble to its end.
func (e Ensemble) Run() *EnsembleResult {
	total := e.Hosts * e.Slots
	var ds []demand
	for range e.Gangs {
		ds = append(ds, demand{Submit: time.Millisecond, Slots: total / 2, Runs: e.GangRuns})
	}
	for range e.Tasks {
		ds = append(ds, demand{Submit: time.Millisecond, Slots: 1, Runs: e.TaskRuns})
	}
	r := &EnsembleResult{Ensemble: e, Ideal: idealOf(total, ds, true).Makespan}
	w := NewWorld(Options{Seed: e.Seed, Hosts: e.Hosts, Slots: int32(e.Slots), Links: engine.Quiet(), Plain: true})
	add := func(name string, host int, count int, runs time.Duration, gang record.Gang) *bag {
		b := &bag{index: len(w.bags), host: int32(host), submit: time.Millisecond, shortest: runs, longest: runs}
		s := &b.request
		s.Name, s.Follow, s.Total = name, true, int32(count)
		s.Spec = record.Spec{Body: taskBody(b.index), Each: filch.Room{Slots: 1}, Gang: gang}
		b.grow(s.Total)
		w.bags = append(w.bags, b)
		w.At(b.submit, func() { w.submitBag(b) })
		return b
	}
	gangs := add("gangs", 0, e.Gangs, e.GangRuns, record.Gang{Ranks: int32(total / 2)})
	tasks := add("small", e.Hosts-1, e.Tasks, e.TaskRuns, record.Gang{})
	w.RunUntil(ensembleMost*r.Ideal, func() bool { return gangs.finished && tasks.finished || len(w.Broken()) > 0 })
	r.measure(w, tasks)
	return r
}

func (r *EnsembleResult) measure(w *World, tasks *bag) {
	r.Makespan = w.Now()
	var starts []time.Duration
	for _, g := range w.gangs {
		a := g.job.last()
		if a == nil || a.firstAt < 0 {
			continue
		}
		r.Started++
		starts = append(starts, a.firstAt)
	}
	slices.Sort(starts)
	for i, last := 0, time.Duration(0); i < len(starts); i++ {
		r.Longest, last = max(r.Longest, starts[i]-last), starts[i]
	}
	for _, n := range tasks.oks {
		r.Ended += int(min(n, 1))
	}
	r.Filled, r.Halted = w.fills.filled, w.fills.halted
	r.Events, r.Messages, r.Broken = w.Steps(), w.stats.Messages, w.Broken()
}

// Ratio is the makespan against the ideal.
func (r *EnsembleResult) Ratio() float64 { return float64(r.Makespan) / float64(r.Ideal) }

// EnsembleRatioMax is the most that the makespan may be of the ideal.
const EnsembleRatioMax = 1.03

// ensembleVain bounds the starts in held slots that were stopped: one of so many tasks.
const ensembleVain = 10

// Print writes the figure.
func (r *EnsembleResult) Print(out io.Writer) {
	fmt.Fprintf(out, "%d gangs of half of %d nodes x %d slots, %v each, beside %d tasks of %v: makespan %v, ideal %v, ratio %.3f; %d gangs and %d tasks ended; %d starts in held slots, %d stopped; longest pause between gangs %v; %d events, %d messages\n",
		r.Gangs, r.Hosts, r.Slots, r.GangRuns, r.Tasks, r.TaskRuns, r.Makespan.Round(time.Millisecond), r.Ideal.Round(time.Millisecond), r.Ratio(),
		r.Started, r.Ended, r.Filled, r.Halted, r.Longest.Round(time.Millisecond), r.Events, r.Messages)
}

// Short lists what the ensemble falls short of.
func (r *EnsembleResult) Short() (lines []string) {
	for _, v := range r.Broken {
		lines = append(lines, "ensemble: "+v.String())
	}
	if r.Started < r.Gangs || r.Ended < r.Tasks {
		lines = append(lines, fmt.Sprintf("ensemble: %d of %d gangs and %d of %d tasks ended", r.Started, r.Gangs, r.Ended, r.Tasks))
	}
	if r.Ratio() > EnsembleRatioMax {
		lines = append(lines, fmt.Sprintf("ensemble: the makespan is %.3f of the ideal, at most %.2f", r.Ratio(), EnsembleRatioMax))
	}
	if r.Halted*ensembleVain > r.Tasks {
		lines = append(lines, fmt.Sprintf("ensemble: %d starts of %d tasks in held slots were in vain, at most one of %d may be", r.Halted, r.Tasks, ensembleVain))
	}
	return lines
}
