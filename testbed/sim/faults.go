package sim

import (
	"reflect"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/stealer"
)

// The faults below are deeds of the world; a [FaultWorld] draws them from a seed.
// Each marks the hosts that it touches as troubled for as long as it lasts.

func (h *host) disturb(until time.Duration) { h.trouble = max(h.trouble, until) }

// killLauncher ends the launcher's process; keepers live on for a while.
func (w *World) killLauncher(h *host) {
	if h.node == nil {
		return
	}
	w.trace(h.name, "dies", "launcher")
	h.disturb(w.now)
	h.node = nil
	h.gen++
	h.inbox, h.head, h.serving = nil, 0, false
	h.wake = filch.Never
	h.pausedUntil, h.frozen = 0, false
	gen := h.gen
	w.do(w.now+keeperPatience, func() {
		if h.gen == gen && h.node == nil {
			w.killKeepers(h)
		}
	})
	w.loseClients(h)
	w.detect.look()
}

// killKeepers ends every keeper of h with all that it holds.
func (w *World) killKeepers(h *host) {
	for len(h.keepers) > 0 {
		k := h.keepers[len(h.keepers)-1]
		k.truth.job.vanished = true
		k.vanish("")
	}
}

// crash turns the machine off.
func (w *World) crash(h *host) {
	for _, k := range h.keepers {
		w.mustEndWithout(h, k.truth)
	}
	w.killLauncher(h)
	w.killKeepers(h)
	h.dark = true
	w.orphanAll(h)
	w.trace(h.name, "dies", "machine")
}

// restart begins the launcher anew, on the same disk; keepers that are left
// are adopted.
func (w *World) restart(h *host) {
	if h.node != nil || h.lost {
		return
	}
	w.trace(h.name, "starts", "launcher")
	h.dark = false
	h.disturb(w.now)
	h.boot()
	w.detect.look()
}

// rejoin is what a launcher does that learns it was declared dead: it ends all
// ranks and comes back with a new incarnation.
func (w *World) rejoin(h *host) {
	w.trace(h.name, "rejoins", "it was declared dead")
	h.disturb(w.now + reapBound)
	h.incarnation++
	incarnation := h.incarnation
	for _, j := range w.jobs {
		if j.host == h.index && j.submittedAt >= 0 && !j.over() {
			j.restarted = true
		}
	}
	h.call(func(now time.Duration, out *launcher.Outbox) {
		h.node.Peer(now, h.member(incarnation-1, stealer.Dead), out)
	})
	h.call(func(now time.Duration, out *launcher.Outbox) {
		clear(h.promises)
		h.node.Reborn(now, incarnation, out)
	})
	w.detect.look()
}

// reapBound is how long a host that was declared dead may take to end its ranks.
const reapBound = 2 * time.Second

// pause stops the launcher, or with frozen the whole machine, for a while. A
// keeper whose launcher is stopped for longer than its lease kills.
func (w *World) pause(h *host, d time.Duration, frozen bool) {
	if h.node == nil {
		return
	}
	until := w.now + d
	if w.opt.Trace != nil {
		w.trace(h.name, "stopped", "until "+until.String())
	}
	h.pausedUntil, h.frozen = max(h.pausedUntil, until), frozen
	h.disturb(until)
	gen := h.gen
	if d > keeperLease && !frozen {
		w.do(w.now+keeperLease, func() {
			if h.gen != gen || h.pausedUntil <= w.now {
				return
			}
			for _, k := range slices.Clone(h.keepers) {
				k.abandon()
			}
		})
	}
	w.do(until, w.detect.look)
	w.detect.look()
}

// partition cuts every path from one set to the other, and the way back unless
// it is asymmetric, for a while.
func (w *World) partition(a, b []*host, d time.Duration, asymmetric bool) {
	w.trace("", "cut", "")
	set := func(by int16) {
		for _, x := range a {
			for _, y := range b {
				w.net.Cut(x.index, y.index, by)
				if !asymmetric {
					w.net.Cut(y.index, x.index, by)
				}
			}
		}
	}
	set(1)
	for _, h := range w.hosts {
		h.disturb(w.now + d)
	}
	w.detect.look()
	if began := w.now; d > leaseBound+killWaitMax+saidAgain {
		w.do(w.now+leaseBound+killWaitMax+saidAgain, func() { w.checkLease(began) })
	}
	w.do(w.now+d, func() {
		w.trace("", "healed", "")
		set(-1)
		w.detect.look()
	})
}

// island cuts a participant of the longest job that runs off from everybody,
// for longer than its lease.
func (w *World) island(d time.Duration) {
	var found *host
	var longest time.Duration
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			j := k.truth.job
			if k.phase == running && j.host != h.index && j.Runs > longest {
				found, longest = h, j.Runs
			}
		}
	}
	if found == nil {
		return
	}
	var rest []*host
	for _, h := range w.hosts {
		if h != found {
			rest = append(rest, h)
		}
	}
	w.partition([]*host{found}, rest, d, false)
}

// oldest is the oldest job that was accepted and has not ended.
func (w *World) oldest() *job {
	var old *job
	for _, j := range w.jobs {
		if j.id != 0 && !j.over() && !j.orphaned && (old == nil || j.Submit < old.Submit) {
			old = j
		}
	}
	return old
}

// clog holds back all that goes to and from a host.
func (w *World) clog(h *host, d time.Duration) {
	for _, x := range w.hosts {
		w.net.Clog(h.index, x.index, w.now+d)
		w.net.Clog(x.index, h.index, w.now+d)
	}
	h.disturb(w.now + d)
}

// killKeeper ends one keeper of h.
func (w *World) killKeeper(h *host, i int) {
	if len(h.keepers) == 0 || h.node == nil {
		return
	}
	k := h.keepers[i%len(h.keepers)]
	if k.phase != done {
		k.truth.job.vanished = true
		k.truth.vanished = true
		w.mustEnd(k.truth, goneBound, "a keeper died")
	}
	k.vanish("killed by the fault plan")
}

// fuse ends the launcher of a host in the middle of what it does: at the
// skip-th time that it comes to the deed (or input) of the given name, or with
// no name at any deed.
type fuse struct {
	host  int32
	name  string
	input bool // over the input itself, before it is handled
	skip  int
	blow  func(h *host)
	blown bool
}

// before burns the fuse over an input.
func (f *fuse) before(h *host, e *event) bool {
	if f.blown || h.index != f.host || !f.input || f.name != "" && nameOf(e.body) != f.name {
		return false
	}
	return f.count(h)
}

func (w *World) burn(h *host, deed any) bool {
	f := w.fuse
	if f == nil || f.blown || h.index != f.host || f.input {
		return false
	}
	if f.name != "" && nameOf(deed) != f.name {
		return false
	}
	return f.count(h)
}

func (f *fuse) count(h *host) bool {
	if f.skip--; f.skip >= 0 {
		return false
	}
	f.blown = true
	f.blow(h)
	return true
}

// nameOf is the name of a message's type, or a deed's name itself.
func nameOf(thing any) string {
	if s, ok := thing.(string); ok {
		return s
	}
	if thing == nil {
		return ""
	}
	t := reflect.TypeOf(thing)
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

func deedName(k launcher.DeedKind) string {
	return [...]string{"go", "signal", "stop", "forget"}[min(k, 3)]
}
