package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

//go:embed programs/spawn.c
var spawnLoop []byte

// taskWish is how many tasks are measured.
type taskWish struct {
	processes int
	noops     int
	fleet     int
	apps      int
}

// taskFigure is what one way to run many tasks made of them.
type taskFigure struct {
	What       string // process, noop or sleep
	Tool       string
	Launchers  int
	Slots      int // in all
	Tasks      int
	PerSec     float64
	CPUUS      float64 // per task, of all that it causes
	Part       float64 // of the floor's rate
	Efficiency float64 // of sleeps: the least time that they can take, by the time that they took
	Variation  float64 // coefficient, of the runs
	Wrong      int     // of the tasks that were asked for afterwards
	Error      string  `json:",omitempty"`
}

const (
	taskRuns   = 3
	taskSlots  = 16 // of a launcher, for tasks without a process
	nap        = 64 * time.Millisecond
	napRounds  = 30   // tasks of each slot
	taskAsks   = 1000 // tasks that are asked for, of those that ended
	slowFactor = 10   // GNU parallel is given so much less to do
)

// tasks prints the tables of tasks.
func (b *bench) tasks() []taskFigure {
	all := b.processTasks()
	fmt.Printf("\ntasks without a process, every end recorded; then %d of them asked for, each by itself\n\n", taskAsks)
	fmt.Printf("%-9s %9s %9s %10s %7s\n", "launchers", "tasks", "tasks/s", "CPU us/t", "wrong")
	for _, n := range []int{1, 4} {
		f := b.noops(n)
		all = append(all, f)
		if f.Error != "" {
			fmt.Printf("%-9d not measured: %s\n", n, f.Error)
			continue
		}
		fmt.Printf("%-9d %9d %9.0f %10.2f %7d\n", n, f.Tasks, f.PerSec, f.CPUUS, f.Wrong)
	}
	f := b.naps(b.many.fleet)
	fmt.Printf("\ntasks that sleep %v: efficiency is the least time by the time taken, submission and all; %d runs\n\n", nap, taskRuns)
	fmt.Printf("%-9s %6s %9s %11s %10s\n", "launchers", "slots", "tasks", "efficiency", "variation")
	if f.Error != "" {
		fmt.Printf("%-9d not measured: %s\n", f.Launchers, f.Error)
	} else {
		fmt.Printf("%-9d %6d %9d %10.1f%% %10.3f\n", f.Launchers, f.Slots, f.Tasks, 100*f.Efficiency, f.Variation)
	}
	return append(all, f)
}

// processTasks prints and returns what processes cost, filch's and others'.
func (b *bench) processTasks() []taskFigure {
	slots := max(2, runtime.NumCPU())
	n := b.many.processes
	fmt.Printf("\n/bin/true, %d at a time on one launcher, every end and output recorded; medians of %d alternated runs of %d tasks\n\n", slots, taskRuns, n)
	fmt.Printf("%-14s %9s %10s %9s\n", "", "tasks/s", "CPU us/t", "of floor")
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, "tasks", 1, slots)
	if err != nil {
		fmt.Printf("not measured: %v\n", err)
		return []taskFigure{{What: "process", Tool: "filch", Error: err.Error()}}
	}
	defer m.close()
	defer b.meterOf(m)()
	figures, cmds := b.taskTools(m, n, slots)
	once := *b
	once.runs = taskRuns
	medians, errs := once.alternate(cmds)
	for i := range figures {
		f := &figures[i]
		switch {
		case errs[i] != nil:
			f.Error = errs[i].Error()
		case cmds[i].argv == nil:
		default:
			f.PerSec = float64(f.Tasks) / medians[i].wall.Seconds()
			f.CPUUS = float64(medians[i].cpu.Microseconds()) / float64(f.Tasks)
		}
		if figures[0].PerSec > 0 {
			f.Part = f.PerSec / figures[0].PerSec
		}
		if f.Error != "" {
			fmt.Printf("%-14s not measured: %s\n", f.Tool, f.Error)
			continue
		}
		fmt.Printf("%-14s %9.0f %10.0f %9.2f\n", f.Tool, f.PerSec, f.CPUUS, f.Part)
	}
	return figures
}

// taskTools are the ways to run n processes, the floor first.
func (b *bench) taskTools(m *mesh, n, slots int) ([]taskFigure, []command) {
	var figures []taskFigure
	var cmds []command
	add := func(tool string, tasks int, err error, env []string, argv ...string) {
		f := taskFigure{What: "process", Tool: tool, Launchers: 1, Slots: slots, Tasks: tasks}
		c := command{argv: argv, env: env}
		if err == nil {
			_, err = lookup(argv[0])
		}
		if err != nil {
			f.Error, c.argv = err.Error(), nil
		}
		figures, cmds = append(figures, f), append(cmds, c)
	}
	count, width := strconv.Itoa(n), strconv.Itoa(slots)
	floor, err := b.compileSpawn()
	add("posix_spawn", n, err, os.Environ(), floor, count, width, "/bin/true")
	add("filch submit", n, nil, m.env, b.filch, "submit", "--wait", "--array", "1-"+count, "--", "/bin/true")
	list := filepath.Join(b.scratch, "numbers")
	var lines, rules strings.Builder
	rules.WriteString("all:")
	for i := range n {
		fmt.Fprintln(&lines, i)
		fmt.Fprintf(&rules, " t%d", i)
	}
	rules.WriteString("\nt%:\n\t@/bin/true\n.PHONY: all\n")
	makefile := filepath.Join(b.scratch, "Makefile")
	err = os.WriteFile(list, []byte(lines.String()), 0o600)
	if err == nil {
		err = os.WriteFile(makefile, []byte(rules.String()), 0o600)
	}
	add("xargs -P", n, err, os.Environ(), "xargs", "-a", list, "-P", width, "-n", "1", "/bin/true")
	add("make -j", n, err, os.Environ(), "make", "-r", "-s", "-j", width, "-f", makefile)
	add("GNU parallel", n/slowFactor, gnu(), os.Environ(), "parallel", "-j", width, "/bin/true", "::::", list+".few")
	few := strings.SplitAfterN(lines.String(), "\n", n/slowFactor+1)
	if err := os.WriteFile(list+".few", []byte(strings.Join(few[:len(few)-1], "")), 0o600); err != nil {
		figures[len(figures)-1].Error, cmds[len(cmds)-1].argv = err.Error(), nil
	}
	return figures, cmds
}

