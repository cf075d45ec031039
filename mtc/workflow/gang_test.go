package workflow

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/workflow/yaml"
)

const gangs = `filch: 1
defaults: {nodes: 2, mpi: pmi2}
tasks:
  prepare:
    run: split in
    inputs: in
    outputs: [a, b]
    time: 1s
  sim:
    run: [solver, a]
    ranks: 4
    cpus: 2
    nodes: 2-4
    ranks_per_node: 2
    inputs: a
    outputs: out
    outputs_from: all
    time: 1s
  small:
    run: [solver, b]
    ranks: 2
    mpi: none
    inputs: b
    outputs: small.out
    outputs_from: rank0
    time: 1s
`

// TestTasksWithRanks reads a file with tasks of both kinds.
func TestTasksWithRanks(t *testing.T) {
	g := load(t, gangs)
	for i, want := range []Gang{{}, {Ranks: 4, MinNodes: 2, MaxNodes: 4, PerNode: 2, MPI: "pmi2"}, {Ranks: 2, MinNodes: 2, MaxNodes: 2, MPI: "none"}} {
		if got := g.Tasks[i].Need.Gang; got != want || g.Tasks[i].AllNodes != (i == 1) {
			t.Errorf("%s: got %+v and all nodes %t, want %+v", g.Tasks[i].Name, got, g.Tasks[i].AllNodes, want)
		}
	}
	if m := g.Measure(); m.Work != (1+4*2+2)*time.Second {
		t.Errorf("got %v of work, want 11 s", m.Work)
	}
	base := g.Marks(sameSum)
	for _, c := range []struct{ old, now, want string }{
		{"ranks: 4", "ranks: 3", "sim"},
		{"nodes: 2-4", "nodes: 2-3", "sim"},
		{"ranks_per_node: 2", "ranks_per_node: 3", "sim"},
		{"mpi: none", "mpi: pmi1", "small"},
		{"outputs_from: all", "outputs_from: rank0", "sim"},
		{"time: 1s", "time: 2s", ""},
	} {
		changed := load(t, strings.Replace(gangs, c.old, c.now, 1))
		if got := differing(changed, base, changed.Marks(sameSum)); got != c.want {
			t.Errorf("%s in place of %s: got other marks of %q, want %q", c.now, c.old, got, c.want)
		}
	}
}

// TestRanksThatMakeNoSense names the line, the key and the remedy.
func TestRanksThatMakeNoSense(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"zero", "    ranks: 0", `w:5: task "t": ranks: "0" is not a number of ranks from 1 to 1048576`},
		{"many", "    ranks: 2000000", `is not a number of ranks from 1 to`},
		{"rank", "    rank: 4", `w:5: task "t" has the unknown key "rank" (did you mean ranks?)`},
		{"node", "    ranks: 4\n    node: 2", `w:6: task "t" has the unknown key "node" (did you mean nodes?)`},
		{"per-node", "    ranks: 4\n    rank_per_node: 2", `(did you mean ranks_per_node?)`},
		{"output-from", "    ranks: 4\n    output_from: all", `(did you mean outputs_from?)`},
		{"nodes-backwards", "    ranks: 4\n    nodes: 4-2", `w:6: task "t": nodes: "4-2" is not a number of nodes, or a range like 2-4`},
		{"nodes-text", "    ranks: 4\n    nodes: n1", `"n1" is not a number of nodes`},
		{"mpi", "    ranks: 4\n    mpi: pmi3", `w:6: task "t": mpi: "pmi3" is not one of auto, pmi1, pmi2, pmix, none (did you mean pmi1?)`},
		{"from", "    ranks: 4\n    outputs_from: al", `w:6: task "t": outputs_from: "al" is not rank0 or all (rank0: the outputs are`},
		{"process-with-nodes", "    nodes: 2", `w:5: task "t": nodes is for a gang, and this task is one process (ranks: N makes the task a gang of N ranks)`},
		{"process-with-from", "    outputs_from: all", `w:5: task "t": outputs_from is for a gang`},
		{"too-many-nodes", "    ranks: 2\n    nodes: 3", `w:5: task "t": 3 nodes for 2 ranks: each node of a gang has at least one rank`},
		{"too-few-nodes", "    ranks: 9\n    nodes: 2-4\n    ranks_per_node: 2", `w:5: task "t": 9 ranks do not fit on 4 nodes with at most 2 on each`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Load(strings.NewReader("filch: 1\ntasks:\n  t:\n    run: x\n"+c.body), Options{Name: "w", YAML: yaml.JSON})
			told, is := errors.AsType[*filch.Error](err)
			if !is {
				t.Fatalf("got %v, want an error of filch", err)
			}
			got := told.Text
			if told.Hint != "" {
				got += " (" + told.Hint + ")"
			}
			if !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
	_, err := Load(strings.NewReader("filch: 1\ndefaults: {ranks: 4}\ntasks: {t: {run: x}}"), Options{Name: "w", YAML: yaml.JSON})
	if err == nil || !strings.Contains(err.Error(), `w:2: defaults: ranks is no default: a task without ranks is one process`) {
		t.Errorf("got %v, want that ranks is no default", err)
	}
}

// TestEntriesWithRanks reads a JSON list with entries of both kinds. An entry without ranks
// of its own may have those of the job.
func TestEntriesWithRanks(t *testing.T) {
	e := NewEntries(strings.NewReader(`["a", {"run": "b", "ranks": 4, "nodes": "2-3", "ranks_per_node": 2, "mpi": "pmix"}, {"run": "c", "nodes": 2}]`), "f")
	for _, want := range []Gang{{}, {Ranks: 4, MinNodes: 2, MaxNodes: 3, PerNode: 2, MPI: "pmix"}, {MinNodes: 2, MaxNodes: 2}} {
		if task, err := e.Next(); err != nil || task.Need.Gang != want {
			t.Errorf("got %+v, %v, want %+v", task.Need.Gang, err, want)
		}
	}
	if _, err := e.Next(); !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want the end", err)
	}
	for text, want := range map[string]string{
		`{"run": "x", "ranks": 0}`:            `f:1: entry 1: ranks: "0" is not a number of ranks`,
		`{"run": "x", "outputs_from": "all"}`: `f:1: entry 1 has the unknown key "outputs_from"`,
	} {
		if _, err := NewEntries(strings.NewReader(text), "f").Next(); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: got %v, want %s", text, err, want)
		}
	}
}
