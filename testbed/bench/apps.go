package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The applications of MATRIX v2 (IV.C), scaled down: tasks as long as there, as
// large files for stacking and a tenth for all-pairs, fewer of both.
const (
	appLaunchers = 8
	appSlots     = 1 // of each: the tasks sleep, and bringing files is what takes the processors
	stackMS      = 158
	stackBytes   = 2 << 20
	pairMS       = 100
	pairBytes    = 12 << 20 / 10
)

// stackLocalities are how many tasks read each file.
var stackLocalities = []int{1, 3, 10}

// appPolicies let rlds and flds weigh files of these sizes.
var appPolicies = []string{"mlb", "mdl", "rlds:threshold=1M,guess=100ms", "flds:threshold=1M,guess=100ms,tt=1s", "adage:guess=100ms", "auto:guess=100ms"}

// appFigure is how an application did under a policy.
type appFigure struct {
	App, Policy string
	Locality    int // tasks for each file
	Tasks       int
	PerTaskMS   float64 // from the first begin to the last end of those that read, by the tasks of a slot
	Efficiency  float64 // how long a task takes by itself, by that
	Hit         float64 // part of the tasks that ran where the most of what they read was written
	Parts       slotTime
	Error       string `json:",omitempty"`
}

// slotTime is where the time of the slots went, in ms of a slot for each task that reads; the sum is
// appFigure.PerTaskMS.
type slotTime struct {
	In, Run, Out float64 // inputs came, the process ran, outputs were taken
	Between      float64 // from the end of a task to the begin of the next in the slot
	Begin, Rest  float64 // before the first task in the slot, and after the last
}

// span is the stages of a task, in seconds.
type span struct{ begin, run, out, end float64 }

// spanOf finds the stages of an ended task.
func spanOf(t *launcher.Task) span {
	s := span{begin: float64(t.Began) / 1e6}
	s.run, s.end = s.begin, s.begin+t.Took
	s.out = s.end
	for _, at := range t.Times {
		switch {
		case at.Node != t.Node:
		case at.Stage == launcher.StageRunning:
			s.run = float64(at.UnixNS) / 1e9
		case at.Stage == launcher.StageOutputs:
			s.out = float64(at.UnixNS) / 1e9
		}
	}
	return s
}

// slotTimeOf sums up the time of the slots, which have the tasks with these spans, from the first
// begin to the last end.
func slotTimeOf(slots map[filch.NodeName][]span, empty int) (p slotTime) {
	n, first, last := 0, math.Inf(1), 0.0
	for _, list := range slots {
		slices.SortFunc(list, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
		n, first, last = n+len(list), min(first, list[0].begin), max(last, list[len(list)-1].end)
	}
	for _, list := range slots {
		p.Begin += list[0].begin - first
		p.Rest += last - list[len(list)-1].end
		for i, s := range list {
			p.In, p.Run, p.Out = p.In+s.run-s.begin, p.Run+s.out-s.run, p.Out+s.end-s.out
			if i > 0 {
				p.Between += s.begin - list[i-1].end
			}
		}
	}
	p.Rest += float64(empty) * (last - first)
	for _, v := range []*float64{&p.In, &p.Run, &p.Out, &p.Between, &p.Begin, &p.Rest} {
		*v *= 1000 / float64(max(n, 1))
	}
	return p
}

func (p *slotTime) String() string {
	return fmt.Sprintf("%6.1f %6.1f %6.1f %7.1f %6.1f %6.1f", p.In, p.Run, p.Out, p.Between, p.Begin, p.Rest)
}

// app is an application: files, then tasks that read them, then one that reads
// what all of these wrote.
type app struct {
	name     string
	locality int
	ms       int
	bytes    int
	files    int
	reads    [][]int // by task, the files
}

// stacking is about n tasks that read a file each, so many of them the same.
func stacking(n, locality int) *app {
	a := &app{name: "stacking", locality: locality, ms: stackMS, bytes: stackBytes, files: max(1, n/locality)}
	for i := range a.files * locality {
		a.reads = append(a.reads, []int{i % a.files})
	}
	return a
}

// allPairs is tasks that read a file of each of two sets of n.
func allPairs(n int) *app {
	a := &app{name: "all-pairs", locality: n, ms: pairMS, bytes: pairBytes, files: 2 * n}
	for i := range n * n {
		a.reads = append(a.reads, []int{i / n, n + i%n})
	}
	return a
}

// task is one of a workflow file.
type task struct {
	Name    string   `json:"name"`
	Run     string   `json:"run"`
	Inputs  []string `json:"inputs,omitempty"`
	Outputs []string `json:"outputs,omitempty"`
	After   []string `json:"after,omitempty"`
}

func writeWorkflow(file, name string, tasks []task) error {
	b, err := json.Marshal(map[string]any{"filch": 1, "name": name, "tasks": tasks})
	if err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}

// write writes the workflow: tasks 0 to files-1 make a file each, the next one
// waits for all of them, then come those that read.
func (a *app) write(file string) error {
	var tasks []task
	gate := task{Name: "gate", Run: "true"}
	for i := range a.files {
		n := fmt.Sprintf("f%d", i)
		tasks = append(tasks, task{Name: "make-" + n, Run: fmt.Sprintf("sleep 0.1; head -c %d /dev/urandom >%s", a.bytes, n), Outputs: []string{n}})
		gate.After = append(gate.After, "make-"+n)
	}
	tasks = append(tasks, gate)
	last := task{Name: "gather", Run: "cat o* >all", Outputs: []string{"all"}}
	for i, read := range a.reads {
		t := task{Name: fmt.Sprintf("read-%d", i), Outputs: []string{fmt.Sprintf("o%d", i)}, After: []string{"gate"}}
		for _, f := range read {
			t.Inputs = append(t.Inputs, fmt.Sprintf("f%d", f))
		}
		t.Run = fmt.Sprintf("sleep %.3f; cat %s | head -c 10240 >o%d", float64(a.ms)/1000, strings.Join(t.Inputs, " "), i)
		last.Inputs = append(last.Inputs, t.Outputs[0])
		tasks = append(tasks, t)
	}
	return writeWorkflow(file, a.name, append(tasks, last))
}

// apps prints how the applications did under each policy.
func (b *bench) apps() (all []appFigure) {
	fmt.Printf("\nimage stacking (%d ms, %d MB) and all-pairs (%d ms, 2 x %.1f MB) over %d launchers with %d slot each\n\n",
		stackMS, stackBytes>>20, pairMS, float64(pairBytes)/(1<<20), appLaunchers, appSlots)
	fmt.Printf("%-10s %8s %-6s %6s %9s %11s %7s   %6s %6s %6s %7s %6s %6s\n", "", "locality", "policy", "tasks", "ms/task", "efficiency", "hits", "in", "run", "out", "between", "begin", "rest")
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, "apps", appLaunchers, appSlots)
	if err != nil {
		fmt.Printf("not measured: %v\n", err)
		return []appFigure{{Error: err.Error()}}
	}
	defer m.close()
	list := []*app{}
	for _, l := range stackLocalities {
		list = append(list, stacking(b.many.apps, l))
	}
	for _, a := range append(list, allPairs(int(math.Sqrt(float64(b.many.apps)))+3)) {
		for _, policy := range b.policies() {
			f := b.app(m, a, policy)
			all = append(all, f)
			if f.Error != "" {
				fmt.Printf("%-10s %8d %-6s not measured: %s\n", f.App, f.Locality, f.Policy, f.Error)
				continue
			}
			fmt.Printf("%-10s %8d %-6s %6d %9.0f %10.1f%% %6.1f%%   %s\n", f.App, f.Locality, f.Policy, f.Tasks, f.PerTaskMS, 100*f.Efficiency, 100*f.Hit, &f.Parts)
		}
	}
	fmt.Println("\nMATRIX v2 on 128 and 200 cores: stacking 167 ms (locality 1) to 176 ms (30) under mdl, all-pairs 85.9% efficiency under flds")
	return all
}

