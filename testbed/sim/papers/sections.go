package papers

import (
	"fmt"

	"github.com/filch-hpc/filch/testbed/sim/baseline"
)

// Size is how much of the papers' sizes a page runs.
type Size struct {
	Name      string
	Flat      []int    // nodes of the flat model
	Cores     []int    // nodes of the shipped cores with bags
	Rivals    []int    // nodes of the baselines with bags
	Long      []int    // nodes with 4 slots and tasks of a second
	LongEach  int      // of these, tasks by slot
	Million   int      // nodes of the largest bag
	Billion   int      // tasks by slot of the longest
	Clouds    []int    // instances of CloudKon
	Gangs     int      // nodes of jobs
	Hosts     int      // of the shapes
	Seeds     int      // of the shapes
	Workflows []string // files
	FlowNodes []int
	Files     int // of each set of all-pairs
	Cores2    int // cores of stacking and all-pairs
	Locality  []string
	Trees     []string
	Allotment []int
}

// Sizes are tiny for tests, small for a look, and full.
var Sizes = []Size{
	{
		Name: "tiny", Flat: []int{16, 64}, Cores: []int{16}, Rivals: []int{16}, Long: []int{16}, LongEach: 4, Million: 256, Billion: 4, Clouds: []int{1, 4}, Gangs: 20, Hosts: 2, Seeds: 1,
		Workflows: []string{"Montage_25"}, FlowNodes: []int{4}, Files: 20, Cores2: 8, Locality: []string{"1", "5"}, Trees: []string{"sort"}, Allotment: []int{5},
	},
	{
		Name: "small", Flat: []int{16, 64, 256, 1024, 4096, 16384, 65536}, Cores: []int{64, 256}, Rivals: []int{64, 256}, Long: []int{64, 512}, LongEach: 100, Million: 131072, Billion: 20,
		Clouds: []int{1, 4, 16, 64, 256}, Gangs: 120, Hosts: 8, Seeds: 1, Workflows: []string{"CyberShake_100", "Epigenomics_100", "Inspiral_100", "Montage_100", "Sipht_100"},
		FlowNodes: []int{16, 64}, Files: 200, Cores2: 64, Locality: []string{"1", "2", "5", "10", "30"}, Trees: []string{"fib", "nqueens", "strassen", "sort"}, Allotment: []int{5, 12, 20, 27},
	},
	{
		Name: "full", Flat: []int{16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576}, Cores: []int{64, 256, 1024}, Rivals: []int{64, 256, 1024}, Long: []int{64, 128, 256, 512, 1024}, LongEach: 1000, Million: 1048576, Billion: 60,
		Clouds: []int{1, 4, 16, 64, 256, 1024}, Gangs: 900, Hosts: 8, Seeds: 3, Workflows: []string{"CyberShake_1000", "Epigenomics_997", "Inspiral_1000", "Montage_1000", "Sipht_100"},
		FlowNodes: []int{16, 64, 256, 1024}, Files: 500, Cores2: 200, Locality: []string{"1", "1.38", "2", "3", "4", "5", "10", "20", "30"}, Trees: []string{"fib", "nqueens", "strassen", "sort"}, Allotment: []int{5, 12, 20, 27},
	},
}

// sections make the sections, in the order of the page.
var sections = []func(b *Book, z Size) Section{
	bars, shortTasks, longTasks, million, overTime, latency, noLength, shapes, stacking, allPairs, workflows, queue, lengths, gangs, spawned,
}

const (
	paperM1, paperM2, paperA, paperC, paperD = "MATRIX v1", "MATRIX v2", "ADAGE", "CloudKon", "DVS"
	paperS                                   = "DJL and SLURM++"
	fixedLength                              = "64ms"
)

// schedulersOfBags are the names of [baseline.Bags] in runs.
func schedulersOfBags() (names []string) {
	for _, s := range baseline.Bags() {
		names = append(names, flatName(s.Name))
	}
	return names
}

