//go:build root

package mpi_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/mpi"
	"github.com/filch-hpc/filch/testbed/rig"
)

// The tests of this file run programs of Open MPI: they are served by PMIx, and
// nothing on the command line says so. On few cores its ranks poll, and give
// way only when they are told that they share a core.

// refused is the warning about ranks of Open MPI without PMIx: after MPI_Init has failed, or
// before, where MPI_Init takes longer than the first look at the ranks.
var refused = regexp.MustCompile(`needs PMIx, and (MPI_Init has failed|.* has asked for the others: MPI_Init fails, or each runs alone); try --mpi=pmix`)

// TestOpenPrograms runs ours and others over one host and over two.
func TestOpenPrograms(t *testing.T) {
	c := up(t, 2, 4)
	t.Run("hello-4", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "4", openProgram(t, "hello"))
		hellos(t, r.stdout, []int32{0, 0, 0, 0}, []string{"n1"})
	})
	t.Run("hello-2x2", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "4", "--ntasks-per-node", "2", openProgram(t, "hello"))
		hellos(t, r.stdout, []int32{0, 0, 1, 1}, []string{"n1", "n2"})
	})
	t.Run("alone", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "1", openProgram(t, "hello"))
		hellos(t, r.stdout, []int32{0}, []string{"n1"})
	})
	t.Run("in-a-shell", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "4", "--ntasks-per-node", "2", "sh", "-c", openProgram(t, "hello")+"; exit $?")
		hellos(t, r.stdout, []int32{0, 0, 1, 1}, []string{"n1", "n2"})
	})
	t.Run("hidden-in-a-shell", func(t *testing.T) {
		// The name cannot be read from the command: no rank may run alone.
		r := c.as(t).run(time.Minute, "-n", "2", "sh", "-c", "x="+openProgram(t, "hello")+"; $x")
		if r.code == 0 || strings.Contains(r.stdout, "rank") || !refused.MatchString(r.stderr) {
			t.Error(r)
		}
	})
	t.Run("apart", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "2", "--mpi=none", openProgram(t, "hello"))
		if r.code != 0 || strings.Count(r.stdout, "rank 0 of 1 ") != 2 {
			t.Error(r)
		}
	})
	t.Run("ring", func(t *testing.T) {
		if r := c.as(t).spread(4, 100, "", openProgram(t, "ring"), "50"); r.stdout != "ring of 4: token 200, want 200\n" {
			t.Error(r)
		}
	})
	t.Run("allreduce", func(t *testing.T) {
		if r := c.as(t).spread(4, 100_000, "", openProgram(t, "allreduce"), "100000"); r.stdout != "allreduce of 4: 0 of 100000 wrong\n" {
			t.Error(r)
		}
	})
	t.Run("direct-modex", func(t *testing.T) {
		// No fence carries the addresses: each is fetched from the node that
		// has it when a rank first speaks to another.
		c := c.as(t)
		c.Extra = []string{"OMPI_MCA_pmix_base_async_modex=1", "OMPI_MCA_pmix_base_collect_data=0"}
		if r := c.spread(4, 100_000, "", openProgram(t, "allreduce"), "100000"); r.stdout != "allreduce of 4: 0 of 100000 wrong\n" {
			t.Error(r)
		}
	})
	t.Run("mpmd", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "2", openProgram(t, "hello"), ":", "-n", "2", openProgram(t, "hello"))
		if r.code != 0 || strings.Count(r.stdout, " of 4 ") != 4 {
			t.Error(r)
		}
	})
	t.Run("spawn", func(t *testing.T) {
		r := c.as(t).run(time.Minute, "-n", "2", "-N", "2", openProgram(t, "spawn"), "one", "2")
		if r.code != 0 || !strings.Contains(r.stdout, "merged 4, remote 2, sum right\n") {
			t.Error(r)
		}
	})
	t.Run("netpipe", func(t *testing.T) { c.as(t).netpipe("/usr/bin/NPopenmpi") })
	// They are linked with Open MPI by way of ScaLAPACK's library alone.
	for _, p := range []string{"LU", "LLT", "QR"} {
		t.Run("scalapack-"+p, func(t *testing.T) { c.as(t).scalapack("openmpi", p, "testdata/scalapack", 10_000) })
	}
	if rig.Full() {
		// Of Debian's data LLT's hangs after its last check, under mpirun as well.
		for _, p := range []string{"INV", "LS", "QR", "BRD", "TRD", "HRD"} {
			t.Run("scalapack-full-"+p, func(t *testing.T) { c.as(t).scalapack("openmpi", p, scalapackDir("openmpi"), 10_000) })
		}
	}
	t.Run("mpi4py", func(t *testing.T) { c.as(t).mpi4py() })
	t.Run("hpcc", func(t *testing.T) { c.as(t).hpcc() })
	c.clean()
	c.whole(10*time.Second, 2)
}

