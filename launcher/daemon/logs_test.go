package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// The oldest log goes when there are too many, but not one that is written.
func TestLogOfARunningJobStays(t *testing.T) {
	ls := newLogs(t.TempDir())
	first, err := ls.open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer first.close()
	for j := filch.JobID(2); j <= maxLogs+2; j++ {
		s, err := ls.open(j)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.append(wire.Output{Stream: 1, Data: []byte("still here\n")}); err != nil {
		t.Fatal(err)
	}
	pieces, _, _, err := output.ReadLog(ls.path(1), 0, -1, chunkBytes)
	if !ls.has(1) || err != nil || len(pieces) != 1 {
		t.Errorf("the log of a job that runs is gone: %v, %v", pieces, err)
	}
	if ls.has(2) || !ls.has(4) {
		t.Errorf("the oldest log of a job that has ended is there: %v, a newer one: %v", ls.has(2), ls.has(4))
	}
}

// A detached job that begins while its node's disk is full prints on once there
// is room.
func TestLogBeginsWhenThereIsRoom(t *testing.T) {
	c := newCluster(t, 2, 1)
	full := c.nodes[1].cfg.Dir.Out()
	if err := os.RemoveAll(full); err != nil {
		t.Fatal(err)
	}
	gate := filepath.Join(t.TempDir(), "gate")
	req := c.wide("sh", "-c", "echo said; until test -e "+gate+"; do sleep 0.1; done")
	req.Detach = true
	run := c.submit(0, req)
	untilStarted(t, run)
	if err := os.MkdirAll(full, 0o700); err != nil {
		t.Fatal(err)
	}
	var chunk wire.LogChunk
	poll(t, "the output of both nodes", func() bool {
		chunk = wire.LogChunk{}
		return c.ask(0, &chunk, wire.VerbLogs, run.Job.String()) == nil && len(chunk.Pieces) == 2
	})
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.nodes {
		poll(t, "the logs to be closed", func() bool {
			r.logs.mu.Lock()
			defer r.logs.mu.Unlock()
			return len(r.logs.busy) == 0
		})
	}
}

// The log of an attempt is closed when another has begun, too.
func TestLogOfAnAttemptIsClosed(t *testing.T) {
	r := start(t, testConfig(t))
	const job = 5
	if err := r.in.Ask(inputs.LoopWait, func(*inputs.Turn) {
		for attempt := range filch.Attempt(3) {
			r.routes.learn(&launcher.Launch{
				Ident:  filch.Ident{Instance: testUUID, Job: job, Attempt: attempt + 1},
				Origin: "n1", Detach: true, Nodes: []launcher.NodeRanks{{Node: "n1"}},
			}, 0)
		}
		r.routes.end(job)
	}); err != nil {
		t.Fatal(err)
	}
	if n := r.logs.busy[job]; n != 0 {
		t.Errorf("%d files of a job that has ended are open", n)
	}
}
