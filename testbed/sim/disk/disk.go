package disk

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Disk is the log of a host: entries in the order in which they were appended.
// A crash keeps what was synced, and of the rest whatever it likes.
type Disk struct {
	engine  *engine.Engine
	host    *engine.Host
	dice    *engine.Dice
	syncMax time.Duration
	synced  func(upto uint64)

	kept    map[string]line // the newest synced entry of each key
	tail    []line          // appended, not synced
	order   uint64
	syncing bool
	syncs   uint64 // begun; one that a failure of the disk ended counts no more
	failing bool
	again   map[string]line // of the log that began when the disk came back; kept counts until it is whole
	wholeAt uint64
	damaged bool   // entries are missing that may have been synced
	life    uint64 // the incarnation that runs on it
	losses
}

// losses is what a disk lost over time.
type losses struct {
	hurt   bool              // it was damaged at some time
	rotten map[string]uint64 // entries that can be read no more, with the incarnation that could last
	torn   map[string]uint64 // entries whose last value was never written, with the incarnation that made it
}

// line is an entry with its place in the log; process is the one that appended it.
type line struct {
	store.LogEntry
	order   uint64
	process int32
}

// A sync takes from syncMin to the limit of the disk, and every slowOf-th up to
// slow more.
const (
	syncMin = 50 * time.Microsecond
	slow    = 300 * time.Millisecond
	slowOf  = 50
)

// New gives a host of an engine an empty disk whose syncs take up to syncMax.
// Synced is an input of the process: the disk has its entries up to that number.
func New(e *engine.Engine, h *engine.Host, dice *engine.Dice, syncMax time.Duration, synced func(upto uint64)) *Disk {
	return &Disk{engine: e, host: h, dice: dice, syncMax: syncMax, synced: synced}
}

// Append takes entries of the process that runs, and begins to sync them.
func (d *Disk) Append(entries []store.LogEntry) {
	for _, e := range entries {
		d.order++
		if d.failing {
			d.tear(e.Key)
			continue
		}
		if e.Value != nil {
			e.Value = append([]byte{}, e.Value...)
		}
		d.tail = append(d.tail, line{e, d.order, d.host.Life()})
	}
	d.flush()
}

// settle makes the first n lines of the tail safe.
func (d *Disk) settle(n int) {
	for _, l := range d.tail[:n] {
		if d.again != nil {
			d.again[l.Key] = l
		} else {
			d.keep(l)
		}
	}
	d.tail = slices.Delete(d.tail, 0, n)
	if d.again != nil && (len(d.tail) == 0 || d.tail[0].order > d.wholeAt) {
		d.kept = nil
		d.fold()
	}
}

// fold makes the log that began again part of what counts.
func (d *Disk) fold() {
	again := d.again
	d.again = nil
	for _, l := range byOrder(again) {
		d.keep(l)
	}
}

