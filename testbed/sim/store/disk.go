package store

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
)

// disk is the node-local log: entries in the order in which they were appended,
// of which a crash keeps the synced ones, and of the others whatever it likes.
type disk struct {
	kept    map[string]line // the newest synced entry of each key
	tail    []line          // appended, not synced
	order   uint64
	syncing bool
	syncs   uint64 // begun; one that the disk's failure ended counts no more
	failing bool
	told    bool            // the store knows that it fails
	anew    map[string]line // what is there of the log that began when the disk came back; kept counts until it is whole
	wholeAt uint64
	damaged bool              // entries that may have been synced once are missing
	rotten  map[string]uint64 // the entries that went so, with the incarnation that could read them last
	torn    map[string]uint64 // the entries of which the last was never written, with the incarnation that made it
	hurt    bool              // it was damaged once, whether or not an entry went so: a seat on it was given up
	life    uint64            // the incarnation that runs on it
	gone    bool              // the node was lost with its disk
}

// line is an entry with its place in the log; numbers begin anew with each process.
type line struct {
	dht.LogEntry
	order uint64
	gen   int32
}

func (d *disk) append(gen int32, entries []dht.LogEntry) {
	for _, e := range entries {
		d.order++
		if d.failing {
			d.tear(e.Key)
			continue
		}
		e.Value = slices.Clone(e.Value)
		d.tail = append(d.tail, line{e, d.order, gen})
	}
}

// settle makes the first n lines of the tail safe.
func (d *disk) settle(n int) {
	for _, l := range d.tail[:n] {
		if d.anew != nil {
			d.anew[l.Key] = l
		} else {
			d.keep(l)
		}
	}
	d.tail = slices.Delete(d.tail, 0, n)
	if d.anew != nil && (len(d.tail) == 0 || d.tail[0].order > d.wholeAt) {
		d.kept = nil
		d.fold()
	}
}

// fold makes the log that began anew part of what counts.
func (d *disk) fold() {
	anew := d.anew
	d.anew = nil
	for _, l := range byOrder(anew) {
		d.keep(l)
	}
}

func (d *disk) keep(l line) {
	if d.kept == nil {
		d.kept = make(map[string]line)
	}
	delete(d.torn, l.Key)
	if l.Value == nil {
		delete(d.kept, l.Key)
		return
	}
	d.kept[l.Key] = l
}

func byOrder(lines map[string]line) []line {
	list := make([]line, 0, len(lines))
	for _, l := range lines {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b line) int { return cmp.Compare(a.order, b.order) })
	return list
}

// image is what a process finds that starts on the disk.
func (d *disk) image() []dht.LogEntry {
	lines := byOrder(d.kept)
	all := make([]dht.LogEntry, len(lines))
	for i, l := range lines {
		all[i] = l.LogEntry
		all[i].Value = slices.Clone(l.Value)
		all[i].Number = uint64(i + 1)
	}
	return all
}

// crashDisk decides what of the tail survives: nothing, its beginning (torn
// somewhere), or any part of it, since pages reach a disk in any order and a
// bad record is skipped. Now and then what was safe rots too, where everybody may
// die at once on one node only. A disk tells that records in its middle are bad,
// until it has synced something after that.
func (n *node) crashDisk(mayRot bool) {
	d, rng := &n.disk, n.w.rng.disk
	tail := d.tail
	d.tail, d.syncing, d.failing = nil, false, false
	if d.anew != nil {
		d.fold()
	}
	switch roll := rng.N(16); {
	case roll < 5: // nothing
		for _, l := range tail {
			d.tear(l.Key)
		}
	case roll == 14 && mayRot:
		for _, l := range tail {
			if rng.N(2) == 0 {
				d.keep(l)
			} else {
				n.rot(l.Key)
			}
		}
		d.damaged, d.hurt = true, true
	case roll == 15 && mayRot:
		for _, l := range tail {
			d.tear(l.Key)
		}
		for _, l := range byOrder(d.kept) {
			if rng.N(8) == 0 {
				delete(d.kept, l.Key)
				n.rot(l.Key)
			}
		}
		d.damaged, d.hurt = true, true
	default:
		whole := rng.N(len(tail) + 1)
		for _, l := range tail[:whole] {
			d.keep(l)
		}
		for _, l := range tail[whole:] {
			d.tear(l.Key)
		}
	}
}

