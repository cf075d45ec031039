package flat

import (
	"math"
	"testing"
	"time"

	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/tasks"
)

// figures are what the two models are compared by.
type figures struct {
	makespan         time.Duration
	messages, steals float64
}

func (f *figures) add(o figures) {
	f.makespan, f.messages, f.steals = f.makespan+o.makespan, f.messages+o.messages, f.steals+o.steals
}

// shipped runs a bag with the shipped cores.
func shipped(t *testing.T, o Options) figures {
	t.Helper()
	w := tasks.NewWorld(tasks.Options{Seed: o.Seed, Hosts: o.Nodes, Slots: int32(o.Slots), Links: engine.Quiet(), Shared: true, Cost: inputCost, Victims: o.Victims})
	w.Submit(0, submit.Job{Job: 1, Total: int32(o.Tasks), Spread: o.Spread}, func(d *engine.Dice, _ mtc.Start) time.Duration {
		return time.Duration(float64(o.Length) * (1 + o.Vary*(2*d.Unit()-1)))
	})
	w.RunUntil(time.Hour, w.AllFinished)
	if v := w.Verdict(); len(v) > 0 {
		t.Fatalf("the shipped cores: %v", v)
	}
	f := figures{makespan: w.Stats.Finished[1], steals: float64(w.Stats.Messages["age.Steal"])}
	for _, n := range w.Stats.Messages { // any order: a sum
		f.messages += float64(n)
	}
	return f
}

// flatly runs the bag in the flat model.
func flatly(t *testing.T, o Options) figures {
	t.Helper()
	r, err := Run(o)
	if err != nil {
		t.Fatal(err)
	}
	return figures{makespan: r.Makespan, messages: float64(r.Sent()), steals: float64(r.Messages[Steal])}
}

// TestFlatIsTheShippedCores holds the flat model to the shipped cores at 1,024 nodes: makespan, messages
// and steals within 3 %, in the mean of some seeds. The package comment names what the model leaves out.
func TestFlatIsTheShippedCores(t *testing.T) {
	compare(t, 2, 0.03, Options{Nodes: 1024, Slots: 4, Tasks: 10, Victims: policy.Lifeline})
}

// TestMatrixOfFlatAndShipped is the same with lengths that differ, drawn victims, and a bag that thieves alone spread.
func TestMatrixOfFlatAndShipped(t *testing.T) {
	if testing.Short() {
		t.Skip("minutes: make test-all runs them")
	}
	one, err := policy.ParseSpreading("1")
	if err != nil {
		t.Fatal(err)
	}
	compare(t, 2, 0.03, Options{Nodes: 1024, Slots: 4, Tasks: 10, Victims: policy.Lifeline, Vary: 1})
	compare(t, 1, 0.03, Options{Nodes: 1024, Slots: 4, Tasks: 10, Victims: policy.Random, Vary: 1})
	compare(t, 1, 0.03, Options{Nodes: 1024, Slots: 4, Tasks: 10, Victims: policy.Random, Vary: 1, Spread: one})
	// With lifelines alone the runs of two seeds differ by 5 % in messages and by 6 % in steals.
	compare(t, 2, 0.06, Options{Nodes: 1024, Slots: 4, Tasks: 24, Victims: policy.Lifeline, Vary: 1, Spread: one})
}

// flatSeeds is how many seeds the flat model runs for each that the shipped cores run.
const flatSeeds = 4

// compare runs a bag of tasks of 64 ms, so many by slot, in both models.
func compare(t *testing.T, seeds uint64, within float64, o Options) {
	t.Helper()
	o.Length, o.Tasks = 64*time.Millisecond, o.Tasks*int64(o.Nodes*o.Slots)
	var real, flat figures
	for seed := range seeds {
		o.Seed = seed + 1
		real.add(shipped(t, o))
	}
	for seed := range flatSeeds * seeds {
		o.Seed = seed + 1
		flat.add(flatly(t, o))
	}
	near := func(what string, real, flat float64) {
		t.Helper()
		by := 0.0
		if real != flat {
			by = (flat - real) / max(real, 1)
		}
		t.Logf("figure: %d nodes, victims %v, spread %v, lengths within %.0f %%: %s %.4g with the shipped cores, %.4g in the flat model (%+.2f %%)", o.Nodes, o.Victims, o.Spread, 100*o.Vary, what, real, flat, 100*by)
		if math.Abs(by) > within {
			t.Errorf("%d nodes, victims %v, spread %v: the %s of the flat model is off by %.1f %%, want at most %.0f", o.Nodes, o.Victims, o.Spread, what, 100*by, 100*within)
		}
	}
	n := float64(seeds)
	near("makespan in s", real.makespan.Seconds()/n, flat.makespan.Seconds()/n/flatSeeds)
	near("number of messages", real.messages/n, flat.messages/n/flatSeeds)
	near("number of steals", real.steals/n, flat.steals/n/flatSeeds)
}
