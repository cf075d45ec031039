// Package order checks from the trace of a replay that every dependency of its
// workflow was honored.
//
// The trace is what the tasks themselves wrote (mtc/workflow/replay): one file
// that all of them append to. The order of its lines tells when a task was
// started and ended; the sums in it tell that each task read what its parents
// wrote. What the sums should be is computed from the workflow alone.
package order

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/mtc/workflow"
	"github.com/filch-hpc/filch/mtc/workflow/replay"
)

// faultsMax is how many faults an error tells of.
const faultsMax = 10

// Report is what a trace says.
type Report struct {
	Tasks  int // that ended well
	Starts int // of all attempts
	Failed int // attempts that ended badly, as the task itself saw it
	Cut    int // attempts that never said how they ended
	Edges  int // of the workflow, each checked at every start
	Files  int // whose sums were checked
	Nodes  int // that had a task
	Span   time.Duration
}

func (r Report) String() string {
	return fmt.Sprintf("%d tasks in %d starts (%d failed, %d cut off) on %d nodes, %d edges and %d sums of files checked, %v",
		r.Tasks, r.Starts, r.Failed, r.Cut, r.Nodes, r.Edges, r.Files, r.Span.Round(time.Millisecond))
}

// checker walks a trace.
type checker struct {
	g      *workflow.Graph
	index  map[string]int32
	sums   []replay.Sum // of files, as they should be
	ended  []bool       // well
	open   map[string]int32
	nodes  map[string]bool
	report Report
	faults []error
	more   int
	first  int64
	last   int64
}

// Check reads the trace of a replay of g. The error lists what is wrong.
func Check(g *workflow.Graph, trace io.Reader) (Report, error) {
	sums, err := Sums(g)
	if err != nil {
		return Report{}, err
	}
	c := &checker{
		g: g, sums: sums, index: map[string]int32{}, ended: make([]bool, len(g.Tasks)),
		open: map[string]int32{}, nodes: map[string]bool{},
	}
	for i := range g.Tasks {
		c.index[g.Tasks[i].Name] = int32(i)
		c.report.Edges += len(g.Tasks[i].Parents)
	}
	if err := readTrace(trace, c.record); err != nil {
		return c.report, err
	}
	for i := range g.Tasks {
		if c.ended[i] {
			c.report.Tasks++
		} else {
			c.fault("task %s never ended well", g.Tasks[i].Name)
		}
	}
	c.report.Cut = len(c.open)
	c.report.Nodes = len(c.nodes)
	c.report.Span = time.Duration(c.last - c.first)
	if c.more > 0 {
		c.faults = append(c.faults, fmt.Errorf("and %d more", c.more))
	}
	return c.report, errors.Join(c.faults...)
}

// Sums is the sum of every file of a replay, computed from the workflow alone.
func Sums(g *workflow.Graph) ([]replay.Sum, error) {
	sums := make([]replay.Sum, len(g.Files))
	for i := range g.Files {
		if f := &g.Files[i]; f.Writer < 0 {
			s, err := replay.Make(io.Discard, f.Path, f.Size, nil)
			if err != nil {
				return nil, err
			}
			sums[i] = s
		}
	}
	for _, t := range g.Order() {
		task := &g.Tasks[t]
		var inputs []replay.Named
		for _, f := range task.Inputs {
			inputs = append(inputs, replay.Named{Path: g.Files[f].Path, Sum: sums[f]})
		}
		for _, f := range task.Outputs {
			s, err := replay.Make(io.Discard, g.Files[f].Path, g.Files[f].Size, inputs)
			if err != nil {
				return nil, err
			}
			sums[f] = s
		}
	}
	return sums, nil
}

func (c *checker) fault(format string, args ...any) {
	if len(c.faults) == faultsMax {
		c.more++
		return
	}
	c.faults = append(c.faults, fmt.Errorf(format, args...))
}

func (c *checker) record(r replay.Record) error {
	t, ok := c.index[r.Task]
	if !ok {
		return fmt.Errorf("the workflow has no task %q", r.Task)
	}
	if c.first == 0 {
		c.first = r.UnixNS
	}
	c.first, c.last = min(c.first, r.UnixNS), max(c.last, r.UnixNS)
	c.nodes[r.Node] = true
	attempt := fmt.Sprintf("%s %s %d", r.Task, r.Node, r.PID)
	switch r.Event {
	case replay.EventStart:
		c.report.Starts++
		c.open[attempt] = t
		for _, p := range c.g.Tasks[t].Parents {
			if !c.ended[p] {
				c.fault("task %s was started before its parent %s had ended", r.Task, c.g.Tasks[p].Name)
			}
		}
	case replay.EventEnd:
		if _, started := c.open[attempt]; !started {
			c.fault("task %s ended without having been started", r.Task)
		}
		delete(c.open, attempt)
		if r.Error != "" {
			c.report.Failed++
			return nil
		}
		c.end(t, r)
	default:
		return fmt.Errorf("there is no event %q", r.Event)
	}
	return nil
}

// end checks what a task says that it read and wrote.
func (c *checker) end(t int32, r replay.Record) {
	task := &c.g.Tasks[t]
	if took := time.Duration(r.TookNS); took < task.Cost {
		c.fault("task %s took %v, should take %v", task.Name, took, task.Cost)
	}
	for _, side := range []struct {
		what  string
		files []int32
		got   []replay.Touched
	}{{"read", task.Inputs, r.In}, {"wrote", task.Outputs, r.Out}} {
		var want, got []string
		for _, f := range side.files {
			want = append(want, fmt.Sprintf("%s, %d bytes, %s", c.g.Files[f].Path, c.g.Files[f].Size, hex.EncodeToString(c.sums[f][:])))
		}
		for _, f := range side.got {
			got = append(got, fmt.Sprintf("%s, %d bytes, %s", f.Path, f.Size, f.Sum))
		}
		slices.Sort(want)
		slices.Sort(got)
		c.report.Files += len(got)
		if !slices.Equal(got, want) {
			c.fault("task %s %s other files than it should have: %s", task.Name, side.what, difference(got, want))
		}
	}
	c.ended[t] = true
}

// difference is the first entry that only one of two sorted lists has.
func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "not " + want[i]
		case i >= len(want):
			return "also " + got[i]
		case got[i] != want[i]:
			return strings.Join([]string{got[i], want[i]}, " and not ")
		}
	}
	return ""
}

// lineMax bounds a line of a trace: a task with as many files as the arguments can name.
const lineMax = 8 << 20

// readTrace reads a trace.
func readTrace(r io.Reader, visit func(replay.Record) error) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, lineMax)
	for line := 1; s.Scan(); line++ {
		var rec replay.Record
		if err := json.Unmarshal(s.Bytes(), &rec); err != nil {
			return fmt.Errorf("line %d of the trace: %w", line, err)
		}
		if err := visit(rec); err != nil {
			return fmt.Errorf("line %d of the trace: %w", line, err)
		}
	}
	return s.Err()
}
