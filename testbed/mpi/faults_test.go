//go:build root

package mpi_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// The table of ends (docs/ends.md), row by row. The client is on n1, the
// ranks are on n2 and n3, n4 is a witness; what dies, dies on n3.

const (
	client, other, struck = 0, 1, 2
	faultHosts            = 4
)

// steps are where a job can be when something dies.
var steps = []string{"start", "init", "sleep", "receive", "finalize"}

// fewSteps are those for rows that take long, where not all are asked for.
func fewSteps() []string {
	if rig.Full() {
		return steps
	}
	return []string{"receive", "finalize"}
}

// bounds is what must hold after something died: when nothing of the job is
// left on the host where it did and on the others, the code, and what the
// client says.
type bounds struct {
	there, elsewhere time.Duration
	code             int
	says             string
}

// strike has a job go to step, does something, and checks what follows.
func (c *cluster) strike(step string, do func(j *job), b bounds, options ...string) {
	c.T.Helper()
	j := c.stay(step, options...)
	if j == nil {
		return
	}
	do(j)
	c.follow(j, b)
}

// stay starts a job that goes to step and stays there.
func (c *cluster) stay(step string, options ...string) *job {
	c.T.Helper()
	args := []string{"run", "-n", "2", "-w", "n2,n3", "--kill-wait", "1", program(c.T, "steps"), step}
	j := c.launch(client, 60*time.Second, "", append(args, options...)...)
	if !j.says("at "+step+"\n", 2) {
		j.cancel()
		c.T.Error(j.wait())
		return nil
	}
	return j
}

// follow checks what must hold from now on.
func (c *cluster) follow(j *job, b bounds) {
	c.T.Helper()
	var wg sync.WaitGroup
	var there, elsewhere time.Duration
	wg.Go(func() { there = c.gone(b.there, struck) })
	wg.Go(func() { elsewhere = c.gone(b.elsewhere, client, other, 3) })
	wg.Wait()
	r := j.wait()
	if r.code != b.code || !strings.Contains(r.stderr, b.says) {
		c.T.Errorf("want code %d and %q: %v", b.code, b.says, r)
	}
	c.T.Logf("gone there after %v of %v, elsewhere after %v of %v; %s", there.Round(time.Millisecond), b.there,
		elsewhere.Round(time.Millisecond), b.elsewhere, r.lastLine())
}

// rank is the rank's process on host i.
func (c *cluster) rank(i int) int {
	c.T.Helper()
	for _, pid := range c.marked(i) {
		if slices.Contains(c.keepers(i), parent(pid)) {
			return pid
		}
	}
	c.T.Fatalf("no rank on %s", c.Hosts[i].Name)
	return 0
}

// keeper is the keeper of the job on host i.
func (c *cluster) keeper(i int) int { return parent(c.rank(i)) }

func parent(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
	n, _ := strconv.Atoi(f[1])
	return n
}

// kill sends sig; after SIGKILL the process is dead.
func kill(pid int, sig syscall.Signal) {
	_ = syscall.Kill(pid, sig)
	for end := time.Now().Add(5 * time.Second); sig == syscall.SIGKILL && !zombie(pid) && time.Now().Before(end); {
		pause()
	}
}

func TestRankDies(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(*job) { kill(c.rank(struck), syscall.SIGKILL) },
				bounds{2 * time.Second, 2 * time.Second, 137, "on n3: killed by SIGKILL"}, "children")
			c.whole(5*time.Second, faultHosts)
		})
	}
}

func TestKeeperDies(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(*job) { kill(c.keeper(struck), syscall.SIGKILL) },
				bounds{2 * time.Second, 2 * time.Second, 125, "n3"}, "children")
			c.whole(5*time.Second, faultHosts)
		})
	}
}

// TestKeeperAndLauncherDie leaves nothing on the host but what made a session
// of its own, which is gone when the launcher is back.
func TestKeeperAndLauncherDie(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range fewSteps() {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(*job) {
				k, l := c.keeper(struck), c.launcher(struck)
				_ = syscall.Kill(l, syscall.SIGKILL)
				kill(k, syscall.SIGKILL)
			}, bounds{2 * time.Second, 9 * time.Second, 122, "n3"})
			c.Join(struck)
			c.whole(20*time.Second, faultHosts)
		})
	}
	t.Run("own-session", func(t *testing.T) {
		c := c.as(t)
		j := c.stay("sleep", "children")
		if j == nil {
			return
		}
		k, l := c.keeper(struck), c.launcher(struck)
		_ = syscall.Kill(l, syscall.SIGKILL)
		kill(k, syscall.SIGKILL)
		kill(l, syscall.SIGKILL)
		c.Join(struck)
		c.gone(2*time.Second, struck)
		c.gone(9*time.Second, client, other)
		if r := j.wait(); r.code != 122 && r.code != 125 {
			t.Errorf("want code 122 or 125: %v", r)
		}
		c.whole(20*time.Second, faultHosts)
	})
}