func onFlat(nodes, slots, tasks int, length string) string {
	return fmt.Sprintf("flat nodes=%d slots=%d tasks=%d length=%s victims=lifeline seed=1", nodes, slots, tasks, length)
}

func bag(scheduler string, nodes, slots, tasks int, length string) string {
	return fmt.Sprintf("bag scheduler=%s nodes=%d slots=%d tasks=%d length=%s seed=1", scheduler, nodes, slots, tasks, length)
}

func shortTasks(b *Book, z Size) Section {
	const slots, each = 4, 100
	s := Section{
		ID: "short", Title: "Tasks of 64 ms, 100 a slot, 4 slots a node", Lines: "21, 69, 79, 81, 89",
		Theirs: []Quote{
			{"more than 85 % of the ideal with tasks of 64 ms, 4,096 cores", paperM1 + ", abstract"},
			{"4 times the throughput of Falkon with tasks of 1 s, 9 times that of Sparrow with tasks of no length", paperM2 + ", II"},
		},
		Note: "All tasks begin at one node with filch and random stealing, in the queue elsewhere, and at a scheduler of each node with Sparrow. Rows of filch are the shipped cores; rows of the flat model go on where these take minutes.",
	}
	t := Table{Columns: []string{"scheduler", "nodes", "efficiency", "tasks/s", "messages a task", "variation"}}
	curves := map[string][]Point{}
	row := func(name string, n int, run string) {
		if x, is := b.value(run, "efficiency %"); is {
			curves[name] = append(curves[name], Point{float64(n * slots), x})
		}
		t.add(said("%s", name), said("%d", n), b.num(run, "efficiency %", "%.1f %%"), b.num(run, "tasks/s", "%.0f"), b.num(run, "messages/task", "%.2f"), b.num(run, "variation", "%.4f"))
	}
	for _, n := range z.Flat {
		row("filch, flat model", n, onFlat(n, slots, each, fixedLength))
	}
	list := baseline.Bags()
	for i, name := range schedulersOfBags() {
		nodes := z.Rivals
		if list[i].Max > 0 {
			nodes = z.Cores
		}
		for _, n := range nodes {
			row(list[i].Name, n, bag(name, n, slots, each, fixedLength))
		}
	}
	s.Tables = []Table{t}
	p := Plot{Title: "Efficiency with tasks of 64 ms", X: "cores", Y: "efficiency, %", LogX: true, Max: 100}
	p.Curves = append(p.Curves, Curve{Name: "filch, flat model", Points: curves["filch, flat model"]})
	for _, x := range list[2:] {
		p.Curves = append(p.Curves, Curve{Name: x.Name, Points: curves[x.Name]})
	}
	s.Plots = []Plot{p}
	return s
}

func longTasks(b *Book, z Size) Section {
	const slots = 4
	s := Section{
		ID: "long", Title: fmt.Sprintf("Tasks of a second and of eight, %d a slot, 4 slots a node", z.LongEach), Lines: "70, 79, 84",
		Theirs: []Quote{
			{"MATRIX 92 to 97 %, Falkon 18 to 82 %, with 256 to 2,048 cores and tasks of 1 to 8 s", paperM1 + ", 4.2.2"},
			{"88 % with 1,024 nodes and a coefficient of variation below 0.05", paperM1 + ", 4.2.3"},
			{"a bag is above 90 % with up to 200 cores", paperM2 + ", IV"},
		},
		Note: "The papers run 1,000 tasks a slot.",
	}
	t := Table{Columns: []string{"cores", "length", "filch, flat model", "variation", "random stealing (MATRIX v1)", "hierarchy (Falkon)"}}
	for _, length := range []string{"1s", "8s"} {
		for _, n := range z.Long {
			ours := onFlat(n, slots, z.LongEach, length)
			t.add(said("%d", n*slots), said("%s", length), b.num(ours, "efficiency %", "%.2f %%"), b.num(ours, "variation", "%.4f"),
				b.num(bag("random-stealing-(MATRIX-v1)", n, slots, z.LongEach, length), "efficiency %", "%.1f %%"),
				b.num(bag("hierarchy-(Falkon)", n, slots, z.LongEach, length), "efficiency %", "%.1f %%"))
		}
	}
	s.Tables = []Table{t}
	return s
}

