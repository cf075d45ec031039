//go:build !root

package mpi_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// rawSpawner is the client of PMI-1 that spawns.
func rawSpawner(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs("programs/spawn1.py")
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// sortedLines are the lines of a text in alphabetical order: ranks print side by side.
func sortedLines(text string) []string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	slices.Sort(lines)
	return lines
}

// TestVirtualSpawnRaw has a client without MPI spawn two programs by PMI-1. mpiexec.hydra and
// filch answer alike, to the letter.
func TestVirtualSpawnRaw(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	hydra := exec.CommandContext(ctx, "mpiexec.hydra", "-n", "1", "/usr/bin/python3", rawSpawner(t), "two")
	text, err := hydra.Output()
	if err != nil {
		t.Fatalf("mpiexec.hydra (apt-get install mpich): %v", err)
	}
	want := sortedLines(string(text))
	if len(want) != 3*7+6 {
		t.Errorf("hydra: %d lines, want %d: %q", len(want), 3*7+6, want)
	}
	v := upHere(t, "2", "2")
	r := v.filch(30*time.Second, "", "run", "-n", "1", "/usr/bin/python3", rawSpawner(t), "two")
	if got := sortedLines(r.stdout); r.code != 0 || r.stderr != "" || !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %q", r, want)
	}
}

// TestVirtualSpawnRawOverNodes has the new ranks on both nodes.
func TestVirtualSpawnRawOverNodes(t *testing.T) {
	v := upHere(t, "2", "2")
	r := v.filch(30*time.Second, "", "run", "-n", "1", "/usr/bin/python3", rawSpawner(t), "one", "3")
	if r.code != 0 || strings.Count(r.stdout, "value=tag#0$conn#DEAD$") != 3 || strings.Count(r.stdout, "cmd=finalize_ack") != 4 || strings.Count(r.stdout, "cmd=spawn_result rc=0") != 1 {
		t.Error(r)
	}
}

// TestVirtualSpawnWithoutRoom fails a spawn that can get no slots: at once when no node could
// ever have the slots, and else within its limit.
func TestVirtualSpawnWithoutRoom(t *testing.T) {
	v := upHere(t, "2", "1")
	r := v.filch(20*time.Second, "", "run", "-n", "1", "/usr/bin/python3", rawSpawner(t), "one", "9")
	if r.code != 0 || !strings.Contains(r.stdout, "parent 0: cmd=spawn_result rc=-1 msg=cannot_run_9_ranks") || !strings.Contains(r.stderr, "rank 0 spawns 9 ranks of /usr/bin/python3: refused: ") {
		t.Errorf("too large: %v", r)
	}
	r = v.filch(30*time.Second, "", "run", "-n", "2", "--mpi", "pmi1", "--env", "FILCH_SPAWN_WAIT=2s", "/usr/bin/python3", rawSpawner(t), "one", "1")
	if r.code != 0 || !strings.Contains(r.stdout, "parent 0: cmd=spawn_result rc=-1 msg=cannot_start_job_") || !strings.Contains(r.stderr, "no room for 1 rank within 2s") || !strings.Contains(r.stderr, "FILCH_SPAWN_WAIT") {
		t.Errorf("no room: %v", r)
	}
}

// TestVirtualSpawnChildDies ends a job whose spawned rank ends before it says a word: the
// parent waits for this rank.
func TestVirtualSpawnChildDies(t *testing.T) {
	v := upHere(t, "2", "1")
	for _, c := range []struct {
		code string
		exit int
		text string
	}{
		{"3", 3, "exited with 3"},
		{"0", 1, "exited with 0 before MPI_Init, and the ranks that spawned it wait for it"},
	} {
		r := v.filch(20*time.Second, "", "run", "-n", "1", "/usr/bin/python3", rawSpawner(t), "die", c.code)
		if r.code != c.exit || !strings.Contains(r.stderr, "spawned job ") || !strings.Contains(r.stderr, c.text) {
			t.Errorf("a child that exits with %s: %v", c.code, r)
		}
	}
	if r := v.filch(20*time.Second, "", "run", "-n", "2", "true"); r.code != 0 {
		t.Errorf("after the spawns: %v", r)
	}
}

