package instance

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// A slant adds to the plan of a seed what one part of a node is for, so that few
// seeds reach deep into that part.
type slant func(w *World, d *engine.Dice)

// slants are all of them; "" is the plan as it is.
var slants = map[string]slant{
	"":         func(*World, *engine.Dice) {},
	"owners":   slantOwners,
	"restarts": slantRestarts,
	"rejoins":  slantRejoins,
	"stewards": slantStewards,
	"caps":     slantCaps,
	"steps":    slantSteps,
	"drops":    slantDrops,
	"gangs":    slantGangs,
	"backfill": slantBackfill,
	"rifts":    slantRifts,
	"spawns":   slantSpawns,
	"replicas": slantReplicas,
	"brief":    slantBrief,
	"policies": slantPolicies,
}

// Slants names them.
func Slants() []string {
	names := append(slices.Sorted(maps.Keys(slants)), "syncs")
	return slices.DeleteFunc(names, func(s string) bool { return s == "" })
}

// SlantedWorld is [FaultWorld] with a slant.
func SlantedWorld(seed uint64, name string, trace func(string)) *World {
	if name == "syncs" {
		return syncWorld(seed, trace)
	}
	add, ok := slants[name]
	if !ok {
		panic(fmt.Sprintf("instance: there is no slant %q", name))
	}
	w := FaultWorld(seed, trace)
	w.slanted = name != ""
	add(w, w.Dice(streamSlant))
	return w
}

// slantOwners has most jobs outlive their clients, and some of the nodes that own
// them die, stand still or be cut off.
func slantOwners(w *World, d *engine.Dice) {
	for _, j := range w.jobs {
		if j.parent != nil || len(j.steps) > 0 || j.request.Patient > 0 || d.Chance(0.3) {
			continue
		}
		j.request.Detach = true
		j.request.Policy.Requeue = d.Chance(0.3)
		if j.Slots <= 2*int(w.opt.Slots) && d.Chance(0.4) {
			j.Runs = d.Between(2*time.Second, 20*time.Second)
		}
	}
	for i := range 3 {
		h, at := w.hosts[w.jobs[d.N(len(w.jobs))].host], d.Between(time.Second, faultSpan)
		lasts := d.Between(8*time.Second, faultLongest)
		switch d.N(3) {
		case 0:
			end := w.killLauncher
			if i == 0 { // more machines at a time, and records are lost that nobody called durable
				end = w.crash
			}
			w.At(at, func() { end(h) })
			w.At(at+lasts, func() { w.restart(h) })
		case 1:
			w.At(at, func() { w.pause(h, lasts, false) })
		case 2:
			var rest []*host
			for _, o := range w.hosts {
				if o != h {
					rest = append(rest, o)
				}
			}
			w.At(at, func() { w.partition([]*host{h}, rest, lasts, false) })
		}
	}
}

// slantRestarts has jobs run for longer, and each launcher die twice for a moment.
func slantRestarts(w *World, d *engine.Dice) {
	for _, j := range w.jobs {
		if j.parent == nil && j.Slots <= 2*int(w.opt.Slots) && d.Chance(0.5) {
			j.Runs = d.Between(time.Second, 8*time.Second)
			j.plan.spread = j.Runs / 2
		}
	}
	for _, h := range w.hosts[:min(len(w.hosts), 12)] {
		for range 2 {
			at, lasts := d.Between(time.Millisecond, faultSpan), d.Between(20*time.Millisecond, 3*time.Second)
			w.At(at, func() { w.killLauncher(h) })
			w.At(at+lasts, func() { w.restart(h) })
		}
	}
}

// slantBrief has bags of brief tasks, which begin as successors of others.
func slantBrief(w *World, d *engine.Dice) {
	for range 2 {
		w.drawBag(d)
	}
	for _, b := range w.bags {
		s := &b.request
		if s.Open || len(s.Nodes) > 0 || b.gangs() {
			continue
		}
		if d.Chance(0.7) && s.Long == nil { // enough for several of each slot
			s.Total, s.Spec.Cap = s.Total+500, 0
		}
		s.Spec.Once, s.Spec.Sure = s.Spec.Once && d.Chance(0.2), s.Spec.Sure && d.Chance(0.2)
		b.longest = d.Between(200*time.Microsecond, 2*policy.BriefMax)
		b.shortest = b.longest / 8
		if d.Chance(0.3) { // some run on, and their successors go back
			b.longest *= 8
		}
	}
}

// slantRejoins has some launchers stand still for so long that they are declared
// dead, and come back; some of their tasks run for that long, too.
func slantRejoins(w *World, d *engine.Dice) {
	w.drawBag(d)
	for _, b := range w.bags {
		if s := &b.request; !s.Open && len(s.Nodes) == 0 {
			s.Total, s.Spec.Cap, b.failEvery = min(s.Total, 6), 0, 0
			b.longest = d.Between(3*time.Second, 10*time.Second)
			b.shortest = b.longest / 2
		}
	}
	for range 4 {
		h, lasts, frozen := w.hosts[d.N(len(w.hosts))], d.Between(7*time.Second, 12*time.Second), d.Chance(0.3)
		w.At(d.Between(time.Millisecond, faultSpan), func() { w.pause(h, lasts, frozen) })
	}
}

