//go:build !root

package mpi_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// virtual is an instance of several launchers on this machine, each of which is a node.
type virtual struct {
	t        *testing.T
	dir, bin string
}

// upHere brings up a virtual instance of n nodes, which ends with the test.
func upHere(t *testing.T, n, slots string) *virtual {
	t.Helper()
	bin, err := rig.Product()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("/tmp", "fv")
	if err != nil {
		t.Fatal(err)
	}
	v := &virtual{t: t, dir: dir, bin: bin}
	t.Cleanup(func() {
		if r := v.filch(time.Minute, "", "down"); r.code != 0 {
			t.Errorf("filch down: %v", r)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if r := v.filch(time.Minute, "", "up", "--nodes", n, "--slots", slots); r.code != 0 {
		t.Fatalf("filch up: %v", r)
	}
	return v
}

// filch runs a command of the instance; it is ended after limit.
func (v *virtual) filch(limit time.Duration, stdin string, args ...string) result {
	v.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, v.bin, args...)
	cmd.Dir, cmd.Stdin, cmd.WaitDelay = v.dir, strings.NewReader(stdin), 5*time.Second
	cmd.Env = append(os.Environ(), "HOME="+v.dir, "TMPDIR="+v.dir, "FILCH_HOME="+filepath.Join(v.dir, "home"),
		"FILCH_LOCAL="+v.dir, "FILCH_INSTANCE=virtual")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	start := time.Now()
	err := cmd.Run()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) || ctx.Err() != nil {
		v.t.Errorf("filch %v: %v", args, errors.Join(err, ctx.Err()))
		return result{code: -1, stderr: said.String()}
	}
	ws := cmd.ProcessState.Sys().(syscall.WaitStatus)
	r := result{code: ws.ExitStatus(), stdout: out.String(), stderr: said.String(), took: time.Since(start)}
	if ws.Signaled() {
		r.code = 128 + int(ws.Signal())
	}
	return r
}

// TestVirtualPrograms runs real MPI programs over four launchers on this machine: MPICH's own
// examples, ScaLAPACK's self-check and Slurm's PMI-2 library, and programs of Open MPI.
func TestVirtualPrograms(t *testing.T) {
	v := upHere(t, "4", "2")
	for _, c := range []struct {
		name  string
		stdin string
		args  []string
		want  string // in what it prints
		count int    // so often
	}{
		{"ring", "", []string{"-n", "4", "-N", "4", program(t, "ring"), "5", "5000"}, "ring of 4: token 20, want 20\n", 1},
		{"allreduce", "", []string{"-n", "8", "-N", "4", program(t, "allreduce"), "20000", "2"}, "allreduce of 8: 0 of 20000 wrong\n", 1},
		{"cpi", "", []string{"-n", "4", "-N", "4", program(t, "cpi")}, "pi is approximately 3.14", 1},
		{"icpi", "10000\n0\n", []string{"-n", "4", "-N", "4", program(t, "icpi")}, "Enter the number of intervals", 2},
		{"srtest", "", []string{"-n", "4", "-N", "4", program(t, "srtest")}, "received 'hello there'", 4},
		{"hellow", "", []string{"-n", "8", program(t, "hellow")}, " of 8\n", 8},
		{"stdin", strings.Repeat("x", 300_000), []string{"-n", "4", "-N", "4", program(t, "stdin")}, " read 300000 bytes\n", 4},
		{"mpmd", "", []string{"-n", "2", program(t, "hellow"), ":", "-n", "2", program(t, "hellow")}, " of 4\n", 4},
		{"pmi2", "", []string{"-n", "4", "-N", "2", program(t, "pmi2")}, "right\n", 4},
		{"open-ring", "", []string{"-n", "4", "-N", "2", openProgram(t, "ring"), "5"}, "ring of 4: token 20, want 20\n", 1},
		{"open-allreduce", "", []string{"-n", "4", "-N", "4", openProgram(t, "allreduce"), "100000"}, "allreduce of 4: 0 of 100000 wrong\n", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &virtual{t, v.dir, v.bin}
			r := v.filch(time.Minute, c.stdin, append([]string{"run"}, c.args...)...)
			if n := strings.Count(r.stdout, c.want); r.code != 0 || n != c.count {
				t.Errorf("%q came %d times, want %d: %v", c.want, n, c.count, r)
			}
		})
	}
}

