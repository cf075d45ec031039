package tasks

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/filchd"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/workflow"
)

func WorkflowCommand(g *cli.Global) *cobra.Command {
	c := &cobra.Command{
		Use:     "workflow",
		GroupID: "run",
		Short:   "run and inspect workflows: tasks that pass files",
		Long: `A workflow is a file that names tasks, their files, and what waits for what: in
filch's own form (YAML or JSON), in WfFormat, or as a Pegasus DAX. See
docs/workflows.md.`,
		Example: "  filch workflow show mosaic.yaml\n  filch workflow run mosaic.yaml --progress",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return ui.Misused(cli.UnknownCommand(cmd, args[0]))
			}
			return cmd.Help()
		},
	}
	c.AddCommand(workflowRunCommand(g), workflowCheckCommand(), workflowShowCommand(), workflowCollectCommand(g))
	return c
}

// show is the options of filch workflow show.
type show struct {
	json, dot bool
	slots     []int
	scales
}

// scales are the factors of a replay's times and file sizes.
type scales struct{ time, size float64 }

func (k *scales) declare(p *pflag.FlagSet) {
	p.Float64Var(&k.time, "time-scale", 1, "multiply the run times of a replay by `FACTOR`")
	p.Float64Var(&k.size, "size-scale", 1, "multiply the file sizes of a replay by `FACTOR`")
}

func workflowShowCommand() *cobra.Command {
	o := &show{}
	c := &cobra.Command{
		Use:   "show FILE",
		Short: "show the tasks and files of a workflow, and its least run time",
		Long: `Reads a workflow (- is standard input) and prints tasks, levels, critical path and
bytes, the least run time for several numbers of slots, and oddities of the file. The
command starts nothing, and no launcher has to run.`,
		Example: `  filch workflow show mosaic.yaml
  filch workflow show montage.json --time-scale 0.01 --slots 64,1024
  filch workflow show montage.dax --dot | dot -Tsvg > montage.svg`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0]) },
	}
	f := c.Flags()
	f.SortFlags = false
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.BoolVar(&o.dot, "dot", false, "print the graph for Graphviz")
	f.IntSliceVar(&o.slots, "slots", []int{1, 16, 256}, "show the least run time on these numbers of slots: `N,N`")
	o.declare(f)
	return c
}

func (o *show) run(name string) error {
	for _, n := range o.slots {
		if n < 1 {
			return ui.Misused(filch.Errorf(filch.Invalid, "a workflow cannot run on %d slots", n))
		}
	}
	if o.json && o.dot {
		return ui.Misused(filch.Errorf(filch.Invalid, "--json and --dot exclude each other"))
	}
	g, _, err := o.load(name)
	if err != nil {
		return err
	}
	switch {
	case o.dot:
		return g.WriteDot(os.Stdout)
	case o.json:
		return ui.PrintJSON(o.info(g, missingInputs(g, name)))
	}
	o.print(g, missingInputs(g, name))
	return nil
}

// load reads a workflow file, and the SHA-256 of its text; - is standard input.
func (k scales) load(name string) (*workflow.Graph, []byte, error) {
	o, f, err := k.open(name)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	h := sha256.New()
	g, err := workflow.Load(io.TeeReader(f, h), o)
	var told *filch.Error
	if err != nil && !errors.As(err, &told) {
		return nil, nil, filch.Errorf(filch.NotFound, "%v", err)
	}
	return g, h.Sum(nil), err
}

// open opens a workflow file, and makes the options to read the file.
func (k scales) open(name string) (o workflow.Options, f io.ReadCloser, err error) {
	if k.time == 0 || k.size == 0 {
		return o, nil, ui.Misused(filch.Errorf(filch.Invalid, "a scale is above 0"))
	}
	o = workflow.Options{Name: name, TimeScale: k.time, SizeScale: k.size, YAML: filchd.ReadYAML}
	if name == "-" {
		o.Name = "standard input"
		return o, io.NopCloser(os.Stdin), nil
	}
	if f, err = openFile(name); err != nil {
		return o, nil, ui.Misused(filch.Errorf(filch.Invalid, "cannot read the workflow %s: %s", ui.Clean(name), ui.Cause(err)))
	}
	return o, f, nil
}

// missingInputs lists the input files that no task writes and that are missing
// beside the workflow's file. A replay makes its own inputs.
func missingInputs(g *workflow.Graph, name string) []string {
	missing := []string{}
	if g.Replay {
		return missing
	}
	dir := filepath.Dir(name)
	start, _ := g.Readers()
	for i := range g.Files {
		f := &g.Files[i]
		if f.Writer >= 0 || start[i] == start[i+1] {
			continue
		}
		if s, err := os.Stat(filepath.Join(dir, f.Path)); err != nil || s.IsDir() {
			missing = append(missing, f.Path)
		}
	}
	return missing
}

// WorkflowInfo is the output of filch workflow show --json.
type WorkflowInfo struct {
	Name     string          `json:"name"`
	Format   string          `json:"format"`
	Replay   bool            `json:"replay"`
	Tasks    int             `json:"tasks"`
	Edges    int             `json:"edges"`
	Named    int             `json:"named_edges"`
	Levels   []int           `json:"levels"`
	Width    int             `json:"width"`
	Work     float64         `json:"work"`
	Critical float64         `json:"critical"`
	Path     []string        `json:"critical_path"`
	Timed    bool            `json:"timed"`
	Bounds   []WorkflowBound `json:"bounds"`
	Files    WorkflowFiles   `json:"files"`
	Missing  []string        `json:"missing"`
	Traps    []workflow.Trap `json:"traps"`
}

