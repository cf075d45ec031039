package papers

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/testbed/sim/baseline"
	"github.com/filch-hpc/filch/testbed/sim/flat"
	"github.com/filch-hpc/filch/testbed/sim/makespan"
)

// flatOptions are a bag on the flat model; tasks is by slot.
func flatOptions(a *args) flat.Options {
	o := flat.Options{
		Nodes: a.number("nodes"), Slots: a.number("slots"), Length: a.time("length"), Vary: a.part("vary", "0"), Seed: a.seed(),
	}
	if all := a.number("all", "0"); all > 0 { // tasks of the bag, not of a slot
		o.Tasks = int64(all)
	} else {
		o.Tasks = int64(a.number("tasks")) * int64(o.Nodes) * int64(o.Slots)
	}
	p, err := policy.Read("mlb:victims=" + a.text("victims", "lifeline"))
	a.note("victims", err)
	o.Victims = p.Victims
	o.Spread, err = policy.ParseSpreading(a.text("spread", "auto"))
	a.note("spread", err)
	return o
}

func runFlat(a *args) (Result, error) {
	o := flatOptions(a)
	if a.err != nil {
		return Result{}, a.err
	}
	before := computed()
	r, err := flat.Run(o)
	if err != nil {
		return Result{}, err
	}
	took := computed() - before
	nodes, tasks := float64(o.Nodes), float64(o.Tasks)
	return Result{Numbers: map[string]float64{
		"makespan s": r.Makespan.Seconds(), "overhead ms": 1000 * (r.Makespan - o.Ideal()).Seconds(), "efficiency %": 100 * float64(o.Ideal()) / float64(r.Makespan),
		"tasks/s": tasks / r.Makespan.Seconds(), "messages/node": float64(r.Sent()) / nodes, "messages/task": float64(r.Sent()) / tasks, "variation": r.Variation,
		"steals": float64(r.Won), "first steal ms": 1000 * r.First.Seconds(), "steal delay ms": 1000 * r.Delay.Seconds(),
		"latency ms": 1000 * (r.Makespan - o.Length).Seconds(), "B/node": float64(r.Bytes) / nodes, "us/task": 1e6 * took.Seconds() / tasks, "tasks": tasks,
	}}, nil
}

// computed is the CPU time of the process.
func computed() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// pointsMax bounds the points of a curve.
const pointsMax = 200

// runCurves is a bag on the flat model over time: the part of the tasks that ended, the part of the slots
// that ran, and how many of the tasks had started so long after the submission.
func runCurves(a *args) (Result, error) {
	o := flatOptions(a)
	if a.err != nil {
		return Result{}, a.err
	}
	var done, busy, started []Point
	var ends, starts int64
	slots := float64(o.Nodes * o.Slots)
	o.Sees = func(now time.Duration, s, e int64) {
		starts, ends = starts+s, ends+e
		x := now.Seconds()
		if e > 0 {
			done = append(done, Point{x, float64(ends) / float64(o.Tasks)})
		} else {
			started = append(started, Point{1000 * x, float64(starts) / float64(o.Tasks)})
		}
		busy = append(busy, Point{x, float64(starts-ends) / slots})
	}
	r, err := flat.Run(o)
	if err != nil {
		return Result{}, err
	}
	at := func(part float64) float64 {
		i := slices.IndexFunc(started, func(p Point) bool { return p.Y >= part })
		return started[i].X
	}
	return Result{
		Numbers: map[string]float64{"makespan s": r.Makespan.Seconds(), "half started ms": at(0.5), "99 % started ms": at(0.99), "all started ms": at(1)},
		Curves:  map[string][]Point{"done": thin(done), "busy": thin(busy), "started": thin(started)},
	}, nil
}

// thin keeps some of the points of a curve, the first and the last among them: the last of each equal part of
// the span.
func thin(list []Point) (kept []Point) {
	if len(list) <= pointsMax {
		return list
	}
	first, last := list[0].X, list[len(list)-1].X
	step := (last - first) / pointsMax
	for i, p := range list {
		if i == 0 || i == len(list)-1 || int((list[i+1].X-first)/step) > int((p.X-first)/step) {
			kept = append(kept, p)
		}
	}
	return kept
}

// find finds a named thing of a list.
func find[T any](key, name string, list []T, nameOf func(T) string) (T, error) {
	var names []string
	for _, x := range list {
		if nameOf(x) == name {
			return x, nil
		}
		names = append(names, nameOf(x))
	}
	var none T
	return none, fmt.Errorf("there is no %s %q: the names are %s", key, name, strings.Join(names, ", "))
}

