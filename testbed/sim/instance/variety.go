package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// hostGPUs is how many GPUs each host has.
const hostGPUs = 2

func gpuNames() []string { return []string{"gpu0", "gpu1"} }

// drawVariety gives some jobs the less common options.
func (w *World) drawVariety(d *engine.Dice) {
	for _, j := range w.jobs {
		if j.parent != nil || len(j.steps) > 0 {
			continue
		}
		s, p := &j.request.Shape, &j.request.Policy
		switch d.N(16) {
		case 0:
			j.request.Detach = true
		case 1:
			p.Requeue = true
		case 2:
			p.NoKill = true
		case 3:
			p.KillOnBad = false
		case 4:
			p.KillOnBad, p.HighestRC = false, true
		case 5:
			p.WaitFirst = d.Between(time.Millisecond, time.Second)
		case 6:
			j.request.Patient = d.Between(time.Millisecond, 5*time.Second)
		case 7:
			w.drawWhole(d, s)
		case 8:
			if s.PerRank.MemBytes == 0 && s.PerNode == 0 {
				gpus := int32(1 + d.N(hostGPUs))
				s.PerRank.GPUs = gpus * filch.GPU
				s.Ranks = min(s.Ranks, hostGPUs/gpus*int32(w.opt.Hosts), w.opt.Slots/s.PerRank.Slots*int32(w.opt.Hosts))
			}
		case 9:
			w.drawNames(d, s)
		case 10:
			j.signals = 1 + d.N(4)
		case 11:
			j.insist = true
		case 12:
			w.drawSpare(s, p)
		}
		j.Slots = int(s.Ranks * s.PerRank.Slots)
		j.trim()
	}
}

// drawSpare asks for a spare node, if the nodes can have one besides the ranks.
func (w *World) drawSpare(s *launcher.Shape, p *launcher.Policy) {
	each := int32(w.opt.Slots) / s.PerRank.Slots
	if s.PerRank.MemBytes > 0 || s.PerNode > 0 || w.opt.Hosts < 3 {
		return
	}
	s.Spare, p.Requeue = 1, true
	s.Ranks = min(s.Ranks, each*int32(w.opt.Hosts-1))
	s.MinNodes = min(s.MinNodes, int32(w.opt.Hosts-1))
}

// trim keeps what was planned for ranks that the job has.
func (j *job) trim() {
	ranks := j.request.Shape.Ranks
	j.plan.bad = slices.DeleteFunc(j.plan.bad, func(b badEnd) bool { return int32(b.rank) >= ranks })
	s := &j.request.Shape
	s.MinNodes = min(s.MinNodes, ranks)
}

// drawWhole asks for whole nodes, or for one slot of each.
func (w *World) drawWhole(d *engine.Dice, s *launcher.Shape) {
	if s.PerRank.MemBytes > 0 || s.MinNodes > 0 {
		return
	}
	s.Exclusive = true
	if d.Chance(0.3) {
		s.MinNodes = min(s.Ranks, int32(1+d.N(w.opt.Hosts)))
		s.MaxNodes = int32(w.opt.Hosts)
	}
}

// drawNames names the nodes to be used, or not to be.
func (w *World) drawNames(d *engine.Dice, s *launcher.Shape) {
	if s.MinNodes > 0 || s.PerNode > 0 || s.PerRank.MemBytes > 0 {
		return
	}
	count := 1 + d.N(min(4, w.opt.Hosts-1))
	var names []filch.NodeName
	for range count {
		h := w.hosts[d.N(w.opt.Hosts)]
		if !slices.Contains(names, h.Name) {
			names = append(names, h.Name)
		}
	}
	if d.Chance(0.5) {
		s.Exclude = names
		s.Ranks = min(s.Ranks, w.opt.Slots/s.PerRank.Slots*int32(w.opt.Hosts-len(names)))
		return
	}
	s.Only = names
	s.Ranks = max(int32(len(names)), min(s.Ranks, w.opt.Slots/s.PerRank.Slots*int32(len(names))))
}

// drawDrain takes a node out of service for a while, and back.
func (w *World) drawDrain(d *engine.Dice) {
	h := w.hosts[d.N(len(w.hosts))]
	at := d.Between(time.Millisecond, faultSpan)
	w.At(at, func() { h.drain(&launcher.Drain{}) })
	w.At(at+d.Between(time.Millisecond, 5*time.Second), func() { h.drain(nil) })
}

// drain takes a node out of service, with nil back in; all hear of it.
func (h *host) drain(why *launcher.Drain) {
	if h.node != nil {
		h.drains = why != nil
		h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Drain(now, why, out) })
		h.tellDrain(why != nil)
	}
}

// accepted is when a client learns that its job exists: a detached one leaves,
// another may begin to send signals.
func (w *World) accepted(j *job) {
	h, life := w.hosts[j.host], w.hosts[j.host].Life()
	if j.request.Detach {
		w.At(w.Now()+time.Millisecond, func() {
			if h.Life() == life && h.node != nil {
				h.call(func(now time.Duration, out *launcher.Outbox) { h.node.ClientGone(now, j.client(), out) })
			}
		})
	}
}

// signal has the client of a started job forward signals to it, and one that
// insists cancel it twice, as Ctrl-C does.
func (w *World) signal(j *job) {
	h := w.hosts[j.host]
	for i := range j.signals {
		w.At(w.Now()+time.Duration(i+1)*5*time.Millisecond, func() {
			if h.node == nil || j.over() || j.orphaned {
				return
			}
			h.call(func(now time.Duration, out *launcher.Outbox) {
				if h.node.Signal(now, j.id, signalBase+int32(j.signaled), out) == nil {
					j.signaled++
				}
			})
		})
	}
	if !j.insist {
		return
	}
	for i, sig := range []int32{2, 15, 9} {
		w.At(w.Now()+time.Duration(i+1)*20*time.Millisecond, func() {
			if h.node != nil && !j.over() && !j.orphaned {
				j.cancelled = true
				h.call(func(now time.Duration, out *launcher.Outbox) { h.node.Cancel(now, j.id, sig, "the plan", out) })
			}
		})
	}
}

// signalBase is the number of a job's first signal; each next one is one more,
// so that a keeper can tell whether one was lost, repeated or out of order.
const signalBase = 34

// signal takes in a forwarded signal at a keeper: each comes once and in order,
// unless a restart lost or repeated some, or some were for an earlier attempt.
func (k *keeper) signal(sig int32) {
	k.signals++
	if k.truth.launch.Ident.Attempt > 1 || k.w.touched(k.truth.job, k.truth) {
		return
	}
	if want := signalBase + int32(k.signals-1); sig != want {
		k.w.Fail("signals", "%s: %s hears signal %d, want %d", k.h.Name, k.start.Launch.Ident, sig, want)
	}
	if sent := k.truth.job.signaled; k.signals > sent {
		k.w.Fail("signals", "%s: %s hears %d signals, %d were sent", k.h.Name, k.start.Launch.Ident, k.signals, sent)
	}
}
