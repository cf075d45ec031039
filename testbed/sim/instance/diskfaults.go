package instance

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/testbed/sim/engine"
	"github.com/filch-hpc/filch/testbed/sim/peril"
)

// What disks do in a fault run: some take nothing for a while, some are slow, and
// what was safe on one of them rots while its launcher is away.

// Sizes of the faults of disks.
const (
	diskFaultsMax = 3
	slowMax       = 800 * time.Millisecond // of a sync
)

// drawDiskFaults plans them for some of the runs.
func (w *World) drawDiskFaults(d *engine.Dice) {
	if !d.Chance(0.4) {
		return
	}
	rots := w.hosts[d.N(len(w.hosts))] // one host: two of them may be all that had a record
	for range 1 + d.N(diskFaultsMax) {
		h := w.hosts[d.N(len(w.hosts))]
		at, lasts := d.Between(time.Millisecond, faultSpan), d.Between(50*time.Millisecond, faultLongest)
		if d.Chance(0.5) {
			lasts = d.Between(time.Millisecond, 3*time.Second)
		}
		slow := d.Between(syncMax, slowMax)
		pick := d.N(5)
		w.At(at, func() {
			switch pick {
			case 0, 1:
				w.fillDisk(h, lasts)
			case 2:
				w.slowDisk(h, slow, lasts)
			default:
				w.rotDisk(rots, pick == 4)
				w.At(at+lasts, func() { w.restart(rots) })
			}
		})
	}
}

// fillDisk makes a disk take nothing for a while. A launcher that starts meanwhile
// finds it so.
func (w *World) fillDisk(h *host, lasts time.Duration) {
	if h.node == nil || h.disk.Failing() {
		return
	}
	w.trace(h.Name, "disk", "is full for "+lasts.String())
	w.hurt = true
	h.fullTill = w.Now() + lasts
	h.disturb(h.fullTill)
	h.fails()
	w.At(h.fullTill, func() { h.Input(w.Now(), h.diskBack) })
}

func (h *host) fails() {
	h.disk.Fail()
	h.told = false
	h.Input(h.w.Now(), h.diskFull)
}

// fullAgain has a launcher that starts find its disk as full as the last one did.
func (h *host) fullAgain() {
	if h.fullTill > h.w.Now() {
		h.fails()
		h.w.At(h.fullTill, func() { h.Input(h.w.Now(), h.diskBack) })
	}
}

// diskFull tells the launcher, once.
func (h *host) diskFull() {
	if !h.disk.Failing() || h.told {
		return
	}
	h.told = true
	h.take(&input{what: "disk", body: "takes nothing", do: func(now time.Duration, out *launcher.Outbox) {
		h.node.StoreDisk(now, "no space left on device", out)
	}})
}

// diskBack has the launcher write all anew that is to be there.
func (h *host) diskBack() {
	if !h.disk.Failing() || h.fullTill > h.w.Now() {
		return
	}
	h.diskFull() // if it did not run since
	if h.node == nil {
		return
	}
	h.disk.Mend(func() {
		for _, r := range h.late {
			h.write(r)
		}
		h.late = nil
		h.take(&input{what: "disk", body: "works again", do: func(now time.Duration, out *launcher.Outbox) {
			h.node.StoreDisk(now, "", out)
		}})
	})
}

// slowDisk makes syncs take up to that long, for a while.
func (w *World) slowDisk(h *host, most, lasts time.Duration) {
	w.trace(h.Name, "disk", "syncs take up to "+most.String())
	h.disk.Slow(most)
	h.disturb(w.Now() + lasts + most)
	w.At(w.Now()+lasts, func() { h.disk.Slow(syncMax) })
}

// rotDisk ends a launcher, or its machine, and makes part of what its disk had rot.
func (w *World) rotDisk(h *host, machine bool) {
	if h.node == nil {
		return
	}
	if machine {
		w.crash(h)
	} else {
		w.killLauncher(h)
	}
	h.rots = true
}

// rot makes part of what a disk had rot just before the next launcher reads it, unless
// that disk may be the only one that has it by now: others may have died meanwhile,
// before anybody knew that this one was gone.
func (w *World) rot(h *host) {
	if h.rots && w.mayRot(h) {
		w.hurt = true
		h.disk.Damage()
	}
	h.rots = false
}

// mayRot reports whether others that run have all that the disk of a host has.
func (w *World) mayRot(h *host) bool {
	nodes := w.running()
	return !peril.Seats(nodes, h.Name) && !peril.Shards(nodes, h.Name)
}

// running are the launchers that run, as the plan of faults looks at them. One that
// is cut off does not count: it may be declared dead, and takes what it has with it.
func (w *World) running() (nodes []peril.Node) {
	for _, h := range w.hosts {
		if h.node != nil && !w.cutOff(h) {
			nodes = append(nodes, peril.Node{Name: h.Name, Incarnation: h.incarnation, Store: h.store})
		}
	}
	return nodes
}
