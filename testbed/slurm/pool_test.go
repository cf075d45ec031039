//go:build root

package slurm_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// address is an address of this machine that all nodes reach.
func (r *rig) address() string {
	r.t.Helper()
	list, err := net.InterfaceAddrs()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, a := range list {
		if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLoopback() && ip.IP.To4() != nil {
			return ip.IP.String()
		}
	}
	r.t.Fatal("this machine has no address besides loopback, so no node could join")
	return ""
}

// login starts an instance of one launcher without slots, as on a login node.
func (r *rig) login(name string) {
	r.t.Helper()
	address := r.address()
	r.env = append(r.env, "FILCH_INSTANCE="+name)
	if out, code := r.filch("up", "--instance", name, "--nodes", "1", "--slots", "0", "--address", address); code != 0 {
		r.t.Fatalf("filch up: %d\n%s", code, out)
	}
	r.t.Cleanup(func() {
		if r.t.Failed() {
			out, _ := r.filch("pool", "--json")
			logs, _ := filepath.Glob(filepath.Join(r.dir, "home", "*", "*.log"))
			for _, path := range logs {
				b, _ := os.ReadFile(path)
				out += path + ":\n" + string(b)
			}
			r.t.Log(out)
		}
		r.filch("down", "--instance", name)
	})
}

// poolState is what filch pool --json prints, in part.
type poolState struct {
	Name   string
	Holder string
	Beat   int64
	Allocs []struct {
		N     int64
		State string
		Job   string
	}
	Ends []struct {
		N                                    int64
		Planned, Began, Joined, Ending, Over int64
		Worked, Granted                      float64
	}
	Paused  string
	Trouble string
	Totals  struct {
		Submitted, Failed     int64
		Granted, Worked, Idle float64
	}
}

func (r *rig) pools() (all []poolState) {
	r.t.Helper()
	out, code := r.filch("pool", "--json")
	if code != 0 {
		r.t.Fatalf("filch pool: %d", code)
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		r.t.Fatalf("filch pool --json printed %q: %v", out, err)
	}
	return all
}

// queue lists the jobs in the queue of the cluster.
func (r *rig) queue() []string {
	r.t.Helper()
	text, err := r.c.Text("squeue", "--noheader", "--format=%i %j %T")
	if err != nil {
		r.t.Fatal(err)
	}
	var list []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, " filch-") {
			list = append(list, strings.TrimSpace(line))
		}
	}
	return list
}

// TestPoolFollowsBursts: two bursts of tasks with a gap, from a login node without slots.
// Allocations are asked for within 5 s, gone within 10 s of idleness plus the time that
// Slurm takes to end a job, and every task runs once.
func TestPoolFollowsBursts(t *testing.T) {
	r := newRig(t)
	r.login("bursts")
	if out, code := r.filch("pool", "add", "slurm", "--max", "4", "--idle", "5s", "--", "-N1", "-n4", "-t", "10"); code != 0 {
		t.Fatalf("pool add: %d\n%s", code, out)
	}
	tasks, bursts, gap := 96, 2, time.Duration(0)
	if full() {
		tasks, bursts, gap = 400, 3, time.Minute // 20 minutes of slot time
	}
	for burst := range bursts {
		if burst > 0 {
			<-time.After(gap)
		}
		start := time.Now()
		marks := r.burst(tasks)
		r.poll("a submission", func() bool { return len(r.queue()) > 0 })
		t.Logf("figure: burst %d: the first allocation was asked for after %s", burst, time.Since(start).Round(100*time.Millisecond))
		r.ranOnce(marks, tasks)
		ended := time.Now()
		t.Logf("figure: burst %d: %d tasks of 1 s ended after %s", burst, tasks, ended.Sub(start).Round(100*time.Millisecond))
		r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
		t.Logf("figure: burst %d: the allocations were gone %s after the last task", burst, time.Since(ended).Round(100*time.Millisecond))
	}
	r.poll("a pool without allocations", func() bool { return len(r.pools()[0].Allocs) == 0 })
	p := r.pools()[0]
	if p.Totals.Failed > 0 || p.Paused != "" {
		t.Errorf("%d allocations failed; paused: %q", p.Totals.Failed, p.Paused)
	}
	// One --idle, and the start of the launcher beside other starts on a slow machine.
	if most := p.Totals.Granted/10 + (5+4)*float64(p.Totals.Submitted); p.Totals.Idle > most {
		t.Errorf("nodes were idle for %.1f s of %.1f s with %d allocations; at most %.1f s is right", p.Totals.Idle, p.Totals.Granted, p.Totals.Submitted, most)
	}
	for _, a := range p.Ends {
		secs := func(from, to int64) float64 { return float64(to-from) / 1e9 }
		t.Logf("figure: allocation %d began after %.1f s, joined %.1f s later, was given back %.1f s later, and over %.1f s later; worked %.1f s of %.1f s",
			a.N, secs(a.Planned, a.Began), secs(a.Began, a.Joined), secs(a.Joined, a.Ending), secs(a.Ending, a.Over), a.Worked, a.Granted)
	}
	t.Logf("figure: %d allocations, %.1f node-seconds granted, %.1f idle, %.1f of these are a tenth and one --idle for each allocation", p.Totals.Submitted, p.Totals.Granted, p.Totals.Idle, p.Totals.Granted/10+5*float64(p.Totals.Submitted))
}

