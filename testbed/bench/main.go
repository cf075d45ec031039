package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

func main() {
	filchFlag := flag.String("filch", "bin/filch", "the binary to measure")
	runs := flag.Int("runs", 11, "measured repetitions of each launch, alternated")
	jobs := flag.Int("jobs", 1000, "launches between the two looks at the idle cost")
	idle := flag.Duration("idle", 5*time.Second, "how long an idle launcher is watched")
	rate := flag.Duration("rate", 3*time.Second, "how long each rate is measured")
	store := flag.Duration("store", 200*time.Millisecond, "how long each operation of a store is measured")
	beside := flag.String("stores", "filch,etcd,kad-dht", "the stores to measure")
	operations := flag.String("operations", "insert,lookup,consistent,swap", "what is asked of them")
	sizes := flag.String("meshes", "3,8,32", "over how many nodes")
	var many taskWish
	flag.IntVar(&many.processes, "tasks", 1500, "processes that each way to run many tasks starts in one run")
	flag.DurationVar(&many.queued, "queued", 500*time.Millisecond, "how long the rate of processes is measured while up to a million wait")
	flag.IntVar(&many.noops, "noops", 200_000, "tasks without a process in one run")
	flag.DurationVar(&many.length, "length", 500*time.Millisecond, "how long tasks of one length fill their slots at least")
	flag.IntVar(&many.sleeps, "sleeps", 96, "processes that sleep 0.1 s on 16 slots")
	flag.IntVar(&many.sleepRuns, "sleepruns", 1, "measured repetitions of processes that sleep")
	flag.IntVar(&many.fleet, "fleet", 8, "launchers, with 16 slots each, whose efficiency is measured")
	flag.IntVar(&many.shapes, "shapes", 200, "tasks of a workflow of each shape")
	flag.IntVar(&many.apps, "apps", 160, "tasks of each application that reads large files, under each policy")
	flag.StringVar(&many.policies, "policies", "", "names of the policies; default: all")
	dax := flag.String("dax", "../shared/data/dax/Sipht_100.xml", "the workflow to replay")
	var watch watchWish
	flag.IntVar(&watch.pairs, "watched", 15, "pairs of runs with watchers and without")
	flag.DurationVar(&watch.length, "watchedfor", 5*time.Second, "how long each of these runs takes, about")
	only := flag.String("only", "launch,steps,rate,idle,store,tasks,gangs,apps,stages,slow,python", "the tables to print")
	what := flag.String("what", "true,mpich,openmpi", "what is launched")
	report := flag.String("json", "", "write the figures to this file too")
	flag.Parse()
	figures, err := measure(*filchFlag, *only, &bench{what: *what, runs: *runs, jobs: *jobs, idle: *idle, rate: *rate, store: storeWish{time: *store, stores: *beside, meshes: *sizes, deeds: *operations}, many: many, watched: watch, dax: *dax})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	if *report != "" {
		raw, err := json.MarshalIndent(figures, "", "\t")
		if err == nil {
			err = os.WriteFile(*report, raw, 0o644)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
	}
}

// figures is the machine-readable form of what is printed.
type figures struct {
	Launches  []launchFigure
	Steps     []rateFigure
	Rates     []rateFigure
	Idle      []idleFigure
	Stores    []storeFigure
	StoreIdle []storeIdle
	Tasks     []taskFigure
	Apps      []appFigure
	Stages    []stageFigure
	Slow      []slowFigure
	Python    []pythonFigure
	Watch     []watchFigure
}

func measure(exe, only string, b *bench) (*figures, error) {
	var err error
	if b.filch, err = filepath.Abs(exe); err != nil {
		return nil, err
	}
	if b.scratch, err = os.MkdirTemp("", "filch-bench-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(b.scratch)
	onInterrupt(b.scratch)
	if b.err, err = os.Create(filepath.Join(b.scratch, "stderr")); err != nil {
		return nil, err
	}
	defer b.err.Close()
	b.meter = newMeter()
	defer b.meter.close()

	printHead(b)
	all := &figures{}
	if strings.Contains(only, "store") {
		all.Stores, all.StoreIdle = b.stores(b.filch)
	}
	if strings.Contains(only, "tasks") {
		all.Tasks = b.tasks()
	}
	if strings.Contains(only, "gangs") {
		all.Tasks = append(all.Tasks, b.gangTasks()...)
	}
	if strings.Contains(only, "apps") {
		all.Apps = b.apps()
	}
	if strings.Contains(only, "stages") {
		all.Stages = b.stages(b.dax)
	}
	if strings.Contains(only, "slow") {
		all.Slow = b.slow()
	}
	if strings.Contains(only, "python") {
		all.Python = b.python()
	}
	if strings.Contains(only, "watch") {
		all.Watch = b.watch()
	}
	for _, part := range []string{"launch", "steps", "rate", "idle"} {
		if strings.Contains(only, part) {
			return all, measureLaunches(b, only, all)
		}
	}
	return all, nil
}

// measureLaunches measures what starts programs.
func measureLaunches(b *bench, only string, all *figures) error {
	h, err := newHydra(b.scratch)
	if err != nil {
		return err
	}
	// Its headers are a package of their own: without them it is left out.
	open, _ := compile(b.scratch, "mpicc.openmpi", "initfini", initfini)
	o, err := newOurs(b, h.program, open)
	if err != nil {
		return err
	}
	defer o.close()
	b.meter.pids = o.pids
	var s *slurm
	if strings.Contains(only, "launch") || strings.Contains(only, "steps") {
		if s, err = newSlurm(b.scratch, h.program, o.open); err != nil {
			fmt.Printf("not measured: srun: %v\n", err)
		} else {
			defer s.close()
		}
	}
	if strings.Contains(only, "launch") {
		rivals := append([]rival{o, h}, others(b, o, h)...)
		if s != nil {
			rivals = append(rivals, s)
		}
		all.Launches = b.launches(rivals)
	}
	if strings.Contains(only, "steps") && s != nil {
		all.Steps = b.steps(o, s)
	}
	if strings.Contains(only, "rate") {
		all.Rates = b.rates(o, h)
	}
	if strings.Contains(only, "idle") {
		if all.Idle, err = b.idleCost(o); err != nil {
			return err
		}
	}
	return nil
}

// others are the launchers that are measured where they are installed.
func others(b *bench, o *ours, h *hydra) []rival {
	var list []rival
	if r, err := newHosted(h, o, b.scratch); err != nil {
		fmt.Printf("not measured: hydra in the launchers' hosts: %v\n", err)
	} else {
		list = append(list, r)
	}
	if r, err := newOMPI(o.open); err != nil {
		fmt.Printf("not measured: mpirun: %v\n", err)
	} else {
		list = append(list, r)
	}
	return list
}

func printHead(b *bench) {
	how := "CPU of a cgroup: exact"
	if !b.meter.precise() {
		how = "CPU of processes, in ticks of 10 ms (no cgroup can be made here)"
	}
	fmt.Printf("%d cores, %s, kernel %s; %s\n", runtime.NumCPU(), runtime.Version(), kernel(), how)
	fmt.Printf("others on this machine use %.2f of a core\n", b.disturbance(time.Second))
}

func kernel() string {
	raw, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(raw))
}

// disturbance is how many cores all others used during d.
func (b *bench) disturbance(d time.Duration) float64 {
	m, c, t := machineCPU(), b.meter.cpu(), time.Now()
	time.Sleep(d)
	other := (machineCPU() - m) - (b.meter.cpu() - c)
	return max(0, other.Seconds()/time.Since(t).Seconds())
}