// command is a command of the instance.
func (v *virtual) command(args ...string) *exec.Cmd {
	cmd := exec.Command(v.bin, args...)
	cmd.Env = append(os.Environ(), "HOME="+v.dir, "TMPDIR="+v.dir, "FILCH_HOME="+filepath.Join(v.dir, "home"), "FILCH_LOCAL="+v.dir, "FILCH_INSTANCE=virtual")
	cmd.Dir = v.dir
	return cmd
}

// kill kills the launcher of a node.
func (v *virtual) kill(name string) {
	v.t.Helper()
	var nodes []struct {
		Name string
		PID  int
	}
	r := v.filch(20*time.Second, "", "nodes", "--json")
	if err := json.Unmarshal([]byte(r.stdout), &nodes); err != nil {
		v.t.Fatalf("%v: %v", err, r)
	}
	for _, n := range nodes {
		if n.Name == name {
			if err := syscall.Kill(n.PID, syscall.SIGKILL); err != nil {
				v.t.Fatal(err)
			}
			return
		}
	}
	v.t.Fatalf("no node %s: %v", name, r)
}

// holding starts a run whose rank and spawned rank wait for ever, and returns their processes:
// the parent, and the spawned rank.
func (v *virtual) holding(args ...string) (run *exec.Cmd, pids []int) {
	v.t.Helper()
	path := filepath.Join(v.dir, "held")
	out, err := os.Create(path)
	if err != nil {
		v.t.Fatal(err)
	}
	defer out.Close()
	run = v.command(append([]string{"run", "-n", "1"}, args...)...)
	run.Stdout, run.Stderr = out, out
	if err := run.Start(); err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = run.Process.Kill(); _ = run.Wait() })
	for end := time.Now().Add(20 * time.Second); ; {
		text, _ := os.ReadFile(path)
		pids = make([]int, 2)
		for line := range strings.SplitSeq(string(text), "\n") {
			side, no, _ := strings.Cut(line, ": holds ")
			pid, _ := strconv.Atoi(no)
			switch {
			case strings.HasPrefix(side, "parent"):
				pids[0] = max(pids[0], pid)
			case strings.HasPrefix(side, "child"):
				pids[1] = max(pids[1], pid)
			}
		}
		if pids[0] > 0 && pids[1] > 0 {
			return run, pids
		}
		if time.Now().After(end) {
			v.t.Fatalf("the ranks did not start: %s", text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// TestVirtualSpawnParentLeaves ends a spawned rank that goes on after its job: the job is over
// when its last rank has left.
func TestVirtualSpawnParentLeaves(t *testing.T) {
	v := upHere(t, "2", "1")
	r := v.filch(30*time.Second, "", "run", "-n", "1", "/usr/bin/python3", rawSpawner(t), "leave")
	_, no, ok := strings.Cut(r.stdout, "child 0: holds ")
	if r.code != 0 || !ok || !strings.Contains(r.stderr, "which is ended: its job is over since 5s") {
		t.Fatal(r)
	}
	no, _, _ = strings.Cut(no, "\n")
	pid, err := strconv.Atoi(no)
	if err != nil {
		t.Fatal(err)
	}
	gone(t, []int{pid})
}

// gone waits until processes are gone.
func gone(t *testing.T, pids []int) {
	t.Helper()
	end := time.Now().Add(15 * time.Second)
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil {
			if time.Now().After(end) {
				t.Errorf("process %d is left", pid)
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestVirtualSpawnEndsWithJob ends spawned ranks with the job of the rank that spawned them:
// by a cancel, by the death of the rank, and by the death of the job's client.
func TestVirtualSpawnEndsWithJob(t *testing.T) {
	v := upHere(t, "2", "1")
	for name, end := range map[string]func(run *exec.Cmd, pids []int) error{
		"term":   func(run *exec.Cmd, _ []int) error { return run.Process.Signal(syscall.SIGTERM) },
		"client": func(run *exec.Cmd, _ []int) error { return run.Process.Kill() },
		"parent": func(_ *exec.Cmd, pids []int) error { return syscall.Kill(pids[0], syscall.SIGKILL) },
		"child":  func(_ *exec.Cmd, pids []int) error { return syscall.Kill(pids[1], syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			v := &virtual{t, v.dir, v.bin}
			run, pids := v.holding("/usr/bin/python3", rawSpawner(t), "hold")
			if err := end(run, pids); err != nil {
				t.Fatal(err)
			}
			gone(t, pids)
			var ee *exec.ExitError
			if err := run.Wait(); err != nil && !errors.As(err, &ee) {
				t.Error(err)
			}
			if r := v.filch(20*time.Second, "", "run", "-n", "2", "true"); r.code != 0 {
				t.Errorf("the slots are not free: %v", r)
			}
		})
	}
}

// TestVirtualSpawnOpenMPI has programs of Open MPI spawn ranks on both nodes, and talk to them.
func TestVirtualSpawnOpenMPI(t *testing.T) {
	v := upHere(t, "2", "4")
	program := openProgram(t, "spawn")
	for _, c := range []struct {
		name string
		args []string
		want []string
		says string
	}{
		{"one-node", []string{"-n", "1", program, "one", "2"}, []string{"child 1 of 2, program 0", "merged 3, remote 2, sum right\n"}, ""},
		{"nodes", []string{"-n", "2", "-N", "2", program, "one", "5"}, []string{"child 4 of 5, program 0", " on n1\n", " on n2\n", "merged 7, remote 5, sum right\n"}, ""},
		{"programs", []string{"-n", "1", program, "two", "2", "3"}, []string{"child 1 of 5, program 0, last word alpha", "child 4 of 5, program 1, last word beta", "merged 6, remote 5, sum right\n"}, ""},
		{"deep", []string{"-n", "1", program, "deep", "2"}, []string{"merged 2, remote 1, sum right\n", "merged 3, remote 2, sum right\n"}, ""},
		{"again", []string{"-n", "1", program, "again", "3"}, []string{"merged 2, remote 1, sum right\nchild 0 of 1"}, ""},
		{"names", []string{"-n", "4", "-N", "2", program, "names"}, []string{"merged 4, remote 2, sum right\n", "unpublished well\n", "then not found\n"}, ""},
		{"info", []string{"-n", "1", "-w", "n1", program, "one", "2", "wdir=/usr", "host=n2"}, []string{"child 1 of 2, program 0, last word host, in /usr on n2\n", "merged 3, remote 2, sum right\n"}, ""},
		{"nothing", []string{"-n", "1", program, "nothing"}, []string{"refused: MPI_ERR_SPAWN\n"}, "cannot run /nonexistent/program: not on n1"},
		{"large", []string{"-n", "1", program, "one", "99"}, []string{"refused: MPI_ERR_SPAWN\n"}, "largest that fits: -n 8"},
		{"no-room", []string{"-n", "1", "-c", "4", "--env", "FILCH_SPAWN_WAIT=1s", program, "one", "2"}, []string{"refused: MPI_ERR_SPAWN\n"}, "no room for 2 ranks within 1s"},
		{"step", []string{"-n", "1", "-c", "3", "--mpi", "none", v.bin, "run", "-n", "1", program, "one", "2"}, []string{"merged 3, remote 2, sum right\n"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := &virtual{t, v.dir, v.bin}
			r := v.filch(time.Minute, "", append([]string{"run"}, c.args...)...)
			for _, w := range c.want {
				if !strings.Contains(r.stdout, w) {
					t.Errorf("not printed: %q", w)
				}
			}
			if r.code != 0 || (c.says == "") != (r.stderr == "") || !strings.Contains(r.stderr, c.says) {
				t.Error("code or errors")
			}
			if t.Failed() {
				t.Error(r)
			}
		})
	}
}

// TestVirtualUniverse has MPI_UNIVERSE_SIZE count the ranks that the nodes of a job could hold,
// or the slots of the job around, as mpirun counts the slots of its allocation.
func TestVirtualUniverse(t *testing.T) {
	v := upHere(t, "2", "4")
	program := openProgram(t, "spawn")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mpirun := exec.CommandContext(ctx, "mpirun.openmpi", "-n", "1", "--host", "localhost:8", program, "universe")
	mpirun.Env = append(os.Environ(), "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	if text, err := mpirun.Output(); err != nil || string(text) != "universe 8\n" {
		t.Errorf("mpirun with 8 slots: %v, %q", err, text)
	}
	raw := `import os, socket
s = socket.socket(fileno=int(os.environ["PMI_FD"]))
f = s.makefile("rb")
for ask in "init pmi_version=1 pmi_subversion=1", "get_universe_size", "finalize":
    s.sendall(("cmd=" + ask + "\n").encode())
    answer = f.readline().decode().strip()
    if "size=" in answer:
        print("universe", answer.split("=")[-1])`
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"all":      {[]string{"-n", "1", program, "universe"}, "universe 8\n"},
		"fat":      {[]string{"-n", "2", "-c", "2", program, "universe"}, "universe 4\n"},
		"one-node": {[]string{"-n", "1", "-w", "n1", program, "universe"}, "universe 4\n"},
		"step":     {[]string{"-n", "1", "-c", "3", "--mpi", "none", v.bin, "run", "-n", "1", program, "universe"}, "universe 3\n"},
		"pmi1":     {[]string{"-n", "1", "--mpi", "pmi1", "/usr/bin/python3", "-c", raw}, "universe 8\n"},
	} {
		if r := v.filch(time.Minute, "", append([]string{"run"}, c.args...)...); r.code != 0 || r.stdout != c.want {
			t.Errorf("%s: %v, want %q", name, r, c.want)
		}
	}
}

// TestVirtualSpawnOpenMPIEnds ends the job when spawned ranks end badly, at any moment: the
// ranks that spawned them wait in MPI_Comm_spawn or later.
func TestVirtualSpawnOpenMPIEnds(t *testing.T) {
	v := upHere(t, "2", "1")
	program := openProgram(t, "spawn")
	for _, c := range []struct {
		mode, code string
		exit       int
		text       string
	}{
		{"die", "3", 3, "exited with 3"},
		{"die", "0", 1, "exited with 0 before MPI_Init, and the ranks that spawned it wait for it"},
		{"abort", "5", 5, "called MPI_Abort(5)"},
	} {
		r := v.filch(30*time.Second, "", "run", "-n", "1", program, c.mode, c.code)
		if r.code != c.exit || !strings.Contains(r.stderr, "filch: error: rank 0 on n1: spawned job ") || !strings.Contains(r.stderr, c.text) {
			t.Errorf("%s %s: %v", c.mode, c.code, r)
		}
	}
	for name, end := range map[string]func(run *exec.Cmd, pids []int) error{
		"term":   func(run *exec.Cmd, _ []int) error { return run.Process.Signal(syscall.SIGTERM) },
		"parent": func(_ *exec.Cmd, pids []int) error { return syscall.Kill(pids[0], syscall.SIGKILL) },
		"child":  func(_ *exec.Cmd, pids []int) error { return syscall.Kill(pids[1], syscall.SIGKILL) },
	} {
		run, pids := v.holding(program, "hold")
		if err := end(run, pids); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		gone(t, pids)
		_ = run.Wait()
	}
	if r := v.filch(20*time.Second, "", "run", "-n", "2", "true"); r.code != 0 {
		t.Errorf("the slots are not free: %v", r)
	}
}

// TestVirtualSpawnNodeDies kills the launcher of the node with the spawned rank: the job ends
// with the code of a lost node, and the rank is gone.
func TestVirtualSpawnNodeDies(t *testing.T) {
	v := upHere(t, "3", "1")
	run, pids := v.holding("-w", "n1", openProgram(t, "spawn"), "hold", "1", "host=n2")
	v.kill("n2")
	gone(t, pids)
	var ee *exec.ExitError
	if err := run.Wait(); !errors.As(err, &ee) || ee.ExitCode() != 122 {
		text, _ := os.ReadFile(filepath.Join(v.dir, "held"))
		t.Errorf("%v: %s", err, text)
	}
}

// TestVirtualSpawnLauncherReturns kills and restarts the launcher of the rank that spawns ranks
// again and again: the run and its spawned runs go on.
func TestVirtualSpawnLauncherReturns(t *testing.T) {
	v := upHere(t, "3", "2")
	path := filepath.Join(v.dir, "again")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	run := v.command("run", "-n", "1", "-w", "n1", openProgram(t, "spawn"), "again", "8")
	run.Stdout, run.Stderr = out, out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	merged := func() int {
		text, _ := os.ReadFile(path)
		return strings.Count(string(text), "merged 2, remote 1, sum right\n")
	}
	await(t, "two spawns", func() bool { return merged() >= 2 })
	v.kill("n1")
	if r := v.filch(20*time.Second, "", "up", "--instance", "virtual"); r.code != 0 {
		t.Fatal(r)
	}
	if err := run.Wait(); err != nil || merged() != 8 {
		text, _ := os.ReadFile(path)
		t.Errorf("%v, %d of 8 spawns: %s", err, merged(), text)
	}
}

// TestVirtualSpawnWhileItsLauncherIsAway has a rank spawn ranks while the launcher of its node is
// away: the client waits for this launcher, and asks no launcher of another node.
func TestVirtualSpawnWhileItsLauncherIsAway(t *testing.T) {
	v := upHere(t, "2", "2")
	path := filepath.Join(v.dir, "away")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	waits := `import os, runpy, sys, time
open("up", "w").close()
while not os.path.exists("go"):
    time.sleep(0.01)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0])`
	run := v.command("run", "-n", "1", "-w", "n1", "--mpi", "pmi1", "/usr/bin/python3", "-c", waits, rawSpawner(t), "one", "1")
	run.Stdout, run.Stderr = out, out
	if err := run.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = run.Process.Kill() })
	await(t, "the rank", func() bool { _, err := os.Stat(filepath.Join(v.dir, "up")); return err == nil })
	v.kill("n1")
	if err := os.WriteFile(filepath.Join(v.dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "the client of the spawn", func() bool { return v.spawnClients() > 0 })
	if r := v.filch(20*time.Second, "", "up", "--instance", "virtual"); r.code != 0 {
		t.Fatal(r)
	}
	err = run.Wait()
	if text, _ := os.ReadFile(path); err != nil || !strings.Contains(string(text), "cmd=spawn_result rc=0") || strings.Contains(string(text), "refused") {
		t.Errorf("%v: %s", err, text)
	}
}

// spawnClients counts the clients of spawned runs of this instance.
func (v *virtual) spawnClients() (n int) {
	lists, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range lists {
		words, _ := os.ReadFile(name)
		env, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "environ"))
		if strings.HasPrefix(string(words), "filch\x00spawn\x00") && strings.Contains(string(env), "\x00HOME="+v.dir+"\x00") {
			n++
		}
	}
	return n
}

// TestVirtualSpawnMPI4py spawns from Python: once by hand, and as the pool of mpi4py does.
func TestVirtualSpawnMPI4py(t *testing.T) {
	v := upHere(t, "2", "2")
	hand := filepath.Join(v.dir, "hand.py")
	pool := filepath.Join(v.dir, "pool.py")
	for path, text := range map[string]string{
		hand: `import sys
from mpi4py import MPI
parent = MPI.Comm.Get_parent()
if parent == MPI.COMM_NULL:
    c = MPI.COMM_SELF.Spawn(sys.executable, args=[__file__], maxprocs=3)
    print("sum", c.reduce(None, op=MPI.SUM, root=MPI.ROOT), flush=True)
    c.Disconnect()
else:
    parent.reduce(MPI.COMM_WORLD.rank + 1, op=MPI.SUM, root=0)
    parent.Disconnect()
`,
		pool: `from mpi4py.futures import MPIPoolExecutor
def square(x): return x * x
if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=3) as pool:
        print("squares", list(pool.map(square, range(8))), flush=True)
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{hand: "sum 6\n", pool: "squares [0, 1, 4, 9, 16, 25, 36, 49]\n"} {
		if r := v.filch(time.Minute, "", "run", "-n", "1", "/usr/bin/python3", path); r.code != 0 || r.stdout != want || r.stderr != "" {
			t.Errorf("%s: %v", path, r)
		}
	}
}
