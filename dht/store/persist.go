package store

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/dht/varint"
)

// disk is the state of this node's disk.
type disk struct {
	logged  uint64 // number of the last entry
	synced  uint64
	reason  string // why the disk accepts no entries; "" while the disk works
	damaged bool   // entries were lost in the middle
	unsaid  bool   // damaged, but no entry records the damage yet
	// Entries were lost, in this life or an earlier life, and the loss is not repaired.
	astray bool
	// The loss is repaired once the disk has this entry; 0: none.
	amends  uint64
	born    uint64 // incarnation of this disk's first life; 0 for a disk of unknown age
	images  map[dht.Shard]*image
	timed   bool // the timer of repeated offers runs
	saying  bool // the timer of repeated reports to the proposer runs
	recover recovery
	// orphans are records of shards for which this disk has no marker: the markers are
	// damaged, as are other entries.
	orphans map[dht.Key]*record.Record
	// Removals logged while the disk accepted no entries.
	missed map[string]bool
	gate   syncGate
	// The acceptor state left on a damaged disk; not valid as a promise.
	recall acceptor
}

// image is a shard's data on the disk of an earlier incarnation.
type image struct {
	incarnation uint64
	older       []uint64 // earlier incarnations with the same data
	records     map[dht.Key]*record.Record
	guess       bool // the marker was damaged: only a config names this node
}

// replica returns the replica of a config with an incarnation of the image.
func (im *image) replica(n filch.NodeName, c *roster.Config) (dht.Replica, bool) {
	for _, i := range append([]uint64{im.incarnation}, im.older...) {
		if r := (dht.Replica{Name: n, Incarnation: i}); c.Has(r) {
			return r, true
		}
	}
	return dht.Replica{}, false
}

// marker returns the log entry of an image; a 0 after the incarnations marks a guess.
func (im *image) marker() []byte {
	b := varint.AppendUvarints(varint.AppendUvarints(nil, im.incarnation), im.older...)
	if im.guess {
		b = varint.AppendUvarints(b, 0)
	}
	return b
}

// olderMax is how many lives in a row may begin to recover a shard and end before the
// roster shows the outcome.
const olderMax = 16

const (
	diskBorn    = "born"
	diskDamaged = "damaged"
)

func newDisk() disk {
	return disk{images: map[dht.Shard]*image{}, recover: newRecovery(), orphans: map[dht.Key]*record.Record{}, missed: map[string]bool{}}
}

// log appends an entry for the disk; nil removes. While the disk accepts no entries, log
// remembers the removals only: DiskBack logs everything else again.
func (s *Store) log(k string, value []byte) {
	d := &s.disk
	if d.reason != "" {
		if value == nil {
			d.missed[k] = true
		}
		return
	}
	if d.logged == 0 && k != diskBorn && d.born == 0 {
		d.born = s.self.Incarnation
		s.log(diskBorn, varint.AppendUvarints(nil, d.born))
	}
	d.logged++
	s.out.Logs = append(s.out.Logs, LogEntry{d.logged, k, value})
}

// Synced reports all entries up to the number upto as synced, and releases the messages
// and results waiting for these entries.
func (s *Store) Synced(now time.Duration, upto uint64, out *Out) {
	s.begin(now, out)
	defer s.end()
	d := &s.disk
	if upto <= d.synced || upto < s.disk.gate.whole {
		return
	}
	d.synced = upto
	s.disk.gate.open(upto, out)
	if d.amends != 0 && d.amends <= d.synced {
		d.amends = 0
		s.log(diskDamaged, nil)
	}
}

// Restore loads the entries of this node's disk, before any other input. damaged reports
// skipped entries, which may once have been intact: then this node is an acceptor no
// longer, in later lives too.
func (s *Store) Restore(images []LogEntry, damaged bool) {
	d := &s.disk
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
	damaged = damaged || halfSeated(promise, value)
	d.damaged, d.astray = damaged, damaged || latest[diskDamaged] != nil
	for _, k := range order {
		v := latest[k]
		switch {
		case v == nil:
		case k == diskBorn:
			x := varint.Reader{B: v}
			d.born = x.Uvarint()
		case strings.HasPrefix(k, "m/") && len(k) == 4:
			x := varint.Reader{B: v}
			im := &image{incarnation: x.Uvarint(), records: map[dht.Key]*record.Record{}}
			for len(x.B) > 0 && !x.Bad && len(im.older) < olderMax {
				if i := x.Uvarint(); i != 0 {
					im.older = append(im.older, i)
				} else {
					im.guess = true
				}
			}
			d.images[dht.Shard(k[2])<<8|dht.Shard(k[3])] = im
		case strings.HasPrefix(k, recordKey):
			records = append(records, LogEntry{Key: k[len(recordKey):], Value: v})
		}
	}
	// An acceptor that receives no roster from a peer asks the other acceptors.
	s.clock.put(0, timedFunc((*Store).wakeProposer))
	for _, e := range records {
		if r, ok := record.Decode(slices.Clone(e.Value)); ok {
			s.restoreRecord(dht.Key(e.Key), r)
		}
	}
	d.unsaid = damaged
	if !damaged && !mutantSeatsForget {
		s.restoreAcceptor(promise, value)
	}
	if s.acceptor.generation == 0 {
		s.remember(latest[diskRecall])
	}
	if damaged {
		s.remember(value)
	}
	if mutantSeatsForget && value != nil {
		x := varint.Reader{B: value}
		s.acceptor = acceptor{generation: x.Uvarint()}
	}
}

