package pool

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
)

// queued is the wait of an allocation in the queue of these comparisons, and the start.
const queued = 22 * time.Second

// ruleSeeds is the number of traces that are drawn beside the one with round figures.
const ruleSeeds = 12

// steps is the difference that is none: the world has steps of a quarter of a second, and the
// rules of others act in the step of their look.
const steps = 0.005

// side is one side of a comparison.
type side struct {
	what  string
	idle  time.Duration // of the pool
	rule  Rule
	fixed int
}

// judged has the other rules beside the pool with a time without work. HyperQueue's and Dask's
// rules have their defaults, or the pool's time without work before an allocation ends.
var judged = []struct {
	idle   time.Duration
	theirs side
	// Some rules keep nodes without work until the next burst, whose nodes wait in no queue:
	// in the mean, the last burst of the pool may come later by its wait in the queue.
	keeps bool
	nodes float64 // node time beyond the other rule's that is known
}{
	{idle: 15 * time.Second, theirs: side{what: "HyperQueue 8, 15s", rule: HyperQueue{8, 15 * time.Second}}},
	{idle: 2 * time.Second, theirs: side{what: "Dask, 2s", rule: Dask{}}},
	{idle: 3 * time.Minute, theirs: side{what: "HyperQueue 1, 5m", rule: HyperQueue{1, 5 * time.Minute}}},
	{idle: 5 * time.Minute, theirs: side{what: "HyperQueue 1, 5m", rule: HyperQueue{1, 5 * time.Minute}}, nodes: 0.15},
	{idle: 15 * time.Second, theirs: side{what: "HyperQueue 1, 5m", rule: HyperQueue{1, 5 * time.Minute}}, keeps: true},
	{idle: 15 * time.Second, theirs: side{what: "fixed 4", fixed: 4}, keeps: true}, // a gang has 16 slots
	{idle: 15 * time.Second, theirs: side{what: "fixed 8", fixed: 8}, keeps: true},
}

// TestRules compares the makespan and the node time on three traces with the rules of other
// systems, and with allocations that a person submits at the first moment and that stay until
// the end. A difference counts if the mean over drawn traces is larger than two standard errors
// of the mean. The figures of a line are those of the trace with round figures, with the bill of
// its node time; the differences are those of the drawn traces.
func TestRules(t *testing.T) {
	for _, name := range []string{"bursts", "long tail", "gangs"} {
		played := map[string][]*Result{}
		of := func(s side) []*Result {
			if played[s.what] == nil {
				played[s.what] = play(t, name, s)
			}
			return played[s.what]
		}
		for _, c := range judged {
			ours, theirs := of(side{what: "filch, " + filch.ShortTime(c.idle), idle: c.idle}), of(c.theirs)
			span := differs(ours, theirs, func(r *Result) time.Duration { return r.Makespan })
			nodes := differs(ours, theirs, func(r *Result) time.Duration { return r.NodeTime })
			answer := differs(ours, theirs, (*Result).Response)
			t.Logf("figure: %-9s filch, %-3s beside %-17s makespan %s, node time %s, response %s", name, filch.ShortTime(c.idle), c.theirs.what, span, nodes, answer)
			late := 0.0
			if c.keeps {
				late = queued.Seconds() / mean(theirs, func(r *Result) time.Duration { return r.Makespan }).Seconds()
			}
			if span.behind(late) {
				t.Errorf("%s: makespan %s beside %s", name, span, c.theirs.what)
			}
			if nodes.behind(c.nodes) {
				t.Errorf("%s: node time %s beside %s", name, nodes, c.theirs.what)
			}
			if c.nodes > 0 && !answer.ahead() { // what the node time is paid for
				t.Errorf("%s: response %s beside %s", name, answer, c.theirs.what)
			}
		}
	}
}

