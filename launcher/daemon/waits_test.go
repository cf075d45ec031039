package daemon

import (
	"bytes"
	"errors"
	"runtime"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/wire"
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
		at   string
	}{
		{1, "(*Server).awaitChange("},
		{0, "(*Server).waitFor("},
	} {
		type answer struct {
			v   any
			err error
		}
		got := make(chan answer, 1)
		go func() {
			v, err := c.nodes[w.node].queries.Answer(wire.Query{Verb: wire.VerbWait, Args: []string{run.Job.String()}}, true)
			got <- answer{v, err}
		}()
		stacks := make([]byte, 1<<20)
		poll(t, "somebody to wait", func() bool {
			return bytes.Contains(stacks[:runtime.Stack(stacks, true)], []byte(w.at))
		})
		c.nodes[w.node].Stop()
		a := <-got
		if e, ok := errors.AsType[*filch.Error](a.err); !ok || e.Kind != filch.Unavailable {
			t.Errorf("node %d said %+v, %v", w.node+1, a.v, a.err)
		}
	}
}