// logDamage records the damage for the next life. The entries must be the first of this
// life, as the disk forgets the damage once any entry of this life is synced. The
// remaining acceptor state may be older than the promises. diskBorn names this life, so
// that the disk does not count for an earlier life's place as an acceptor.
func (s *Store) logDamage() {
	s.disk.unsaid = false
	s.disk.born = s.self.Incarnation
	s.log(diskBorn, varint.AppendUvarints(nil, s.disk.born))
	s.log(diskDamaged, []byte{1})
	if s.acceptor.generation == 0 {
		s.logRecall()
		s.log(diskPromise, nil)
		s.log(diskValue, nil)
	}
}

// logBirth begins the disk of a node with a first roster and an empty log. No message
// with the roster's epoch leaves this node before the disk has the entry: afterward the
// node may become an acceptor, and a later life accepts that place only if the disk is as
// old.
func (s *Store) logBirth() {
	d := &s.disk
	if d.born != 0 || d.reason != "" {
		return
	}
	d.born = s.self.Incarnation
	s.log(diskBorn, varint.AppendUvarints(nil, d.born))
	d.gate.floor = d.logged
	s.hurry(d.logged)
}

// remember keeps the newest value left of this node's acceptor state, for a node forcing
// a new roster.
func (s *Store) remember(value []byte) {
	x := varint.Reader{B: value}
	generation, accepted := x.Uvarint(), message.ReadBallot(&x)
	if delta := roster.ReadDelta(&x); !x.Bad && delta != nil && delta.Base == 0 {
		if r := delta.Applied(nil); r != nil && (s.disk.recall.value == nil || s.disk.recall.value.Epoch < r.Epoch) {
			s.disk.recall = acceptor{generation: generation, accepted: accepted, value: r}
		}
	}
}

func (s *Store) logRecall() {
	if s.disk.recall.value != nil {
		s.log(diskRecall, s.disk.recall.image())
	}
}

func (s *Store) restoreRecord(k dht.Key, r *record.Record) {
	at := dht.PointOf(k)
	for depth := uint(dht.ShardBitsMax); depth >= dht.ShardBitsMin; depth-- {
		if im := s.disk.images[at.Shard(depth)]; im != nil {
			im.records[k] = r
			return
		}
	}
	if s.disk.astray {
		s.disk.orphans[k] = r
	}
}

// adoptOrphans repairs the loss of markers for all shards whose configs still name an
// earlier life of this node. Other records without a shard are removed.
func (s *Store) adoptOrphans() {
	d := &s.disk
	if !d.astray || !s.roster.Has(s.self) {
		return // earlier lives may have known a newer roster
	}
	d.astray = false
	for i, c := range s.roster.Shards {
		id := s.roster.ShardAt(i)
		j := slices.IndexFunc(c.Replicas, func(r dht.Replica) bool { return r.Name == s.self.Name && r.Incarnation < s.self.Incarnation })
		if j < 0 || d.images[id] != nil || s.hold.shards[id] != nil {
			continue
		}
		d.images[id] = &image{incarnation: c.Replicas[j].Incarnation, records: map[dht.Key]*record.Record{}, guess: true}
		s.log(markerKey(id), d.images[id].marker())
	}
	keys := (&image{records: d.orphans}).keys()
	for _, k := range keys {
		id := dht.PointOf(k).Shard(s.roster.Depth)
		switch im, sh := d.images[id], s.hold.shards[id]; {
		case im != nil && im.records[k] == nil:
			im.records[k] = d.orphans[k]
		case im == nil && (sh == nil || sh.records[k] == nil):
			s.log(recordKey+string(k), nil)
		}
	}
	d.orphans = nil
	if d.logged > d.synced {
		// The markers must be synced before diskDamaged is removed: entries not yet
		// synced may be lost in any order.
		d.amends = d.logged
	} else {
		s.log(diskDamaged, nil)
	}
}

// halfSeated reports whether a disk has a promise of a generation, but has lost the value
// logged before the promise. The promises of the generation before are lost too: this
// node must not become an acceptor there again as if for the first time.
func halfSeated(promise, value []byte) bool {
	p, v := varint.Reader{B: promise}, varint.Reader{B: value}
	return p.Uvarint() > v.Uvarint()
}

// restoreAcceptor restores the acceptor's state. An acceptor has promised the ballot of
// every accepted value, also where the promise entry is lost or is of the generation
// before.
func (s *Store) restoreAcceptor(promise, value []byte) {
	p, v := varint.Reader{B: promise}, varint.Reader{B: value}
	pg, promised := p.Uvarint(), message.ReadBallot(&p)
	vg, accepted := v.Uvarint(), message.ReadBallot(&v)
	delta := roster.ReadDelta(&v)
	if p.Bad && promise != nil || v.Bad || delta == nil {
		return
	}
	if r := delta.Applied(nil); r != nil {
		if pg < vg || promised.Less(accepted) {
			promised = accepted
		}
		s.acceptor = acceptor{vg, promised, accepted, r}
		s.proposer.high = max(promised.N, accepted.N)
	}
}