// mpi4py runs Python, whose ELF needs say nothing of MPI.
func (c *cluster) mpi4py() {
	c.T.Helper()
	script := filepath.Join(c.Dir, "sum.py")
	text := "from mpi4py import MPI\nw = MPI.COMM_WORLD\nprint('sum', w.allreduce(w.rank), 'of', w.size)\n"
	if err := os.WriteFile(script, []byte("#!/usr/bin/env python3\n"+text), 0o755); err != nil {
		c.T.Fatal(err)
	}
	python := "/usr/bin/python3"
	if _, err := os.Stat("/usr/lib/python3/dist-packages/mpi4py"); err != nil {
		c.T.Fatalf("no mpi4py: %s", mpi.Install)
	}
	c.Extra = []string{"PATH=/usr/bin:/bin"}
	for _, argv := range [][]string{{python, script}, {script}} {
		r := c.run(2*time.Minute, append([]string{"-n", "4", "--ntasks-per-node", "2"}, argv...)...)
		if r.code != 0 || strings.Count(r.stdout, "sum 6 of 4\n") != 4 {
			c.T.Errorf("%v: %v", argv, r)
		}
	}
	// Where PMI is served, MPI_Init fails, and a line says why.
	r := c.run(time.Minute, "-n", "2", "--mpi=pmi1", python, "-c", "from mpi4py import MPI")
	if r.code == 0 || !refused.MatchString(r.stderr) {
		c.T.Error(r)
	}
}

// hpcc runs the HPC Challenge on a small input: HPL, PTRANS, RandomAccess, FFT,
// and it checks its own results.
func (c *cluster) hpcc() {
	c.T.Helper()
	if _, err := os.Stat("/usr/bin/hpcc"); err != nil {
		c.T.Fatalf("no hpcc: %s", mpi.Install)
	}
	input, err := os.ReadFile(filepath.Join("testdata", "hpcc", "hpccinf.txt"))
	if err != nil {
		c.T.Fatal(err)
	}
	if rig.Full() {
		input = []byte(strings.Replace(string(input), "300 ", "1000 ", 1))
	}
	if err := os.WriteFile(filepath.Join(c.Dir, "hpccinf.txt"), input, 0o644); err != nil {
		c.T.Fatal(err)
	}
	c.Extra = []string{"OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1"}
	if r := c.run(3*time.Minute, "-n", "4", "--ntasks-per-node", "2", "/usr/bin/hpcc"); r.code != 0 {
		c.T.Fatal(r)
	}
	out, err := os.ReadFile(filepath.Join(c.Dir, "hpccoutf.txt"))
	if err != nil || !strings.Contains(string(out), "\nSuccess=1\n") || !strings.Contains(string(out), "CommWorldProcs=4") {
		c.T.Errorf("hpcc did not succeed: %v: %s", err, out)
	}
}

// thermo is a line of LAMMPS's output: step, temperature, energies, pressure.
var thermo = regexp.MustCompile(`(?m)^ +\d+( +-?[0-9.e+-]+){5} *$`)

