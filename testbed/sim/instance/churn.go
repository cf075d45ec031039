package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"

	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/peril"
)

// How a node goes down that is told to, as launcher/daemon does it.
const (
	downPoll  = 20 * time.Millisecond
	downSlack = 5 * time.Second // to kill what did not end, and to hear of it
	leaveWait = 5 * time.Second // for the others to take over the records
	sigTerm   = 15
	sigKill   = 9
)

// drawChurn has nodes come and go in some of the runs.
func (w *World) drawChurn(d *engine.Dice) {
	if d.Chance(0.06) {
		w.drawBlackout(d)
	}
	if d.Chance(0.25) {
		w.drawLeave(d)
	}
}

// drawBlackout ends all launchers within a moment. They start again soon, but for
// one now and then, which may be the one that the others joined through.
func (w *World) drawBlackout(d *engine.Dice) {
	at := d.Between(time.Millisecond, faultSpan)
	var gone *host
	if d.Chance(0.5) {
		gone = w.hosts[0]
	}
	for _, h := range w.hosts {
		dies := at + d.Between(0, 300*time.Millisecond)
		back := dies + d.Between(50*time.Millisecond, 3*time.Second)
		machine := d.Chance(0.3)
		w.At(dies, func() {
			switch {
			case h == gone && w.mayLose(h):
				w.crash(h)
				h.lost = true
			case machine:
				w.crash(h)
			default:
				w.killLauncher(h)
			}
		})
		w.At(back, func() { w.restart(h) })
	}
}

// mayLose reports whether the others go on without a host for good. One whose launcher
// is away may have been the last replica of a shard when that ended.
func (w *World) mayLose(h *host) bool {
	if w.slanted || w.opt.Roles != nil || w.lostHosts() >= (len(w.hosts)-1)/2 || !w.spares(h) {
		return false
	}
	if h.node == nil || peril.Shards(w.running(), h.Name) {
		return false
	}
	return !w.hurt || w.mayRot(h) // a disk that failed, or a node that leaves, may have left fewer seats
}

// drawLeave has one node go down as it is told to, half of the times after it was
// drained, and half of the times join again later, as a node that nobody knew.
func (w *World) drawLeave(d *engine.Dice) {
	h := w.hosts[d.N(len(w.hosts))]
	at, grace := d.Between(time.Millisecond, faultSpan), d.Between(0, 3*time.Second)
	away := d.Between(100*time.Millisecond, 5*time.Second)
	if d.Chance(0.5) {
		w.At(at-d.Between(0, at), func() {
			w.hurt = w.hurt || h.node != nil
			h.drain(&launcher.Drain{})
		})
	}
	var back func()
	if d.Chance(0.5) {
		back = func() { w.At(w.Now()+away, func() { w.joinAnew(h) }) }
	}
	w.At(at, func() {
		if h.node == nil || !w.mayLose(h) {
			h.drain(nil) // else its slots stay away for good, and jobs that need them wait
			return
		}
		(&departure{host: h, life: h.Life(), back: back}).begin(grace)
	})
}

// departure is a node that goes down as it is told to.
type departure struct {
	*host
	life int32
	back func() // what follows, if anything does
	// So many times more it waits for the others to take over the records: a host that is
	// not started again.
	patience int
}

// begin takes no new work any more and ends what others do not go on with.
func (p *departure) begin(grace time.Duration) {
	w := p.w
	w.trace(p.Name, "leaves", "it was told to go down")
	w.hurt = true // it may give up its seat
	p.disturb(w.Now() + grace + 2*downSlack + leaveWait)
	p.call(func(now time.Duration, out *launcher.Outbox) {
		p.node.Drain(now, &launcher.Drain{}, out)
		p.cancelAll(now, sigTerm, out)
	})
	p.await(grace, p.idle, func(idle bool) {
		if idle {
			p.end()
			return
		}
		p.call(func(now time.Duration, out *launcher.Outbox) { p.cancelAll(now, sigKill, out) })
		p.await(downSlack, p.idle, func(bool) { p.end() })
	})
}

// end stops what runs here for others, and has others take over the records.
func (p *departure) end() {
	self := p.member(p.incarnation, filch.Dead)
	for _, j := range p.w.jobs {
		if j.host == p.Index && j.submittedAt >= 0 && !j.over() {
			j.restarted = true // another node decides about it, if it is detached
		}
	}
	p.w.loseGangs(p.host) // whoever owns their tasks next lets them rest
	p.call(func(now time.Duration, out *launcher.Outbox) { p.node.Peer(now, self, out) })
	quiet := func() bool {
		return !slices.ContainsFunc(p.keepers, func(k *keeper) bool { return k.phase != done })
	}
	p.await(downSlack, quiet, func(bool) {
		p.call(func(now time.Duration, out *launcher.Outbox) { p.node.StoreLeave(now, out) })
		p.await(leaveWait, func() bool { return p.node.StoreLeft() }, p.leave)
	})
}

// leave tells all others, and takes the node away with its disk; unless nobody has
// what it kept: then whoever waits for it starts it again.
func (p *departure) leave(left bool) {
	w, h := p.w, p.host
	stays := !left && !w.mayRot(h)
	if stays && p.patience > 0 {
		p.patience--
		p.await(leaveWait, func() bool { return p.node.StoreLeft() }, p.leave)
		return
	}
	if !stays {
		h.listen(func(now time.Duration, out *members.Out) { h.list.Leave(now, out) })
	}
	w.crash(h)
	if stays {
		w.At(w.Now()+startAgain, func() { w.restart(h) })
		return
	}
	h.lost, h.contacts, h.fullTill = true, nil, 0
	h.disk.Wipe()
	clear(h.records)
	if p.back != nil {
		p.back()
	}
}

// await polls until something holds, or for that long, and goes on; not if the
// launcher ends first.
func (p *departure) await(most time.Duration, ok func() bool, then func(bool)) {
	end := p.w.Now() + most
	var look func()
	look = func() {
		switch is := p.node != nil && ok(); {
		case p.node == nil || p.Life() != p.life:
		case is || p.w.Now() >= end:
			then(is)
		default:
			p.Input(p.w.Now()+downPoll, look)
		}
	}
	p.Input(p.w.Now()+downPoll, look)
}

// idle reports whether nothing is left that ends with this node.
func (p *departure) idle() bool {
	return !slices.ContainsFunc(p.node.Jobs(p.Local()), func(j launcher.JobInfo) bool { return p.ends(&j) })
}

// ends: a detached job without a rank here goes on, elsewhere.
func (p *departure) ends(j *launcher.JobInfo) bool {
	return j.Code == nil && (!j.Detached || slices.Contains(j.Nodes, p.Name))
}

func (p *departure) cancelAll(now time.Duration, sig int32, out *launcher.Outbox) {
	for _, i := range p.node.Jobs(now) {
		if !p.ends(&i) {
			continue
		}
		if j := p.w.byID[i.ID]; j != nil {
			j.cancelled = true
		}
		_ = p.node.Cancel(now, i.ID, sig, "filch down", out) // it may have ended by now
	}
}

// joinAnew has a node join that nobody knew, through one that answers.
func (w *World) joinAnew(h *host) {
	via := slices.IndexFunc(w.hosts, func(o *host) bool { return o != h && o.Speaks() && o.node != nil && o.joined })
	if !h.lost || via < 0 {
		return
	}
	h.lost, h.invited = false, w.hosts[via].Name
	w.restart(h)
}