// Images returns all entries this store needs on the disk, for the Restore of another
// life of this node, in the order of [Store.Found]. Numbers are not set.
func (s *Store) Images() []LogEntry {
	var out []LogEntry
	add := func(k string, v []byte) { out = append(out, LogEntry{Key: k, Value: v}) }
	if s.disk.astray || s.disk.amends != 0 {
		add(diskDamaged, []byte{1})
		for _, k := range (&image{records: s.disk.orphans}).keys() {
			add(recordKey+string(k), s.disk.orphans[k].Image)
		}
	}
	if s.acceptor.value != nil {
		add(diskValue, s.acceptor.image()) // in the order of logAcceptor
		add(diskPromise, message.AppendBallot(varint.AppendUvarints(nil, s.acceptor.generation), s.acceptor.promised))
	}
	if s.disk.recall.value != nil {
		add(diskRecall, s.disk.recall.image())
	}
	if s.disk.born != 0 {
		add(diskBorn, varint.AppendUvarints(nil, s.disk.born))
	}
	for _, sh := range s.held() {
		if !sh.marked {
			continue
		}
		add(markerKey(sh.id), varint.AppendUvarints(nil, s.self.Incarnation))
		for _, k := range sh.keys() {
			add(recordKey+string(k), sh.records[k].Image)
		}
	}
	for _, id := range s.imaged() {
		im := s.disk.images[id]
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

// imaged returns the shards of which earlier incarnations left data.
func (s *Store) imaged() []dht.Shard {
	all := make([]dht.Shard, 0, len(s.disk.images))
	for id := range s.disk.images { // any order
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

func (im *image) keys() []dht.Key {
	sh := shard{records: im.records}
	return sh.keys()
}

// splitImages splits the images to the depth of a roster.
func (s *Store) splitImages(depth uint) {
	for _, id := range s.imaged() {
		im := s.disk.images[id]
		if id.Depth() >= depth {
			continue
		}
		shift := depth - id.Depth()
		for i := range dht.Shard(1) << shift {
			child := id<<shift | i
			s.disk.images[child] = &image{im.incarnation, im.older, map[dht.Key]*record.Record{}, im.guess}
			s.log(markerKey(child), im.marker())
		}
		for k, r := range im.records { // any order
			s.disk.images[dht.PointOf(k).Shard(depth)].records[k] = r
		}
		delete(s.disk.images, id)
		s.log(markerKey(id), nil)
	}
}

// dropImages drops an earlier incarnation's data of a shard held by other nodes now.
func (s *Store) dropImages(id dht.Shard) {
	im := s.disk.images[id]
	if im == nil {
		return
	}
	delete(s.disk.images, id)
	for _, k := range im.keys() {
		s.log(recordKey+string(k), nil)
	}
	s.log(markerKey(id), nil)
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
	s.peers.local = slices.DeleteFunc(s.peers.local, func(l localMessage) bool { return l.after > s.disk.synced })
	s.void("the disk of " + string(s.self.Name) + " takes nothing: " + reason)
	s.note(Note{Kind: NoteDisk, Text: reason})
	s.reportDiskState()
}

// reportDiskState reports the disk's state to the proposer until the roster shows the
// same state. Each new roster is checked: a roster with the opposite state may come from
// a late wish, or be the first roster with this node as a member.
func (s *Store) reportDiskState() {
	if s.roster == nil {
		return
	}
	m := s.roster.Member(s.self.Name)
	sick := s.disk.reason != ""
	if m == nil || m.Replica != s.self || m.Sick == sick {
		return
	}
	c := roster.Change{What: roster.ChangeWell, Who: s.self}
	if sick {
		c.What = roster.ChangeSick
	}
	s.ask(c)
	if !s.disk.saying {
		s.disk.saying = true
		s.in(wishEvery, timedFunc(func(s *Store) {
			s.disk.saying = false
			s.reportDiskState()
		}))
	}
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
		s.log(e.Key, e.Value)
		delete(s.disk.missed, e.Key)
	}
	for _, k := range slices.Sorted(maps.Keys(s.disk.missed)) {
		s.log(k, nil)
	}
	clear(s.disk.missed)
	s.logTurns()
	// After a crash before this entry, the next life finds the failed log.
	s.disk.gate.whole = s.disk.logged
	s.reportDiskState()
	s.wakeProposer()
}

// logTurns logs again the uncommitted changes under way to other replicas: the failed
// disk lost these entries.
func (s *Store) logTurns() {
	for _, sh := range s.held() {
		for _, k := range sh.turning() {
			t := sh.turns[k]
			s.log(recordKey+string(k), t.next.Image)
			t.flight.number = s.disk.logged
		}
	}
}
