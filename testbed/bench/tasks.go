package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// taskWish is how many tasks are measured, and how long.
type taskWish struct {
	processes int
	noops     int
	fleet     int
	apps      int
	queued    time.Duration // how long the rate of each long queue is measured
	length    time.Duration // the least time that tasks of one length fill their slots
	sleeps    int
	sleepRuns int
	shapes    int
	policies  string // names of those under which the applications run; "": all
}

// taskFigure is what one way to run many tasks made of them.
type taskFigure struct {
	What       string // process, queued, noop, sleep (a process), builtin sleep, or a shape of workflows
	Tool       string
	Launchers  int
	Slots      int     // in all
	MS         float64 // that a task sleeps
	Tasks      int
	PerSec     float64
	CPUUS      float64            // per task, of all that it causes
	Part       float64            // of the floor's rate
	Efficiency float64            // of sleeps: the least time that they can take, by the time that they took
	Variation  float64            // coefficient, of the runs
	Wrong      int                // of the tasks that were asked for afterwards
	Messages   map[string]float64 `json:",omitempty"` // per task, between launchers, by kind
	Error      string             `json:",omitempty"`
}

const (
	taskRuns   = 3
	taskSlots  = 16   // of a launcher, for tasks without a process
	taskAsks   = 1000 // tasks that are asked for, of those that ended
	slowFactor = 10   // GNU parallel and Work Queue are given so much less to do
)

// The names of the floor and of our own way.
const (
	floorTool = "posix_spawn"
	ourTool   = "filch submit"
)

// tasks prints the tables of tasks.
func (b *bench) tasks() []taskFigure {
	return slices.Concat(b.processTasks(), b.queuedTasks(), b.noopTasks(), b.lengths(), b.wideSleeps(), b.naps(), b.shapes())
}

// tableOf prints the head of a table of tasks.
func tableOf(format string, args ...any) {
	fmt.Printf("\n"+format+"\n\n", args...)
	fmt.Printf("%-13s %9s %6s %5s %8s %9s %9s %9s %11s %10s\n",
		"", "launchers", "slots", "ms", "tasks", "tasks/s", "CPU us/t", "of floor", "efficiency", "variation")
}

func (f *taskFigure) print() {
	if f.Error != "" {
		fmt.Printf("%-13s not measured: %s\n", f.Tool, f.Error)
		return
	}
	some := func(format string, v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf(format, v)
	}
	fmt.Printf("%-13s %9d %6d %5s %8d %9.0f %9s %9s %11s %10s\n", f.Tool, f.Launchers, f.Slots, some("%.0f", f.MS), f.Tasks, f.PerSec,
		some("%.1f", f.CPUUS), some("%.2f", f.Part), some("%.1f%%", 100*f.Efficiency), some("%.3f", f.Variation))
}

// fits sets the rate and the efficiency of f by how long its tasks took.
func (f *taskFigure) fits(wall time.Duration) {
	rounds := (f.Tasks + f.Slots - 1) / f.Slots
	f.PerSec = float64(f.Tasks) / wall.Seconds()
	f.Efficiency = float64(rounds) * f.MS / millis(wall)
}

// onMesh has f measure n launchers that nobody else asks for anything.
func (b *bench) onMesh(what string, n, slots int, f func(m *mesh) []taskFigure) []taskFigure {
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, what, n, slots)
	if err != nil {
		failed := taskFigure{What: what, Tool: ourTool, Launchers: n, Slots: n * slots, Error: err.Error()}
		failed.print()
		return []taskFigure{failed}
	}
	defer m.close()
	old := b.meter.pids
	b.meter.pids = func() (all []int) { // where there is no cgroup
		for _, one := range m.list {
			all = append(append(all, one.PID), childrenOf(one.PID)...)
		}
		return all
	}
	defer func() { b.meter.pids = old }()
	return f(m)
}

// heat is ways to run the same tasks, which take turns.
type heat struct {
	*bench
	like    taskFigure // what all their figures have in common
	runs    int
	figures []taskFigure
	cmds    []command
	done    []func() // called when all have run
}

// newHeat is one on a mesh, each of whose tasks sleeps so long.
func (b *bench) newHeat(what string, m *mesh, slots int, sleep time.Duration) *heat {
	return &heat{bench: b, runs: taskRuns, like: taskFigure{What: what, Launchers: len(m.list), Slots: len(m.list) * slots, MS: millis(sleep)}}
}

// add adds a way. With err it is not measured, and that is why.
func (h *heat) add(tool string, tasks int, err error, env []string, argv ...string) {
	f := h.like
	f.Tool, f.Tasks = tool, tasks
	c := command{argv: argv, env: env}
	if err == nil {
		_, err = lookup(argv[0])
	}
	if err != nil {
		f.Error, c.argv = err.Error(), nil
	}
	h.figures, h.cmds = append(h.figures, f), append(h.cmds, c)
}

// submit adds our way to run n tasks.
func (h *heat) submit(m *mesh, n int, args ...string) {
	argv := []string{h.filch, "submit", "--wait", "--array", "1-" + strconv.Itoa(n)}
	h.add(ourTool, n, nil, m.env, append(argv, args...)...)
}

// run measures all and prints them.
func (h *heat) run() []taskFigure {
	once := *h.bench
	once.runs = h.runs
	medians, errs := once.alternate(h.cmds)
	for _, done := range h.done {
		done()
	}
	for i := range h.figures {
		f := &h.figures[i]
		if errs[i] != nil {
			f.Error = errs[i].Error()
		}
		if f.Error == "" {
			f.fits(medians[i].wall)
			f.CPUUS = float64(medians[i].cpu.Microseconds()) / float64(f.Tasks)
			if floor := &h.figures[0]; floor.Tool == floorTool && floor.PerSec > 0 {
				f.Part = f.PerSec / floor.PerSec
			}
		}
		f.print()
	}
	return h.figures
}

// noopTasks measures tasks without a process.
func (b *bench) noopTasks() (all []taskFigure) {
	tableOf("tasks without a process, every end recorded; then %d of them asked for, each by itself", taskAsks)
	for _, n := range []int{1, 4} {
		all = append(all, b.onMesh("noop", n, taskSlots, func(m *mesh) []taskFigure {
			began := time.Now()
			h := b.newHeat("noop", m, taskSlots, 0)
			h.submit(m, b.many.noops, "--builtin", "noop")
			f := &h.run()[0]
			if f.Error != "" {
				return h.figures
			}
			var err error
			if f.Wrong, err = m.askTasks(strconv.Itoa(h.runs+1), f.Tasks, began); err != nil {
				f.Error = err.Error()
				f.print()
			} else {
				fmt.Printf("%-13s %d of those asked for were wrong\n", "", f.Wrong)
			}
			return h.figures
		})...)
	}
	return all
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
