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
	only := flag.String("only", "launch,rate,idle", "the tables to print")
	report := flag.String("json", "", "write the figures to this file too")
	flag.Parse()
	figures, err := measure(*filchFlag, *only, &bench{runs: *runs, jobs: *jobs, idle: *idle, rate: *rate})
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
	Launches []launchFigure
	Rates    []rateFigure
	Idle     []idleFigure
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
	if b.err, err = os.Create(filepath.Join(b.scratch, "stderr")); err != nil {
		return nil, err
	}
	defer b.err.Close()
	b.meter = newMeter()
	defer b.meter.close()

	h, err := newHydra(b.scratch)
	if err != nil {
		return nil, err
	}
	o, err := newOurs(b, h.program)
	if err != nil {
		return nil, err
	}
	defer o.close()
	b.meter.pids = o.pids
	printHead(b)

	all := &figures{}
	if strings.Contains(only, "launch") {
		rivals := []rival{o, h}
		for _, more := range others(b, o, h) {
			defer more.close()
			rivals = append(rivals, more)
		}
		all.Launches = b.launches(rivals)
	}
	if strings.Contains(only, "rate") {
		all.Rates = b.rates(o, h)
	}
	if strings.Contains(only, "idle") {
		if all.Idle, err = b.idleCost(o); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// others are the launchers that are measured where they are installed.
func others(b *bench, o *ours, h *hydra) []rival {
	var list []rival
	if r, err := newHosted(h, o, b.scratch); err != nil {
		fmt.Printf("not measured: hydra in the launchers' hosts: %v\n", err)
	} else {
		list = append(list, r)
	}
	if r, err := newOMPI(b.scratch); err != nil {
		fmt.Printf("not measured: mpirun: %v\n", err)
	} else {
		list = append(list, r)
	}
	if r, err := newSlurm(b.scratch, h.program); err != nil {
		fmt.Printf("not measured: srun: %v\n", err)
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
