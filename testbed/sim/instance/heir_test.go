package instance

import (
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// heirRun is a detached job whose owner, a node without ranks of it, is turned off
// for good over one deed or input: ranks that all ended well make a job that did.
func heirRun(seed uint64) (w *World, blown bool) {
	f := &fuse{skip: int(seed / 2), input: seed%2 != 0}
	w = crashWorld(f, 18, false)
	j := w.jobs[1]
	j.request.Detach, j.request.Shape.Exclude = true, []filch.NodeName{w.hosts[0].Name}
	j.Runs, j.plan.spread = 100*time.Millisecond, 400*time.Millisecond
	f.blow = func(h *host) {
		w.crash(h)
		h.lost = true
	}
	w.Run(2 * time.Minute)
	w.checkDetached(j)
	if a := j.last(); a != nil && a.allRan() && len(a.ends) == int(a.launch.Size) && a.firstBad() == nil && len(w.Broken()) == 0 && j.id != 0 {
		if e, err := launcher.DecodeJobEntry(w.read("job/" + itoa(int(j.id)))); err != nil || e.Info.State != filch.OK.String() {
			w.Fail("wrong-end", "all ranks of detached job %d ended well, and its record says %s: %s (%v)", j.id, e.Info.State, e.Info.Cause, err)
		}
	}
	return w, f.blown
}

// heirStride is how many of the steps are left out, to save time.
const heirStride = 9

// TestHeirAtEveryStep has the owner of a detached job die over what it does.
func TestHeirAtEveryStep(t *testing.T) {
	runs := 0
	for seed, blown := uint64(0), true; blown; seed += heirStride {
		var w *World
		if w, blown = heirRun(seed); len(w.Broken()) > 0 {
			t.Fatalf("step %d: %v", seed, w.Broken()[0])
		}
		runs++
	}
	if runs < 5 {
		t.Errorf("%d runs, want some over the whole life of a gang", runs)
	}
	t.Logf("%d runs", runs)
}