// policies are the policies to measure.
func (b *bench) policies() (list []string) {
	for _, p := range appPolicies {
		if name, _, _ := strings.Cut(p, ":"); b.many.policies == "" || slices.Contains(strings.Split(b.many.policies, ","), name) {
			list = append(list, p)
		}
	}
	return list
}

func (b *bench) app(m *mesh, a *app, policy string) appFigure {
	name, _, _ := strings.Cut(policy, ":")
	f := appFigure{App: a.name, Policy: name, Locality: a.locality, Tasks: len(a.reads)}
	dir := filepath.Join(b.scratch, fmt.Sprintf("%s-%d-%s", a.name, a.locality, name))
	file := filepath.Join(dir, "w.json")
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = a.write(file)
	}
	var job string
	for _, argv := range [][]string{{"policy", policy}, {"workflow", "run", file}} {
		if err != nil {
			break
		}
		cmd := exec.Command(b.filch, argv...)
		cmd.Env = m.env
		var text []byte
		if text, err = cmd.Output(); err != nil {
			err = fmt.Errorf("filch %s: %w", strings.Join(argv, " "), err)
		}
		job = strings.TrimSpace(string(text))
	}
	if err == nil {
		err = f.measure(m, a, job)
	}
	if err != nil {
		f.Error = err.Error()
	}
	return f
}

// measure asks for every task, when and where it ran.
func (f *appFigure) measure(m *mesh, a *app, job string) error {
	c, err := client.DialDir(m.dirs[0], "")
	if err != nil {
		return err
	}
	defer c.Close()
	made := make([]filch.NodeName, a.files)
	spans := map[filch.NodeName][]span{}
	for i := range a.files + 1 + len(a.reads) {
		raw, err := c.Query(storeWait, wire.VerbTask, job, strconv.Itoa(i))
		var t launcher.Task
		if err == nil {
			err = json.Unmarshal(raw, &t)
		}
		if err != nil {
			return err
		}
		switch k := i - a.files - 1; {
		case i < a.files:
			made[i] = t.Node
		case k >= 0:
			spans[t.Node] = append(spans[t.Node], spanOf(&t))
			if slices.ContainsFunc(a.reads[k], func(file int) bool { return made[file] == t.Node }) {
				f.Hit += 1 / float64(len(a.reads))
			}
		}
	}
	f.Parts = slotTimeOf(spans, appLaunchers*appSlots-len(spans)*appSlots)
	p := &f.Parts
	f.PerTaskMS = p.In + p.Run + p.Out + p.Between + p.Begin + p.Rest
	f.Efficiency = float64(a.ms) / f.PerTaskMS
	return nil
}