func (d *Disk) keep(l line) {
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

// Image is what a process finds that starts on the disk as this incarnation,
// and whether entries are missing from its middle.
func (d *Disk) Image(incarnation uint64) (entries []store.LogEntry, damaged bool) {
	d.life = incarnation
	lines := byOrder(d.kept)
	entries = make([]store.LogEntry, len(lines))
	for i, l := range lines {
		entries[i] = l.LogEntry
		entries[i].Value = slices.Clone(l.Value)
		entries[i].Number = uint64(i + 1)
	}
	return entries, d.damaged
}

// Kept is the newest synced value of a key.
func (d *Disk) Kept(key string) (value []byte, ok bool) {
	l, ok := d.kept[key]
	return l.Value, ok
}

// Crash decides what of the tail survives the end of the process: nothing, its
// beginning (torn somewhere), or any part of it, since pages reach a disk in any
// order and a bad record is skipped. With mayRot, what was safe rots now and
// then; the disk tells the next process of it until it has synced something.
// Crash reports whether something of that is gone.
func (d *Disk) Crash(mayRot bool) (rotted bool) {
	tail, dice := d.tail, d.dice
	d.tail, d.syncing, d.failing = nil, false, false
	if d.again != nil {
		d.fold()
	}
	switch roll := dice.N(16); {
	case roll < 5:
		d.tearAll(tail)
	case roll == 14 && mayRot:
		for _, l := range tail {
			if dice.N(2) == 0 {
				d.keep(l)
			} else {
				d.rot(l.Key)
				rotted = true
			}
		}
		d.damaged, d.hurt = true, true
	case roll == 15 && mayRot:
		d.tearAll(tail)
		rotted = d.Damage()
	default:
		whole := dice.N(len(tail) + 1)
		for _, l := range tail[:whole] {
			d.keep(l)
		}
		d.tearAll(tail[whole:])
	}
	return rotted
}

// Doubt makes the disk tell the next process that entries are missing, whatever
// it lost.
func (d *Disk) Doubt() { d.damaged = true }

// Damage makes some of what was safe rot, while no process runs on the disk. It
// reports whether something did.
func (d *Disk) Damage() (rotted bool) {
	for _, l := range byOrder(d.kept) {
		if d.dice.N(8) == 0 {
			delete(d.kept, l.Key)
			d.rot(l.Key)
			rotted = true
		}
	}
	d.damaged, d.hurt = true, true
	return rotted
}

// Slow makes the syncs that begin from now on take up to that long.
func (d *Disk) Slow(syncMax time.Duration) { d.syncMax = syncMax }

// Wipe takes the disk away with all that it had.
func (d *Disk) Wipe() {
	d.kept, d.tail, d.again, d.syncing, d.failing, d.damaged = nil, nil, nil, false, false, false
}

func (d *Disk) rot(key string) {
	d.engine.Trace(d.host.Name, "rots", "%q", key)
	if d.rotten == nil {
		d.rotten = make(map[string]uint64)
	}
	d.rotten[key] = d.life
}

func (d *Disk) tearAll(lines []line) {
	for _, l := range lines {
		d.tear(l.Key)
	}
}

// tear notes that the last value of an entry never reached the disk.
func (d *Disk) tear(key string) {
	if d.torn == nil {
		d.torn = make(map[string]uint64)
	}
	d.torn[key] = d.life
}

// Hurt reports whether entries of it were ever lost that may have been synced.
func (d *Disk) Hurt() bool { return d.hurt }

// Rotted reports whether an entry rotted that this incarnation could read.
func (d *Disk) Rotted(key string, incarnation uint64) bool {
	at, ok := d.rotten[key]
	return ok && at >= incarnation
}

// Torn reports whether the last value of an entry that this incarnation made
// never reached the disk.
func (d *Disk) Torn(key string, incarnation uint64) bool {
	at, ok := d.torn[key]
	return ok && at >= incarnation
}

// Live says that the process goes on as another incarnation.
func (d *Disk) Live(incarnation uint64) { d.life = incarnation }

// Unsynced is how many entries a crash may lose.
func (d *Disk) Unsynced() int { return len(d.tail) }

// Failing reports whether the disk takes nothing.
func (d *Disk) Failing() bool { return d.failing }

// Whole reports whether kept is all that counts: the disk does not fail, and no
// new log is being written in place of one that failed.
func (d *Disk) Whole() bool { return !d.failing && d.again == nil }

// SettleAll makes all that was appended safe, as a process does that syncs its
// log before it goes on. The sync that is under way counts no more.
func (d *Disk) SettleAll() {
	d.settle(len(d.tail))
	d.syncing = false
	d.syncs++
}

// flush begins a sync of the tail, if none is under way.
func (d *Disk) flush() {
	if d.syncing || d.failing || len(d.tail) == 0 || !d.host.Up() {
		return
	}
	d.syncing = true
	d.syncs++
	number, process, count := d.syncs, d.host.Life(), len(d.tail)
	takes := d.dice.Between(syncMin, d.syncMax)
	if d.dice.N(slowOf) == 0 {
		takes += d.dice.Between(0, slow)
	}
	d.engine.After(takes, func() {
		if d.host.Life() != process || !d.syncing || d.syncs != number {
			return // the process ended meanwhile, or the disk failed
		}
		d.syncing = false
		var upto uint64
		for _, l := range d.tail[:count] {
			if l.process == process {
				upto = l.Number
			}
		}
		d.settle(count)
		d.flush()
		d.damaged = d.damaged && upto == 0 // the damaged part is rewritten after what came first
		if upto > 0 {
			d.host.Input(d.engine.Now(), func() { d.synced(upto) })
		}
	})
}

// Fail makes every write fail from now on, and loses part of what was not
// synced. The caller tells the process.
func (d *Disk) Fail() {
	d.settle(d.dice.N(len(d.tail) + 1))
	d.tail, d.failing, d.syncing = nil, true, false
}

// Reopen makes the disk take entries again, behind those that it had when it
// failed. Tell has the process append all that is to be there.
func (d *Disk) Reopen(tell func()) {
	d.failing = false
	if d.again != nil {
		d.fold()
	}
	tell()
	d.flush()
}

// Mend makes the disk take entries again. It holds none of the new log yet: tell
// has the process append all that is to be there, and until that is synced the
// old log counts.
func (d *Disk) Mend(tell func()) {
	d.Reopen(func() {
		d.again, d.wholeAt = make(map[string]line), uint64(filch.Never)
		tell()
		d.wholeAt = d.order
	})
}
