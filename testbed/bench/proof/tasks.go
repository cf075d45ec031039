package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// taskFigure is what the bench writes about one way to run many tasks.
type taskFigure struct {
	What, Tool       string
	Launchers, Slots int
	MS               float64
	Tasks            int
	PerSec, CPUUS    float64
	Efficiency       float64
	Variation        float64
	Wrong            int
	Messages         map[string]float64
	Error            string
}

// appFigure is what it writes about an application under a policy.
type appFigure struct {
	App, Policy     string
	Locality, Tasks int
	PerTaskMS, Hit  float64
	Error           string
}

// The bars of tasks.
const (
	floorBar     = 0.75 // of the rate of posix_spawn
	parallelBar  = 5.0  // times that of GNU parallel
	queueBar     = 0.9  // the slowest rate of all queues, of the fastest
	noopBar      = 200_000
	napBar       = 0.95
	variationBar = 0.05
	napSlots     = 1024
	napMS        = 64
	wideBar      = 0.97
	ourTool      = "filch submit"
)

// manyTasks are the promises about tasks that the bench keeps.
func manyTasks() []promise {
	return []promise{
		{
			line: "11d", what: "processes of /bin/true a second, beside posix_spawn, xargs, make, GNU parallel and Work Queue",
			bar:   ">= 0.75 x posix_spawn, >= 5 x GNU parallel",
			bench: judged(processes, "process"),
		},
		{
			line: "11e", what: "the same with 10,000 to 1,000,000 of them queued", bar: "the same rate within 10 %",
			bench: judged(queues, "queued"),
		},
		{
			line: "11f", what: "tasks without a process a second, on one launcher and four; 1,000 of them asked for", bar: "> 200,000/s, all as they must be",
			bench: judged(noops, "noop"),
		},
		{
			line: "11g", what: "built-in sleeps of 64 ms on 1,024 slots", bar: ">= 95 %, variation < 0.05",
			bench: judged(naps, "builtin sleep", "fleet"),
		},
		{
			line: "11h", what: "320 sleeps of 0.1 s on 16 slots beside xargs, Work Queue, GNU parallel and srun; sleeps of 1 to 1000 ms", bar: ">= 97 % of the 320",
			bench: sleeps,
		},
		{
			line: "11i", what: "bag, fan-in, fan-out and pipeline over four launchers; messages a task", bar: "measured",
			bench: judged(shapes, "bag", "fan-in", "fan-out", "pipeline", "dags"),
		},
		{
			line: "11j", what: "image stacking and all-pairs of MATRIX v2 under each policy", bar: "measured",
			bench: applications,
		},
	}
}

// of are the figures of one kind, and what could not be measured of them.
func (f *figures) of(what ...string) (list []taskFigure, failed string) {
	for _, t := range f.Tasks {
		if !slices.Contains(what, t.What) {
			continue
		}
		if t.Error != "" {
			failed += fmt.Sprintf("; %s was not measured: %s", t.Tool, t.Error)
		}
		list = append(list, t)
	}
	if len(list) == 0 {
		failed = "not measured"
	}
	return list, strings.TrimPrefix(failed, "; ")
}

// judged is the judgment of the figures of some kinds, if all could be measured.
func judged(judge func(list []taskFigure) verdict, what ...string) func(*figures) verdict {
	return func(f *figures) verdict {
		list, failed := f.of(what...)
		if failed != "" {
			return verdict{measured: failed}
		}
		return judge(list)
	}
}

// processes judges the rate of processes beside those of others.
func processes(list []taskFigure) verdict {
	rate := map[string]float64{}
	for _, t := range list {
		rate[t.Tool] = t.PerSec
	}
	ours := rate[ourTool]
	v := verdict{ok: ours > 0}
	said := []string{fmt.Sprintf("%.0f/s", ours)}
	for _, t := range list {
		if t.Tool == ourTool {
			said = append(said, fmt.Sprintf("%.0f us CPU each", t.CPUUS))
			continue
		}
		ratio := ours / max(t.PerSec, 0.001)
		said = append(said, fmt.Sprintf("%.2f x %s", ratio, t.Tool))
		v.ok = v.ok && (t.Tool != "posix_spawn" || ratio >= floorBar) && (t.Tool != "GNU parallel" || ratio >= parallelBar)
	}
	v.measured = strings.Join(said, ", ")
	return v
}

