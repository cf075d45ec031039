package papers

import (
	"fmt"

	"github.com/filch-hpc/filch/testbed/sim/baseline"
)

// theShapes are workloads of package makespan, and the policies that the paper compares.
var (
	theShapes   = []string{"bag,0-1-s", "fan-out", "fan-in", "pipeline", "random"}
	thePolicies = []string{"mlb", "mdl", "rlds", "flds", "adage", "auto"}
)

func policyRun(workload, policy string, hosts, seed int) string {
	return fmt.Sprintf("policy workload=%s policy=%s hosts=%d gigabits=1 seed=%d", workload, policy, hosts, seed)
}

func shapes(b *Book, z Size) Section {
	s := Section{
		ID: "shapes", Title: "Shapes with data under each policy", Lines: "12, 25, 29, 30, 32, 71",
		Theirs: []Quote{{"degree 10, tasks of 50 ms in the mean, outputs of 5 MB in the mean; FLDS for several MB a task, MDL for huge data, MLB for small, RLDS for widely spread sizes", paperM2 + ", IV.D"}},
		Note:   fmt.Sprintf("Seconds with the shipped cores, %d hosts of 4 slots, 1 Gb/s, each seed a row.", z.Hosts),
	}
	t := Table{Columns: append([]string{"shape", "seed"}, thePolicies...)}
	for _, shape := range theShapes {
		for seed := range z.Seeds {
			row := []Cell{said("%s", shape), said("%d", seed+1)}
			for _, p := range thePolicies {
				row = append(row, b.num(policyRun(shape, p, z.Hosts, seed+1), "makespan s", "%.2f"))
			}
			t.add(row...)
		}
	}
	s.Tables = []Table{t}
	return s
}

// storages are those of package baseline, by the name in a run.
var storages = [][2]string{{"active storage", "active"}, {"data diffusion", "diffusion"}, {"parallel file system", "parallel"}}

func stacking(b *Book, z Size) Section {
	s := Section{
		ID: "stacking", Title: "Image stacking: time of a task by locality", Lines: "33, 72, 82, 89",
		Theirs: []Quote{{"167 ms a task with locality 1 to 176 ms with locality 30, 158 ms being ideal; above 75 % with up to 200 cores", paperM2 + ", IV.C.1"}},
		Note:   fmt.Sprintf("Baselines on %d cores with 100 tasks a slot. Filch on %d hosts of 4 slots with the shipped cores: each image is the output of a task of its own, so that the mean time of a task says nothing; the efficiency counts all tasks.", z.Cores2, z.Hosts),
	}
	t := Table{Columns: []string{"storage", "locality", "time of a task", "efficiency"}}
	p := Plot{Title: "Time of a task", X: "locality", Y: "ms", Curves: []Curve{{Name: "ideal", Points: []Point{{1, 158}, {30, 158}}}, {Name: "MATRIX v2, printed", Theirs: true, Points: []Point{{1, 167}, {30, 176}}}}}
	for _, storage := range storages {
		c := Curve{Name: storage[0]}
		for _, l := range z.Locality {
			r := fmt.Sprintf("pile workload=stacking storage=%s locality=%s nodes=%d slots=2 tasks=100 seed=1", storage[1], l, z.Cores2/2)
			t.add(said("%s", storage[0]), said("%s", l), b.num(r, "task ms", "%.0f ms"), b.num(r, "efficiency %", "%.1f %%"))
			var x float64
			if _, err := fmt.Sscan(l, &x); err == nil {
				if y, is := b.value(r, "task ms"); is {
					c.Points = append(c.Points, Point{x, y})
				}
			}
		}
		p.Curves = append(p.Curves, c)
	}
	for _, l := range []string{"1", "3", "10"} {
		r := policyRun("stacking,"+l+"-a-file", "auto", z.Hosts, 1)
		t.add(said("filch, auto"), said("%s", l), said("see note"), b.num(r, "efficiency %", "%.1f %%"))
	}
	s.Tables, s.Plots = []Table{t}, []Plot{p}
	return s
}

func allPairs(b *Book, z Size) Section {
	s := Section{
		ID: "pairs", Title: fmt.Sprintf("All-pairs of %d files, tasks of 100 ms", z.Files), Lines: "73, 83, 89",
		Theirs: []Quote{{"85.9 % at 200 cores, data diffusion 75 %, the best case 91 %, a parallel file system below 20 %", paperM2 + ", figure 7"}},
		Note:   "Filch runs a tenth of the pairs on fewer hosts, as `make bench` does live.",
	}
	t := Table{Columns: []string{"storage", "cores", "efficiency", "GB moved or local input"}}
	for _, storage := range storages {
		r := fmt.Sprintf("pile workload=all-pairs storage=%s files=%d nodes=%d slots=2 seed=1", storage[1], z.Files, z.Cores2/2)
		t.add(said("%s", storage[0]), said("%d", z.Cores2), b.num(r, "efficiency %", "%.1f %%"), b.num(r, "GB moved", "%.1f GB"))
	}
	for _, p := range []string{"auto", "flds"} {
		r := policyRun("all-pairs", p, z.Hosts, 1)
		t.add(said("filch, %s", p), said("%d", z.Hosts*slotsOfHost), b.num(r, "efficiency %", "%.1f %%"), b.num(r, "local %", "%.0f %%"))
	}
	s.Tables = []Table{t}
	return s
}

