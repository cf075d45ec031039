package disk

import (
	"fmt"
	"testing"
	"time"

	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// bench is one host with a disk, and what its process was told is synced.
type bench struct {
	*engine.Engine
	engine.Host
	disk   *Disk
	synced uint64
	number uint64
}

func newBench(seed uint64) *bench {
	b := &bench{Engine: engine.New(engine.Options{Seed: seed, Hosts: 1})}
	b.Add(&b.Host, "n1")
	b.disk = New(b.Engine, &b.Host, b.Dice(1), 10*time.Millisecond, func(upto uint64) { b.synced = upto })
	b.Start(0, func() {})
	b.disk.Image(1)
	return b
}

// write appends entries under keys of their own numbers.
func (b *bench) write(count int) {
	for range count {
		b.number++
		b.disk.Append([]store.LogEntry{{Number: b.number, Key: fmt.Sprint(b.number), Value: []byte("x")}})
	}
}

// TestCrashKeepsWhatIsSynced looks, over many seeds, that a crash takes nothing of
// which the process was told that it is safe, keeps no entry that was not written,
// and takes something now and then.
func TestCrashKeepsWhatIsSynced(t *testing.T) {
	took := 0
	for seed := uint64(1); seed <= 50; seed++ {
		b := newBench(seed)
		b.write(5)
		b.Run(5 * time.Millisecond)
		b.write(5)
		b.Run(10 * time.Millisecond)
		b.Stop()
		b.disk.Crash(false)
		b.Start(0, func() {})
		all, damaged := b.disk.Image(2)
		if len(all) < int(b.synced) || len(all) > 10 || damaged {
			t.Fatalf("seed %d: %d entries are left (damaged: %v), %d were synced and 10 written", seed, len(all), damaged, b.synced)
		}
		for i := range b.synced {
			if _, ok := b.disk.Kept(fmt.Sprint(i + 1)); !ok {
				t.Errorf("seed %d: entry %d was synced and is gone", seed, i+1)
			}
		}
		took += 10 - len(all)
	}
	if took == 0 {
		t.Error("no crash took anything")
	}
}

// TestFailedDisk looks that a disk that fails takes nothing, that it goes on behind
// what it had, and that a new log counts once it is whole.
func TestFailedDisk(t *testing.T) {
	for _, fresh := range []bool{false, true} {
		b := newBench(1)
		b.write(3)
		b.Run(time.Second)
		b.disk.Fail()
		b.write(1)
		if b.Run(2 * time.Second); b.synced != 3 || !b.disk.Failing() {
			t.Fatalf("%d entries are synced on a disk that fails, want 3", b.synced)
		}
		if fresh {
			b.disk.Mend(func() { b.write(2) })
		} else {
			b.disk.Reopen(func() { b.write(2) })
		}
		if _, ok := b.disk.Kept("1"); !ok {
			t.Error("the old log is gone before the new one is there")
		}
		b.Run(3 * time.Second)
		_, old := b.disk.Kept("1")
		_, lost := b.disk.Kept("4")
		_, last := b.disk.Kept("6")
		if old == fresh || lost || !last || !b.disk.Whole() || b.synced != 6 {
			t.Errorf("fresh log %v: entry 1 is there: %v, 4: %v, 6: %v; synced up to %d", fresh, old, lost, last, b.synced)
		}
	}
}