// TestPoolBringsAGang: a run of three nodes starts from an empty pool over two partitions, of
// which one is closed.
func TestPoolBringsAGang(t *testing.T) {
	r := newRig(t)
	r.login("gang")
	if out, code := r.run("scontrol", "create", "PartitionName=closed", "Nodes=n1", "State=DOWN"); code != 0 {
		t.Fatalf("scontrol: %s", out)
	}
	defer r.run("scontrol", "delete", "PartitionName=closed")
	r.filch("pool", "add", "slurm", "--max", "4", "--idle", "5s", "--", "-N1", "-n4", "-t", "10", "-p", "closed,main")
	r.poll("a pool that is held", func() bool { p := r.pools(); return len(p) == 1 && p[0].Holder != "" })
	out, code := r.filch("run", "-N", "3", "-n", "6", "-l", "hostname")
	if code != 0 || strings.Count(out, "\n") != 6 {
		t.Errorf("got %d\n%s", code, out)
	}
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
}

// TestPoolGoesOnWithoutItsHolder: the process that holds the pool is killed three times
// during a burst. No allocation is asked for twice, and every task runs once.
func TestPoolGoesOnWithoutItsHolder(t *testing.T) {
	r := newRig(t)
	r.login("heirs")
	r.filch("pool", "add", "slurm", "--max", "3", "--idle", "5s", "--", "-N1", "-n4", "-t", "10")
	marks := r.burst(120)
	for kill := range 3 {
		var pids []int
		r.poll("a process that holds the pool", func() bool { pids = r.keepers(r.pools()); return len(pids) > 0 })
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		t.Logf("kill %d: %v", kill, pids)
		beat := r.pools()[0].Beat
		r.poll("the next look of a holder", func() bool { return r.pools()[0].Beat > beat })
	}
	r.ranOnce(marks, 120)
	names := map[string]int{}
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
	text, err := r.c.Text("squeue", "--noheader", "--states=all", "--format=%j")
	if err != nil {
		t.Fatal(err)
	}
	for name := range strings.FieldsSeq(text) {
		if names[name]++; names[name] > 1 && strings.HasPrefix(name, "filch-heirs-") {
			t.Errorf("%s was submitted %d times", name, names[name])
		}
	}
}

