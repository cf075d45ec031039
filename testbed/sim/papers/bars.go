package papers

import "fmt"

// bars are what filch sets itself beside the papers: each is a limit on a figure of the page.
func bars(b *Book, z Size) Section {
	s := Section{
		ID: "bars", Title: "What holds and what falls short", Lines: "13, 17, 40, 41, 79, 84, 85, 86, 88",
		Theirs: []Quote{{"the figures below, each in its section", "all five"}},
		Note:   "Bars that need real launchers, such as the efficiency beside a simulation, and messages and CPU time of a live task, are not on this page.",
	}
	t := Table{Columns: []string{"bar", "limit", "here", ""}}
	add := func(what, limit string, c Cell, holds bool) {
		verdict := "holds"
		switch {
		case c.Text == didNotRun:
			verdict = ""
		case !holds:
			verdict = "falls short"
		}
		t.add(said("%s", what), said("%s", limit), c, said("%s", verdict))
	}
	least := func(what, run, number, format string, limit float64) {
		x, _ := b.value(run, number)
		add(what, "at least "+fmt.Sprintf(format, limit), b.num(run, number, format), x >= limit)
	}
	most := func(what, run, number, format string, limit float64) {
		x, is := b.value(run, number)
		add(what, "at most "+fmt.Sprintf(format, limit), b.num(run, number, format), is && x <= limit)
	}
	for _, n := range z.Flat {
		if n < 64 {
			continue
		}
		limit, r := 30., onFlat(n, 16, 20, fixedLength)
		if n > 1024 {
			limit = 60
		}
		if n > 16384 {
			limit = 120
		}
		most(fmt.Sprintf("overhead of a bag of 20 x 16 tasks of 64 ms a node, %d nodes", n), r, "overhead ms", "%.1f ms", limit)
		most(fmt.Sprintf("messages a node, %d nodes", n), r, "messages/node", "%.1f", 30)
	}
	million := onFlat(z.Million, 16, 5, "1s")
	least(fmt.Sprintf("%d nodes, tasks of 1 s, 5 a slot", z.Million), million, "efficiency %", "%.1f %%", 90)
	most(fmt.Sprintf("%d nodes, memory", z.Million), million, "B/node", "%.0f B a node", 400)
	last := z.Cores[len(z.Cores)-1]
	short := bag("filch,lifelines", last, 4, 100, fixedLength)
	least(fmt.Sprintf("tasks of 64 ms on %d nodes of 4 slots, shipped cores", last), short, "efficiency %", "%.1f %%", 85)
	most("the variation there", short, "variation", "%.4f", 0.05)
	for _, n := range z.Long {
		least(fmt.Sprintf("tasks of 1 s on %d nodes of 4 slots", n), onFlat(n, 4, z.LongEach, "1s"), "efficiency %", "%.1f %%", 92)
	}
	b.flowBars(z, add)
	b.gangBars(z, add)
	s.Tables = []Table{t}
	return s
}

// flowBars hold auto and adage to the best list of each workflow and number of nodes.
func (b *Book) flowBars(z Size, add func(what, limit string, c Cell, holds bool)) {
	for _, kind := range []string{"filch:auto", "filch:adage"} {
		sum, worst, n, where := 0., 0., 0., 0
		for _, w := range z.Workflows {
			for _, nodes := range z.FlowNodes {
				run := func(rule string) string {
					return fmt.Sprintf("flow workflow=%s rule=%s nodes=%d seed=1", w, rule, nodes)
				}
				ours, is := b.value(run(kind), "makespan s")
				shortest, _ := b.value(run("min-min"), "makespan s")
				longest, _ := b.value(run("critical-path"), "makespan s")
				if !is || shortest == 0 {
					continue
				}
				by := ours / min(shortest, longest)
				if sum, n = sum+by, n+1; by > worst {
					worst = by
					_, where = b.look(run(kind))
				}
			}
		}
		mean, most := said(didNotRun), said(didNotRun)
		if n > 0 {
			mean, most = said("%.3f", sum/n), Cell{Text: fmt.Sprintf("%.3f", worst), Run: where}
		}
		add("workflows, "+kind+" by the best of min-min and critical path, mean", "at most 1.03", mean, sum <= 1.03*n)
		add("the same, worst", "at most 1.10", most, worst <= 1.10)
	}
}

// gangBars hold jobs of whole nodes to the other schedulers.
func (b *Book) gangBars(z Size, add func(what, limit string, c Cell, holds bool)) {
	for _, x := range gangSizes(z) {
		ours := gangRun("filch", z.Gangs, x)
		rate, _ := b.value(ours, "jobs/s")
		sent, _ := b.value(ours, "messages/job")
		for _, rival := range []string{"SLURM++ v1", "SLURM++ v2", "CloudKon"} {
			r := gangRun(flatName(rival), z.Gangs, x)
			theirs, is := b.value(r, "jobs/s")
			theirSent, _ := b.value(r, "messages/job")
			what := fmt.Sprintf("jobs of %d-%d nodes beside %s: ", x[0], x[1], rival)
			add(what+"jobs/s", fmt.Sprintf("at least %.2f", theirs), b.num(ours, "jobs/s", "%.2f"), is && rate >= theirs)
			add(what+"messages a job", fmt.Sprintf("at most %.0f", theirSent), b.num(ours, "messages/job", "%.0f"), is && sent <= theirSent)
		}
	}
}

// gangSizes are the nodes of jobs, from and to. With CloudKon, a node more is the manager.
func gangSizes(z Size) (list [][2]int) {
	for _, x := range [][2]int{{1, 1}, {1, 50}, {50, 100}} {
		list = append(list, [2]int{min(x[0], z.Gangs-1), min(x[1], z.Gangs-1)})
	}
	return list
}

func gangRun(scheduler string, nodes int, size [2]int) string {
	return fmt.Sprintf("gangs scheduler=%s nodes=%d jobs=%d low=%d high=%d runs=1s seed=1", scheduler, nodes, max(nodes/2, 1), size[0], size[1])
}
