//go:build root

package mpi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/mpi"
	"github.com/filch-hpc/filch/testbed/rig"
)

// documented is the workflow of docs/workflows.md with a name.
func documented(t *testing.T, name string) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/workflows.md")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(string(page), "```yaml\n") {
		if text, _, _ := strings.Cut(block, "```"); strings.Contains(text, "\nname: "+name+"\n") {
			return text
		}
	}
	t.Fatalf("docs/workflows.md has no workflow %s", name)
	return ""
}

// manyMelts is the workflow of docs/workflows.md with n simulations, whose ranks share
// processors. The last task fails unless each simulation had all its ranks.
func manyMelts(n, ranks int) string {
	var tasks strings.Builder
	var in, logs []string
	for i := range n {
		in, logs = append(in, fmt.Sprint("in.", i+1)), append(logs, fmt.Sprint("log.", i+1))
		fmt.Fprintf(&tasks, "  melt-%[1]d: {run: lmp -in in.%[1]d -log log.%[1]d -screen none, ranks: %[2]d, inputs: in.%[1]d, outputs: log.%[1]d}\n", i+1, ranks)
	}
	return fmt.Sprintf(`filch: 1
name: melt
env: {OMP_NUM_THREADS: 1, OMPI_MCA_mpi_yield_when_idle: 1}
defaults: {nodes: 2-4, time_limit: 5m}
tasks:
  prepare:
    run: for t in $(seq %[1]d); do sed "s/@T@/$t/" model >in.$t; done
    inputs: model
    outputs: [%[2]s]
%[3]s  table:
    run: for t in $(seq %[1]d); do grep -q '^Loop time of .* on %[5]d procs' log.$t && grep '^ *100 ' log.$t || exit 1; done >table
    inputs: [%[4]s]
    outputs: table
`, n, strings.Join(in, ", "), tasks.String(), strings.Join(logs, ", "), ranks)
}

// TestWorkflowOfLAMMPS runs the workflow of docs/workflows.md: a process prepares four
// simulations by LAMMPS, each with two ranks on two of four hosts without a common folder,
// and a process joins the results, which are those of single processes.
func TestWorkflowOfLAMMPS(t *testing.T) {
	if _, err := os.Stat("/usr/bin/lmp"); err != nil {
		t.Fatalf("no LAMMPS: %s", mpi.Install)
	}
	c := up(t, 4, 1)
	c.Extra = []string{"OMP_NUM_THREADS=1"}
	model, err := os.ReadFile("testdata/lammps/model")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(c.Dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("model", string(model))
	flow, melts := documented(t, "melt"), 4
	if rig.Full() {
		melts = 20
		flow = manyMelts(melts, 4)
	}
	write("melt.yaml", flow)
	began := time.Now()
	if r := c.launch(0, rig.Sized(3*time.Minute, 10*time.Minute), "", "workflow", "run", "melt.yaml").wait(); r.code != 0 {
		t.Fatal(r)
	}
	took := time.Since(began)
	table, err := os.ReadFile(filepath.Join(c.Dir, "table"))
	got := strings.Split(strings.TrimSpace(string(table)), "\n")
	if err != nil || len(got) != melts {
		t.Fatalf("got %q, %v, want %d lines", table, err, melts)
	}
	for i, line := range got {
		write("one", strings.ReplaceAll(string(model), "@T@", strconv.Itoa(i+1)))
		r := c.run(time.Minute, "-n", "1", "lmp", "-in", "one", "-log", "none")
		want := thermo.FindAllString(r.stdout, -1)
		if len(want) != 6 || !near(line, want[5]) {
			t.Errorf("temperature %d: got %q in the workflow, want the last of %q", i+1, line, want)
		}
	}
	t.Logf("figure: %d simulations between two processes in %.0f s, as by single processes", melts, took.Seconds())
	c.clean()
	c.whole(10*time.Second, 4)
}