// TestPoolOutlivesASilentController: slurmctld does not answer for 30 s while tasks run. The
// pool says so, and goes on; every task runs once.
func TestPoolOutlivesASilentController(t *testing.T) {
	r := newRig(t)
	r.login("silent")
	text, err := os.ReadFile(filepath.Join(r.c.Dir, "slurmctld.pid"))
	if err != nil {
		t.Fatal(err)
	}
	ctld, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	r.filch("pool", "add", "slurm", "--max", "2", "--idle", "5s", "--", "-N1", "-n4", "-t", "10", "-p", "main")
	marks := r.burst(160)
	r.poll("two allocations with nodes", func() bool {
		p := r.pools()[0]
		return len(p.Allocs) == 2 && p.Allocs[0].State == "joined" && p.Allocs[1].State == "joined"
	})
	if err := syscall.Kill(ctld, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	silent := time.Now()
	defer func() { _ = syscall.Kill(ctld, syscall.SIGCONT) }()
	r.poll("a word on the silence", func() bool { return strings.Contains(r.pools()[0].Trouble, "does not answer") })
	r.poll("30 s", func() bool { return time.Since(silent) > 30*time.Second })
	if err := syscall.Kill(ctld, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.ranOnce(marks, 160)
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
	r.poll("a pool without allocations", func() bool { return len(r.pools()[0].Allocs) == 0 })
	if p := r.pools()[0]; p.Totals.Submitted != 2 || p.Totals.Failed != 0 {
		t.Errorf("%d allocations were asked for, %d failed; 2 were enough", p.Totals.Submitted, p.Totals.Failed)
	}
}

// TestPoolGoesOnAfterCancels: a person cancels all allocations. Their tasks run again, and
// the pool asks for others.
func TestPoolGoesOnAfterCancels(t *testing.T) {
	r := newRig(t)
	r.login("cancels")
	r.filch("pool", "add", "slurm", "--max", "2", "--idle", "5s", "--", "-N1", "-n4", "-t", "10")
	out, _ := r.filch("submit", "--array", "1-60", "--", "sleep", "2")
	r.poll("running tasks", func() bool { p := r.pools()[0]; return len(p.Allocs) == 2 && p.Allocs[1].State == "joined" })
	for _, j := range r.queue() {
		r.run("scancel", strings.Fields(j)[0])
	}
	r.poll("other allocations", func() bool { return r.pools()[0].Totals.Submitted > 2 })
	r.poll("the end of the job", func() bool { _, code := r.filch("wait", strings.TrimSpace(out)); return code == 0 })
	r.poll("an empty queue", func() bool { return len(r.queue()) == 0 })
	if p := r.pools()[0]; p.Paused != "" {
		t.Errorf("paused: %s", p.Paused)
	}
}

// burst submits tasks of a second that leave marks, and returns the folder of the marks.
func (r *rig) burst(tasks int) string {
	r.t.Helper()
	marks, err := os.MkdirTemp(r.dir, "marks")
	if err != nil {
		r.t.Fatal(err)
	}
	if _, code := r.filch("submit", "--array", fmt.Sprintf("1-%d", tasks), "--", "sh", "-c", "echo x >>"+marks+"/{}; sleep 1"); code != 0 {
		r.t.Fatalf("submit: %d", code)
	}
	return marks
}

// ranOnce waits for the end of the last job, and checks that every task ran once.
func (r *rig) ranOnce(marks string, tasks int) {
	r.t.Helper()
	if out, code := r.filch("wait", "last"); code != 0 {
		r.t.Fatalf("wait: %d\n%s", code, out)
	}
	for i := 1; i <= tasks; i++ {
		b, err := os.ReadFile(filepath.Join(marks, fmt.Sprint(i)))
		if err != nil || string(b) != "x\n" {
			r.t.Errorf("task %d: %q, %v", i, b, err)
		}
	}
}

// keepers are the processes of the node that holds the first pool.
func (r *rig) keepers(all []poolState) (pids []int) {
	mark := []byte("FILCH_HOME=" + filepath.Join(r.dir, "home") + "\x00")
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, d := range dirs {
		env, _ := os.ReadFile(d + "/environ")
		line, _ := os.ReadFile(d + "/cmdline")
		args := strings.Split(strings.Trim(string(line), "\x00"), "\x00")
		if n := len(args); bytes.Contains(env, mark) && n > 5 && args[1] == "pool" && args[2] == "keep" && args[n-1] == all[0].Holder {
			pid, _ := strconv.Atoi(filepath.Base(d))
			pids = append(pids, pid)
		}
	}
	return pids
}

// filch runs filch on the login node.
func (r *rig) filch(args ...string) (out string, code int) {
	r.t.Helper()
	return r.run(append([]string{filepath.Join(world.dir, "bin", "filch")}, args...)...)
}
