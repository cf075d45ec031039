//go:build root

package mpi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/filch-hpc/filch/testbed/rig"
)

// cluster is an instance with one launcher on each of several hosts.
type cluster struct{ *rig.Cluster }

// node is what filch nodes --json says of one.
type node struct {
	Node  string `json:"node"`
	State string `json:"state"`
	Slots int    `json:"slots"`
	Free  int    `json:"free"`
	Jobs  int    `json:"jobs"`
	PID   int    `json:"pid"`
}

// alone is one host on which nothing runs yet.
func alone(t *testing.T) *cluster { return hosts(t, 1, 0) }

// hosts makes a cluster of n hosts on which nothing runs yet.
func hosts(t *testing.T, n, slots int) *cluster {
	t.Helper()
	c := &cluster{rig.New(t, "mpi-test", slots)}
	c.Open(n)
	return c
}

// up makes a cluster of n hosts with so many slots each.
func up(t *testing.T, n, slots int) *cluster {
	t.Helper()
	c := hosts(t, n, slots)
	c.Start()
	end := time.Now().Add(20 * time.Second)
	for c.ready() != n {
		if time.Now().After(end) {
			t.Fatalf("%d of %d nodes are up: %v", c.ready(), n, c.nodes(0))
		}
	}
	return c
}

// job is a filch command that runs.
type job struct {
	t      *testing.T
	cmd    *exec.Cmd
	cancel context.CancelFunc
	start  time.Time
	limit  time.Duration
	ctx    context.Context
	stdout *tail
	stderr *tail
}

// tail collects output and lets others look at it meanwhile.
type tail struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *tail) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *tail) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// launch starts filch on host i; it is ended after limit.
func (c *cluster) launch(i int, limit time.Duration, stdin string, args ...string) *job {
	c.T.Helper()
	ctx, cancel := context.WithTimeout(c.T.Context(), limit)
	j := &job{t: c.T, cancel: cancel, ctx: ctx, start: time.Now(), limit: limit, stdout: &tail{}, stderr: &tail{}}
	j.cmd = c.Command(ctx, i, args...)
	j.cmd.Stdin = strings.NewReader(stdin)
	j.cmd.Stdout, j.cmd.Stderr = j.stdout, j.stderr
	if err := j.cmd.Start(); err != nil {
		c.T.Fatal(err)
	}
	return j
}

// run runs filch on host 0 and waits for it.
func (c *cluster) run(limit time.Duration, args ...string) result {
	c.T.Helper()
	return c.launch(0, limit, "", append([]string{"run"}, args...)...).wait()
}

// nodes is what the launcher of host i says of all.
func (c *cluster) nodes(i int) []node {
	ctx, cancel := context.WithTimeout(c.T.Context(), 10*time.Second)
	defer cancel()
	out, err := c.Command(ctx, i, "nodes", "--json").Output()
	if err != nil {
		return nil
	}
	var list []node
	if err := json.Unmarshal(out, &list); err != nil {
		c.T.Fatalf("filch nodes --json: %v: %s", err, out)
	}
	return list
}

// ready counts the nodes that every host sees up with all slots free.
func (c *cluster) ready() int {
	least := len(c.Hosts)
	for i := range c.Hosts {
		n := 0
		for _, x := range c.nodes(i) {
			if x.State == "up" && x.Free == x.Slots {
				n++
			}
		}
		least = min(least, n)
	}
	return least
}

// marked lists the processes on host i that belong to a job, by the mark in
// their environment. Keepers have none.
func (c *cluster) marked(i int) []int {
	var pids []int
	for _, pid := range c.Hosts[i].Processes() {
		env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err == nil && (bytes.HasPrefix(env, []byte("FILCH_JOB=")) || bytes.Contains(env, []byte("\x00FILCH_JOB="))) && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombie reports whether a process has ended, with all of its threads.
func zombie(pid int) bool {
	if threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid)); len(threads) > 1 {
		return false
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(b, ')')
	return i < 0 || i+2 >= len(b) || b[i+2] == 'Z'
}

// keepers lists the keepers on host i that have a job.
func (c *cluster) keepers(i int) []int { return c.program(i, "keeper") }

// program lists the processes on host i whose first argument is word.
func (c *cluster) program(i int, word string) []int {
	var pids []int
	for _, pid := range c.Hosts[i].Processes() {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		args := strings.Split(string(b), "\x00")
		if err == nil && len(args) > 1 && args[1] == word {
			pids = append(pids, pid)
		}
	}
	return pids
}

// launcher is the pid of host i's launcher, which has to run.
func (c *cluster) launcher(i int) int {
	c.T.Helper()
	pid := c.Launcher(i)
	if pid == 0 {
		c.T.Fatalf("no launcher on %s", c.Hosts[i].Name)
	}
	return pid
}

// gone waits until no process of a job is left on these hosts, and says how
// long that took.
func (c *cluster) gone(limit time.Duration, hosts ...int) time.Duration {
	c.T.Helper()
	start := time.Now()
	for {
		left := map[string][]int{}
		for _, i := range hosts {
			if pids := c.marked(i); len(pids) > 0 {
				left[c.Hosts[i].Name] = pids
			}
		}
		took := time.Since(start)
		if len(left) == 0 {
			return took
		}
		if took > limit {
			c.T.Errorf("after %v these processes of the job are left: %v", took, left)
			for _, pids := range left {
				for _, pid := range pids {
					b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
					c.T.Logf("%d: %.200s", pid, b)
				}
			}
			return took
		}
		pause()
	}
}

// whole waits until n nodes are up and all their slots are free again.
func (c *cluster) whole(limit time.Duration, n int) {
	c.T.Helper()
	end := time.Now().Add(limit)
	for c.ready() != n {
		if time.Now().After(end) {
			c.T.Errorf("after %v, of %d nodes %d are up and free: %+v", limit, n, c.ready(), c.nodes(0))
			return
		}
	}
}

// pause lets the processes that a test waits for have the machine.
func pause() { <-time.After(5 * time.Millisecond) }

// says waits until the output of j has text n times.
func (j *job) says(text string, n int) bool {
	j.t.Helper()
	for strings.Count(j.stdout.String(), text) < n {
		if j.ctx.Err() != nil || j.cmd.ProcessState != nil {
			j.t.Errorf("%v did not say %q %d times: %s%s", j.cmd.Args[8:], text, n, j.stdout, j.stderr)
			return false
		}
		pause()
	}
	return true
}

// wait is how it ended.
func (j *job) wait() result {
	j.t.Helper()
	defer j.cancel()
	err := j.cmd.Wait()
	var ee *exec.ExitError
	if err != nil && !errors.As(err, &ee) {
		j.t.Errorf("%v: %v", j.cmd.Args[8:], err)
	}
	r := result{stdout: j.stdout.String(), stderr: j.stderr.String(), took: time.Since(j.start)}
	ws := j.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if r.code = ws.ExitStatus(); ws.Signaled() {
		r.code = 128 + int(ws.Signal())
	}
	if j.ctx.Err() != nil {
		j.t.Errorf("%v: not done within %v: %v", j.cmd.Args[8:], j.limit, r)
	}
	return r
}