// TestLAMMPS runs an ensemble of replicas of two ranks each, all at once, and
// compares each with a run of one process.
func TestLAMMPS(t *testing.T) {
	replicas := 4
	if rig.Full() {
		replicas = 16
	}
	const lmp = "/usr/bin/lmp"
	if _, err := os.Stat(lmp); err != nil {
		t.Fatalf("no LAMMPS: %s", mpi.Install)
	}
	c := up(t, 2, 2)
	input, err := filepath.Abs(filepath.Join("testdata", "lammps", "in.melt"))
	if err != nil {
		t.Fatal(err)
	}
	c.Extra = []string{"OMP_NUM_THREADS=1"}
	run := func(n int, seed int) string {
		r := c.launch(seed%2, 5*time.Minute, "", "run", "-n", strconv.Itoa(n), lmp, "-in", input,
			"-var", "seed", strconv.Itoa(1000+seed), "-log", "none").wait()
		if r.code != 0 || !strings.Contains(r.stdout, fmt.Sprintf("on %d procs for 100 steps", n)) {
			t.Errorf("seed %d: %v", seed, r)
		}
		return r.stdout
	}
	results := make([]string, replicas)
	var wg sync.WaitGroup
	for i := range replicas {
		wg.Go(func() { results[i] = run(2, i) })
	}
	wg.Wait()
	for i, got := range results {
		same(t, i, thermo.FindAllString(got, -1), thermo.FindAllString(run(1, i), -1))
	}
	c.clean()
	c.whole(10*time.Second, 2)
}

// same compares two tables of numbers; sums over ranks are rounded otherwise
// than those of one process.
func same(t *testing.T, seed int, got, want []string) {
	t.Helper()
	if len(got) != 6 || len(want) != 6 {
		t.Fatalf("seed %d: %d and %d lines, want 6", seed, len(got), len(want))
	}
	for i := range got {
		if !near(got[i], want[i]) {
			t.Errorf("seed %d: %q with two ranks, %q with one", seed, got[i], want[i])
		}
	}
}

// near reports whether two lines have the same numbers, but for the rounding of sums.
func near(got, want string) bool {
	g, w := strings.Fields(got), strings.Fields(want)
	return slices.EqualFunc(g, w, func(a, b string) bool {
		x, bad := strconv.ParseFloat(a, 64)
		y, err := strconv.ParseFloat(b, 64)
		return bad == nil && err == nil && math.Abs(x-y) <= 1e-5*max(1, math.Abs(y))
	})
}

// TestOpenEndings has every ending of endings but those that are PMI's.
func TestOpenEndings(t *testing.T) {
	c := up(t, 2, 2)
	for _, e := range endings {
		if e.name == "garbage" {
			continue
		}
		for hosts := 1; hosts <= 2; hosts++ {
			t.Run(fmt.Sprintf("%s/hosts=%d", e.name, hosts), func(t *testing.T) {
				c := c.as(t)
				r := c.run(30*time.Second, append([]string{"-n", "2", "-N", fmt.Sprint(hosts), openProgram(t, "ends")}, e.args...)...)
				verdict(c.T, r, e.code, e.last)
				c.gone(2*time.Second, 0, 1)
				c.whole(5*time.Second, 2)
				c.clean()
			})
		}
	}
}

