package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/filch-hpc/filch/launcher/wire"
)

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
	for _, node := range []string{"n1", "n2"} {
		poll(t, "the output of both nodes", func() bool {
			var chunk wire.OutputChunk
			return c.ask(0, &chunk, wire.VerbOutput, node, run.Job.String(), wire.OutputRanks, "", "", "1000") == nil && len(chunk.Pieces) == 1
		})
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, r := range c.nodes {
		poll(t, "the logs to be closed", func() bool { return !opens(t, r.cfg.Dir.Out()) })
	}
}

// opens reports whether this process has a file of a folder open.
func opens(t *testing.T, dir string) bool {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if name, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && filepath.Dir(name) == dir {
			return true
		}
	}
	return false
}