// mayRot reports whether the disk of a process that runs may lose what was safe:
// not with the roster's majority.
func (n *node) mayRot() bool {
	g := &n.w.ground
	return !g.sound && !n.w.thinSeats(n) && (n.w.plan.style == steady || g.rotter == nil || g.rotter == n)
}

// rot notes that an entry of the disk cannot be read any more.
func (n *node) rot(key string) {
	n.w.ground.rotter = n
	n.w.trace(n.name, "rots", "%q", key)
	if n.disk.rotten == nil {
		n.disk.rotten = make(map[string]uint64)
	}
	n.disk.rotten[key] = n.disk.life
}

// tear notes that the last of an entry never reached the disk.
func (d *disk) tear(key string) {
	if d.torn == nil {
		d.torn = make(map[string]uint64)
	}
	d.torn[key] = d.life
}

// tells reports whether the disk of n tells that this incarnation of it, which is
// over, held a shard; or told, before it rotted, so that the store has guessed it.
func (n *node) tells(s dht.Shard, incarnation uint64) (tells, guessed bool) {
	d := &n.disk
	marker := "m/" + string(binary.BigEndian.AppendUint16(nil, uint16(s)))
	_, there := d.kept[marker]
	return !d.gone && d.rotten[marker] < incarnation, !d.gone && there
}

// lacks reports whether the disk of n lacks what this incarnation of it, which
// is over, knew last of a record; rotted, whether it had it once.
func (n *node) lacks(k dht.Key, incarnation uint64) (lacks, rotted bool) {
	d, entry := &n.disk, "r/"+string(k)
	rotted = d.gone || d.rotten[entry] >= incarnation
	return rotted || d.torn[entry] >= incarnation, rotted
}

// flush starts a sync of what is in the tail, if none is under way.
func (n *node) flush() {
	d, w := &n.disk, n.w
	if d.syncing || d.failing || len(d.tail) == 0 || n.store == nil {
		return
	}
	d.syncing = true
	d.syncs++
	number := d.syncs
	takes := w.rng.disk.Between(50*time.Microsecond, w.plan.syncMax)
	if w.rng.disk.N(50) == 0 {
		takes += w.rng.disk.Between(0, 300*time.Millisecond)
	}
	gen, count := n.gen, len(d.tail)
	w.after(takes, func() {
		if n.gen != gen || n.store == nil || !d.syncing || d.syncs != number {
			return // it died meanwhile, or the disk failed
		}
		d.syncing = false
		if d.failing {
			return
		}
		var upto uint64
		for _, l := range d.tail[:count] {
			if l.gen == gen {
				upto = l.Number
			}
		}
		d.settle(count)
		n.flush()
		d.damaged = d.damaged && upto == 0 // the damaged part is rewritten after what came first
		if upto > 0 {
			n.input(func(n *node) { n.synced(upto) })
		}
	})
}

// failDisk makes every write and sync fail for a while.
func (w *World) failDisk(n *node, lasts time.Duration) {
	if n.store == nil || n.disk.failing {
		return
	}
	w.trace(n.name, "disk", "fails for %v", lasts)
	d := &n.disk
	d.settle(w.rng.disk.N(len(d.tail) + 1))
	d.tail, d.failing, d.syncing, d.told = nil, true, false, false
	n.disturb()
	gen := n.gen
	n.input((*node).diskFailed)
	w.after(lasts, func() {
		if n.gen == gen {
			w.mendDisk(n)
		}
	})
}

// diskFailed tells the store, once.
func (n *node) diskFailed() {
	if n.disk.failing && !n.disk.told {
		n.disk.told = true
		n.call(func(now time.Duration, out *dht.StoreOut) { n.store.DiskFailed(now, "no space left on device", out) })
	}
}

// mendDisk begins a new log. The old one counts until the new one is whole.
func (w *World) mendDisk(n *node) {
	if n.store == nil || !n.disk.failing {
		return
	}
	n.input(func(n *node) {
		d := &n.disk
		if !d.failing {
			return
		}
		n.diskFailed() // if it did not run since
		w.trace(n.name, "disk", "works again")
		d.failing = false
		if d.anew != nil {
			d.fold()
		}
		d.anew, d.wholeAt = make(map[string]line), never
		n.call(func(now time.Duration, out *dht.StoreOut) { n.store.DiskBack(now, out) })
		d.wholeAt = d.order
		n.flush()
	})
}