// WorkflowBound is the least time on a number of slots.
type WorkflowBound struct {
	Slots int     `json:"slots"`
	Time  float64 `json:"time"`
}

// WorkflowFiles is the files of a workflow, and their bytes.
type WorkflowFiles struct {
	Count        int   `json:"count"`
	Bytes        int64 `json:"bytes"`
	Initial      int   `json:"initial"`
	InitialBytes int64 `json:"initial_bytes"`
	Final        int   `json:"final"`
	FinalBytes   int64 `json:"final_bytes"`
	Largest      int64 `json:"largest_bytes"`
	Unknown      int   `json:"unknown_sizes"`
}

func (o *show) info(g *workflow.Graph, missing []string) WorkflowInfo {
	m := g.Measure()
	v := m.Bytes
	w := WorkflowInfo{
		Name: g.Name, Format: g.Format, Replay: g.Replay, Tasks: m.Tasks, Edges: m.Edges, Named: m.Named,
		Levels: m.Levels, Width: m.Width, Work: m.Work.Seconds(), Critical: m.Critical.Seconds(), Timed: m.Timed,
		Path: []string{}, Bounds: []WorkflowBound{}, Missing: missing, Traps: g.Traps,
		Files: WorkflowFiles{
			Count: v.Files(), Bytes: v.Total(), Initial: v.InitialFiles, InitialBytes: v.Initial,
			Final: v.FinalFiles, FinalBytes: v.Final, Largest: v.Largest, Unknown: v.Unknown,
		},
	}
	if w.Traps == nil {
		w.Traps = []workflow.Trap{}
	}
	for _, t := range m.Chain {
		w.Path = append(w.Path, g.Tasks[t].Name)
	}
	for _, n := range o.slots {
		w.Bounds = append(w.Bounds, WorkflowBound{n, m.Bound(n).Seconds()})
	}
	return w
}

func (o *show) print(g *workflow.Graph, missing []string) {
	m := g.Measure()
	v := m.Bytes
	name := g.Name
	if name == "" {
		name = "workflow"
	}
	ui.Printf("%s  %s  %s  %s (%d named, the others by files alone)\n",
		ui.Clean(name), ui.Clean(g.Format), filch.Plural(m.Tasks, "task"), filch.Plural(m.Edges, "edge"), m.Named)
	ui.Printf("%s, at most %s on one: %s\n", filch.Plural(len(m.Levels), "level"), filch.Plural(m.Width, "task"), levelList(m.Levels))
	ui.Printf("files  %d  %s: %d are there before (%s), %d are left at the end (%s), the largest has %s\n",
		v.Files(), workflow.Bytes(v.Total()), v.InitialFiles, workflow.Bytes(v.Initial), v.FinalFiles, workflow.Bytes(v.Final), workflow.Bytes(v.Largest))
	if v.Unknown > 0 {
		ui.Printf("       %s of unknown size\n", filch.Plural(v.Unknown, "file"))
	}
	if m.Timed {
		ui.Printf("work   %s on one slot\n", filch.ShortTime(m.Work))
		for _, n := range o.slots {
			ui.Printf("bound  %s at least on %s\n", filch.ShortTime(m.Bound(n)), filch.Plural(n, "slot"))
		}
		ui.Printf("critical path  %s over %s:\n", filch.ShortTime(m.Critical), filch.Plural(len(m.Chain), "task"))
	} else {
		ui.Printf("critical path  %s (not all tasks state a time):\n", filch.Plural(len(m.Chain), "task"))
	}
	o.printChain(g, m.Chain, m.Timed)
	if len(missing) > 0 {
		ui.Printf("not there  %s that no task writes: %s\n", filch.Plural(len(missing), "input"), ui.Few(missing, 3))
	}
	if len(g.Traps) > 0 {
		ui.Printf("odd in this file:\n")
	}
	for _, t := range g.Traps {
		examples := ui.Few(t.Examples[:min(len(t.Examples), 2)], 2)
		if t.Count > 2 {
			examples += ", ..."
		}
		ui.Printf("  %5d  %s (%s)\n", t.Count, ui.Clean(t.Text), examples)
	}
}

// chainShown is how many tasks of a critical path are printed.
const chainShown = 24

func (o *show) printChain(g *workflow.Graph, chain []int32, timed bool) {
	t := &ui.Table{Head: []string{"  TASK", "KIND", "TIME"}, Right: map[int]bool{2: true}}
	for i, at := range chain {
		if len(chain) > chainShown && i == chainShown/2 {
			t.Add(fmt.Sprintf("  ... %d more", len(chain)-chainShown), "", "")
		}
		if len(chain) > chainShown && i >= chainShown/2 && i < len(chain)-chainShown/2 {
			continue
		}
		task, cost := &g.Tasks[at], "-"
		if timed || task.Cost > 0 {
			cost = filch.ShortTime(task.Cost.Round(time.Millisecond))
		}
		t.Add("  "+task.Name, task.Kind, cost)
	}
	_ = t.Print()
}

// levelList writes how many tasks each level has, as far as a line holds.
func levelList(levels []int) string {
	const most = 16
	var s []string
	for i, n := range levels {
		if i == most-1 && len(levels) > most {
			s = append(s, "...")
			break
		}
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, " ")
}
