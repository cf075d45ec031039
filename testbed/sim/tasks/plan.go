package tasks

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Crash ends a host's launcher and its processes at a time, for good.
func (w *World) Crash(i int, at time.Duration) {
	w.At(at, func() { w.crash(i, filch.Never-at) })
}

// crash ends a host's launcher and its processes; it comes back after a while,
// in another life.
func (w *World) crash(i int, back time.Duration) {
	h := w.hosts[i]
	if !h.Up() {
		return
	}
	w.note(h, "crash")
	w.shake()
	h.Stop()
	h.port.Close()
	h.killAll()
	w.bury(h)
	if w.gone != nil {
		w.missed(h, true)
	}
	w.At(w.Now()+back, func() { w.revive(h) })
}

// bury has the others hear of a death, each at its own moment.
func (w *World) bury(h *host) {
	life := h.incarnation
	w.At(w.Now()+w.opt.Detect, func() {
		if h.incarnation != life || h.Up() && !h.cut && !h.Paused() {
			return // it is back before anybody took notice
		}
		h.seen.dead = true
		w.mourn(h.Name, life)
		w.hear(word{Member: filch.Member{Name: h.Name, Incarnation: life, Standing: filch.Dead, Group: group(int(h.Index)), Labels: w.needs.labels(int(h.Index))}})
	})
}

// revive begins the next life of a host that is down or was declared dead.
func (w *World) revive(h *host) {
	h.killAll()
	late := h.seen.dead
	h.boot(nil)
	w.note(h, "boot")
	w.shake()
	if !late {
		w.mourn(h.Name, h.incarnation-1)
	}
	for _, o := range w.hosts {
		m := o.word()
		switch {
		case o.seen.dead:
			m.Standing = filch.Dead
		case !o.Up():
			m.Standing = filch.Suspect
		}
		w.lists[h.Index][o.Index] = m
		h.core.SetMember(w.Now(), m.Member, &h.out)
	}
	h.core.SetRoom(w.Now(), filch.Room{Slots: w.opt.Slots}, &h.out)
	h.act()
	w.hear(h.word())
	// Homes moved.
	for _, o := range w.hosts {
		life := o.incarnation
		w.At(w.Now()+w.fault.Between(0, 500*time.Millisecond), func() {
			o.input(life, "homes", func(now time.Duration, out *mtc.Out) { o.core.Homed(now, o.homed(), out) })
		})
	}
}

// pause stops a host's launcher; its processes go on. When it was declared
// dead meanwhile it learns that soon after it goes on, and begins another life.
func (w *World) pause(i int, d time.Duration) {
	h := w.hosts[i]
	if !h.Up() || h.Paused() {
		return
	}
	w.note(h, "pause")
	w.shake()
	h.Pause(w.Now() + d)
	life := h.incarnation
	w.bury(h)
	w.At(h.PausedUntil(), func() {
		if h.incarnation != life || !h.Up() {
			return
		}
		w.shake()
		h.drained = w.Now()
		if h.seen.dead {
			w.At(w.Now()+w.fault.Between(0, 200*time.Millisecond), func() {
				if h.incarnation == life && h.Up() {
					w.revive(h)
				}
			})
		}
	})
}

// isolate cuts a host off from the others and from the store for a while.
func (w *World) isolate(i int, d time.Duration) {
	h := w.hosts[i]
	if !h.Up() || h.cut {
		return
	}
	w.note(h, "cut")
	w.shake()
	h.cut = true
	w.cutAll(h, 1)
	w.bury(h)
	life := h.incarnation
	w.At(w.Now()+d, func() {
		h.cut, h.drained = false, w.Now()
		w.cutAll(h, -1)
		w.note(h, "healed")
		w.shake()
		if h.incarnation == life && h.Up() && h.seen.dead {
			w.At(w.Now()+w.fault.Between(0, 200*time.Millisecond), func() {
				if h.incarnation == life && h.Up() {
					w.revive(h)
				}
			})
		}
	})
}

func (w *World) cutAll(h *host, by int16) {
	for _, o := range w.hosts {
		if o != h {
			w.Net.Cut(h.Index, o.Index, by)
			w.Net.Cut(o.Index, h.Index, by)
		}
	}
}