// queues judges the rates with few and many tasks waiting.
func queues(list []taskFigure) verdict {
	var said []string
	for _, t := range list {
		said = append(said, fmt.Sprintf("%.0f/s with %d", t.PerSec, t.Tasks))
	}
	rate := func(x, y taskFigure) int { return cmp.Compare(x.PerSec, y.PerSec) }
	part := slices.MinFunc(list, rate).PerSec / slices.MaxFunc(list, rate).PerSec
	return verdict{measured: fmt.Sprintf("%s; the slowest is %.2f x the fastest", strings.Join(said, ", "), part), ok: part >= queueBar}
}

// noops judges the rate of tasks without a process.
func noops(list []taskFigure) verdict {
	v := verdict{ok: true}
	var said []string
	for _, t := range list {
		said = append(said, fmt.Sprintf("%d launchers: %.0f/s, %d wrong", t.Launchers, t.PerSec, t.Wrong))
		v.ok = v.ok && t.PerSec > noopBar && t.Wrong == 0
	}
	v.measured = strings.Join(said, "; ")
	return v
}

// naps judges how well sleeps without a process fill all slots.
func naps(list []taskFigure) verdict {
	v := verdict{}
	var said []string
	for _, t := range list {
		said = append(said, fmt.Sprintf("%.0f ms: %.1f %%, variation %.3f, %.0f us CPU each", t.MS, 100*t.Efficiency, t.Variation, t.CPUUS))
		if t.MS == napMS {
			v.ok = t.Slots == napSlots && t.Efficiency >= napBar && t.Variation < variationBar
		}
	}
	v.measured = fmt.Sprintf("%d slots: %s", list[0].Slots, strings.Join(said, "; "))
	return v
}

// sleeps judges processes that sleep.
func sleeps(f *figures) verdict {
	wide, failed := f.of("wide sleep", "wide")
	short, why := f.of("sleep", "length")
	if failed += why; failed != "" {
		return verdict{measured: failed}
	}
	v := verdict{}
	var said []string
	for _, t := range wide {
		said = append(said, fmt.Sprintf("%s %.1f %%", t.Tool, 100*t.Efficiency))
		v.ok = v.ok || t.Tool == ourTool && t.Efficiency >= wideBar
	}
	v.measured = fmt.Sprintf("%d on %d slots: %s", wide[0].Tasks, wide[0].Slots, strings.Join(said, ", "))
	said = nil
	for _, t := range short {
		if t.Tool == ourTool {
			said = append(said, fmt.Sprintf("%.0f ms %.1f %%", t.MS, 100*t.Efficiency))
		}
	}
	v.measured += fmt.Sprintf("; on %d slots: %s", short[0].Slots, strings.Join(said, ", "))
	return v
}

// shapes tells of workflows, and what launchers say to each other for them.
func shapes(list []taskFigure) verdict {
	v := verdict{ok: true}
	var said []string
	for _, t := range list {
		byRoom := map[string]float64{}
		for kind, n := range t.Messages {
			room, _, _ := strings.Cut(kind, ".")
			byRoom[room] += n
		}
		var rooms []string
		for _, room := range slices.Sorted(maps.Keys(byRoom)) {
			rooms = append(rooms, fmt.Sprintf("%.2f of %s", byRoom[room], room))
		}
		said = append(said, fmt.Sprintf("%s: %.0f/s, messages a task: %s", t.What, t.PerSec, strings.Join(rooms, ", ")))
		v.ok = v.ok && t.PerSec > 0 && len(rooms) > 0
	}
	v.measured = strings.Join(said, "; ")
	return v
}

// applications tells how long a task of theirs takes, and how many ran where
// their files were.
func applications(f *figures) verdict {
	v := verdict{ok: len(f.Apps) > 0, measured: "not measured"}
	var said []string
	for _, a := range f.Apps {
		if a.Error != "" {
			return verdict{measured: fmt.Sprintf("%s under %s: %s", a.App, a.Policy, a.Error)}
		}
		said = append(said, fmt.Sprintf("%s %d, %s: %.0f ms, hits %.1f %%", a.App, a.Locality, a.Policy, a.PerTaskMS, 100*a.Hit))
	}
	if v.ok {
		v.measured = strings.Join(said, "; ")
	}
	return v
}