func million(b *Book, z Size) Section {
	s := Section{
		ID: "million", Title: "The size of SimMatrix", Lines: "80, 13, 17",
		Theirs: []Quote{{"10^10 tasks on 10^6 nodes in 163 hours of CPU and 142 GB: 58.7 us and 14.2 B a task", "SimMatrix, 2013"}},
		Note:   "A bag goes down a tree to all nodes, and thieves ask 4 drawn nodes, then their lifelines. The overhead is the makespan less the work by the slots. A task costs as much computing as the last column says on the machine that made this page.",
	}
	t := Table{Columns: []string{"nodes", "tasks", "length", "makespan", "overhead", "efficiency", "messages a node", "B a node", "us a task"}}
	add := func(n, each int, length string) {
		r := onFlat(n, 16, each, length)
		t.add(said("%d", n), b.num(r, "tasks", "%.0f"), said("%s", length), b.num(r, "makespan s", "%.4f s"), b.num(r, "overhead ms", "%.2f ms"), b.num(r, "efficiency %", "%.2f %%"),
			b.num(r, "messages/node", "%.1f"), b.num(r, "B/node", "%.0f"), b.num(r, "us/task", "%.3f"))
	}
	for _, n := range z.Flat {
		add(n, 20, fixedLength)
	}
	add(z.Million, 5, "1s")
	add(z.Million, z.Billion, "1s")
	s.Tables = []Table{t}
	nodes := func(number string) []Point {
		return b.against(number, z.Flat, func(n int) string { return onFlat(n, 16, 20, fixedLength) })
	}
	s.Plots = []Plot{
		{Title: "Overhead of a bag of 20 x 16 tasks a node", X: "nodes", Y: "ms", LogX: true, Curves: []Curve{{Name: "filch, flat model", Points: nodes("overhead ms")}}},
		{Title: "Messages a node", X: "nodes", Y: "messages", LogX: true, Curves: []Curve{{Name: "filch, flat model", Points: nodes("messages/node")}}},
	}
	return s
}

func overTime(b *Book, z Size) Section {
	n := z.Flat[len(z.Flat)/2]
	s := Section{
		ID: "time", Title: "Tasks that are done, and slots that work, over time", Lines: "60, 69, 86",
		Theirs: []Quote{{"utilisation over time, and tasks done over time, as plots", paperM1 + ", 4; " + paperA + ", IV"}},
		Note:   "Lengths are drawn evenly from 0 to twice the mean; the bag begins at one node.",
	}
	done := Plot{Title: fmt.Sprintf("Tasks done, %d nodes", n), X: "s", Y: "part of the tasks", Max: 1}
	busy := Plot{Title: fmt.Sprintf("Slots that work, %d nodes", n), X: "s", Y: "part of the slots", Max: 1}
	t := Table{Columns: []string{"the bag goes", "victims", "makespan", "efficiency", "steals", "first steal", "search of a node before its first steal", "messages a task"}}
	for _, spread := range []string{"auto", "1"} {
		for _, victims := range []string{"lifeline", "random"} {
			set := fmt.Sprintf("nodes=%d slots=4 tasks=20 length=64ms vary=1 victims=%s spread=%s seed=1", n, victims, spread)
			r, name := "flat "+set, map[string]string{"auto": "by a tree, ", "1": "by thieves, "}[spread]+victims
			t.add(said("%s", map[string]string{"auto": "by a tree", "1": "by thieves"}[spread]), said("%s", victims), b.num(r, "makespan s", "%.3f s"), b.num(r, "efficiency %", "%.1f %%"),
				b.num(r, "steals", "%.0f"), b.num(r, "first steal ms", "%.2f ms"), b.num(r, "steal delay ms", "%.2f ms"), b.num(r, "messages/task", "%.2f"))
			done.Curves = append(done.Curves, Curve{Name: name, Points: b.curve("curves "+set, "done")})
			busy.Curves = append(busy.Curves, Curve{Name: name, Points: b.curve("curves "+set, "busy")})
		}
	}
	s.Tables, s.Plots = []Table{t}, []Plot{done, busy}
	return s
}

