//go:build mutants

package instance

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/origin"
	"github.com/filch-hpc/filch/launcher/node/ranks"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/node/tasks"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/mutants"
	taskplan "github.com/filch-hpc/filch/mtc/plan"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/replica"
	"github.com/filch-hpc/filch/pool"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/planted"
)

// plants switch on the faults that each package carries.
var plants = map[string]func(name string) bool{
	"dht/store": store.Plant, "launcher": launcher.Plant, "launcher/node/origin": origin.Plant,
	"launcher/node/ranks": ranks.Plant, "launcher/node/records": records.Plant, "launcher/node/tasks": tasks.Plant,
	"pool": pool.Plant, "mtc": mutants.Plant, "mtc/before": before.Plant, "mtc/plan": taskplan.Plant, "mtc/policy": policy.Plant, "mtc/record": record.Plant, "mtc/replica": replica.Plant, "slots": slots.Plant, "stealer": stealer.Plant,
}

// TestMutantsAreCaught shows that the checkers bite. The invariants inside the
// cores are off: the checkers outside them must see it alone. A seed catches a fault
// if it breaks no rule without it: one that does is passed over, and named.
func TestMutantsAreCaught(t *testing.T) {
	var rows []planted.Row
	for _, f := range planted.Of(planted.Instance) {
		t.Run(f.Name, func(t *testing.T) {
			plant := plants[f.Room]
			if !plant(f.Name) {
				t.Fatalf("there is no planted fault %q", f.Name)
			}
			defer plant("")
			began := time.Now()
			row := planted.Row{Fault: f}
			for seed := uint64(1); seed <= f.Seeds && row.Seed == 0; seed++ {
				plant(f.Name)
				says := broken(f.Plan, seed)
				if says == "" {
					continue
				}
				plant("")
				if alone := broken(f.Plan, seed); alone != "" {
					t.Logf("seed %d of the plan %q breaks a rule without the fault: %s", seed, f.Plan, alone)
					continue
				}
				row.Seed, row.Says = seed, says
			}
			if f.Seeds == 0 {
				row.Says = calmBroken()
			}
			row.Took = time.Since(began)
			rows = append(rows, row)
			if row.Says == "" {
				t.Errorf("%s not caught in %d seeds", f.Name, f.Seeds)
			}
		})
	}
	t.Logf("figure: planted faults in whole nodes\n%s", planted.Table(rows))
}

// broken is the first rule that a seed of a plan breaks, or what a node panics with.
func broken(plan string, seed uint64) (says string) {
	defer func() {
		if p := recover(); p != nil {
			says = fmt.Sprint("a node panics: ", p)
		}
	}()
	var w *World
	switch plan {
	case "crashes":
		w, _ = crashRun(seed)
	case "heirs":
		w, _ = heirRun(seed)
	case "delays":
		w = backfillRun(seed, engine.Looks{})
	case "pools":
		w = ElasticRun(seed, engine.Looks{}, nil)
	case "fills":
		w = fillRun(seed, engine.Looks{})
	default:
		if r := runSeed(seed, plan, engine.Looks{}, nil); len(r.Violations) > 0 {
			return r.Violations[0].String()
		}
		return ""
	}
	if len(w.Broken()) > 0 {
		return w.Broken()[0].String()
	}
	return ""
}

// crashRun is one step of [TestCrashAtEveryStep]: the launcher of the gatherer dies
// over one deed or input and is soon back; it reports whether it came to that.
func crashRun(seed uint64) (w *World, blown bool) {
	bad := seed%2 != 0
	f := &fuse{skip: int(seed / 4), input: seed%4 > 1}
	w = crashWorld(f, 18, bad)
	f.blow = func(h *host) {
		w.killLauncher(h)
		w.At(w.Now()+50*time.Millisecond, func() { w.restart(h) })
	}
	w.Run(time.Minute)
	if len(w.Broken()) == 0 {
		w.checkQuiet()
	}
	rightEnds(w, bad)
	return w, f.blown
}

// calmBroken is what runs without faults fall short of.
func calmBroken() string {
	lines := RoundOne(engine.Looks{})
	for _, s := range Scenarios(64, 8, 12)[:4] {
		lines = append(lines, s.Run().Short()...)
	}
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}