// play runs one side on all traces of a name.
func play(t *testing.T, name string, s side) (all []*Result) {
	t.Helper()
	for seed := range uint64(ruleSeeds + 1) {
		p := Plan{
			Spec: spec(8, max(s.idle, time.Second)), Slots: 4, Wall: time.Hour, Hosts: 3, Most: 4 * time.Hour, Delay: queued - 2*time.Second, Join: 2 * time.Second,
			Work: trace(name, seed), Rule: s.rule, Fixed: s.fixed,
		}
		if seed > 0 {
			p.Delay, p.Jitter = p.Delay/2, p.Delay
		}
		w := New(p, seed)
		all = append(all, w.Run())
		for _, b := range w.Broken {
			t.Errorf("%s, %s, seed %d: %s", name, s.what, seed, b)
		}
	}
	r := all[0]
	t.Logf("figure: %-9s %-17s makespan %s, node-hours %.2f, response %s, %d allocations: %s",
		name, s.what, r.Makespan.Round(time.Second), r.NodeTime.Hours(), r.Response().Round(time.Second), r.Submitted, &r.Bill)
	return all
}

// difference is a mean of drawn traces, as a ratio, and two standard errors of the mean.
type difference struct{ mean, spread float64 }

func (d difference) behind(known float64) bool { return d.mean > known+max(d.spread, steps) }

func (d difference) ahead() bool { return d.mean < -max(d.spread, steps) }

func (d difference) String() string {
	word := "equal"
	if d.ahead() {
		word = "ahead"
	} else if d.behind(0) {
		word = "behind"
	}
	return fmt.Sprintf("%+.1f ± %.1f %% (%s)", 100*d.mean, 100*d.spread, word)
}

// differs compares trace by trace; the trace with round figures does not count.
func differs(ours, theirs []*Result, of func(*Result) time.Duration) (d difference) {
	sum, squares, n := 0.0, 0.0, float64(len(ours)-1)
	for i := 1; i < len(ours); i++ {
		x := of(ours[i]).Seconds()/of(theirs[i]).Seconds() - 1
		sum, squares = sum+x, squares+x*x
	}
	d.mean = sum / n
	d.spread = 2 * math.Sqrt(max(squares/n-d.mean*d.mean, 0)/(n-1))
	return d
}

func mean(all []*Result, of func(*Result) time.Duration) (sum time.Duration) {
	for _, r := range all[1:] {
		sum += of(r)
	}
	return sum / time.Duration(len(all)-1)
}

// trace is the work of a comparison. Seed 0 has round figures; others draw the sizes, the
// lengths and the times between works, from half to one and a half of these.
func trace(name string, seed uint64) (all []Work) {
	rnd := rand.New(rand.NewPCG(seed, 2))
	about := func(x float64) float64 {
		if seed == 0 {
			return x
		}
		return x * (0.5 + rnd.Float64())
	}
	long := func(d time.Duration) time.Duration {
		return time.Duration(about(d.Seconds()) * float64(time.Second)).Round(tick)
	}
	tasks := func(n int) int { return int(about(float64(n))) }
	at := 10 * time.Second // the pool has been defined
	if seed > 0 {
		at += long(4 * time.Second) // not at a look
	}
	if name == "long tail" {
		return []Work{{At: at, Tasks: tasks(1500), Length: long(2 * time.Second)}, {At: at, Tasks: tasks(12), Length: long(5 * time.Minute)}}
	}
	for range 6 {
		if name == "bursts" {
			all = append(all, Work{At: at, Tasks: tasks(800), Length: long(2 * time.Second)})
			at += long(4 * time.Minute)
			continue
		}
		gang := int32(16)
		if seed > 0 {
			gang = 4 + 4*rnd.Int32N(4)
		}
		all = append(all, Work{At: at, Gang: gang, Length: long(time.Minute)}, Work{At: at, Tasks: tasks(100), Length: long(3 * time.Second)})
		at += long(3 * time.Minute)
	}
	return all
}