// Result is what a seed gave.
type Result struct {
	Seed   uint64
	Hash   uint64
	Broken []string
	Lost   int // tasks
	Drains int
	Orders int // cancels of tasks, holds and releases
	Again  int // starts beyond the first
	Faults int
	Needs  int // starts of tasks of jobs whose tasks differ
	Seats  int // starts of tasks that take of the shared resource
	Urgent int // looks at a bag of a better class that waited
	Bounds Bounds
}

func (r Result) String() string {
	return fmt.Sprintf("seed %d: %d faults, %d starts again, %d lost, hash %x, broken %v", r.Seed, r.Faults, r.Again, r.Lost, r.Hash, r.Broken)
}

// RunSeed runs a small world with jobs of all kinds and faults, all of which
// the seed decides.
func RunSeed(seed uint64, check bool, trace func(string)) Result {
	d := engine.NewDice(seed, 9)
	opt := Options{
		Seed: seed, Events: 1_000_000, Hosts: 3 + d.N(5), Slots: int32(1 + d.N(4)), Check: check, Trace: trace,
		Links:   engine.Links{LatencyMin: 20 * time.Microsecond, LatencyMax: time.Millisecond},
		Policy:  policy.Policy{Kind: policy.Kind(d.N(4)), Threshold: 1 << 20, LocalTime: 200 * time.Millisecond},
		Victims: policy.Random + policy.Victims(d.N(7)), // all choices that steal
		Store:   Trouble{Timeout: 50 * time.Millisecond, SlowTail: 100 * time.Millisecond},
	}
	if engine.NewDice(seed, 15).Chance(0.3) {
		opt.Policy.Kind = policy.ADAGE
	}
	if d.Chance(0.6) {
		opt.Links.Loss, opt.Links.Dup = 0.02, 0.02
		opt.Links.LateDup, opt.Links.LateMax = 0.01, 3*time.Second
		opt.Store.Lost, opt.Store.Silent = 0.01, 0.01
	}
	w := NewWorld(opt)
	faults := 0
	if !w.urgent(engine.NewDice(seed, 14)) {
		w.jobs(d, engine.NewDice(seed, 11))
		w.openBag(engine.NewDice(seed, 10))
		faults = w.faults(d)
		w.drains(engine.NewDice(seed, 12))
		w.orders(engine.NewDice(seed, 13))
		w.lasting(engine.NewDice(seed, 17))
	}
	if w.gone = answering(seed); w.gone != nil && faults > 0 {
		w.At(2500*time.Millisecond, func() { w.rejectOne(w.gone.N(6)) })
	}
	w.RunUntil(10*time.Minute, w.AllFinished)
	r := Result{Seed: seed, Broken: w.Verdict(), Hash: w.Hash(), Faults: faults, Drains: w.Stats.Drains, Orders: w.Stats.Orders, Urgent: w.Stats.Urgent, Seats: w.Stats.Seats, Needs: w.Stats.Needs, Bounds: w.Stats.Bounds}
	for id := filch.JobID(1); int(id) <= len(w.truth.jobs); id++ {
		j := w.truth.jobs[id]
		for i := range j.starts {
			r.Again += max(int(j.starts[i])-1, 0)
			if j.ended[i] == filch.Lost {
				r.Lost++
			}
		}
		if j.Spec.Cap > 0 && faults == 0 && j.peak > j.Spec.Cap {
			r.Broken = append(r.Broken, fmt.Sprintf("%d tasks of job %d ran under a cap of %d", j.peak, id, j.Spec.Cap))
		}
	}
	if n := w.licenses.peak; n > w.licenses.limit && faults == 0 {
		r.Broken = append(r.Broken, fmt.Sprintf("%d seats were in use of %d", n, w.licenses.limit))
	}
	return r
}

