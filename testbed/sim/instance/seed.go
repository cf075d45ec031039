package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Run is what became of one fault seed.
type Run struct {
	Seed       uint64
	Slant      string
	Hash       uint64
	Events     uint64
	Messages   uint64
	Hosts      int
	Jobs       int
	Ended      int // told to their clients
	Copies     int // of tasks that began
	Successors int // tasks that waited for the end of another
	Acts       Acts
	Fuse       string
	Violations []engine.Violation
}

// RunSeed runs the faults of a seed to the end and checks that all is quiet.
func RunSeed(seed uint64, trace func(line string)) Run {
	return runSeed(seed, "", engine.LooksOf(seed), trace)
}

// RunSlanted is [RunSeed] with a slant; see [Slants].
func RunSlanted(seed uint64, slant string, trace func(line string)) Run {
	return runSeed(seed, slant, engine.LooksOf(seed), trace)
}

// runSeed runs a seed whose cores assert their own invariants as looks says.
func runSeed(seed uint64, slant string, looks engine.Looks, trace func(line string)) Run {
	w := SlantedWorld(seed, slant, trace)
	w.opt.Looks = looks
	w.Run(faultSpan + cutLongest + settleSpan)
	w.settleRuns()
	w.settleBags()
	before := w.stats
	if len(w.Broken()) == 0 {
		w.Run(w.Now() + quietSpan)
	}
	after := w.stats
	if len(w.Broken()) == 0 {
		w.checkQuiet()
	}
	if len(w.Broken()) == 0 {
		w.checkBags()
		w.checkRecords()
	}
	if len(w.Broken()) == 0 { // last, as what goes on for ever is mostly said better by the others
		w.checkSilent(&before, &after)
	}
	r := Run{
		Seed: seed, Slant: slant, Hash: w.Hash(), Events: w.Steps(), Messages: w.stats.Messages,
		Hosts: len(w.hosts), Jobs: len(w.jobs) + len(w.bags), Ended: w.stats.Ended, Copies: w.copies, Successors: w.stats.Successors, Acts: w.acts, Violations: w.Broken(),
	}
	if w.fuse != nil && w.fuse.blown {
		r.Fuse = w.fuse.point()
	}
	return r
}

// A bag of many tasks on many nodes may take longer than everything else where some
// messages are lost for good: all who move parts of it wait for one record. It is
// waited for while tasks end. Under a policy without thieves the node that a bag was submitted
// to may run all tasks of the bag alone.
const (
	bagsSpan  = 3 * time.Minute
	aloneSpan = 12 * time.Minute
	taskPause = 20 * time.Second
)

// settleBags goes on until no task has ended for a while.
func (w *World) settleBags() {
	ends := func(b *bag) bool { return b.lastAt > w.Now()-taskPause }
	span := bagsSpan
	if w.unserved {
		span = aloneSpan
	}
	for limit := w.Now() + span; w.Now() < limit && len(w.Broken()) == 0 && slices.ContainsFunc(w.bags, ends); {
		w.Run(w.Now() + taskPause)
	}
}

// settleRuns goes on until no job is left where a slant has runs that may take all slots,
// one after the other: the run of a seed then lasts no longer than these runs may take.
func (w *World) settleRuns() {
	for limit := w.Now() + w.longRuns; w.Now() < limit && len(w.Broken()) == 0 && slices.ContainsFunc(w.hosts, (*host).hasJobs); {
		w.Run(w.Now() + taskPause)
	}
	if w.longRuns > 0 && len(w.Broken()) == 0 {
		w.Run(w.Now() + 2*taskPause) // messages and answers that come twice, each up to 12 s late
	}
}

// hasJobs reports whether the launcher knows of a job that has not ended.
func (h *host) hasJobs() bool {
	return h.node != nil && slices.ContainsFunc(h.node.Jobs(h.Local()), func(i launcher.JobInfo) bool { return !isFinal(i.State) })
}

// checkSilent: once all was over, the nodes had little to say.
func (w *World) checkSilent(before, after *Stats) {
	if n := after.Messages - before.Messages; n > 0 {
		w.Fail("chatter", "%d messages in %v after all was over", n, quietSpan)
	}
	for _, b := range w.bags {
		if b.lastAt > faultSpan+cutLongest+settleSpan {
			return // its tasks had to wait for long runs
		}
	}
	if n, most := after.Idle-before.Idle, quietIdle*uint64(len(w.hosts)); n > most {
		w.Fail("chatter", "%d messages of stores and thieves in %v after all was over, want at most %d", n, quietSpan, most)
	}
}

// quietSpan is how long launchers say nothing once all is over, and quietIdle how
// much the store and the thief of each may say in that time.
const (
	quietSpan = 60 * time.Second
	quietIdle = 120
)

// point names where the fuse was.
func (f *fuse) point() string {
	switch {
	case f.name == "":
		return "any deed"
	case f.input:
		return "before " + f.name
	}
	return "at " + f.name
}
