package sim

import "time"

// Run is what became of one fault seed.
type Run struct {
	Seed       uint64
	Hash       uint64
	Events     uint64
	Messages   uint64
	Jobs       int
	Ended      int // told to their clients
	Fuse       string
	Violations []Violation
}

// RunSeed runs the faults of a seed to the end and checks that all is quiet.
func RunSeed(seed uint64, trace func(line string)) Run { return runSeed(seed, true, trace) }

// runSeed runs a seed with or without the invariants that the cores themselves
// assert after each input.
func runSeed(seed uint64, inside bool, trace func(line string)) Run {
	w := FaultWorld(seed, trace)
	w.opt.Check = inside
	w.run(faultSpan + cutLongest + settleSpan)
	if len(w.broken) == 0 {
		before := w.stats.Messages
		w.run(w.now + quietSpan)
		if n := w.stats.Messages - before; n > 0 && len(w.broken) == 0 {
			w.fail("chatter", "%d messages in %v after all was over", n, quietSpan)
		}
	}
	if len(w.broken) == 0 {
		w.checkQuiet()
	}
	r := Run{
		Seed: seed, Hash: w.hash, Events: w.stats.Events, Messages: w.stats.Messages,
		Jobs: len(w.jobs), Ended: w.stats.Ended, Violations: w.broken,
	}
	if w.fuse != nil && w.fuse.blown {
		r.Fuse = w.fuse.point()
	}
	return r
}

// quietSpan is how long nothing may be sent once all is over.
const quietSpan = 60 * time.Second

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