func TestClientDies(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(j *job) { kill(j.cmd.Process.Pid, syscall.SIGKILL) },
				bounds{2 * time.Second, 2 * time.Second, 137, ""}, "children")
			c.whole(5*time.Second, faultHosts)
		})
	}
	t.Run("stubborn", func(t *testing.T) {
		c := c.as(t)
		c.strike("sleep", func(j *job) { kill(j.cmd.Process.Pid, syscall.SIGKILL) },
			bounds{4 * time.Second, 4 * time.Second, 137, ""}, "stubborn", "children")
		c.whole(5*time.Second, faultHosts)
	})
}

// until is a job that ends with 7 when a file is made.
func (c *cluster) until(steps string) (j *job, end func()) {
	file := filepath.Join(c.Dir, "end")
	_ = os.Remove(file)
	c.T.Setenv("FILCH_TEST_FILE", file)
	args := []string{"run", "-n", "2", "-w", "n2,n3", "--kill-wait", "1", "--export", "ALL,FILCH_TEST_FILE=" + file, steps, "until"}
	j = c.launch(client, 60*time.Second, "", args...)
	if !j.says("at until\n", 2) {
		j.cancel()
		c.T.Fatal(j.wait())
	}
	return j, func() {
		c.T.Helper()
		if err := os.WriteFile(file, nil, 0o644); err != nil {
			c.T.Fatal(err)
		}
		if r := j.wait(); r.code != 7 || !strings.Contains(r.stderr, "exited with 7") {
			c.T.Errorf("want code 7: %v", r)
		}
		c.gone(2*time.Second, c.everywhere()...)
		c.whole(10*time.Second, faultHosts)
	}
}

// TestLauncherReturns has a launcher killed and started again within 4 s: that
// of a host with a rank, and that of the client.
func TestLauncherReturns(t *testing.T) {
	c := up(t, faultHosts, 1)
	for i, name := range map[int]string{struck: "of-a-rank", client: "of-the-client"} {
		t.Run(name, func(t *testing.T) {
			c := c.as(t)
			_, end := c.until(program(c.T, "steps"))
			kill(c.launcher(i), syscall.SIGKILL)
			c.Revive(i)
			end()
		})
	}
}

func TestLauncherStaysAway(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range fewSteps() {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(*job) { kill(c.launcher(struck), syscall.SIGKILL) },
				bounds{7500 * time.Millisecond, 9 * time.Second, 122, "n3"}, "children")
			c.Revive(struck)
			c.whole(20*time.Second, faultHosts)
		})
	}
	t.Run("of-the-client", func(t *testing.T) {
		c := c.as(t)
		c.strike("receive", func(*job) { kill(c.launcher(client), syscall.SIGKILL) },
			bounds{12 * time.Second, 12 * time.Second, 122, ""})
		c.Revive(client)
		c.whole(20*time.Second, faultHosts)
	})
}

// TestNodeDies takes the power from n3.
func TestNodeDies(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range fewSteps() {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(*job) {
				_ = c.Hosts[struck].SetLink(false)
				c.Hosts[struck].KillAll()
			}, bounds{2 * time.Second, 9 * time.Second, 122, "n3"}, "children")
			_ = c.Hosts[struck].SetLink(true)
			c.Revive(struck)
			c.whole(20*time.Second, faultHosts)
		})
	}
}

// TestLinkDies pulls the cable of n3: its ranks end when their lease does.
func TestLinkDies(t *testing.T) {
	c := up(t, faultHosts, 1)
	for _, step := range fewSteps() {
		t.Run(step, func(t *testing.T) {
			c := c.as(t)
			c.strike(step, func(*job) { _ = c.Hosts[struck].SetLink(false) },
				bounds{13 * time.Second, 9 * time.Second, 122, "n3"}, "children")
			_ = c.Hosts[struck].SetLink(true)
			c.whole(30*time.Second, faultHosts)
		})
	}
}