// flatName is a name without blanks.
func flatName(name string) string {
	return strings.NewReplacer(", ", ",", " ", "-").Replace(name)
}

// runBag is a bag with the shipped cores or a baseline.
func runBag(a *args) (Result, error) {
	s, err := find("scheduler", a.text("scheduler"), baseline.Bags(), func(s baseline.Named) string { return flatName(s.Name) })
	a.note("scheduler", err)
	var b baseline.Bag
	nodes, slots, each := a.number("nodes"), a.number("slots"), a.number("tasks")
	if a.text("length") == "1ms-1s" {
		b = baseline.SubSecond(nodes, slots, each, a.seed())
	} else {
		b = baseline.Equal(nodes, slots, each, a.time("length"))
		b.Seed = a.seed()
	}
	b.Spread = a.text("begin", "node") == "all"
	if a.err != nil {
		return Result{}, a.err
	}
	r, err := s.Run(&b)
	if err != nil {
		return Result{}, err
	}
	return Result{Numbers: map[string]float64{
		"makespan s": r.Makespan.Seconds(), "efficiency %": 100 * r.Efficiency, "tasks/s": r.Rate, "messages/task": r.Messages,
		"messages/node": r.Messages * float64(slots*each), "variation": r.Variation,
	}}, nil
}

func runGangs(a *args) (Result, error) {
	s, err := find("scheduler", a.text("scheduler"), baseline.GangSchedulers(), func(s baseline.NamedGangs) string { return flatName(s.Name) })
	a.note("scheduler", err)
	nodes := a.number("nodes")
	g := baseline.Between(nodes, a.number("jobs"), a.number("low"), a.number("high"), a.time("runs"))
	if g.Seed = a.seed(); a.err != nil {
		return Result{}, a.err
	}
	r, err := s.Run(&g)
	if err != nil {
		return Result{}, err
	}
	took := Result{Numbers: map[string]float64{"jobs": float64(r.Jobs), "makespan s": r.Makespan.Seconds(), "jobs/s": r.Rate, "messages/job": r.Messages}}
	if r.Jobs == len(g.Sizes) {
		took.Numbers["efficiency %"], took.Numbers["makespan by ideal"] = 100*g.Efficiency(&r), float64(r.Makespan)/float64(g.Ideal())
	}
	return took, nil
}

// errAbsent is that there are no workflow files.
var errAbsent = errors.New("the workflow files are absent")

// runFlow is a workflow of a file with a rule, transfers taking no time; nodes run a task at a time.
func runFlow(a *args) (Result, error) {
	name, n, rule := a.text("workflow"), a.number("nodes"), a.text("rule")
	seed := a.seed()
	if a.err != nil {
		return Result{}, a.err
	}
	text, err := os.ReadFile(filepath.Join(a.data, "dax", name+".xml"))
	if errors.Is(err, os.ErrNotExist) {
		return Result{}, errAbsent
	}
	if err != nil {
		return Result{}, err
	}
	g, err := workflow.Load(bytes.NewReader(text), workflow.Options{Name: name + ".xml"})
	if err != nil {
		return Result{}, err
	}
	f := baseline.NewFlow(g, n, seed)
	took := func(d time.Duration) Result {
		return Result{Numbers: map[string]float64{"makespan s": d.Seconds(), "by the bound": float64(d) / float64(f.Bound()), "tasks/s": float64(len(g.Tasks)) / d.Seconds()}}
	}
	switch rule {
	case "bound":
		return took(f.Bound()), nil
	case "min-min":
		return took(f.List(true)), nil
	case "critical-path":
		return took(f.List(false)), nil
	case "adage-code", "adage-printed":
		r, err := map[string]baseline.Adage{"adage-code": baseline.AdageCode, "adage-printed": baseline.AdagePrinted}[rule].Run(f)
		return took(r.Makespan), err
	case "albatross":
		r, err := baseline.LateBinding.Run(f)
		return took(r.Makespan), err
	}
	p, err := policy.Read(strings.TrimPrefix(rule, "filch:"))
	if err != nil {
		return Result{}, err
	}
	all, err := makespan.Load(a.data)
	if err != nil {
		return Result{}, err
	}
	i := slices.IndexFunc(all, func(w makespan.Workflow) bool { return w.Name == name })
	if i < 0 || n%slotsOfHost != 0 {
		return Result{}, fmt.Errorf("cannot run %s on %d slots of hosts with %d", name, n, slotsOfHost)
	}
	const fast, mips = 1e13, 2 // bytes a second; times of files are for 1,000 MIPS
	w := makespan.Scaled(all[i:i+1], 1./mips, 1, "")[0]
	r, err := makespan.Run(&w, n/slotsOfHost, p, seed, fast)
	return took(r.Time), err
}

