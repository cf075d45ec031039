package workflow

import (
	"fmt"
	"strconv"
	"time"
)

// Measure is the properties of a graph before a run.
type Measure struct {
	Tasks int
	Edges int
	Named int // edges from names in the file; the others come from data
	// Levels counts tasks per level: a task's level is the greatest level of its parents
	// plus 1.
	Levels   []int
	Width    int           // most tasks of a level
	Work     time.Duration // sum of all run times, each times its slots
	Critical time.Duration // the longest chain
	Chain    []int32       // the tasks of the longest chain, from first to last
	Timed    bool          // every task has a run time; else chains are measured in tasks
	Bytes    Volume
}

// Volume is the bytes and the number of files by role. Unknown sizes count as 0.
type Volume struct {
	// Initial is written by no task, Between is read by another task, Final by none.
	Initial, Between, Final                int64
	InitialFiles, BetweenFiles, FinalFiles int
	Largest                                int64
	Unknown                                int // files without a size
}

// Total is all bytes.
func (v Volume) Total() int64 { return v.Initial + v.Between + v.Final }

// Files is the number of all files.
func (v Volume) Files() int { return v.InitialFiles + v.BetweenFiles + v.FinalFiles }

// LevelsOf is the level of every task, from 0.
func (g *Graph) LevelsOf() []int32 {
	level := make([]int32, len(g.Tasks))
	for _, t := range g.Order() {
		for _, p := range g.Tasks[t].Parents {
			level[t] = max(level[t], level[p]+1)
		}
	}
	return level
}

// Order is the tasks in an order of possible execution; of several ready tasks, the task
// that became ready first goes first.
func (g *Graph) Order() []int32 {
	start, list := g.Children()
	waits := make([]int32, len(g.Tasks))
	order := make([]int32, 0, len(g.Tasks))
	for i := range g.Tasks {
		if waits[i] = int32(len(g.Tasks[i].Parents)); waits[i] == 0 {
			order = append(order, int32(i))
		}
	}
	for at := 0; at < len(order); at++ {
		t := order[at]
		for _, c := range list[start[t]:start[t+1]] {
			if waits[c]--; waits[c] == 0 {
				order = append(order, c)
			}
		}
	}
	if len(order) != len(g.Tasks) {
		panic(fmt.Sprintf("workflow: a graph with a cycle was returned: %d of %d tasks can start", len(order), len(g.Tasks)))
	}
	return order
}

// Measure measures the graph.
func (g *Graph) Measure() Measure {
	m := Measure{Tasks: len(g.Tasks), Timed: true}
	for _, l := range g.LevelsOf() {
		for int(l) >= len(m.Levels) {
			m.Levels = append(m.Levels, 0)
		}
		m.Levels[l]++
		m.Width = max(m.Width, m.Levels[l])
	}
	for i := range g.Tasks {
		t := &g.Tasks[i]
		m.Edges += len(t.Parents)
		m.Named += len(t.After)
		if t.Cost == 0 && !g.Replay {
			m.Timed = false
		}
		m.Work = addTime(m.Work, timesSlots(t.Cost, t.Need.slots()))
	}
	m.chain(g)
	m.Bytes = g.volume()
	return m
}

// chain finds the critical path: of the longest chains, the chain that ends in and goes
// through the earliest tasks.
func (m *Measure) chain(g *Graph) {
	end := make([]time.Duration, len(g.Tasks))
	from := make([]int32, len(g.Tasks))
	last := int32(-1)
	for _, t := range g.Order() {
		cost := g.Tasks[t].Cost
		if !m.Timed {
			cost = 1
		}
		from[t] = -1
		var begin time.Duration
		for _, p := range g.Tasks[t].Parents {
			if from[t] < 0 || end[p] > begin {
				begin, from[t] = end[p], p
			}
		}
		end[t] = addTime(begin, cost)
		if last < 0 || end[t] > end[last] {
			last = t
		}
	}
	for t := last; t >= 0; t = from[t] {
		m.Chain = append(m.Chain, t)
		m.Critical = addTime(m.Critical, g.Tasks[t].Cost)
	}
	for i, k := 0, len(m.Chain)-1; i < k; i, k = i+1, k-1 {
		m.Chain[i], m.Chain[k] = m.Chain[k], m.Chain[i]
	}
}

// Bound is the least time of the graph on so many slots, under any schedule: the critical
// path, or the work spread evenly.
func (m *Measure) Bound(slots int) time.Duration {
	if slots < 1 {
		return m.Critical
	}
	return max(m.Critical, (m.Work+time.Duration(slots)-1)/time.Duration(slots))
}

func (g *Graph) volume() Volume {
	var v Volume
	start, _ := g.Readers()
	for i := range g.Files {
		f := &g.Files[i]
		size := f.Size
		if size < 0 {
			size = 0
			v.Unknown++
		}
		v.Largest = max(v.Largest, size)
		switch {
		case f.Writer < 0:
			v.Initial, v.InitialFiles = addSize(v.Initial, size), v.InitialFiles+1
		case start[i] < start[i+1]:
			v.Between, v.BetweenFiles = addSize(v.Between, size), v.BetweenFiles+1
		default:
			v.Final, v.FinalFiles = addSize(v.Final, size), v.FinalFiles+1
		}
	}
	return v
}

// The sums of hostile files stop at a maximum and do not wrap around.
const (
	timeSumMax = time.Duration(1) << 62
	sizeSumMax = int64(1) << 60 // a sum of three still fits
)

func addTime(a, b time.Duration) time.Duration {
	if a > timeSumMax-b {
		return timeSumMax
	}
	return a + b
}

func addSize(a, b int64) int64 { return min(a+b, sizeSumMax) }

func timesSlots(d time.Duration, cpus int32) time.Duration {
	n := time.Duration(max(cpus, 1))
	if d > timeSumMax/n {
		return timeSumMax
	}
	return d * n
}

// Bytes writes a size for people: 812 B, 4.2 MB, 75 GB.
func Bytes(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n), 0
	for f >= 999.5 && unit < 6 {
		f, unit = f/1000, unit+1
	}
	digits := 0
	if f < 10 {
		digits = 1
	}
	return strconv.FormatFloat(f, 'f', digits, 64) + " " + " kMGTPE"[unit:unit+1] + "B"
}