// slantStewards has more jobs of tasks, many of them workflows or to be run once,
// and the nodes that lead them die or stand still.
func slantStewards(w *World, d *engine.Dice) {
	for range 4 {
		w.drawBag(d)
	}
	for _, b := range w.bags {
		s := &b.request
		if b.gangs() {
			continue
		}
		s.Spec.Once = s.Spec.Once || d.Chance(0.5)
		s.Total = min(s.Total, 60)
		if !s.Open && d.Chance(0.5) {
			s.Nodes = graph(d, int(min(s.Total, 60)))
			w.drawData(s.Nodes)
			s.Total = int32(len(s.Nodes))
		}
		b.longest = d.Between(100*time.Millisecond, time.Second)
		b.shortest = b.longest / 4
		h, at := w.hosts[b.host], b.submit+d.Between(100*time.Millisecond, 4*time.Second)
		lasts := d.Between(8*time.Second, faultLongest)
		if d.Chance(0.5) {
			w.At(at, func() { w.pause(h, lasts, d.Chance(0.5)) })
			continue
		}
		w.At(at, func() { w.crash(h) })
		w.At(at+lasts, func() { w.restart(h) })
	}
}

// slantCaps has all bags run few tasks at a time, of which there are many nodes'.
func slantCaps(w *World, d *engine.Dice) {
	w.drawBag(d)
	for _, b := range w.bags {
		b.request.Spec.Cap, b.request.Spec.Each = int32(1+d.N(4)), filch.Room{Slots: 1}
		b.longest = d.Between(20*time.Millisecond, 300*time.Millisecond)
		b.shortest = b.longest / 4
	}
}

// slantSteps has the tasks of all bags start steps, and fail and be started again.
func slantSteps(w *World, d *engine.Dice) {
	w.drawBag(d)
	for _, b := range w.bags {
		if b.gangs() {
			continue
		}
		b.stepEvery, b.failEvery = 1+d.N(3), 2+d.N(3)
		b.request.Spec.Retries = 2
		b.request.Spec.Each.Slots = int32(1 + d.N(int(w.opt.Slots)))
	}
}

// slantGangs has more tasks that are gangs, some of which run for long, while the
// launchers that own them die, stand still, or are cut off.
func slantGangs(w *World, d *engine.Dice) {
	for range 3 {
		b := w.drawGangBag(d)
		if d.Chance(0.5) {
			b.longest = d.Between(2*time.Second, 12*time.Second)
			b.shortest, b.request.Total = b.longest/2, min(b.request.Total, 6)
		}
		h, at := w.hosts[d.N(len(w.hosts))], b.submit+d.Between(100*time.Millisecond, 6*time.Second)
		lasts := d.Between(100*time.Millisecond, faultLongest)
		switch d.N(4) {
		case 0:
			w.At(at, func() { w.killLauncher(h) })
			w.At(at+lasts, func() { w.restart(h) })
		case 1:
			w.At(at, func() { w.crash(h) })
			w.At(at+lasts, func() { w.restart(h) })
		case 2:
			w.At(at, func() { w.pause(h, lasts, d.Chance(0.3)) })
		case 3:
			rest := slices.DeleteFunc(slices.Clone(w.hosts), func(o *host) bool { return o == h })
			w.At(at, func() { w.partition([]*host{h}, rest, lasts, false) })
		}
	}
}

// slantRifts has some jobs run for longer than a partition lasts, and cuts nodes that run
// their ranks off from the origin alone: the members call neither of the two dead, and
// nothing but the lease ends these ranks.
func slantRifts(w *World, d *engine.Dice) {
	for _, j := range w.jobs {
		if j.parent == nil && len(j.steps) == 0 && d.Chance(0.3) {
			j.Runs, j.request.Detach = d.Between(cutLongest, cutLongest+faultSpan), false
			w.longRuns += 2 * j.Runs // a rift may end the first attempt
		}
	}
	for range 2 {
		w.At(d.Between(faultSpan/4, faultSpan), func() {
			if k := w.farthest(); k != nil {
				w.partition([]*host{k.h}, []*host{w.hosts[k.truth.job.host]}, cutLongest, false)
			}
		})
	}
}

// slantDrops has launchers drop ended jobs all the time.
func slantDrops(w *World, d *engine.Dice) {
	w.drawBag(d)
	for range 12 {
		w.drawDrop(d)
	}
}

// syncWorld has no jobs: disks are slow, machines are turned off and nodes declared
// dead, and clients of the records, which all are durable, look what is left.
func syncWorld(seed uint64, trace func(string)) *World {
	d := engine.NewDice(seed, streamSlant)
	w := NewWorld(Options{
		Seed: seed, Hosts: 3 + d.N(3), Slots: 1, Links: drawLinks(d), SyncMax: d.Between(20*time.Millisecond, 1500*time.Millisecond),
		Looks: engine.LooksOf(seed), Words: true, Trace: trace, MaxSteps: 3e6,
	})
	w.slanted = true
	w.addRecordClients(d, 6, 60, 200*time.Millisecond)
	for range 4 + d.N(6) {
		at, lasts := d.Between(time.Millisecond, faultSpan), d.Between(50*time.Millisecond, 2*time.Second)
		first := d.N(len(w.hosts))
		switch off := d.N(4); off {
		case 0: // cut off until it is declared dead
			h := w.hosts[first]
			rest := slices.DeleteFunc(slices.Clone(w.hosts), func(o *host) bool { return o == h })
			w.At(at, func() { w.partition([]*host{h}, rest, 7*time.Second+2*lasts, false) })
		default: // so many machines lose their power at once
			for i := range off {
				h := w.hosts[(first+i)%len(w.hosts)]
				w.At(at, func() { w.crash(h) })
				w.At(at+lasts, func() { w.restart(h) })
			}
		}
	}
	return w
}