// jobs submits three to five jobs of every kind.
func (w *World) jobs(d, tries *engine.Dice) {
	mean := time.Duration(5+d.N(80)) * time.Millisecond
	length := func(r *engine.Dice, _ mtc.Start) time.Duration { return r.Between(mean/4, 2*mean) }
	fails := func(s mtc.Start) int32 { return int32(max(int(s.Index)%11+int(s.Attempt)-11, 0)) % 2 }
	w.define()
	lengths, spreads := engine.NewDice(w.opt.Seed, 17), engine.NewDice(w.opt.Seed, 19)
	for k := range 3 + d.N(3) {
		s := submit.Job{Job: filch.JobID(k + 1), Total: int32(1 + d.N(1200))}
		s.Spec.Once = d.Chance(0.3)
		s.Spec.Retries = int32(d.N(3))
		limits(&s.Spec, tries)
		if d.Chance(0.25) {
			s.Spec.Cap = int32(1 + d.N(6))
			s.Total = min(s.Total, 200)
		}
		if d.Chance(0.4) {
			s.Nodes, s.Total = dag(d, int(min(s.Total, 400))), 0
			s.Spec.OnFail = record.FailMode(d.N(3))
		}
		s.Spread, _ = policy.ParseSpreading([]string{"auto", "1", "log", "sqrt", "all"}[spreads.N(5)])
		if len(s.Nodes) == 0 && lengths.Chance(0.3) {
			s.Long = drawLengths(s.Total, lengths)
		}
		if k > 0 && d.Chance(0.2) {
			s.After = []filch.JobID{filch.JobID(k)}
		}
		w.needs.take(&s, w.opt.Slots)
		w.licenses.take(&s)
		host := d.N(len(w.hosts))
		at := d.Between(0, 2*time.Second)
		w.At(at, func() {
			if !w.hosts[host].Up() {
				host = w.alive()
			}
			w.Submit(host, s, length)
			w.truth.jobs[s.Job].fails = fails
		})
		if d.Chance(0.15) {
			w.At(at+d.Between(time.Millisecond, 5*time.Second), func() {
				if j := w.truth.jobs[s.Job]; j != nil && j.rec != nil {
					w.Call(w.alive(), "cancel", func(c *mtc.Core, now time.Duration, out *mtc.Out) { c.Cancel(now, s.Job, "", out) })
				}
			})
		}
		w.truth.submitted(s, length) // so that the end waits for it
	}
}

// drawLengths are stated lengths of a bag, for the order of its tasks.
func drawLengths(total int32, d *engine.Dice) record.Lengths {
	all := make([]time.Duration, total)
	for i := range all {
		all[i] = d.Between(0, time.Second)
	}
	return record.NewLengths(all)
}

// alive is a host whose launcher answers.
func (w *World) alive() int {
	for i, h := range w.hosts {
		if h.Up() && !h.Paused() && !h.cut {
			return i
		}
	}
	return 0
}

func dag(d *engine.Dice, n int) (nodes []record.GraphNode) {
	for i := range n {
		g := record.GraphNode{Name: fmt.Sprint("t", i)}
		for range d.N(4) {
			if i > 0 {
				g.Parents = append(g.Parents, int32(max(i-1-d.N(20), 0)))
			}
		}
		nodes = append(nodes, g)
	}
	return nodes
}

// faults plans crashes, pauses and cuts, never of all hosts at a time; a
// submission waits for its acceptance, so that it is not cut short.
func (w *World) faults(d *engine.Dice) int {
	n := d.N(8)
	if d.Chance(0.2) {
		n = 0
	}
	t := 2500 * time.Millisecond
	for range n {
		i := d.N(len(w.hosts))
		kind, long := d.N(3), d.Chance(0.5)
		back := d.Between(500*time.Millisecond, 15*time.Second)
		w.At(t, func() {
			if w.troubled() >= (len(w.hosts)-1)/2 {
				return
			}
			switch kind {
			case 0:
				w.crash(i, back)
			case 1:
				if !long {
					back = min(back, 2*time.Second)
				}
				w.pause(i, back)
			case 2:
				w.isolate(i, back)
			}
		})
		t += d.Between(200*time.Millisecond, 6*time.Second)
	}
	return n
}

func (w *World) troubled() (n int) {
	for _, h := range w.hosts {
		if !h.Up() || h.cut || h.Paused() {
			n++
		}
	}
	return n
}