// gnu reports whether parallel is GNU's.
func gnu() error {
	text, err := exec.Command("parallel", "--version").Output()
	if err == nil && !strings.HasPrefix(string(text), "GNU parallel") {
		err = fmt.Errorf("parallel is another program here")
	}
	return err
}

func (b *bench) compileSpawn() (string, error) {
	src, out := filepath.Join(b.scratch, "spawn.c"), filepath.Join(b.scratch, "spawn")
	if err := os.WriteFile(src, spawnLoop, 0o600); err != nil {
		return "", err
	}
	if text, err := exec.Command("gcc", "-O2", "-o", out, src).CombinedOutput(); err != nil {
		return out, fmt.Errorf("gcc: %w: %s", err, text)
	}
	return out, nil
}

// meterOf has the meter count a mesh where there is no cgroup, until the
// function that it returns is called.
func (b *bench) meterOf(m *mesh) func() {
	old := b.meter.pids
	b.meter.pids = func() (all []int) {
		for _, one := range m.list {
			all = append(append(all, one.PID), childrenOf(one.PID)...)
		}
		return all
	}
	return func() { b.meter.pids = old }
}

// noops measures tasks without a process over n launchers.
func (b *bench) noops(n int) taskFigure {
	f := taskFigure{What: "noop", Tool: "filch submit", Launchers: n, Slots: n * taskSlots, Tasks: b.many.noops}
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, "noops", n, taskSlots)
	if err != nil {
		f.Error = err.Error()
		return f
	}
	defer m.close()
	defer b.meterOf(m)()
	c := command{argv: []string{b.filch, "submit", "--wait", "--builtin", "noop", "--array", "1-" + strconv.Itoa(f.Tasks)}, env: m.env}
	once := *b
	once.runs = taskRuns
	began := time.Now()
	medians, errs := once.alternate([]command{c})
	if errs[0] != nil {
		f.Error = errs[0].Error()
		return f
	}
	f.PerSec = float64(f.Tasks) / medians[0].wall.Seconds()
	f.CPUUS = float64(medians[0].cpu.Microseconds()) / float64(f.Tasks)
	if f.Wrong, err = m.askTasks(strconv.Itoa(taskRuns+1), f.Tasks, began); err != nil {
		f.Error = err.Error()
	}
	return f
}

// askTasks asks all launchers in turn for random tasks of a job that ended
// well, and returns how many are not as they must be.
func (m *mesh) askTasks(job string, total int, began time.Time) (wrong int, err error) {
	for i := range taskAsks {
		index := rand.IntN(total)
		raw, err := m.asks[i%len(m.asks)].Query(storeWait, wire.VerbTask, job, strconv.Itoa(index))
		var t launcher.Task
		if err == nil {
			err = json.Unmarshal(raw, &t)
		}
		if err != nil {
			return wrong, err
		}
		at := time.UnixMicro(t.Began)
		if t.State != "ok" || t.Code == nil || *t.Code != 0 || t.Attempts != 1 || t.Index != int32(index) || t.Node == "" ||
			at.Before(began.Add(-time.Second)) || at.After(time.Now()) {
			wrong++
		}
	}
	return wrong, nil
}

// naps measures how well sleeps fill the slots of n launchers.
func (b *bench) naps(n int) taskFigure {
	f := taskFigure{What: "sleep", Tool: "filch submit", Launchers: n, Slots: n * taskSlots, Tasks: n * taskSlots * napRounds}
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, "fleet", n, taskSlots)
	if err != nil {
		f.Error = err.Error()
		return f
	}
	defer m.close()
	argv := []string{b.filch, "submit", "--wait", "--builtin", "sleep:" + nap.String(), "--array", "1-" + strconv.Itoa(f.Tasks)}
	least := napRounds * nap.Seconds()
	var sum, squares float64
	for range taskRuns {
		s, err := b.once(argv, m.env)
		if err != nil {
			f.Error = err.Error()
			return f
		}
		e := least / s.wall.Seconds()
		sum += e
		squares += e * e
		f.PerSec += float64(f.Tasks) / s.wall.Seconds() / taskRuns
	}
	f.Efficiency = sum / taskRuns
	f.Variation = math.Sqrt(max(0, squares/taskRuns-f.Efficiency*f.Efficiency)) / f.Efficiency
	return f
}