// rules are those of [runFlow].
var rules = [][2]string{{"bound", "bound"}, {"min-min", "min-min"}, {"critical path", "critical-path"}, {"filch, auto", "filch:auto"}, {"filch, adage", "filch:adage"}, {"ADAGE, code", "adage-code"}, {"ADAGE, printed", "adage-printed"}, {"Albatross", "albatross"}}

func workflows(b *Book, z Size) Section {
	s := Section{
		ID: "workflows", Title: "Five workflows by nodes", Lines: "43, 48, 49, 75, 85, 89",
		Theirs: []Quote{
			{"time cut against MATRIX and Albatross: CyberShake 18 to 66 %, Epigenomics 15 to 30, Inspiral 20 to 31, Sipht 13 and 21, Montage 1 to 23", paperA + ", IV"},
			{"throughput at 1,024 nodes +83 % and +1377 % with CyberShake, +11 % and +50 % with Montage", paperA + ", IV"},
		},
		Note: "Seconds; nodes of 2,000 MIPS that run a task at a time, filch on hosts of four such slots; transfers take no time. The bound is the longest chain, or the work by the nodes. ADAGE is as its code is, or as printed.",
	}
	t := Table{Columns: []string{"workflow", "nodes"}}
	for _, r := range rules {
		t.Columns = append(t.Columns, r[0])
	}
	for _, w := range z.Workflows {
		p := Plot{Title: w, X: "nodes", Y: "s", LogX: true}
		for _, r := range rules {
			run := func(n int) string { return fmt.Sprintf("flow workflow=%s rule=%s nodes=%d seed=1", w, r[1], n) }
			p.Curves = append(p.Curves, Curve{Name: r[0], Points: b.against("makespan s", z.FlowNodes, run)})
		}
		s.Plots = append(s.Plots, p)
		for _, n := range z.FlowNodes {
			row := []Cell{said("%s", w), said("%d", n)}
			for _, r := range rules {
				row = append(row, b.num(fmt.Sprintf("flow workflow=%s rule=%s nodes=%d seed=1", w, r[1], n), "makespan s", "%.0f"))
			}
			t.add(row...)
		}
	}
	s.Tables = []Table{t}
	return s
}

func queue(b *Book, z Size) Section {
	s := Section{
		ID: "queue", Title: "Efficiency by instances, tasks of 16 and 128 ms", Lines: "55, 57, 58, 86",
		Theirs: []Quote{
			{"about 40 % with 16 ms, 88 % with 128 ms", paperC + ", III.D"},
			{"from 1 to 64 instances CloudKon loses 6 points, MATRIX 19, Sparrow 23", paperC + ", III.D"},
			{"exactly once costs less than 15 % below 10 instances, and 35 % at most", paperC + ", III.F"},
			{"Sparrow and MATRIX stop at 128 to 256 instances", paperC + ", III.C"},
		},
		Note: "Instances of four threads, or slots, 100 tasks a slot. In the papers Sparrow and MATRIX lose to programs that open a socket to every other one; the models have the policies alone.",
	}
	t := Table{Columns: []string{"instances", "length", "CloudKon", "filch, flat model", "random stealing (MATRIX v1)", "Sparrow, ratio 1.05"}}
	p := Plot{Title: "Efficiency", X: "instances", Y: "%", LogX: true, Max: 100}
	for _, length := range []string{"16ms", "128ms"} {
		names := [][2]string{{"CloudKon", "CloudKon"}, {"filch", ""}}
		for _, n := range z.Clouds {
			t.add(said("%d", n), said("%s", length), b.num(bag("CloudKon", n, 4, 100, length), "efficiency %", "%.1f %%"), b.num(onFlat(n, 4, 100, length), "efficiency %", "%.1f %%"),
				b.num(bag("random-stealing-(MATRIX-v1)", n, 4, 100, length), "efficiency %", "%.1f %%"), b.num(bag("Sparrow,ratio-1.05", n, 4, 100, length), "efficiency %", "%.1f %%"))
		}
		for _, x := range names {
			p.Curves = append(p.Curves, Curve{Name: x[0] + ", " + length, Points: b.against("efficiency %", z.Clouds, func(n int) string {
				if x[1] == "" {
					return onFlat(n, 4, 100, length)
				}
				return bag(x[1], n, 4, 100, length)
			})})
		}
	}
	s.Tables, s.Plots = []Table{t}, []Plot{p}
	return s
}

