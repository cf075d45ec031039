package store

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/varint"
)

const (
	diskBorn    = "born"
	diskDamaged = "damaged"
)

// Synced reports all entries up to the number upto as synced, and releases the messages
// and results waiting for these entries.
func (s *Store) Synced(now time.Duration, upto uint64, out *Out) {
	s.begin(now, out)
	defer s.end()
	if upto <= s.disk.synced || upto < s.disk.gate.whole {
		return
	}
	s.disk.synced = upto
	s.disk.gate.open(upto, out)
	if s.images.amends != 0 && s.images.amends <= s.disk.synced {
		s.images.amends = 0
		s.disk.log(diskDamaged, nil)
	}
}

// Restore loads the entries of this node's disk, before any other input. damaged reports
// skipped entries, which may once have been intact: then this node is an acceptor no
// longer, in later lives too.
func (s *Store) Restore(images []LogEntry, damaged bool) {
	var records []LogEntry
	latest := map[string][]byte{}
	var order []string
	for _, e := range images {
		if _, ok := latest[e.Key]; !ok {
			order = append(order, e.Key)
		}
		latest[e.Key] = e.Value
	}
	promise, value := latest[diskPromise], latest[diskValue]
	damaged = damaged || lostValue(promise, value)
	s.images.damaged, s.images.astray = damaged, damaged || latest[diskDamaged] != nil
	for _, k := range order {
		v := latest[k]
		switch {
		case v == nil:
		case k == diskBorn:
			x := varint.Reader{B: v}
			s.disk.born = x.Uvarint()
		case strings.HasPrefix(k, "m/") && len(k) == 4:
			x := varint.Reader{B: v}
			im := &image{incarnation: x.Uvarint(), records: map[dht.Key]*record.Record{}}
			for x.Left() > 0 && !x.Bad && len(im.older) < olderMax {
				if i := x.Uvarint(); i != 0 {
					im.older = append(im.older, i)
				} else {
					im.guess = true
				}
			}
			s.images.byShard[dht.Shard(k[2])<<8|dht.Shard(k[3])] = im
		case strings.HasPrefix(k, recordKey):
			records = append(records, LogEntry{Key: k[len(recordKey):], Value: v})
		}
	}
	// An acceptor that receives no roster from a peer asks the other acceptors.
	s.clock.Push(0, s.proposer.wake)
	for _, e := range records {
		if r, ok := record.Decode(slices.Clone(e.Value)); ok {
			s.images.restoreRecord(dht.Key(e.Key), r)
		}
	}
	s.images.unlogged = damaged
	if !damaged && !mutantAcceptorsForget {
		s.acceptor.restore(promise, value)
		s.proposer.high = max(s.acceptor.promised.N, s.acceptor.accepted.N)
	}
	if s.acceptor.generation == 0 {
		s.acceptor.remember(latest[diskRecall])
	}
	if damaged {
		s.acceptor.remember(value)
	}
	if mutantAcceptorsForget && value != nil {
		x := varint.Reader{B: value}
		s.acceptor.vote = vote{generation: x.Uvarint()}
	}
}

// logDamage records the damage for the next life. The entries must be the first of this
// life, as the disk forgets the damage once any entry of this life is synced. The
// remaining acceptor state may be older than the promises. diskBorn names this life, so
// that the disk does not count for an earlier life's place as an acceptor.
func (s *Store) logDamage() {
	s.images.unlogged = false
	s.disk.born = s.self.Incarnation
	s.disk.log(diskBorn, varint.AppendUvarints(nil, s.disk.born))
	s.disk.log(diskDamaged, []byte{1})
	if s.acceptor.generation == 0 {
		s.acceptor.logRecall()
		s.disk.log(diskPromise, nil)
		s.disk.log(diskValue, nil)
	}
}

// lostValue reports whether a disk has a promise of a generation, but has lost the value
// logged before the promise. The promises of the generation before are lost too: this
// node must not become an acceptor there again as if for the first time.
func lostValue(promise, value []byte) bool {
	p, v := varint.Reader{B: promise}, varint.Reader{B: value}
	return p.Uvarint() > v.Uvarint()
}

// Images returns all entries this store needs on the disk, for the Restore of another
// life of this node, in the order of [Store.Found]. Numbers are not set.
func (s *Store) Images() []LogEntry {
	var out []LogEntry
	add := func(k string, v []byte) { out = append(out, LogEntry{Key: k, Value: v}) }
	if s.images.astray || s.images.amends != 0 {
		add(diskDamaged, []byte{1})
		for _, k := range (&image{records: s.images.orphans}).keys() {
			add(recordKey+string(k), s.images.orphans[k].Image)
		}
	}
	if s.acceptor.value != nil {
		add(diskValue, s.acceptor.image()) // in the order of logValue
		add(diskPromise, s.acceptor.promise())
	}
	if s.acceptor.recall.value != nil {
		add(diskRecall, s.acceptor.recall.image())
	}
	if s.disk.born != 0 {
		add(diskBorn, varint.AppendUvarints(nil, s.disk.born))
	}
	for _, sh := range s.replica.held() {
		if !sh.marked {
			continue
		}
		add(markerKey(sh.id), varint.AppendUvarints(nil, s.self.Incarnation))
		for _, k := range sh.keys() {
			add(recordKey+string(k), sh.records[k].Image)
		}
	}
	for _, id := range s.images.shards() {
		im := s.images.byShard[id]
		add(markerKey(id), im.marker())
		for _, k := range im.keys() {
			add(recordKey+string(k), im.records[k].Image)
		}
	}
	return out
}

// turning returns the keys of changes under way, in order.
func (sh *shard) turning() []dht.Key {
	keys := make([]dht.Key, 0, len(sh.turns))
	for k, t := range sh.turns { // any order
		if t.next != nil {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// DiskFailed reports a failed disk: no entry beyond the synced entries will reach the
// disk. Messages waiting for such an entry are never sent; a waiting result is replaced
// by a result with the reason. This node still answers operations without entries, and is
// removed from configs with other replicas.
func (s *Store) DiskFailed(now time.Duration, reason string, out *Out) {
	s.begin(now, out)
	defer s.end()
	if reason == "" {
		reason = "it does not say why"
	}
	s.disk.reason = reason
	s.network.local = slices.DeleteFunc(s.network.local, func(l localMessage) bool { return l.after > s.disk.synced })
	s.disk.void("the disk of " + string(s.self.Name) + " takes nothing: " + reason)
	s.note(Note{Kind: NoteDisk, Text: reason})
	s.membership.reportDiskState()
}

// DiskBack reports a disk accepting entries again. The disk may still have the entries
// from before the failure, or none: DiskBack logs all current entries again and removes
// the others.
func (s *Store) DiskBack(now time.Duration, out *Out) {
	s.begin(now, out)
	defer s.end()
	if s.disk.reason == "" {
		return
	}
	s.disk.reason = ""
	s.note(Note{Kind: NoteDisk})
	for _, e := range s.Images() {
		s.disk.log(e.Key, e.Value)
		delete(s.disk.missed, e.Key)
	}
	for _, k := range slices.Sorted(maps.Keys(s.disk.missed)) {
		s.disk.log(k, nil)
	}
	clear(s.disk.missed)
	s.primary.logTurns()
	// After a crash before this entry, the next life finds the failed log.
	s.disk.gate.whole = s.disk.logged
	s.membership.reportDiskState()
	s.proposer.wake()
}
