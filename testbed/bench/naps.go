package main

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// lengthsMS are how long tasks sleep whose efficiency is measured.
var lengthsMS = []int{1, 10, 16, 64, 100, 128, 1000}

const (
	lengthSlots  = 2
	wideLength   = 100 * time.Millisecond
	shortestNap  = 64 * time.Millisecond // that a whole fleet is asked for
	efficiencyIs = "efficiency is the least time by the time taken, submission and all"
)

// rounds is how many tasks of a length each slot runs.
func (b *bench) rounds(length time.Duration) int { return max(1, int(b.many.length/length)) }

// sleep is a process that sleeps.
func sleep(length time.Duration) []string {
	return []string{"sleep", strconv.FormatFloat(length.Seconds(), 'f', -1, 64)}
}

// lengths measures processes that sleep, on two slots.
func (b *bench) lengths() []taskFigure {
	tableOf("processes that sleep: %s; medians of %d", efficiencyIs, b.many.sleepRuns)
	return b.onMesh("length", 1, lengthSlots, func(m *mesh) (all []taskFigure) {
		for _, ms := range lengthsMS {
			length := time.Duration(ms) * time.Millisecond
			n := lengthSlots * b.rounds(length)
			h := b.newHeat("sleep", m, lengthSlots, length)
			h.runs = b.many.sleepRuns
			h.floor(n, sleep(length)...)
			h.submit(m, n, append([]string{"--"}, sleep(length)...)...)
			all = append(all, h.run()...)
		}
		return all
	})
}

// wideSleeps measures them on the slots of a node, beside others.
func (b *bench) wideSleeps() []taskFigure {
	tableOf("processes that sleep, by each tool; medians of %d alternated runs", b.many.sleepRuns)
	return b.onMesh("wide", 1, taskSlots, func(m *mesh) []taskFigure {
		h := b.newHeat("wide sleep", m, taskSlots, wideLength)
		h.runs = b.many.sleepRuns
		n, argv := b.many.sleeps, sleep(wideLength)
		h.tools(m, n, n, argv...)
		s, err := newSlurm(b.scratch, "", "")
		list, failed := b.list(n)
		if err == nil {
			h.done = append(h.done, s.close)
			err = failed
		}
		if err != nil {
			h.add("srun", n, fmt.Errorf("srun: %w", err), nil)
			return h.run()
		}
		step := []string{"xargs", "-a", list, "-P", strconv.Itoa(taskSlots), "-I{}", "srun", "-Q", "--jobid=" + s.job, "--exact", "-N1", "-n1"}
		h.add("srun", n, nil, append(s.Env(), "SLURM_JOB_ID="+s.job), append(step, argv...)...)
		return h.run()
	})
}

// naps measures how well built-in sleeps fill the slots of the fleet.
func (b *bench) naps() []taskFigure {
	tableOf("built-in tasks that sleep: %s; means of %d", efficiencyIs, taskRuns)
	return b.onMesh("fleet", b.many.fleet, taskSlots, func(m *mesh) (all []taskFigure) {
		for _, ms := range lengthsMS {
			length := time.Duration(ms) * time.Millisecond
			if length >= shortestNap {
				f := b.nap(m, length)
				f.print()
				all = append(all, f)
			}
		}
		return all
	})
}

func (b *bench) nap(m *mesh, length time.Duration) taskFigure {
	f := b.newHeat("builtin sleep", m, taskSlots, length).like
	f.Tool, f.Tasks = ourTool, f.Slots*b.rounds(length)
	var sum, squares, rate, cpu float64
	for range taskRuns {
		s, err := b.once([]string{b.filch, "submit", "--wait", "--builtin", "sleep:" + length.String(), "--array", "1-" + strconv.Itoa(f.Tasks)}, m.env)
		if err != nil {
			f.Error = err.Error()
			return f
		}
		f.fits(s.wall)
		sum += f.Efficiency
		squares += f.Efficiency * f.Efficiency
		rate += f.PerSec
		cpu += float64(s.cpu.Microseconds()) / float64(f.Tasks)
	}
	f.Efficiency, f.PerSec, f.CPUUS = sum/taskRuns, rate/taskRuns, cpu/taskRuns
	f.Variation = math.Sqrt(max(0, squares/taskRuns-f.Efficiency*f.Efficiency)) / f.Efficiency
	return f
}
