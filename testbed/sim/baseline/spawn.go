package baseline

import (
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Tree is a task that spawns others: it works, then runs each stage, a list of tasks of which all end
// before the next stage begins.
type Tree struct {
	Work   time.Duration
	Stages [][]*Tree
}

// Total is the work of all tasks, and how many there are.
func (t *Tree) Total() (work time.Duration, tasks int) {
	work, tasks = t.Work, 1
	for _, s := range t.Stages {
		for _, k := range s {
			w, n := k.Total()
			work, tasks = work+w, tasks+n
		}
	}
	return work, tasks
}

// Wool is the work stealing of WOOL on a mesh of cores. A worker spawns into its own queue, and runs the
// newest task; thieves take the oldest. A worker that waits for a stolen task steals from the thief
// (leapfrogging). Idle workers choose victims by a rule (DVS, 4).
type Wool struct {
	DVS   bool          // the ordered victims of DVS; false: a random victim, then the next ones ("semi-random")
	Spawn time.Duration // of a task
	Steal time.Duration // of an attempt
}

// The two runtimes of the paper. The costs are those of a runtime in memory; the paper has none.
var (
	WoolLF  = Wool{Spawn: 20 * time.Nanosecond, Steal: 500 * time.Nanosecond}
	WoolDVS = Wool{DVS: true, Spawn: 20 * time.Nanosecond, Steal: 500 * time.Nanosecond}
)

// Grown is the result of a tree.
type Grown struct {
	Makespan time.Duration
	Speedup  float64
	Attempts int // steals that found no task
	Steals   int // the others
}

// spawned is a task in a queue.
type spawned struct {
	tree  *Tree
	thief *worker // nil: not stolen
	done  bool
}

// worker is a core.
type worker struct {
	*forest
	index   int
	queue   []*spawned // oldest first
	victims []*worker
	last    int // victim
}

// forest is a run.
type forest struct {
	*engine.Engine
	rule    Wool
	dice    *engine.Dice
	workers []*worker
	over    bool
	result  Grown
}

// Run runs a tree on an allotment; the tree starts at its first core.
func (w Wool) Run(tree *Tree, allotment []Core, seed uint64) (Grown, error) {
	f := &forest{Engine: engine.New(engine.Options{Seed: seed, Hosts: 1, Steps: eventsMax}), rule: w}
	f.dice = f.Dice(1)
	for i := range allotment {
		f.workers = append(f.workers, &worker{forest: f, index: i})
	}
	for i, k := range f.workers {
		for _, v := range Victims(allotment, i) {
			k.victims = append(k.victims, f.workers[v])
		}
		if i > 0 {
			f.At(0, k.idle)
		}
	}
	f.At(0, func() { f.workers[0].run(tree, func() { f.over = true }) })
	if !f.RunUntil(filch.Never, func() bool { return f.over }) {
		return Grown{}, fmt.Errorf("cannot run a tree on %d cores: %v", len(allotment), f.Broken())
	}
	work, _ := tree.Total()
	f.result.Makespan = f.Now()
	f.result.Speedup = float64(work) / float64(f.Now())
	return f.result, nil
}

// run runs a task, then calls then.
func (k *worker) run(t *Tree, then func()) {
	k.After(t.Work, func() { k.stage(t.Stages, then) })
}

// stage spawns all tasks of a stage but the last, runs this, and waits for the others.
func (k *worker) stage(stages [][]*Tree, then func()) {
	if len(stages) == 0 {
		then()
		return
	}
	list := stages[0]
	jobs := make([]*spawned, len(list)-1)
	for i := range jobs {
		jobs[i] = &spawned{tree: list[i]}
		k.queue = append(k.queue, jobs[i])
	}
	k.After(k.rule.Spawn*time.Duration(len(jobs)), func() {
		k.run(list[len(jobs)], func() { k.sync(jobs, func() { k.stage(stages[1:], then) }) })
	})
}

// sync ends the newest of some tasks: here if no thief has it; else the worker leaps.
func (k *worker) sync(jobs []*spawned, then func()) {
	if len(jobs) == 0 {
		then()
		return
	}
	j := jobs[len(jobs)-1]
	next := func() { k.sync(jobs[:len(jobs)-1], then) }
	switch {
	case j.done:
		next()
	case j.thief == nil:
		k.queue = k.queue[:len(k.queue)-1]
		k.run(j.tree, next)
	default:
		k.After(k.rule.Steal, func() {
			if got := k.take(j.thief); !j.done && got != nil {
				k.run(got.tree, func() {
					got.done = true
					k.sync(jobs, then)
				})
				return
			}
			k.sync(jobs, then)
		})
	}
}

// take steals the oldest task of a victim.
func (k *worker) take(victim *worker) *spawned {
	if len(victim.queue) == 0 {
		k.result.Attempts++
		return nil
	}
	j := victim.queue[0]
	victim.queue = victim.queue[1:]
	j.thief = k
	k.result.Steals++
	return j
}

// idle tries victims until one has a task.
func (k *worker) idle() {
	if k.over {
		return
	}
	k.After(k.rule.Steal, func() {
		got := k.take(k.victim())
		if got == nil {
			k.idle()
			return
		}
		k.last = -1
		k.run(got.tree, func() {
			got.done = true
			k.idle()
		})
	})
}

// victim is the next victim of a spell of idleness.
func (k *worker) victim() *worker {
	if k.rule.DVS {
		k.last = (k.last + 1) % len(k.victims)
		return k.victims[k.last]
	}
	if n := len(k.workers); k.last < 0 {
		k.last = k.dice.N(n)
	} else {
		k.last = (k.last + 1) % n
	}
	if k.last == k.index {
		k.last = (k.last + 1) % len(k.workers)
	}
	return k.workers[k.last]
}

// Core is a place on the mesh.
type Core struct{ X, Y int }

func (c Core) hops(d Core) int { return max(c.X-d.X, d.X-c.X) + max(c.Y-d.Y, d.Y-c.Y) }

// Allotment is the n cores of a mesh that are nearest to the source, the source first (DVS, figure 4).
func Allotment(width, height, source, n int) []Core {
	var all []Core
	for i := range width * height {
		all = append(all, Core{i % width, i / width})
	}
	at := all[source]
	slices.SortStableFunc(all, func(a, b Core) int { return a.hops(at) - b.hops(at) })
	return all[:n]
}

// Victims are the victims of a core of an allotment in their order (DVS, definitions 1 and 2).
func Victims(allotment []Core, self int) (list []int) {
	s, me, far := allotment[0], allotment[self], 0
	for _, c := range allotment {
		far = max(far, c.hops(s))
	}
	isZ := func(c Core) bool { return far > 1 && c.hops(s) == far }
	isX := func(c Core) bool {
		near := 0
		for _, d := range allotment {
			if c.hops(d) == 1 && d.hops(s) == c.hops(s)-1 {
				near++
			}
		}
		return !isZ(c) && near == 1
	}
	for i, c := range allotment {
		second := c.hops(me) == 2 && (isZ(me) && far > 2 && isZ(c) || isX(me) && me.hops(s) == 1 && isX(c))
		if c.hops(me) == 1 || second {
			list = append(list, i)
		}
	}
	sign := -1
	if isX(me) || self == 0 {
		sign = 1
	}
	slices.SortStableFunc(list, func(a, b int) int { return sign * (allotment[a].hops(s) - allotment[b].hops(s)) })
	return list
}

// unit is the time of an operation.
const unit = 10 * time.Nanosecond

// Queens is nQueens of BOTS: tasks down to a row, and the search below counted in a leaf.
func Queens(n, cut int) *Tree { return queens(n, cut, 0, 0, 0, 0) }

func queens(n, cut, row int, columns, left, right uint32) *Tree {
	if row == cut {
		return &Tree{Work: time.Duration(search(n, columns, left, right)) * unit}
	}
	t := &Tree{Work: time.Duration(n) * unit}
	var list []*Tree
	for free := ^(columns | left | right) & (1<<n - 1); free > 0; free &= free - 1 {
		bit := free & -free
		list = append(list, queens(n, cut, row+1, columns|bit, (left|bit)<<1, (right|bit)>>1))
	}
	if len(list) > 0 {
		t.Stages = [][]*Tree{list}
	}
	return t
}

// search counts the places that a search below some rows looks at.
func search(n int, columns, left, right uint32) (count int) {
	free := ^(columns | left | right) & (1<<n - 1)
	count = n + bits.OnesCount32(free)
	for ; free > 0; free &= free - 1 {
		bit := free & -free
		count += search(n, columns|bit, (left|bit)<<1, (right|bit)>>1)
	}
	return count
}

// Fib is the recursive numbers of Fibonacci: a task for each call above 2.
func Fib(n int) *Tree {
	t := &Tree{Work: 2 * unit}
	if n > 2 {
		t.Stages = [][]*Tree{{Fib(n - 1), Fib(n - 2)}}
	}
	return t
}

// Strassen is seven products of quarters, down to a depth, with sums before and after.
func Strassen(n, depth int) *Tree {
	if depth == 0 {
		return &Tree{Work: time.Duration(n*n*n) * time.Nanosecond}
	}
	t := &Tree{Work: time.Duration(10*n*n/4) * time.Nanosecond}
	var list []*Tree
	for range 7 {
		list = append(list, Strassen(n/2, depth-1))
	}
	t.Stages = [][]*Tree{list, {{Work: time.Duration(8*n*n/4) * time.Nanosecond}}}
	return t
}

// Sort is cilksort of BOTS: four sorts of quarters, two merges, a merge; sections that all begin at
// the worker that has sorted.
func Sort(n, cut int) *Tree {
	if n <= cut {
		return &Tree{Work: time.Duration(n*bits.Len(uint(n))) * time.Nanosecond}
	}
	var list []*Tree
	for range 4 {
		list = append(list, Sort(n/4, cut))
	}
	return &Tree{Work: unit, Stages: [][]*Tree{list, {merge(n/2, cut), merge(n/2, cut)}, {merge(n, cut)}}}
}

func merge(n, cut int) *Tree {
	if n <= cut {
		return &Tree{Work: time.Duration(n) * time.Nanosecond}
	}
	return &Tree{Work: unit, Stages: [][]*Tree{{merge(n/2, cut), merge(n-n/2, cut)}}}
}