// TestOpenKills kills what a job of Open MPI needs, one after the other.
func TestOpenKills(t *testing.T) {
	for _, x := range []struct {
		name string
		kill func(c *cluster) []int
		code int
		says string
	}{
		{"helper", func(c *cluster) []int { return c.pmixd(1) }, 125, "the PMIx server (pmixd) ended: killed by SIGKILL"},
		{"keeper", func(c *cluster) []int { return c.busy(1) }, 125, ""},
		{"keeper-and-launcher", func(c *cluster) []int { return append(c.keepers(1), c.launcher(1)) }, -1, ""},
		{"rank", func(c *cluster) []int { return c.ranks(1) }, 137, "SIGKILL"},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := up(t, 2, 2)
			j := c.launch(0, time.Minute, "", "run", "-n", "4", "--ntasks-per-node", "2", "--kill-wait", "1", openProgram(t, "steps"), "sleep")
			if !j.says("at sleep\n", 4) {
				t.Fatal("not begun")
			}
			if len(c.segments(1)) == 0 {
				t.Error("no segment of shared memory: the test sees nothing")
			}
			for _, pid := range x.kill(c) {
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
			r := j.wait()
			if x.code >= 0 && r.code != x.code || r.code == 0 || !strings.Contains(r.stderr, x.says) {
				t.Errorf("want code %d and %q: %v", x.code, x.says, r)
			}
			c.gone(3*time.Second, 0)
			c.gone(3*time.Second, 1)
			if x.name == "keeper-and-launcher" {
				c.Join(1)
			}
			c.clean()
		})
	}
	for _, stopped := range []bool{false, true} {
		t.Run(fmt.Sprintf("cancel/helper-stopped=%v", stopped), func(t *testing.T) {
			c := up(t, 2, 2)
			j := c.launch(0, time.Minute, "", "run", "-n", "4", "--ntasks-per-node", "2", "--kill-wait", "1", openProgram(t, "steps"), "receive", "stubborn")
			if j.says("at receive\n", 4) {
				for _, pid := range c.pmixd(1) {
					if stopped {
						kill(pid, syscall.SIGSTOP)
					}
				}
				c.Must(1, "cancel", "1")
			}
			if r := j.wait(); r.code != 143 {
				t.Errorf("want code 143: %v", r)
			}
			c.gone(3*time.Second, 0, 1)
			c.clean()
		})
	}
	t.Run("helper-with-K0", func(t *testing.T) {
		// -K0 lets the others go on when a rank fails; without their server
		// they could only wait.
		c := up(t, 2, 2)
		j := c.launch(0, time.Minute, "", "run", "-n", "4", "--ntasks-per-node", "2", "-K0", openProgram(t, "steps"), "sleep")
		if j.says("at sleep\n", 4) {
			for _, pid := range c.pmixd(1) {
				kill(pid, syscall.SIGKILL)
			}
		}
		if r := j.wait(); r.code != 125 {
			t.Errorf("want code 125: %v", r)
		}
		c.gone(3*time.Second, 0, 1)
	})
}

// TestOpenLauncherReturns has a launcher killed and started again under a job of
// Open MPI: its keeper, with the helper, goes on.
func TestOpenLauncherReturns(t *testing.T) {
	c := up(t, faultHosts, 1)
	_, end := c.until(openProgram(t, "steps"))
	kill(c.launcher(struck), syscall.SIGKILL)
	c.Revive(struck)
	end()
	c.clean()
}

// pmixd lists the PMIx servers on host i.
func (c *cluster) pmixd(i int) []int {
	var pids []int
	for _, pid := range c.Hosts[i].Processes() {
		exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
		if strings.HasPrefix(filepath.Base(exe), "pmixd-") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// busy lists the keepers on host i that have ranks.
func (c *cluster) busy(i int) []int {
	var pids []int
	for _, pid := range c.keepers(i) {
		if b, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid)); err == nil && len(b) > 0 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// ranks lists one rank on host i.
func (c *cluster) ranks(i int) []int {
	helpers := c.pmixd(i)
	for _, pid := range c.marked(i) {
		if len(helpers) == 1 && pid != helpers[0] {
			return []int{pid}
		}
	}
	return nil
}

// segments lists what is in the shared memory of host i, seen through its
// launcher, or any process there.
func (c *cluster) segments(i int) []string {
	var all []string
	for _, pid := range c.Hosts[i].Processes() {
		root := fmt.Sprintf("/proc/%d/root/dev/shm/", pid)
		_ = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				all = append(all, strings.TrimPrefix(path, root))
			}
			return nil
		})
		if len(all) > 0 {
			break
		}
	}
	return all
}

// clean waits until nothing is left that ranks or libpmix have made.
func (c *cluster) clean() {
	c.T.Helper()
	end := time.Now().Add(5 * time.Second)
	for i := range c.Hosts {
		for {
			dirs, _ := filepath.Glob(filepath.Join(c.Local(i), "filch-*", "*", "*", "pmix", "*"))
			left := append(c.segments(i), dirs...)
			if len(left) == 0 {
				break
			}
			if time.Now().After(end) {
				c.T.Errorf("left on %s: %v", c.Hosts[i].Name, left)
				break
			}
			pause()
		}
	}
}
