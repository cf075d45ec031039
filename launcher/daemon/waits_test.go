package daemon

import (
	"bytes"
	"runtime"
	"testing"

	"github.com/filch-hpc/filch"
)

// Whoever waits for a job through a launcher that ends is told that, and not
// that the job took too long.
func TestWaitThroughALauncherThatEnds(t *testing.T) {
	c := newCluster(t, 2, 1)
	req := request(t, 1, "sleep", "1000")
	req.Detach = true
	run := c.submit(0, req)
	untilStarted(t, run)
	for _, w := range []struct {
		node int
		wait func() (any, error)
		at   string
	}{
		{1, func() (any, error) { return c.nodes[1].waitElsewhere(run.Job, "") }, "(*Daemon).awaitChange("},
		{0, func() (any, error) { return c.nodes[0].waitFor(run.Job, "") }, "(*Queue).Await("},
	} {
		type answer struct {
			v   any
			err error
		}
		got := make(chan answer, 1)
		go func() {
			v, err := w.wait()
			got <- answer{v, err}
		}()
		stacks := make([]byte, 1<<20)
		poll(t, "somebody to wait", func() bool {
			return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(w.at))
		})
		c.nodes[w.node].Stop()
		if a := <-got; kindOf(a.err) != filch.Unavailable {
			t.Errorf("node %d said %+v, %v", w.node+1, a.v, a.err)
		}
	}
}
