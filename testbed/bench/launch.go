package main

import (
	"fmt"
	"strings"
	"time"
)

// launchFigure is one launcher's cost of one kind of launch.
type launchFigure struct {
	What     string // a workload
	Ranks    int
	Hosts    int
	Launcher string
	WallMS   float64
	CPUMS    float64
	Runs     int
	Error    string `json:",omitempty"`
}

// launches prints the table of launches, filch first, and returns its figures.
func (b *bench) launches(rivals []rival) []launchFigure {
	fmt.Printf("\nlaunches: wall ms, CPU ms, and filch's wall as a part of the rival's; medians of %d alternated runs\n\n", b.runs)
	fmt.Printf("%-18s %3s %5s", "", "n", "hosts")
	for i, r := range rivals {
		fmt.Printf(" %9s %8s", r.name(), "cpu")
		if i > 0 {
			fmt.Printf(" %6s", "ratio")
		}
	}
	fmt.Println()
	var all []launchFigure
	for _, what := range []workload{plain, mpich, openMPI} {
		if !strings.Contains(b.what, what.flag()) {
			continue
		}
		for _, hosts := range []int{1, 4} {
			for _, ranks := range []int{1, 4, 16} {
				all = append(all, b.launch(rivals, ask{ranks: ranks, hosts: hosts, what: what})...)
			}
		}
	}
	return all
}

// launch measures and prints one line.
func (b *bench) launch(rivals []rival, a ask) []launchFigure {
	what := a.what.String()
	cmds := make([]command, len(rivals))
	for i, r := range rivals {
		cmds[i] = r.command(a)
	}
	medians, errs := b.alternate(cmds)
	line := make([]launchFigure, 0, len(rivals))
	fmt.Printf("%-18s %3d %5d", what, a.ranks, a.hosts)
	for i, r := range rivals {
		wall, cpu := millis(medians[i].wall), millis(medians[i].cpu)
		f := launchFigure{What: what, Ranks: a.ranks, Hosts: a.hosts, Launcher: r.name(), WallMS: wall, CPUMS: cpu, Runs: b.runs}
		measured := cmds[i].argv != nil && errs[i] == nil
		if errs[i] != nil {
			f.Error = errs[i].Error()
		}
		if measured {
			fmt.Printf(" %9.1f %8.1f", wall, cpu)
		} else {
			fmt.Printf(" %9s %8s", "-", "-")
		}
		if i > 0 && measured && wall > 0 {
			fmt.Printf(" %6.2f", millis(medians[0].wall)/wall)
		} else if i > 0 {
			fmt.Printf(" %6s", "-")
		}
		if cmds[i].argv != nil {
			line = append(line, f)
		}
	}
	fmt.Println()
	for i, r := range rivals {
		if errs[i] != nil {
			fmt.Printf("    %s failed: %v\n", r.name(), errs[i])
		}
	}
	return line
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
