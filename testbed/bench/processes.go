package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

//go:embed programs/spawn.c
var spawnLoop []byte

// processSlots is how many processes of /bin/true run at a time.
func processSlots() int { return max(2, runtime.NumCPU()) }

// processTasks measures what processes cost, filch's and others'.
func (b *bench) processTasks() []taskFigure {
	tableOf("/bin/true on one launcher, every end and output recorded; medians of %d alternated runs", taskRuns)
	return b.onMesh("true", 1, processSlots(), func(m *mesh) []taskFigure {
		h := b.newHeat("process", m, processSlots(), 0)
		h.tools(m, b.many.processes, b.many.processes/slowFactor, "/bin/true")
		return h.run()
	})
}

// tools adds the ways to run argv n times, the floor first. The slow ones run it
// few times.
func (h *heat) tools(m *mesh, n, few int, argv ...string) {
	add := func(tool string, tasks int, err error, start ...string) {
		h.add(tool, tasks, err, os.Environ(), append(start, argv...)...)
	}
	width := strconv.Itoa(h.like.Slots)
	h.floor(n, argv...)
	h.submit(m, n, append([]string{"--"}, argv...)...)
	list, err := h.list(n)
	add("xargs -P", n, err, "xargs", "-a", list, "-P", width, "-I{}")
	makefile, err := h.makefile(n, strings.Join(argv, " "))
	h.add("make -j", n, err, os.Environ(), "make", "-r", "-s", "-j", width, "-f", makefile)
	if list, err = h.list(few); err == nil {
		err = gnu()
	}
	add("GNU parallel", few, err, "parallel", "-j", width, "-N0", "-a", list)
	q, err := newWorkQueue(h.bench, h.like.Slots)
	if err == nil {
		h.done = append(h.done, q.close)
	}
	h.add("Work Queue", few, err, os.Environ(), q.command(few, argv)...)
}

// floor adds a loop of posix_spawn.
func (h *heat) floor(n int, argv ...string) {
	loop, err := compile(h.scratch, "gcc", "spawn", spawnLoop)
	h.add(floorTool, n, err, os.Environ(), append([]string{loop, strconv.Itoa(n), strconv.Itoa(h.like.Slots)}, argv...)...)
}

// list is a file of n lines.
func (b *bench) list(n int) (string, error) {
	file := filepath.Join(b.scratch, "numbers-"+strconv.Itoa(n))
	var lines strings.Builder
	for i := range n {
		fmt.Fprintln(&lines, i)
	}
	return file, os.WriteFile(file, []byte(lines.String()), 0o600)
}

// makefile has n targets that are made by the command.
func (b *bench) makefile(n int, line string) (string, error) {
	file := filepath.Join(b.scratch, "Makefile-"+strconv.Itoa(n))
	var rules strings.Builder
	rules.WriteString("all:")
	for i := range n {
		fmt.Fprintf(&rules, " t%d", i)
	}
	fmt.Fprintf(&rules, "\nt%%:\n\t@%s\n.PHONY: all\n", line)
	return file, os.WriteFile(file, []byte(rules.String()), 0o600)
}

// gnu reports whether parallel is GNU's.
func gnu() error {
	text, err := exec.Command("parallel", "--version").Output()
	if err == nil && !strings.HasPrefix(string(text), "GNU parallel") {
		err = fmt.Errorf("parallel is another program here")
	}
	return err
}

// queues are how many tasks are submitted at once.
var queues = []int{10_000, 100_000, 1_000_000}

// queuedTasks measures the rate of processes while very many wait.
func (b *bench) queuedTasks() []taskFigure {
	tableOf("/bin/true on one launcher while the others wait, for %v or until all ended; medians of %d alternated runs", b.many.queued, taskRuns)
	return b.onMesh("queued", 1, processSlots(), func(m *mesh) []taskFigure {
		all := make([]taskFigure, len(queues))
		rates := make([][]float64, len(queues))
		for i, n := range queues {
			all[i] = taskFigure{What: "queued", Tool: ourTool, Launchers: 1, Slots: processSlots(), Tasks: n}
		}
		for range taskRuns {
			for i := range all {
				rate, err := b.queued(m, all[i].Tasks)
				if err != nil {
					all[i].Error = err.Error()
				}
				rates[i] = append(rates[i], rate)
			}
		}
		for i := range all {
			slices.Sort(rates[i])
			all[i].PerSec = rates[i][taskRuns/2]
			all[i].print()
		}
		return all
	})
}

// queued is how many of n processes ended a second, from the first end that was
// seen to the last. What is left of them is cancelled.
func (b *bench) queued(m *mesh, n int) (rate float64, err error) {
	filch := func(args ...string) (string, error) {
		cmd := exec.Command(b.filch, args...)
		cmd.Env = m.env
		text, err := cmd.Output()
		if err != nil {
			err = fmt.Errorf("filch %s: %w", strings.Join(args, " "), err)
		}
		return strings.TrimSpace(string(text)), err
	}
	job, err := filch("submit", "--array", "1-"+strconv.Itoa(n), "--", "/bin/true")
	if err != nil {
		return 0, err
	}
	var begin, last int32
	var from, to time.Time
	for start := time.Now(); time.Since(start) < b.many.queued && last < int32(n); time.Sleep(10 * time.Millisecond) {
		raw, err := m.asks[0].Query(storeWait, wire.VerbInfo, job)
		var i launcher.JobInfo
		if err == nil {
			err = json.Unmarshal(raw, &i)
		}
		if err == nil && i.Tasks.Failed+i.Tasks.Killed+i.Tasks.Lost > 0 {
			err = fmt.Errorf("of %d tasks %d failed, %d were killed, %d lost", n, i.Tasks.Failed, i.Tasks.Killed, i.Tasks.Lost)
		}
		if err != nil {
			return 0, err
		}
		switch now := time.Now(); {
		case i.Tasks.OK == last:
		case begin == 0:
			begin, last, from = i.Tasks.OK, i.Tasks.OK, now
		default:
			last, to = i.Tasks.OK, now
		}
	}
	if last == begin {
		return 0, fmt.Errorf("%d of %d tasks ended within %v", last, n, b.many.queued)
	}
	if last < int32(n) {
		if _, err := filch("cancel", job); err != nil {
			return 0, err
		}
		_, err = m.asks[0].Query(storeWait, wire.VerbWait, job, storeWait.String())
	}
	return float64(last-begin) / to.Sub(from).Seconds(), err
}
