package pool

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/filch-hpc/filch/pool"
)

func spec(maxAllocs int, idle time.Duration) pool.Spec {
	return pool.Spec{Each: 4, Name: "p", System: "slurm", Max: maxAllocs, Idle: idle, Within: time.Minute, Grow: 16}
}

// bursts is the plan of three bursts with a minute between their ends and the next.
func bursts() Plan {
	return Plan{
		Spec: spec(4, 5*time.Second), Slots: 4, Wall: time.Hour, Hosts: 3, Most: time.Hour, Delay: 2 * time.Second, Join: 2 * time.Second,
		Work: []Work{
			{At: 5 * time.Second, Tasks: 400, Length: time.Second},
			{At: 100 * time.Second, Tasks: 400, Length: time.Second},
			{At: 200 * time.Second, Tasks: 400, Length: time.Second},
		},
	}
}

// TestBursts: an allocation is asked for within 5 s of a burst, given back within 10 s of
// its last task, and idle for at most a tenth of its time and one --idle a node and burst.
func TestBursts(t *testing.T) {
	w := New(bursts(), 1)
	r := w.Run()
	for _, b := range w.Broken {
		t.Error(b)
	}
	for i, d := range r.FirstAsk {
		if d < 0 || d > 5*time.Second {
			t.Errorf("burst %d: the first submission after %s", i, d)
		}
	}
	idle := r.NodeTime - r.Worked
	most := r.NodeTime/10 + time.Duration(r.Submitted)*w.Spec.Idle
	if idle > most {
		t.Errorf("nodes were idle for %s of %s, at most %s is right", idle, r.NodeTime, most)
	}
	t.Logf("figure: makespan %s, %d allocations, nodes %s, idle %s", r.Makespan, r.Submitted, r.NodeTime, idle)
}

// TestGangFromAnEmptyPool: a gang of three nodes.
func TestGangFromAnEmptyPool(t *testing.T) {
	p := bursts()
	p.Work = []Work{{At: time.Second, Gang: 12, Length: 20 * time.Second}}
	w := New(p, 1)
	r := w.Run()
	for _, b := range w.Broken {
		t.Error(b)
	}
	if r.Submitted != 3 {
		t.Errorf("%d allocations for a gang of three nodes", r.Submitted)
	}
}

// successorGap bounds the time without a node between two allocations.
const successorGap = 5 * time.Second

// TestSuccessor: a pool of one allocation at a time, whose work is longer than the allocation,
// asks for the next before the end of the last, so that a node is there at all times, and
// the queue is in no moment without an instance.
func TestSuccessor(t *testing.T) {
	if g := gap(); g > successorGap {
		t.Errorf("no node was there for %s", g)
	}
}

// gap is the longest time without a node while work waits.
func gap() (longest time.Duration) {
	p := bursts()
	p.Spec.Max, p.Wall, p.Delay = 1, 4*time.Minute, 20*time.Second
	p.Work = []Work{{At: time.Second, Tasks: 4 * 900, Length: time.Second}}
	w := New(p, 1)
	w.Run()
	if len(w.Broken) > 0 {
		return time.Hour
	}
	last := time.Duration(0)
	for _, j := range w.jobs {
		if j.node != nil && last > 0 {
			longest = max(longest, j.node.up-last)
		}
		last = max(last, j.over)
	}
	return longest
}

// TestRefusals: a batch system that refuses everything gets a bounded number of
// submissions, and the pool says why it pauses.
func TestRefusals(t *testing.T) {
	rec := refused()
	if rec.Paused == "" || rec.Next > 40 || rec.Totals.Failed == 0 {
		t.Errorf("paused %q after %d submissions, %d failed", rec.Paused, rec.Next-1, rec.Totals.Failed)
	}
	t.Logf("paused: %s", rec.Paused)
}

// refused is the record after half an hour of refusals.
func refused() *pool.Pool {
	p := bursts()
	p.Work, p.Most, p.Refuses = p.Work[:1], 30*time.Minute, true
	w := New(p, 1)
	w.Run()
	return w.read()
}

// TestSeeds: under deaths of holders, changes by users, refusals, outages, lost jobs, early
// ends and cancels by others, every task ends, no submission is made twice, and the batch
// system has no job of the pool at the end.
func TestSeeds(t *testing.T) {
	seeds := 40
	if s := os.Getenv("FILCH_SEEDS"); s != "" {
		seeds, _ = strconv.Atoi(s)
	}
	for seed := range seeds {
		for _, line := range perilous(uint64(seed)).Broken {
			t.Errorf("seed %d: %s", seed, line)
		}
		if t.Failed() {
			break
		}
	}
}

func perilous(seed uint64) *World {
	p := bursts()
	p.Perils, p.Jitter, p.Most, p.Wall = true, 20*time.Second, 4*time.Hour, 90*time.Second
	p.Work = append(p.Work, Work{At: 210 * time.Second, Gang: 8, Length: 10 * time.Second}, Work{At: 400 * time.Second, Tasks: 4, Length: 10 * time.Second})
	w := New(p, seed)
	w.unpause = true
	w.Run()
	return w
}