// slotsOfHost is the slots of a host in package makespan.
const slotsOfHost = 4

func runPile(a *args) (Result, error) {
	nodes, slots := a.number("nodes"), a.number("slots")
	var p baseline.Pile
	switch load := a.text("workload"); load {
	case "all-pairs":
		p = baseline.AllPairs(nodes, slots, a.number("files"), a.time("length", "100ms"))
	case "stacking":
		p = baseline.Stacking(nodes, slots, a.number("tasks"), a.part("locality"))
	default:
		return Result{}, fmt.Errorf("there is no workload %q: the names are all-pairs, stacking", load)
	}
	storages := map[string]baseline.Diffusion{"active": baseline.ActiveStorage, "diffusion": baseline.DataDiffusion, "parallel": baseline.ParallelFS}
	d, is := storages[a.text("storage")]
	if !is {
		a.note("storage", fmt.Errorf("the names are %s", strings.Join(slices.Sorted(maps.Keys(storages)), ", ")))
	}
	if p.Seed = a.seed(); a.err != nil {
		return Result{}, a.err
	}
	r, moved, err := d.Run(&p)
	if err != nil {
		return Result{}, err
	}
	return Result{Numbers: map[string]float64{"efficiency %": 100 * r.Efficiency, "task ms": 1000 * p.PerTask(r).Seconds(), "GB moved": float64(moved) / 1e9}}, nil
}

// trees are the spawn trees.
var trees = map[string]func() *baseline.Tree{
	"fib": func() *baseline.Tree { return baseline.Fib(22) }, "nqueens": func() *baseline.Tree { return baseline.Queens(12, 3) },
	"strassen": func() *baseline.Tree { return baseline.Strassen(512, 3) }, "sort": func() *baseline.Tree { return baseline.Sort(1<<20, 2048) },
}

func runTree(a *args) (Result, error) {
	tree, rule := trees[a.text("tree")], map[string]baseline.Wool{"leapfrog": baseline.WoolLF, "dvs": baseline.WoolDVS}
	w, is := rule[a.text("rule")]
	if tree == nil || !is {
		a.note("tree", fmt.Errorf("the trees are %s, the rules are leapfrog, dvs", strings.Join(slices.Sorted(maps.Keys(trees)), ", ")))
	}
	cores, seed := a.number("cores"), a.seed()
	if a.err != nil {
		return Result{}, a.err
	}
	g, err := w.Run(tree(), baseline.Allotment(8, 4, 12, cores), seed)
	return Result{Numbers: map[string]float64{"speedup": g.Speedup, "vain steals": float64(g.Attempts)}}, err
}

// runPolicy is a workload of MATRIX v2 with the shipped cores.
func runPolicy(a *args) (Result, error) {
	hosts, seed := a.number("hosts"), a.seed()
	p, err := policy.Read(a.text("policy"))
	a.note("policy", err)
	if a.err != nil {
		return Result{}, a.err
	}
	w, err := find("workload", a.text("workload"), makespan.Workloads(1, slotsOfHost*hosts), func(w makespan.Workflow) string { return flatName(w.Name) })
	if err != nil {
		return Result{}, err
	}
	network := a.part("gigabits", "1")
	if a.err != nil {
		return Result{}, a.err
	}
	r, err := makespan.Run(&w, hosts, p, seed, int64(network*makespan.Gigabit))
	if err != nil {
		return Result{}, err
	}
	ideal := time.Duration(0)
	for _, d := range w.Lengths {
		ideal += d / time.Duration(hosts*slotsOfHost)
	}
	tasks := float64(len(w.Lengths))
	return Result{Numbers: map[string]float64{
		"makespan s": r.Time.Seconds(), "efficiency %": 100 * float64(ideal) / float64(r.Time),
		"local %": 100 * r.Local, "messages/task": float64(r.Messages) / tasks, "records/task": float64(r.Merges) / tasks,
	}}, nil
}
