package instance

import (
	"reflect"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/peril"
)

// The faults below are deeds of the world; a [FaultWorld] draws them from a seed.
// Each marks the hosts that it touches as troubled for as long as it lasts.

func (h *host) disturb(until time.Duration) { h.trouble = max(h.trouble, until) }

// killLauncher ends the launcher's process; keepers live on for a while, and the
// host's kernel closes its connections.
func (w *World) killLauncher(h *host) {
	if h.node == nil {
		return
	}
	w.hangUp(h)
	w.endLauncher(h)
}

// endLauncher ends the process without a word to anybody.
func (w *World) endLauncher(h *host) {
	w.trace(h.Name, "dies", "launcher")
	w.recall(h)
	w.noteHomed(h)
	h.disturb(w.Now())
	h.forgot = h.forgot || len(h.late) > 0
	for _, k := range h.keepers {
		k.noteLease()
	}
	h.node, h.store, h.list, h.frozen, h.late = nil, nil, nil, false, nil
	h.Stop()
	h.disk.Crash(false)
	for _, k := range h.keepers {
		k.wait()
	}
	h.killTasks()
	w.loseGangs(h)
	clear(h.gangs)
	w.loseClients(h)
	w.loseBags(h)
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
	if h.node != nil {
		w.endLauncher(h)
	}
	w.killKeepers(h)
	h.dark, h.offAt = true, w.Now()
	w.orphanAll(h)
	w.trace(h.Name, "dies", "machine")
}

// lose turns the machine off for good where the others can do without it, else for a
// while.
func (w *World) lose(h *host, back time.Duration) {
	if h.lost {
		return // it left: what remains of it is nobody's who was a member
	}
	lost := w.mayLose(h)
	w.crash(h)
	if h.lost = lost; !lost {
		w.At(w.Now()+back, func() { w.restart(h) })
	}
}

// spares reports whether the roster keeps a majority of its seats, and each shard a
// replica, without a machine and those that were lost before. Machines that go for
// good faster than the others replace them may take the last disk of a shard, or most
// of the seats. Then the store waits for the disks, and only a person can accept the
// loss: testbed/sim/store plays that.
func (w *World) spares(h *host) bool {
	s := w.newestRoster()
	if len(s.Members) < 3 || s.Sealed || s.Short > 0 || len(s.Lost) > 0 {
		return false
	}
	for _, x := range w.hosts {
		if x.lost && counted(&s, x) {
			return false // not replaced yet
		}
	}
	return len(s.Acceptors) > 1 || !slices.Contains(s.Acceptors, h.Name)
}

// counted reports whether a roster names a host as a member or as a seat.
func counted(s *store.Status, h *host) bool {
	return slices.Contains(s.Acceptors, h.Name) || slices.ContainsFunc(s.Members, func(r dht.Replica) bool { return r.Name == h.Name })
}

// recall turns machines on again that were to be off for good, where with a launcher
// that ends some shard loses the last replica that runs, and those machines are still
// counted: one of them may be left alone with that shard. Who left has nothing.
func (w *World) recall(h *host) {
	if w.lostHosts() == 0 || !peril.Shards(w.running(), h.Name) {
		return
	}
	s := w.newestRoster()
	for _, x := range w.hosts {
		if x.lost && len(x.contacts) > 0 && counted(&s, x) {
			x.lost = false
			x.disturb(w.Now() + startAgain)
			w.At(w.Now()+startAgain, func() { w.restart(x) })
		}
	}
}

// newestRoster is that of the launchers that run, sealed if a seat of it says so.
func (w *World) newestRoster() (newest store.Status) {
	sealed := uint64(0) // the newest generation that may be
	for _, h := range w.hosts {
		if h.node == nil {
			continue
		}
		s := h.node.StoreStatus()
		if s.Sealed {
			sealed = max(sealed, s.Generation)
		}
		if s.Known && s.Epoch > newest.Epoch {
			newest = s
		}
	}
	newest.Sealed = sealed > 0 && sealed == newest.Generation
	return newest
}

// lostHosts counts the machines that are off for good.
func (w *World) lostHosts() (n int) {
	for _, h := range w.hosts {
		if h.lost {
			n++
		}
	}
	return n
}

// restart begins the launcher anew, on the same disk; keepers that are left
// are adopted.
func (w *World) restart(h *host) {
	if h.node != nil || h.lost {
		return
	}
	w.rot(h)
	w.trace(h.Name, "starts", "launcher")
	h.dark = false
	h.disturb(w.Now())
	h.boot()
}

// reapBound is how long a host that was declared dead may take to end its ranks.
const reapBound = 2 * time.Second

// pause stops the launcher, or with frozen the whole machine, for a while. A
// keeper whose launcher is stopped for longer than its lease kills.
func (w *World) pause(h *host, d time.Duration, frozen bool) {
	if h.node == nil {
		return
	}
	until := w.Now() + d
	if w.Tracing() {
		w.trace(h.Name, "stopped", "until "+until.String())
	}
	h.Pause(until)
	h.frozen = frozen
	h.disturb(until)
	h.setApart(until)
	life := h.Life()
	if d > keeperLease && !frozen {
		w.At(w.Now()+keeperLease, func() {
			if h.Life() != life || !h.Paused() {
				return
			}
			for _, k := range slices.Clone(h.keepers) {
				k.abandon()
			}
		})
	}
}

// partition cuts every path from one set to the other, and the way back unless
// it is asymmetric, for a while.
func (w *World) partition(a, b []*host, d time.Duration, asymmetric bool) {
	w.trace("", "cut", "")
	set := func(by int16) {
		for _, x := range a {
			for _, y := range b {
				w.Net.Cut(x.Index, y.Index, by)
				if !asymmetric {
					w.Net.Cut(y.Index, x.Index, by)
				}
			}
		}
	}
	set(1)
	for _, h := range w.hosts {
		h.disturb(w.Now() + d)
		h.setApart(w.Now() + d)
	}
	if began := w.Now(); d > leaseBound+killWaitMax+saidAgain {
		w.At(w.Now()+leaseBound+killWaitMax+saidAgain, func() { w.checkLease(began) })
	}
	w.At(w.Now()+d, func() {
		w.trace("", "healed", "")
		set(-1)
	})
}

// farthest is a keeper with ranks of the longest job that runs on another node than its
// origin.
func (w *World) farthest() *keeper {
	var found *keeper
	for _, h := range w.hosts {
		for _, k := range h.keepers {
			j := k.truth.job
			if k.phase == running && j.host != h.Index && (found == nil || j.Runs > found.truth.job.Runs) {
				found = k
			}
		}
	}
	return found
}

// island cuts a participant of the longest job that runs off from everybody,
// for longer than its lease.
func (w *World) island(d time.Duration) {
	k := w.farthest()
	if k == nil {
		return
	}
	rest := slices.DeleteFunc(slices.Clone(w.hosts), func(h *host) bool { return h == k.h })
	w.partition([]*host{k.h}, rest, d, false)
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
		w.Net.Clog(h.Index, x.Index, w.Now()+d)
		w.Net.Clog(x.Index, h.Index, w.Now()+d)
	}
	h.disturb(w.Now() + d)
	h.setApart(w.Now() + d)
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
func (f *fuse) before(h *host, body any) bool {
	if body == nil || f.blown || h.Index != f.host || !f.input || f.name != "" && nameOf(body) != f.name {
		return false
	}
	return f.count(h)
}

func (w *World) burn(h *host, deed any) bool {
	f := w.fuse
	if f == nil || f.blown || h.Index != f.host || f.input {
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