// TestShortPause stops each thing for 2.5 s; nothing comes of it.
func TestShortPause(t *testing.T) {
	c := up(t, faultHosts, 1)
	things := map[string]func(c *cluster, sig syscall.Signal){
		"launcher": func(c *cluster, sig syscall.Signal) { kill(c.launcher(struck), sig) },
		"keeper":   func(c *cluster, sig syscall.Signal) { kill(c.keeper(struck), sig) },
		"rank":     func(c *cluster, sig syscall.Signal) { kill(c.rank(struck), sig) },
		"node":     func(c *cluster, sig syscall.Signal) { c.Hosts[struck].SignalAll(sig) },
		"origin":   func(c *cluster, sig syscall.Signal) { kill(c.launcher(client), sig) },
	}
	for name, signal := range things {
		t.Run(name, func(t *testing.T) {
			c := c.as(t)
			_, end := c.until(program(c.T, "steps"))
			signal(c, syscall.SIGSTOP)
			<-time.After(2500 * time.Millisecond) // the pause is what is tested
			signal(c, syscall.SIGCONT)
			end()
		})
	}
}

// TestLauncherStopped stops a launcher for longer than it takes to be declared
// dead; when it goes on it reaps and rejoins.
func TestLauncherStopped(t *testing.T) {
	c := up(t, faultHosts, 1)
	j := c.stay("receive", "children")
	if j == nil {
		return
	}
	l := c.launcher(struck)
	kill(l, syscall.SIGSTOP)
	c.gone(9*time.Second, other)
	if r := j.wait(); r.code != 122 {
		t.Errorf("want code 122: %v", r)
	}
	kill(l, syscall.SIGCONT)
	c.gone(4*time.Second, struck)
	c.whole(20*time.Second, faultHosts)
}

// TestStoppedLong stops a keeper or a rank for long: the job waits, and cancel
// ends it.
func TestStoppedLong(t *testing.T) {
	c := up(t, faultHosts, 1)
	for name, pid := range map[string]func(*cluster, int) int{"keeper": (*cluster).keeper, "rank": (*cluster).rank} {
		t.Run(name, func(t *testing.T) {
			c := c.as(t)
			j := c.stay("sleep", "children")
			if j == nil {
				return
			}
			kill(pid(c, struck), syscall.SIGSTOP)
			<-time.After(8 * time.Second) // the pause is what is tested
			if j.cmd.ProcessState != nil || len(c.marked(other)) == 0 {
				t.Error("the job did not wait")
			}
			c.Must(client, "cancel", "last")
			c.follow(j, bounds{5 * time.Second, 5 * time.Second, 143, ""})
			c.whole(10*time.Second, faultHosts)
		})
	}
}

// TestKilledWhileStarting kills something at random moments of the launch
// protocol. Whatever was killed, the client ends, nothing is left and the slots
// are whole.
func TestKilledWhileStarting(t *testing.T) {
	rounds := 12
	if rig.Full() {
		rounds = 100
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	c := up(t, faultHosts, 1)
	for i := range rounds {
		delay := time.Duration(rnd.Int64N(int64(60 * time.Millisecond)))
		what := []string{"client", "keeper", "launcher"}[i%3]
		j := c.launch(client, 60*time.Second, "", "run", "-n", "2", "-w", "n2,n3", "--kill-wait", "1", program(t, "steps"), "sleep")
		<-time.After(delay) // a random moment
		switch what {
		case "client":
			kill(j.cmd.Process.Pid, syscall.SIGKILL)
		case "keeper":
			for _, pid := range c.keepers(struck) {
				kill(pid, syscall.SIGKILL)
			}
		case "launcher":
			kill(c.launcher(struck), syscall.SIGKILL)
		}
		if what == "launcher" {
			c.Revive(struck)
			// The job may have been adopted, and then goes on.
			c.launch(client, 20*time.Second, "", "cancel", "last").wait()
		}
		if what == "keeper" && c.stillRuns(j, 3*time.Second) {
			c.launch(client, 20*time.Second, "", "cancel", "last").wait()
		}
		r := j.wait()
		if r.code == 0 {
			t.Errorf("round %d, the %s after %v: %v", i, what, delay, r)
		}
		c.gone(12*time.Second, c.everywhere()...)
		c.whole(20*time.Second, faultHosts)
		if t.Failed() {
			t.Fatalf("round %d, the %s after %v: %v", i, what, delay, r)
		}
	}
}

// stillRuns reports whether j has not ended within d.
func (c *cluster) stillRuns(j *job, d time.Duration) bool {
	end := time.Now().Add(d)
	for time.Now().Before(end) {
		if zombie(j.cmd.Process.Pid) {
			return false
		}
		pause()
	}
	return true
}
