package instance

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// The quota of the store: a daemon whose log is near it has its launcher drop the
// oldest ended jobs, and refuse what asks for more records.

// quota is what was asked of launchers for that, and when.
type quota struct {
	dropped time.Duration // the last time that one was told to drop ended jobs; 0 never
}

// drawQuota has some launchers drop ended jobs now and then, and some take in
// nothing for a while.
func (w *World) drawQuota(d *engine.Dice) {
	if d.Chance(0.15) {
		for range 1 + d.N(4) {
			w.drawDrop(d)
		}
	}
	if !d.Chance(0.1) {
		return
	}
	h, at := w.hosts[d.N(len(w.hosts))], d.Between(time.Millisecond, faultSpan)
	full := func(is bool) func() {
		return func() {
			if h.node != nil {
				h.call(func(time.Duration, *launcher.Outbox) {
					h.noRoom = is // from here on: it may stand still
					h.node.StoreFull(is)
				})
			}
		}
	}
	w.At(at, full(true))
	w.At(at+d.Between(50*time.Millisecond, 5*time.Second), full(false))
}

// dropSpan is when launchers are told to drop ended jobs.
const dropSpan = faultSpan + cutLongest

func (w *World) drawDrop(d *engine.Dice) {
	h := w.hosts[d.N(len(w.hosts))]
	w.At(d.Between(time.Second, dropSpan), func() { w.drop(h) })
}

// drop has a launcher drop the ended jobs whose records are homed there.
func (w *World) drop(h *host) {
	if h.node == nil || !h.Speaks() {
		return
	}
	w.quota.dropped = w.Now()
	w.trace(h.Name, "drops", "the oldest ended jobs")
	h.call(func(now time.Duration, out *launcher.Outbox) { h.node.DropOldest(now, out) })
}

// mayBeDropped reports whether what ended at a moment may have been dropped since.
func (w *World) mayBeDropped(ended time.Duration) bool {
	return w.quota.dropped > 0 && ended <= w.quota.dropped+readWait
}

// checkDroppedBag: a bag whose record was dropped had ended before, its client was
// told, and nothing of it is left.
func (w *World) checkDroppedBag(b *bag) {
	switch {
	case !w.mayBeDropped(b.lastAt):
		w.Fail("forgotten", "there is no record of job %d (bag %d)", b.id, b.index)
	case !b.gone && !b.finished:
		w.Fail("not-told", "the record of job %d (bag %d) was dropped, and its client on %s never heard that it ended", b.id, b.index, w.hosts[b.host].Name)
	case b.running > 0:
		w.Fail("forgotten", "the record of job %d (bag %d) was dropped, and %d of its tasks run", b.id, b.index, b.running)
	}
	n := int32(len(b.starts))
	if !b.request.Open {
		n = b.request.Total
	}
	if !b.gangs() && !b.ordered { // a gang may fail before a rank begins
		w.checkAllBegan(b, n)
	}
	keys := []string{record.KeyCap(b.id)}
	for i := int32(0); i*record.ZoneSize < n; i++ {
		keys = append(keys, record.KeyZone(b.id, i))
	}
	for i := int32(0); i*record.BlockSize < n; i++ {
		keys = append(keys, record.KeyBlock(b.id, i))
	}
	for _, key := range keys {
		if len(w.Broken()) == 0 && w.read(key) != nil {
			w.Fail("garbage", "job %d (bag %d) was dropped, and %s is left", b.id, b.index, key)
		}
	}
}

// isHalfDropped reports whether some records of a bag were removed, and the launcher
// that did so could not remove the job's own: that goes when one is told to drop again.
func (w *World) isHalfDropped(b *bag, total int32) bool {
	if !w.mayBeDropped(b.lastAt) {
		return false
	}
	for z := int32(0); z*record.ZoneSize < total; z++ {
		value := w.read(record.KeyZone(b.id, z))
		zone, err := record.DecodeZone(value)
		if value == nil || err != nil {
			return err == nil
		}
		for _, t := range zone.Blocks {
			if w.read(record.KeyBlock(b.id, t.Block)) == nil {
				return true
			}
		}
	}
	return false
}

// checkAllBegan: each task of a dropped bag was started, but those that its client
// was told are lost. Such a one may never have begun: its node recorded the start
// and died before it told the runner. Of a task whose slots a run took, a copy alone may
// have begun.
func (w *World) checkAllBegan(b *bag, n int32) {
	if b.cancelled || b.gone || len(b.request.Nodes) > 0 || len(b.after) > 0 || b.each != nil {
		return
	}
	lost := b.tally.Lost
	for i := range n {
		if b.starts[i] > 0 || b.copied(i) {
			continue
		}
		if lost--; lost < 0 {
			w.Fail("forgotten", "the record of job %d (bag %d) was dropped before task %d began, and its client heard of %d lost", b.id, b.index, i, b.tally.Lost)
			return
		}
	}
}

// droppedJob reports whether the record of a detached job may have been dropped:
// the job is over, for so long.
func (w *World) droppedJob(j *job) bool {
	a := j.last()
	if a == nil {
		skipped := len(j.awaited) > 0 // perhaps, and without a word to the client of a detached run
		return w.quota.dropped > 0 && (j.cancelled || skipped || !w.allWell(j.submittedAt-leaseBound))
	}
	var ended time.Duration
	for i := range a.ends {
		ended = max(ended, a.ends[i].at)
	}
	return a.live == 0 && w.mayBeDropped(ended)
}

// describeDrop says when records were dropped, for a violation.
func (w *World) describeDrop() string {
	if w.quota.dropped == 0 {
		return "none was told to drop any"
	}
	return fmt.Sprintf("the last that was told to drop some was at %v", w.quota.dropped)
}