func latency(b *Book, z Size) Section {
	s := Section{
		ID: "latency", Title: "From the submission to the start, and the latency of one task", Lines: "21, 69, 86",
		Theirs: []Quote{
			{"latency of a task 95 ms with one instance, and less than 10 ms more with 1,024", paperC + ", III.B"},
			{"all tasks of a node have spread in about log(N) steps", paperM1 + ", 3.1.2"},
		},
		Note: "A bag of one task of a second a slot, submitted to one node; the curve is how many had started so long after the submission. The latency is of a bag of one task, without the length of the task, until its end is recorded; no process is started, and no client asks. With at most 17 nodes thieves alone spread a bag, and a task may wait for another one beside a free slot.",
	}
	t := Table{Columns: []string{"nodes", "half started", "99 % started", "all started", "latency of one task"}}
	p := Plot{Title: "Tasks that started, 4 slots a node, one task a slot", X: "ms after the submission", Y: "part of the tasks", Max: 1}
	for _, n := range z.Flat {
		set := fmt.Sprintf("curves nodes=%d slots=4 tasks=1 length=1s seed=1", n)
		one := fmt.Sprintf("flat nodes=%d slots=4 all=1 length=1s seed=1", n)
		t.add(said("%d", n), b.num(set, "half started ms", "%.2f ms"), b.num(set, "99 % started ms", "%.2f ms"), b.num(set, "all started ms", "%.2f ms"), b.num(one, "latency ms", "%.2f ms"))
		p.Curves = append(p.Curves, Curve{Name: fmt.Sprintf("%d nodes", n), Points: b.curve(set, "started")})
	}
	if most := len(colors); len(p.Curves) > most {
		p.Curves = p.Curves[len(p.Curves)-most:]
	}
	s.Tables, s.Plots = []Table{t}, []Plot{p}
	return s
}

func noLength(b *Book, z Size) Section {
	s := Section{
		ID: "rate", Title: "Tasks of no length", Lines: "78, 81",
		Theirs: []Quote{
			{"13,000 tasks/s with 4,096 cores", paperM1 + ", abstract"},
			{"487 tasks/s", "Falkon, 2007"},
			{"238 tasks/s with one instance, 119,029 with 1,024", paperC + ", III.C"},
		},
		Note: "What a process costs to start decides here, which no simulator knows: filch, stealing and Sparrow, whose models have no cost of a start, are not in this table. `make proof` measures tasks of no length live.",
	}
	t := Table{Columns: []string{"scheduler", "nodes", "tasks/s"}}
	for _, x := range []struct {
		name  string
		nodes []int
	}{{"CloudKon", z.Clouds}, {"hierarchy (Falkon)", z.Rivals}, {"central queue (Falkon)", z.Rivals}, {"central queue (Slurm)", z.Rivals}} {
		for _, n := range x.nodes {
			t.add(said("%s", x.name), said("%d", n), b.num(bag(flatName(x.name), n, 4, 100, "0s"), "tasks/s", "%.0f"))
		}
	}
	s.Tables = []Table{t}
	s.Plots = []Plot{{Title: "Tasks of no length", X: "instances", Y: "tasks/s", LogX: true, Curves: []Curve{
		{Name: "CloudKon, printed", Theirs: true, Points: []Point{{1, 238}, {1024, 119029}}},
		{Name: "CloudKon, model", Points: b.against("tasks/s", z.Clouds, func(n int) string { return bag("CloudKon", n, 4, 100, "0s") })},
	}}}
	return s
}
