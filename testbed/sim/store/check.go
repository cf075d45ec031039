package store

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// judge holds what the clients saw against what they may see.
func (w *World) judge() {
	for _, key := range w.past.keys {
		entries := w.past.byKey[key]
		losses := w.ground.lostAt[cellOf(key)]
		lack := w.ground.lacking[key]
		switch {
		case w.plan.style == blackout && len(losses) > 0:
			w.judgeLossy(key, entries, losses[0], lack == nil || !lack.rotted)
		case w.excuses(lack) && linearizable(entries) == porcupine.Illegal:
			w.Trace("", "lacking", "%s, which no disk had when its shard was lost", key)
			w.stats.Lacking++
			w.judgeLossy(key, entries, lack.at, !lack.rotted)
			continue
		default:
			w.judgeKey(key, entries)
		}
		w.judgePlain(key, entries, lack)
	}
}

func (w *World) judgeKey(key dht.Key, entries []*entry) {
	switch linearizable(entries) {
	case porcupine.Illegal:
		w.Fail("illegal", "the history of %s is not linearizable", key)
		for _, e := range entries {
			w.Trace("", "history", "%s", describe(e))
		}
	case porcupine.Unknown:
		w.stats.Undecided++
	}
}

// judgeLossy is for a key whose shard lost all replicas at once and came back
// from disks. Up to then its history is linearizable; after it, nothing is
// older than what was durable, unless disks lost that too.
func (w *World) judgeLossy(key dht.Key, entries []*entry, lost int64, durable bool) {
	var before []*entry
	for _, e := range entries {
		switch {
		case e.call > lost:
		case e.back < lost || e.void:
			before = append(before, e)
		default:
			cut := *e
			cut.open, cut.back, cut.got = true, never, ""
			before = append(before, &cut)
		}
	}
	w.judgeKey(key, before)
	if !durable {
		return
	}
	removing := slices.ContainsFunc(entries, func(e *entry) bool { return e.op.Code == dht.OpRemove && !e.void })
	for _, d := range entries {
		if !d.op.Durable || d.open || d.void || d.result.Version == (dht.Version{}) || d.op.Code == dht.OpLookup {
			continue
		}
		for _, e := range entries {
			if e.open || e.void || e.call < d.back || e.op.Code == dht.OpLookup && !e.op.Consistent {
				continue
			}
			if e.result.Outcome == dht.Absent && !removing || e.result.Outcome != dht.Absent && e.result.Version.Less(d.result.Version) {
				w.Fail("durable", "%s was durable, then %s", describe(d), describe(e))
				return
			}
		}
	}
}

// excuses reports whether what was lost with a shard may be missing. In a world that
// is steady but for single crashes, all holders can still be declared dead at once.
func (w *World) excuses(l *lack) bool { return l != nil && (w.plan.style == steady || l.rotted) }

// judgePlain holds plain lookups against the view of the node that was asked:
// they may miss nothing that was acknowledged, before they were asked, in an
// epoch that it knew; and they show only what was there once. A version that no
// disk had when its shard was lost is gone for them as for everybody.
func (w *World) judgePlain(key dht.Key, entries []*entry, lack *lack) {
	if len(w.ground.lostAt[cellOf(key)]) > 0 && w.plan.style == blackout {
		return
	}
	var removed bool
	for _, e := range entries {
		removed = removed || e.op.Code == dht.OpRemove && !e.void
	}
	for _, e := range entries {
		if e.op.Code != dht.OpLookup || e.op.Consistent || e.open || e.void {
			continue
		}
		w.stats.Plain++
		for _, d := range entries {
			if d.open || d.void || d.back >= e.call || d.op.Code == dht.OpLookup && !d.op.Consistent {
				continue
			}
			if !e.result.Version.Less(d.result.Version) || e.result.Outcome == dht.Absent && removed {
				continue
			}
			if w.excuses(lack) && d.call < lack.at && lack.at < e.back && (lack.rotted || !d.op.Durable) {
				continue
			}
			w.stats.Stale++
			if d.newest <= e.view {
				w.Fail("stale", "%s, asked of a node that knew epoch %d, is older than %s", describe(e), e.view, describe(d))
				return
			}
			break
		}
	}
}

// checkImages holds what a store would want on its disk against what is there.
// The disk may know more: records that were sent and are not acknowledged.
func (w *World) checkImages(n *node) {
	if !n.disk.Whole() {
		return
	}
	for _, e := range n.store.Images() {
		value, ok := n.disk.Kept(e.Key)
		if !ok || !bytes.HasPrefix(e.Value, value) && !strings.HasPrefix(e.Key, "r/") {
			w.Fail("images", "%s wants %q on its disk as %x, and there it is %x", n.Name, e.Key, e.Value, value)
			return
		}
	}
}

// whole reports what is missing until everybody agrees on a roster in which no
// shard lacks a replica; "" when nothing is.
func (w *World) whole() string { return w.wholeBut(nil) }