// TestVirtualNames has the ranks of each launcher see a host of their own. Where the
// kernel refuses namespaces, as in a container, they see the machine, and share memory
// with the ranks of their node alone.
func TestVirtualNames(t *testing.T) {
	v := upHere(t, "2", "2")
	names := []string{"n1", "n2"}
	if exec.Command("unshare", "--user", "--map-root-user", "--uts", "true").Run() != nil {
		machine, err := os.Hostname()
		if err != nil {
			t.Fatal(err)
		}
		names = []string{machine, machine}
	}
	r := v.filch(time.Minute, "", "run", "-n", "4", "-N", "2", program(t, "hello"))
	if r.code != 0 {
		t.Error(r)
	}
	hellos(t, r.stdout, []int32{0, 0, 1, 1}, names)
}

// TestVirtualStraightToFinalize launches ranks that go straight to MPI_Finalize.
func TestVirtualStraightToFinalize(t *testing.T) {
	v := upHere(t, "2", "2")
	for i := range 10 {
		if r := v.filch(20*time.Second, "", "run", "-n", "4", "-N", "2", program(t, "straight")); r.code != 0 || r.stderr != "" {
			t.Fatalf("launch %d: %v", i+1, r)
		}
	}
}

// TestVirtualEndings has every ending, with the ranks on two nodes.
func TestVirtualEndings(t *testing.T) {
	v := upHere(t, "2", "1")
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			v := &virtual{t, v.dir, v.bin}
			r := v.filch(20*time.Second, "", append([]string{"run", "-n", "2", "-N", "2", program(t, "ends")}, e.args...)...)
			verdict(t, r, e.code, e.last)
		})
	}
}

// TestVirtualWireUp has each node tell once, and in its order, when its ranks began and when they
// were wired up, and the trace shows the wire-up on each node and in each rank. A program without
// MPI has no wire-up.
func TestVirtualWireUp(t *testing.T) {
	v := upHere(t, "2", "2")
	for _, c := range []struct {
		name  string
		nodes int
		args  []string
		wired bool
	}{
		{"mpich", 2, []string{"-N", "2", program(t, "ring"), "1"}, true},
		{"mpich-one-node", 1, []string{"-N", "1", program(t, "ring"), "1"}, true},
		{"pmi2", 2, []string{"-N", "2", program(t, "pmi2")}, true},
		{"open", 2, []string{"-N", "2", openProgram(t, "ring"), "1"}, true},
		{"open-one-node", 1, []string{"-N", "1", openProgram(t, "ring"), "1"}, true},
		{"no-mpi", 2, []string{"-N", "2", "true"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &virtual{t, v.dir, v.bin}
			if r := v.filch(time.Minute, "", append([]string{"run", "-n", "2"}, c.args...)...); r.code != 0 {
				t.Fatal(r)
			}
			r := v.filch(time.Minute, "", "events", "--job", "last")
			told := map[string][]string{}
			for line := range strings.Lines(r.stdout) {
				if f := strings.Fields(line); len(f) > 2 && strings.HasPrefix(f[2], "rank") {
					told[f[1]] = append(told[f[1]], f[2])
				}
			}
			if len(told) != c.nodes {
				t.Errorf("%d nodes tell of ranks, want %d: %v", len(told), c.nodes, r)
			}
			for node, got := range told {
				want := []string{"ranks-started"}
				if c.wired {
					want = append(want, "ranks-wired")
				}
				want = append(want, slices.Repeat([]string{"rank-ended"}, 2/c.nodes)...)
				if !slices.Equal(got, want) {
					t.Errorf("%s tells %q, want %q", node, got, want)
				}
			}
			if r := v.filch(time.Minute, "", "trace", "last", "-o", "t.json"); r.code != 0 {
				t.Fatal(r)
			}
			b, err := os.ReadFile(filepath.Join(v.dir, "t.json"))
			if err != nil {
				t.Fatal(err)
			}
			want := 0
			if c.wired {
				want = c.nodes + 2
			}
			if n := bytes.Count(b, []byte(`"name":"wire-up"`)); n != want {
				t.Errorf("the trace has %d wire-ups, want %d: %s", n, want, b)
			}
		})
	}
}
