package children

import (
	"context"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// children holds the child processes of this launcher. The launcher started the keepers
// and runners; all other children came to the launcher, a subreaper, when their keeper
// died.
type children struct {
	mu    sync.Mutex // guards kept; start holds mu until kept has the new keeper
	known map[int]bool
}

// start runs spawn so that orphans never counts the new keeper.
func (c *children) start(spawn func() (*Process, error)) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := spawn()
	if err == nil {
		c.known[p.PID] = true
	}
	return p, err
}

// ended removes a keeper that was waited for.
func (c *children) ended(pid int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.known, pid)
}

// Other starts a process that is neither a keeper nor a runner. The caller waits for the
// process, and then calls ended; until then the process is no orphan.
func (ks *Keepers) Other(cmd *exec.Cmd) (ended func(), err error) {
	c := &ks.own
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	pid := cmd.Process.Pid
	c.known[pid] = true
	return func() { c.ended(pid) }, nil
}

// orphans waits for the orphans that have ended and lists the others.
func (c *children) orphans() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var alive []int
	for _, pid := range childrenOf(os.Getpid()) {
		if c.known[pid] {
			continue
		}
		if n, err := unix.Wait4(pid, nil, unix.WNOHANG, nil); err == nil && n == 0 {
			alive = append(alive, pid)
		}
	}
	return alive
}

// childrenOf lists the children of a process, of all its threads.
func childrenOf(pid int) []int {
	lists, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	var all []int
	for _, name := range lists {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				all = append(all, n)
			}
		}
	}
	return all
}

// endOrphans kills orphans and their descendants until none is left, and returns the
// number killed. Descendants of a dying orphan become children of the launcher too.
func (c *children) endOrphans(limit time.Duration) int {
	killed := map[int]bool{}
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for end := time.Now().Add(limit); time.Now().Before(end); <-poll.C {
		alive := c.orphans()
		if len(alive) == 0 {
			break
		}
		for len(alive) > 0 {
			pid := alive[0]
			alive = append(alive[1:], childrenOf(pid)...)
			_ = unix.Kill(pid, unix.SIGKILL)
			killed[pid] = true
		}
	}
	return len(killed)
}

// Reap waits for processes that dead keepers left to this process, until ctx ends. Only
// a process without other duties than a launcher's may call Reap.
func (ks *Keepers) Reap(ctx context.Context) {
	died := make(chan os.Signal, 1)
	signal.Notify(died, unix.SIGCHLD)
	defer signal.Stop(died)
	ks.reaps.Store(true)
	for {
		select {
		case <-died:
			ks.own.orphans()
		case <-ctx.Done():
			return
		}
	}
}