// wholeBut is whole, but for some shards that nobody holds. Who held one of them
// cannot leave: its disk may be the one that matters.
func (w *World) wholeBut(bereft []dht.Shard) string {
	var first *store.Status
	for _, n := range w.up() {
		if n.leaving && len(bereft) == 0 {
			return string(n.Name) + " is leaving"
		}
		s := n.store.Status()
		switch {
		case !s.Known:
			return string(n.Name) + " knows no roster"
		case s.Short > len(bereft) || s.Learners > len(bereft) || !slices.Equal(s.Lost, bereft):
			return string(n.Name) + " sees shards that are not whole: " + show(s) + w.lostSay(n, s.Lost)
		case s.DiskReason != "":
			return string(n.Name) + " has no disk"
		case !slices.ContainsFunc(s.Members, func(r dht.Replica) bool { return r.Name == n.Name && r.Incarnation == n.incarnation }):
			return string(n.Name) + " is no member"
		case first != nil && (first.Epoch != s.Epoch || first.Generation != s.Generation):
			return string(n.Name) + " has another roster than the others: " + show(s)
		case 4*len(s.Members) > s.Shards:
			return string(n.Name) + " sees too few shards: " + show(s)
		case len(s.Members) != len(w.up()):
			return string(n.Name) + " sees members that are not there: " + show(s)
		}
		first = &s
	}
	return ""
}

// bereft are the lost shards that stay unavailable until somebody accepts the
// loss: of everybody who held one in its last epoch the disk went with its node,
// or the entry rotted that says so. What the store guesses of such a disk from
// the config counts if all disks are there.
func (w *World) bereft() (all []dht.Shard) {
	for _, k := range cellKeys {
		shard, replicas := w.shard(k)
		known, guessed := 0, 0
		for _, r := range replicas {
			tells, guess := w.byName[r.Name].tells(shard, r.Incarnation)
			switch {
			case tells || w.alive(r):
				known++
			case guess:
				guessed++
			}
		}
		if known == 0 && guessed < len(replicas) {
			all = append(all, shard)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// rosterLost reports whether the register is lost: of its newest acceptors no majority
// knows what it promised, as the disks of the others rotted or are gone.
func (w *World) rosterLost() bool {
	acceptors, generation := w.acceptors(), w.generation()
	lost := 0
	for _, n := range acceptors {
		working := false
		if n.store != nil {
			st := n.store.Status()
			working = st.Acceptor && st.Generation == generation
		}
		if !working && (n.left || n.disk.Hurt()) {
			lost++
		}
	}
	return 2*lost >= len(acceptors) && lost > 0
}

// lostSay tells who held the first of some lost shards.
func (w *World) lostSay(n *node, lost []dht.Shard) string {
	for _, k := range cellKeys {
		if shard, epoch, replicas := n.store.View(k); slices.Contains(lost, shard) {
			return fmt.Sprintf("; shard %d is lost, in epoch %d it is held by %v", shard, epoch, replicas)
		}
	}
	return ""
}

// checkHomes looks that each record has one home, and that nobody homes what
// is not there.
func (w *World) checkHomes(last map[dht.Key]*entry) {
	homed := map[dht.Key]*node{}
	for _, n := range w.up() {
		for r := range n.store.Homed("") {
			if other := homed[r.Key]; other != nil {
				w.Fail("homes", "%s is homed on %s and on %s", r.Key, other.Name, n.Name)
				return
			}
			homed[r.Key] = n
			e := last[r.Key]
			if e == nil || e.result.Outcome != dht.Done || e.result.Version != r.Version {
				w.Fail("homes", "%s homes %s of version %v, which is not what is there", n.Name, r.Key, r.Version)
				return
			}
		}
	}
	for _, key := range w.past.keys {
		if e := last[key]; e != nil && e.result.Outcome == dht.Done && homed[key] == nil {
			w.Fail("homes", "nobody homes %s", key)
			return
		}
	}
}

// checkWatches looks that each watcher that lives was told of the last change.
func (w *World) checkWatches(last map[dht.Key]*entry) {
	for _, n := range w.up() {
		for _, x := range sortedWatches(n.watches) {
			e := last[x.key]
			if e == nil {
				continue
			}
			gone := e.result.Outcome == dht.Absent
			if gone && x.told && !x.absent || !gone && (!x.told || x.absent || x.version != e.result.Version) {
				w.Fail("watch", "a watcher of %s on %s was told of %v (told %v, absent %v) last, and it is %s", x.key, n.Name, x.version, x.told, x.absent, describe(e))
				return
			}
		}
	}
}

func sortedWatches(all map[uint64]*watcher) (list []*watcher) {
	for _, x := range all {
		list = append(list, x)
	}
	slices.SortFunc(list, func(a, b *watcher) int { return strings.Compare(string(a.key), string(b.key)) })
	return list
}
