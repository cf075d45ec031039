package store

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// mayRot reports whether the disk of a process that runs may lose what was safe:
// not with the roster's majority.
func (n *node) mayRot() bool {
	g := &n.w.ground
	return !g.sound && !n.w.thinAcceptors(n) && (n.w.plan.style == steady || g.rotter == nil || g.rotter == n)
}

// tells reports whether the disk of n tells that this incarnation of it, which is
// over, held a shard; or told, before it rotted, so that the store has guessed it.
func (n *node) tells(s dht.Shard, incarnation uint64) (tells, guessed bool) {
	rotted := n.left
	for ; s >= shardsAtStart; s /= 2 { // it may have held the shard before that was split
		marker := "m/" + string(binary.BigEndian.AppendUint16(nil, uint16(s)))
		_, there := n.disk.Kept(marker)
		guessed = guessed || there && !n.left
		rotted = rotted || n.disk.Rotted(marker, incarnation)
	}
	return !rotted, guessed
}

// lacks reports whether the disk of n lacks what this incarnation of it, which
// is over, knew last of a record; rotted, whether it had it once.
func (n *node) lacks(k dht.Key, incarnation uint64) (lacks, rotted bool) {
	entry := "r/" + string(k)
	rotted = n.left || n.disk.Rotted(entry, incarnation)
	return rotted || n.disk.Torn(entry, incarnation), rotted
}

// failDisk makes every write and sync fail for a while.
func (w *World) failDisk(n *node, lasts time.Duration) {
	if n.store == nil || n.disk.Failing() {
		return
	}
	w.Trace(n.Name, "disk", "fails for %v", lasts)
	n.disk.Fail()
	n.disturb()
	n.input(func() {
		n.call(func(now time.Duration, out *store.Out) { n.store.DiskFailed(now, "no space left on device", out) })
	})
	life := n.Life()
	w.After(lasts, func() {
		if n.Life() == life {
			w.mendDisk(n)
		}
	})
}

// mendDisk has the log go on as it was when the disk failed, or begins a new one.
func (w *World) mendDisk(n *node) {
	if n.store == nil || !n.disk.Failing() {
		return
	}
	n.input(func() {
		if !n.disk.Failing() {
			return
		}
		w.Trace(n.Name, "disk", "works again")
		again := n.disk.Reopen
		if w.rng.disk.N(2) == 0 {
			again = n.disk.Mend
		}
		again(func() { n.call(n.store.DiskBack) })
	})
}
