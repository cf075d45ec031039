package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A bag with copies, and a workflow, whose tasks burn CPU run on nodes with a quota of CPU each,
// together less than this machine has: undisturbed, and with one node at a tenth of the quota. The quota binds the tasks
// alone, or the launcher, too: a tenth of so small a quota is less than a launcher needs.
const (
	slowLaunchers = 8
	slowTasks     = 96
	slowBytes     = 16 << 20 // that a task takes the sum of
	slowPeriod    = 200_000  // microseconds
	slowQuota     = 14_000   // of each period
	slowPart      = 10
)

// slowFigure is how much longer a bag with copies, or a workflow, takes beside a slow launcher.
type slowFigure struct {
	Workflow    bool
	Launchers   bool    // the quota binds the launchers, too
	Alike, Slow float64 // seconds
	Ratio       float64
	Error       string `json:",omitempty"`
}

// slow prints how long the bag takes without and with a slow node.
func (b *bench) slow() (all []slowFigure) {
	fmt.Printf("\n%d tasks that burn CPU, of a bag with --replicas 1 and of a workflow, over %d nodes with %.1f%% of a CPU each\n\n", slowTasks, slowLaunchers, 100*float64(slowQuota)/slowPeriod)
	for _, f := range []slowFigure{{}, {Launchers: true}, {Workflow: true}} {
		what := map[bool]string{false: "bag", true: "workflow"}[f.Workflow] + ", quota for " + map[bool]string{false: "tasks", true: "tasks and launchers"}[f.Launchers]
		if err := b.measureSlow(&f); err != nil {
			f.Error = err.Error()
			fmt.Printf("%s: not measured: %v\n", what, err)
		} else {
			f.Ratio = f.Slow / f.Alike
			fmt.Printf("%s: all alike %.2f s, one at a tenth %.2f s: %.2f (bar: 1.3)\n", what, f.Alike, f.Slow, f.Ratio)
		}
		all = append(all, f)
	}
	return all
}

func (b *bench) measureSlow(f *slowFigure) error {
	o := &ours{exe: b.filch}
	env, err := o.up(b.scratch, fmt.Sprintf("bench-slow-%d", os.Getpid()), slowLaunchers, 1)
	if err != nil {
		return err
	}
	groups := []quota(nil)
	defer func() {
		o.down(env)
		for _, g := range groups {
			g.close()
		}
	}()
	list, err := o.nodes(env)
	if err != nil {
		return err
	}
	for _, n := range list {
		g, err := newQuota(fmt.Sprintf("filch-bench-%d-%s", os.Getpid(), n.Name), slowQuota)
		if err != nil {
			return err
		}
		groups = append(groups, g)
		if f.Launchers {
			if err := g.take(n.PID); err != nil {
				return err
			}
		}
	}
	burn := fmt.Sprintf("echo $$ >%s/filch-bench-%d-$FILCH_NODE/cgroup.procs; head -c %d /dev/zero | sha256sum >/dev/null", cpuTree, os.Getpid(), slowBytes)
	argv := []string{"submit", "--wait", "--replicas", "1", "--array", fmt.Sprintf("1-%d", slowTasks), "--", "sh", "-c", burn}
	if f.Workflow {
		tasks, last := make([]task, slowTasks), task{Name: "last", Run: "true"}
		for i := range tasks {
			tasks[i] = task{Name: fmt.Sprint("burn-", i), Run: burn}
			last.After = append(last.After, tasks[i].Name)
		}
		argv = []string{"workflow", "run", filepath.Join(b.scratch, "slow.json")}
		if err := writeWorkflow(argv[2], "slow", append(tasks, last)); err != nil {
			return err
		}
	}
	job := func() (float64, error) {
		cmd := exec.Command(b.filch, argv...)
		cmd.Env = env
		begin := time.Now()
		if text, err := cmd.CombinedOutput(); err != nil {
			return 0, fmt.Errorf("filch %s: %w: %s", argv[0], err, text)
		}
		return time.Since(begin).Seconds(), nil
	}
	if f.Alike, err = job(); err != nil {
		return err
	}
	if err := groups[len(groups)/2].set(slowQuota / slowPart); err != nil {
		return err
	}
	f.Slow, err = job()
	return err
}

// quota is a cgroup whose processes have a part of a CPU.
type quota struct{ dir string }

// cpuTree is where cgroups of the first version bound CPU time.
const cpuTree = "/sys/fs/cgroup/cpu"

func newQuota(name string, us int) (quota, error) {
	g := quota{filepath.Join(cpuTree, name)}
	if err := os.Mkdir(g.dir, 0o755); err != nil {
		return g, err
	}
	if err := os.WriteFile(filepath.Join(g.dir, "cpu.cfs_period_us"), []byte(strconv.Itoa(slowPeriod)), 0); err != nil {
		return g, err
	}
	return g, g.set(us)
}

func (g quota) set(us int) error {
	return os.WriteFile(filepath.Join(g.dir, "cpu.cfs_quota_us"), []byte(strconv.Itoa(us)), 0)
}

// take moves a process and the processes below it into the cgroup.
func (g quota) take(pid int) error {
	if err := os.WriteFile(filepath.Join(g.dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
		return err
	}
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return err
	}
	for _, l := range lists {
		raw, _ := os.ReadFile(l) // the thread may have ended
		for word := range strings.FieldsSeq(string(raw)) {
			if child, err := strconv.Atoi(word); err == nil {
				_ = g.take(child) // may have ended
			}
		}
	}
	return nil
}

// close removes the cgroup once its processes are gone.
func (g quota) close() {
	for end := time.Now().Add(5 * time.Second); os.Remove(g.dir) != nil && time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
	}
}