func lengths(b *Book, z Size) Section {
	s := Section{
		ID: "lengths", Title: "Lengths from 1 ms to 1 s", Lines: "74, 86",
		Theirs: []Quote{{"77 % with heterogeneous lengths (1 ms to 1 s, 2,000 tasks an instance of a trace that is not public) and 256 instances", paperC + ", III.E"}},
		Note:   "Lengths are drawn evenly by their logarithm, since the trace is not public. 4 slots a node, 40 tasks a slot.",
	}
	t := Table{Columns: []string{"scheduler", "nodes", "efficiency", "messages a task"}}
	list := baseline.Bags()
	for i, name := range schedulersOfBags() {
		n := z.Rivals[len(z.Rivals)-1]
		if list[i].Max > 0 {
			n = z.Cores[0]
		}
		r := bag(name, n, 4, 40, "1ms-1s")
		t.add(said("%s", list[i].Name), said("%d", n), b.num(r, "efficiency %", "%.1f %%"), b.num(r, "messages/task", "%.2f"))
	}
	s.Tables = []Table{t}
	return s
}

func gangs(b *Book, z Size) Section {
	n := z.Gangs
	s := Section{
		ID: "gangs", Title: fmt.Sprintf("Jobs of whole nodes, %d nodes", n), Lines: "34, 36, 38, 39, 40, 41, 76, 86, 88, 89",
		Theirs: []Quote{
			{"900 nodes, tasks of no length: jobs of one node 50 a second (Slurm 46), of 1-50 nodes 20.8 (7.5), of 50-100 nodes 2.7 (2.25)", paperS},
			{"about 13, 39 and 950 messages a job to the store", paperS},
			{"up to 205 HPC jobs a second", paperC + ", III"},
			{"a job that has too few nodes releases all and tries again; verified with 16 nodes", paperM1 + ", 3.8"},
		},
		Note: "Jobs take all slots of their nodes for a second, half as many jobs as nodes, all at once. Filch and \"release all\" are the shipped nodes; release all ends after a minute. SLURM++ v2 picks the partition with the fewest free nodes that suffice (line 40), and CloudKon's manager gathers sub-workers from a queue (line 41): both are baselines here, and not in filch: no row of theirs starts jobs faster, and with large jobs they send more messages. SLURM++ v1 sends fewer than filch with jobs of 1-50 nodes.",
	}
	t := Table{Columns: []string{"jobs of", "scheduler", "jobs", "makespan by the ideal", "jobs/s", "messages a job"}}
	for _, x := range gangSizes(z) {
		for _, g := range baseline.GangSchedulers() {
			r := gangRun(flatName(g.Name), n, x)
			ended := said("not all ended")
			if _, is := b.value(r, "makespan by ideal"); is {
				ended = b.num(r, "makespan by ideal", "%.3f")
			}
			t.add(said("%d-%d nodes", x[0], x[1]), said("%s", g.Name), b.num(r, "jobs", "%.0f"), ended, b.num(r, "jobs/s", "%.2f"), b.num(r, "messages/job", "%.0f"))
		}
	}
	s.Tables = []Table{t}
	return s
}

func spawned(b *Book, z Size) Section {
	s := Section{
		ID: "trees", Title: "Spawn trees on allotments of 8 x 4 cores", Lines: "62, 63, 64, 65, 66, 67, 77, 87",
		Theirs: []Quote{
			{"13 % faster in the mean, up to 55 % (nQueens 51 and 55 %, FFT 52 % on 24 and 32 % on 35 cores, Strassen 7, 27, 30, 10 %)", paperD + ", 5"},
			{"Sort -9 % on 20 cores", paperD + ", 5"},
		},
		Note: "Both rules on the same trees, where an attempt costs 0.5 us. The paper does not print the cost of an attempt in its runtimes, and its gains do not follow from the order of victims alone: see the comment of testbed/sim/baseline. filch takes tasks that are processes, and its `auto` never takes these victims (docs/policies.md).",
	}
	t := Table{Columns: []string{"tree", "cores", "speed-up, leapfrog (WOOL)", "speed-up, DVS", "gain", "vain steals", "with DVS"}}
	for _, tree := range z.Trees {
		for _, n := range z.Allotment {
			lf, dvs := fmt.Sprintf("tree tree=%s rule=leapfrog cores=%d seed=1", tree, n), fmt.Sprintf("tree tree=%s rule=dvs cores=%d seed=1", tree, n)
			gain := said(didNotRun)
			x, isX := b.value(lf, "speedup")
			if y, isY := b.value(dvs, "speedup"); isX && isY {
				gain = said("%+.0f %%", 100*(y/x-1))
			}
			t.add(said("%s", tree), said("%d", n), b.num(lf, "speedup", "%.1f"), b.num(dvs, "speedup", "%.1f"), gain, b.num(lf, "vain steals", "%.0f"), b.num(dvs, "vain steals", "%.0f"))
		}
	}
	s.Tables = []Table{t}
	return s
}
