package instance

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// TestFirstBlocksDoNotQueueForDisks has many nodes begin at once, each of which wants a
// block of job ids that is on disks. With durable additions to the counter, each waited
// for the syncs of those before it: of 400 nodes the last began 6 s after the first.
func TestFirstBlocksDoNotQueueForDisks(t *testing.T) {
	const hosts, most = 64, 100 * time.Millisecond
	s := &scene{NewWorld(Options{Seed: 1, Hosts: hosts, Slots: 1, Links: engine.Quiet(), SyncMax: 10 * time.Millisecond, MaxSteps: 1e8}), t}
	for i, h := range s.hosts {
		s.At(time.Second, func() { s.killLauncher(h) })
		s.At(2*time.Second, func() { s.restart(h) })
		s.submit(int32(i), 2*time.Second+time.Millisecond, 1, time.Millisecond)
	}
	s.end(30 * time.Second)
	first, last := filch.Never, time.Duration(0)
	for _, j := range s.jobs {
		if j.startedAt < 0 {
			t.Fatalf("job %d of %s has not started", j.id, s.hosts[j.host].Name)
		}
		first, last = min(first, j.startedAt), max(last, j.startedAt)
	}
	if last > first+most {
		t.Errorf("of %d nodes that began at once the first had an id at %v and the last at %v, want at most %v between them", hosts, first, last, most)
	}
}
