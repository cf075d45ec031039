package instance

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// crashWorld is a job of that many ranks in a small cluster between two jobs
// that get in its way, with a fuse in one host.
func crashWorld(f *fuse, ranks int, bad bool) *World {
	const hosts, each = 6, 4
	w := NewWorld(Options{Seed: 7, Hosts: hosts, Slots: each, Links: engine.Quiet(), Looks: engine.EachInput(), Words: true, MaxSteps: 2e6})
	add := func(host int32, at time.Duration, ranks int, runs time.Duration, bad []badEnd) {
		j := &job{host: host, demand: demand{Submit: at, Slots: ranks, Runs: runs}, outcome: newOutcome()}
		j.request = launcher.Request{
			Shape:  launcher.Shape{Ranks: int32(ranks), PerRank: filch.Room{Slots: 1}},
			Policy: launcher.Policy{KillOnBad: true, KillWait: 500 * time.Millisecond},
			Order:  order(len(w.jobs)),
		}
		j.plan = plan{checksMin: 100 * time.Microsecond, checksMax: 400 * time.Microsecond, spread: time.Millisecond, unready: -1, bad: bad}
		w.add(j)
	}
	var ends []badEnd
	if bad {
		ends = []badEnd{{rank: 2, after: 20 * time.Millisecond, end: launcher.RankEnd{Kind: launcher.CauseExit, Code: 7}}}
	}
	add(2, time.Millisecond, 10, 30*time.Millisecond, nil)
	add(0, 5*time.Millisecond, ranks, 50*time.Millisecond, ends)
	add(4, 8*time.Millisecond, 12, 30*time.Millisecond, nil)
	w.fuse = f
	return w
}

// TestCrashAtEveryStep lets the launcher, or the machine, of the gatherer and
// of a participant die over each single thing that it does, and come back soon,
// late, or too late for its keepers. With -short each launcher and machine dies for one
// of these times.
func TestCrashAtEveryStep(t *testing.T) {
	roles := []struct {
		name  string
		host  int32
		ranks int
	}{{"gatherer", 0, 18}, {"participant", 1, 18}, {"alone", 0, 3}}
	backs := []time.Duration{50 * time.Millisecond, 3 * time.Second, 9 * time.Second}
	for i, role := range roles {
		for k, machine := range []bool{false, true} {
			for n, back := range backs {
				if testing.Short() && n != (i+k)%len(backs) {
					continue
				}
				name := fmt.Sprintf("%s/machine=%t/back=%v", role.name, machine, back)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					crashEverywhere(t, role.host, role.ranks, machine, back)
				})
			}
		}
	}
}

func crashEverywhere(t *testing.T, at int32, ranks int, machine bool, back time.Duration) {
	for mode := range 4 {
		bad, input := mode&1 != 0, mode&2 != 0
		steps := 0
		for blown := true; blown; steps++ {
			f := &fuse{host: at, skip: steps, input: input}
			w := crashWorld(f, ranks, bad)
			f.blow = func(h *host) {
				if machine {
					w.crash(h)
				} else {
					w.killLauncher(h)
				}
				w.At(w.Now()+back, func() { w.restart(h) })
			}
			w.Run(time.Minute)
			if len(w.Broken()) == 0 {
				w.checkQuiet()
			}
			if !machine && back < keeperPatience/2 && ranks > 4 {
				rightEnds(w, bad)
			}
			if len(w.Broken()) > 0 {
				t.Fatalf("step %d (bad end %t, before an input %t): %v", steps, bad, input, w.Broken()[0])
			}
			blown = f.blown
		}
		if steps < 12 {
			t.Errorf("%d steps, want the whole life of a gang", steps)
		}
		t.Logf("%d steps (bad end %t, before an input %t)", steps, bad, input)
	}
}

// rightEnds: while a launcher is away for a moment its ranks go on, and the
// codes are those of nothing having happened.
func rightEnds(w *World, bad bool) {
	for i, j := range w.jobs {
		want := int32(0)
		if bad && i == 1 {
			want = 7
		}
		if j.submittedAt >= 0 && !j.orphaned && (!j.over() || j.code != want) {
			w.Fail("wrong-code", "job %d ended with %d, %s; want %d", j.id, j.code, show(j.end), want)
		}
	}
}
