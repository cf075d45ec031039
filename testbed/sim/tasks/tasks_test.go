package tasks

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

var (
	seed  = flag.Uint64("seed", 0, "run only this seed and print its trace")
	seeds = flag.Uint64("seeds", 60, "how many seeds TestSeeds runs")
	first = flag.Uint64("first", 1, "the first of them")
)

// TestSeed repeats one: go test ./testbed/sim/tasks -run 'TestSeed$' -seed N.
func TestSeed(t *testing.T) {
	if *seed == 0 {
		t.Skip("no -seed")
	}
	t.Log(RunSeed(*seed, true, func(line string) { fmt.Println(line) }))
}

func TestSeeds(t *testing.T) {
	n := *seeds
	if testing.Short() {
		n = min(n, 15)
	}
	faults, drains, orders, again, lost, urgent, needs, seats := 0, 0, 0, 0, 0, 0, 0, 0
	var bounds Bounds
	for seed := *first; seed < *first+n; seed++ {
		r := RunSeed(seed, true, nil)
		if len(r.Broken) > 0 {
			t.Errorf("%v", r)
		}
		faults, drains, orders, again, lost = faults+r.Faults, drains+r.Drains, orders+r.Orders, again+r.Again, lost+r.Lost
		urgent, needs, seats = urgent+r.Urgent, needs+r.Needs, seats+r.Seats
		bounds.Join(r.Bounds)
	}
	t.Logf("figure: %d seeds, %d faults, %d drains begun or undone, %d orders, %d starts again, %d tasks lost", n, faults, drains, orders, again, lost)
	t.Logf("figure: after %d deaths (%d with all others well) work goes on within %v of the declaration, what runs once is lost within %v; with other faults at the time within %v",
		bounds.Deaths, bounds.Trials, bounds.GoesOn, bounds.Lost, bounds.Shaken)
	if n >= 15 && bounds.Trials == 0 {
		t.Error("after no death at all was looked at how soon its work goes on")
	}
	if n >= 15 && urgent == 0 {
		t.Error("no task of a better class waited")
	}
	if n >= 15 && needs == 0 {
		t.Error("no job had tasks with needs of their own")
	}
	if n >= 15 && seats == 0 {
		t.Error("no task took of the resource that all hosts share")
	}
	if n >= 15 && drains == 0 {
		t.Error("no host was drained")
	}
	if n >= 15 && orders == 0 {
		t.Error("no task was cancelled by itself, and no job was held")
	}
}

func TestSeedRepeats(t *testing.T) {
	for seed := uint64(1); seed <= 5; seed++ {
		if a, b := RunSeed(seed, false, nil), RunSeed(seed, false, nil); a.Hash != b.Hash {
			t.Errorf("seed %d: two runs with the hashes %x and %x", seed, a.Hash, b.Hash)
		}
	}
}

// efficiency runs a bag of equal tasks from one host and compares with an ideal
// that knows all.
func efficiency(hosts int, slots, perSlot int32, length time.Duration, v policy.Victims) (eff, cv float64, w *World) {
	w = NewWorld(Options{
		Seed: 1, Hosts: hosts, Slots: slots, Links: engine.Quiet(), Shared: true, Cost: 2 * time.Microsecond, Victims: v,
	})
	total := int32(hosts) * slots * perSlot
	w.Submit(0, submit.Job{Job: 1, Total: total}, func(*engine.Dice, mtc.Start) time.Duration { return length })
	w.RunUntil(time.Hour, w.AllFinished)
	ideal := time.Duration(perSlot) * length
	return float64(ideal) / float64(w.Stats.Finished[1]), w.Spread(), w
}

func TestEfficiency(t *testing.T) {
	for _, c := range []struct {
		hosts   int
		perSlot int32
		victims policy.Victims
	}{{64, 100, policy.Random}, {64, 100, policy.Mesh}, {64, 100, policy.Hierarchical}, {64, 100, policy.Leapfrog}, {64, 100, policy.Lifeline}, {1024, 20, policy.Random}, {1024, 20, policy.Lifeline}} {
		if testing.Short() && c.hosts > 64 {
			continue
		}
		eff, cv, w := efficiency(c.hosts, 16, c.perSlot, 64*time.Millisecond, c.victims)
		if v := w.Verdict(); len(v) > 0 {
			t.Errorf("%v", v)
		}
		t.Logf("figure: %d launchers x 16, 64 ms, victims %d: efficiency %.3f, variation %.4f, %d events, messages %v, merges %d",
			c.hosts, c.victims, eff, cv, w.Steps(), w.Stats.Messages, w.Stats.Merges)
		m := w.Stats.Messages
		if sent := (m["age.LoadAsk"] + m["age.LoadSay"] + m["age.News"]) / c.hosts; c.victims == policy.Lifeline && (eff < 0.93 || sent > 120) {
			t.Errorf("%d launchers with lifelines: efficiency %.3f and %d messages a launcher, want at least 0.93 and at most 120", c.hosts, eff, sent)
		}
		if c.victims == policy.Random && (eff < 0.95 || cv >= 0.05) {
			t.Errorf("%d launchers: efficiency %.3f and variation %.4f, want at least 0.95 and below 0.05", c.hosts, eff, cv)
		}
	}
}

// TestBetterClassMakespan has 64 busy hosts with long queues, and at one of them a bag of a
// better class: it takes little longer than on idle hosts.
func TestBetterClassMakespan(t *testing.T) {
	const hosts, slots, each, length = 64, 4, 8, 64 * time.Millisecond
	w := NewWorld(Options{Seed: 1, Hosts: hosts, Slots: slots, Links: engine.Quiet(), Shared: true, Cost: 2 * time.Microsecond})
	takes := func(*engine.Dice, mtc.Start) time.Duration { return length }
	const began = 5 * time.Second
	w.Submit(0, submit.Job{Job: 1, Total: hosts * slots * 200}, takes)
	w.At(began, func() {
		w.Submit(7, submit.Job{Job: 2, Total: hosts * slots * each, Ticket: filch.Ticket{Class: -1, UnixNS: 1, Job: 2}}, takes)
	})
	w.RunUntil(time.Hour, func() bool { return w.Stats.Finished[2] > 0 })
	took := w.Stats.Finished[2] - began
	questions, news := w.Stats.Messages["age.LoadAsk"], w.Stats.Messages["age.News"]
	t.Logf("figure: %d tasks of a better class take %v on %d busy hosts, at best %v; messages %v", hosts*slots*each, took, hosts, each*length, w.Stats.Messages)
	if took > 2*each*length {
		t.Errorf("%d tasks of a better class took %v on busy hosts, at best %v", hosts*slots*each, took, each*length)
	}
	if most := 4 * hosts * hosts; questions == 0 || news == 0 || questions > most || news > most {
		t.Errorf("%d questions and %d news among %d hosts, want at most %d", questions, news, hosts, most)
	}
}
