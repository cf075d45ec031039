//go:build !root

package mpi_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// mpiFlow prepares the sizes of two sums, which a program of MPICH and a program of Open MPI
// compute with two ranks on two nodes each, and joins what they print. The ranks of the
// first try wait for a file.
const mpiFlow = `filch: 1
tasks:
  prepare:
    run: echo 20000 >mpich.size; echo 30000 >open.size
    outputs: [mpich.size, open.size]
  mpich:
    run: touch %[1]s/mpich.$FILCH_RANK; until [ -e %[1]s/go ]; do sleep 0.02; done; exec %[2]s $(cat mpich.size) 2
    ranks: 2
    nodes: 2
    inputs: mpich.size
    stdout: mpich.log
  open:
    run: %[3]s $(cat open.size) 2
    ranks: 2
    nodes: 2
    after: mpich
    inputs: open.size
    stdout: open.log
  join:
    run: cat mpich.log open.log >sums
    inputs: [mpich.log, open.log]
    outputs: sums
`

// TestVirtualWorkflow runs a workflow of MPI programs over four launchers without a common
// folder, also while a launcher with ranks is killed.
func TestVirtualWorkflow(t *testing.T) {
	v := upHere(t, "4", "1")
	file := func(name string) string { return filepath.Join(v.dir, name) }
	text := fmt.Sprintf(mpiFlow, v.dir, program(t, "allreduce"), openProgram(t, "allreduce"))
	if err := os.WriteFile(file("sums.yaml"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed-%t", killed), func(t *testing.T) {
			v := &virtual{t, v.dir, v.bin}
			for _, name := range []string{"go", "mpich.0", "mpich.1", "sums"} {
				if err := os.RemoveAll(file(name)); err != nil {
					t.Fatal(err)
				}
			}
			r := v.filch(time.Minute, "", "workflow", "run", "--detach", "sums.yaml")
			id := strings.TrimSpace(r.stdout)
			if r.code != 0 {
				t.Fatal(r)
			}
			await(t, "both ranks run", func() bool {
				_, zero := os.Stat(file("mpich.0"))
				_, one := os.Stat(file("mpich.1"))
				return zero == nil && one == nil
			})
			if killed {
				v.killOneWithRanks()
			}
			if err := os.WriteFile(file("go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			if r := v.filch(2*time.Minute, "", "wait", id); r.code != 0 {
				t.Fatalf("%v\n%v\n%v", r, v.filch(time.Minute, "", "tasks", id), v.filch(time.Minute, "", "logs", id))
			}
			if r := v.filch(time.Minute, "", "workflow", "collect", id, "sums.yaml"); r.code != 0 {
				t.Fatal(r)
			}
			const want = "allreduce of 2: 0 of 20000 wrong\nallreduce of 2: 0 of 30000 wrong\n"
			if got, err := os.ReadFile(file("sums")); err != nil || string(got) != want {
				t.Errorf("got %q, %v, want %q", got, err, want)
			}
		})
	}
}

// killOneWithRanks kills the launcher of a node with ranks, but not of the first node, which
// the commands use.
func (v *virtual) killOneWithRanks() {
	v.t.Helper()
	var list []struct {
		Name             string
		PID, Slots, Free int
	}
	r := v.filch(time.Minute, "", "nodes", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &list); err != nil {
		v.t.Fatalf("%v: %v", err, r)
	}
	for _, n := range list {
		if n.Name != "n1" && n.Free < n.Slots {
			if err := syscall.Kill(n.PID, syscall.SIGKILL); err != nil {
				v.t.Fatal(err)
			}
			return
		}
	}
	v.t.Fatalf("no other node than n1 has ranks: %v", r)
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
