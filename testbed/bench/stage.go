package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// What is measured of the files of tasks, over launchers with so many slots each.
const (
	stageLaunchers = 4
	stageSlots     = 4
	stageFiles     = 500 // inputs of one byte, of the other launchers' nodes
	stageRuns      = 5
	replayRuns     = 1 // of a minute and a half
	replayTime     = 0.02
	replaySize     = 1e-9
)

// stageFigure is how long tasks take because of their files.
type stageFigure struct {
	What   string // "inputs" or "replay"
	runs   int
	Files  int // of a task, or of the workflow
	Nodes  int // where they are
	MS     []float64
	Bound  float64 `json:",omitempty"` // the least time of the workflow on these slots, in ms
	WallMS float64 `json:",omitempty"` // of the command that ran the workflow last
	Error  string  `json:",omitempty"`
}

// stages measures the files of tasks: small ones of several nodes, and a workflow replayed
// with small files, whose tasks are short beside the bringing of files.
func (b *bench) stages(dax string) []stageFigure {
	fmt.Printf("\nfiles of tasks, over %d launchers with %d slots each\n\n", stageLaunchers, stageSlots)
	list := []stageFigure{{What: "inputs", runs: stageRuns, Files: stageFiles, Nodes: stageLaunchers - 1}, {What: "replay", runs: replayRuns, Nodes: stageLaunchers}}
	m, err := newMeshOf(&ours{exe: b.filch}, b.scratch, "stage", stageLaunchers, stageSlots)
	if err == nil {
		defer m.close()
	}
	for i := range list {
		f := &list[i]
		why := err
		for range f.runs {
			switch {
			case why != nil:
			case f.What == "inputs":
				why = b.inputs(m, f)
			default:
				why = b.replay(m, f, dax)
			}
		}
		if why != nil {
			f.Error = why.Error()
		}
		f.print()
	}
	return list
}

func (f *stageFigure) print() {
	switch {
	case f.Error != "":
		fmt.Printf("%-8s not measured: %s\n", f.What, f.Error)
	case f.Bound > 0:
		fmt.Printf("%-8s %5d files: %s ms; the bound is %.0f ms: %.3f times; the command took %.0f ms\n", f.What, f.Files, msText(f.MS), f.Bound, f.median()/f.Bound, f.WallMS)
	default:
		fmt.Printf("%-8s %5d files of one byte from %d nodes: %s ms\n", f.What, f.Files, f.Nodes, msText(f.MS))
	}
}

func (f *stageFigure) median() float64 {
	ms := slices.Sorted(slices.Values(f.MS))
	return ms[len(ms)/2]
}

func msText(ms []float64) string {
	var list []string
	for _, v := range slices.Sorted(slices.Values(ms)) {
		list = append(list, strconv.FormatFloat(v, 'f', 0, 64))
	}
	return strings.Join(list, ", ")
}

// inputs has one task read files of all other nodes; the task's time is that of its files,
// since its command does nothing.
func (b *bench) inputs(m *mesh, f *stageFigure) error {
	type placed struct {
		task
		Nodelist string `json:"nodelist"`
	}
	read := placed{task{Name: "read", Run: "true"}, "n1"}
	var tasks []placed
	for n := range f.Nodes {
		make := placed{task{Name: fmt.Sprintf("make%d", n)}, fmt.Sprintf("n%d", n+2)}
		for i := n; i < f.Files; i += f.Nodes {
			make.Outputs = append(make.Outputs, fmt.Sprintf("f%d", i))
		}
		make.Run = "for f in " + strings.Join(make.Outputs, " ") + "; do printf x >$f; done"
		read.Inputs = append(read.Inputs, make.Outputs...)
		tasks = append(tasks, make)
	}
	raw, err := json.Marshal(map[string]any{"filch": 1, "name": "inputs", "tasks": append(tasks, read)})
	file := filepath.Join(b.scratch, "inputs.json")
	if err == nil {
		err = os.WriteFile(file, raw, 0o600)
	}
	if err != nil {
		return err
	}
	all, err := b.runWorkflow(m, f.Nodes+1, file)
	if err != nil {
		return err
	}
	last := all[len(all)-1]
	if last.Node != "n1" || all[0].Node != "n2" {
		return fmt.Errorf("the reader ran on %s and the first writer on %s", last.Node, all[0].Node)
	}
	f.MS = append(f.MS, last.Took*1000)
	return nil
}

// replay replays a workflow, and compares the time from the first begin to the last end
// with the least time of any schedule.
func (b *bench) replay(m *mesh, f *stageFigure, dax string) error {
	dax, err := filepath.Abs(dax)
	if err != nil {
		return err
	}
	scale := []string{"--time-scale", fmt.Sprint(replayTime), "--size-scale", fmt.Sprint(replaySize)}
	cmd := exec.Command(b.filch, append([]string{"workflow", "show", "--json", "--slots", strconv.Itoa(stageLaunchers * stageSlots), dax}, scale...)...)
	cmd.Env = m.env
	raw, err := cmd.Output()
	var shown struct {
		Tasks  int
		Bounds []struct{ Time float64 }
		Files  struct{ Count int }
	}
	if err == nil {
		err = json.Unmarshal(raw, &shown)
	}
	if err != nil || len(shown.Bounds) == 0 {
		return fmt.Errorf("workflow show %s: %w", dax, err)
	}
	f.Files, f.Bound = shown.Files.Count, shown.Bounds[0].Time*1000
	began := time.Now()
	all, err := b.runWorkflow(m, shown.Tasks, append(scale, dax)...)
	if err != nil {
		return err
	}
	f.WallMS = millis(time.Since(began))
	first, last := float64(all[0].Began)/1000, 0.0
	for _, t := range all {
		first, last = min(first, float64(t.Began)/1000), max(last, float64(t.Began)/1000+t.Took*1000)
	}
	f.MS = append(f.MS, last-first)
	return nil
}

// runWorkflow runs a workflow of so many tasks in a new folder, and returns its tasks.
func (b *bench) runWorkflow(m *mesh, tasks int, args ...string) ([]launcher.Task, error) {
	dir, err := os.MkdirTemp(b.scratch, "stage-")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(b.filch, append([]string{"workflow", "run", "--folder", dir}, args...)...)
	cmd.Env, cmd.Stderr, cmd.Dir = m.env, b.err, b.scratch
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", strings.Join(cmd.Args, " "), err)
	}
	c, err := client.DialDir(m.dirs[0], "")
	if err != nil {
		return nil, err
	}
	defer c.Close()
	all := make([]launcher.Task, tasks)
	for i := range all {
		raw, err := c.Query(storeWait, wire.VerbTask, strings.TrimSpace(string(text)), strconv.Itoa(i))
		if err == nil {
			err = json.Unmarshal(raw, &all[i])
		}
		if err != nil {
			return nil, err
		}
		if all[i].State != "ok" {
			return nil, fmt.Errorf("task %d is %s", i, all[i].State)
		}
	}
	return all, os.RemoveAll(dir)
}
