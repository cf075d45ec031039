package dht

import (
	"encoding/binary"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
)

// disk is what this node knows of its disk.
type disk struct {
	logged  uint64 // number of the last entry
	synced  uint64
	reason  string // why it takes nothing; "" when it does
	damaged bool   // entries were lost in the middle
	unsaid  bool   // and no entry says so yet
	astray  bool   // they were, now or in a life before, and that is not made up for
	amends  uint64 // it is, once the disk has this entry; 0 none
	born    uint64 // the incarnation that began this disk; 0 for one of unknown age
	images  map[Shard]*image
	timed   bool // the timer that repeats offers runs
	saying  bool // the one that repeats what the roster does not say of this disk
	recover recovery
	// orphans are records of shards of which nothing on this disk says that
	// they were held: the entries that said so are damaged, as are others.
	orphans map[Key]*record
	missed  map[string]bool // entries that were to go while the disk took nothing
	gate    syncGate
	recall  seat // what a damaged disk still has of this node's seat: promised it is not
}

// image is what the disk of an earlier incarnation has of a shard.
type image struct {
	incarnation uint64
	older       []uint64 // the same is true of these
	records     map[Key]*record
	guess       bool // the entry that says so was damaged: a config says that it was there
}

// replica is the incarnation among those of the image that is in a config.
func (im *image) replica(n filch.NodeName, c *shardConfig) (Replica, bool) {
	for _, i := range append([]uint64{im.incarnation}, im.older...) {
		if r := (Replica{n, i}); c.has(r) {
			return r, true
		}
	}
	return Replica{}, false
}

// marker is the entry of an image; 0 after the incarnations says that it is a
// guess.
func (im *image) marker() []byte {
	b := appendUvarints(appendUvarints(nil, im.incarnation), im.older...)
	if im.guess {
		b = appendUvarints(b, 0)
	}
	return b
}

// olderMax is how many lives in a row may begin to bring a shard back, and end
// before the roster says whether they did.
const olderMax = 16

const (
	diskBorn    = "born"
	diskDamaged = "damaged"
)

func newDisk() disk {
	return disk{images: map[Shard]*image{}, recover: newRecovery(), orphans: map[Key]*record{}, missed: map[string]bool{}}
}

// log appends an entry for the disk; nil removes. While the disk takes nothing it
// remembers what is to be removed: the rest is said again when the disk is back.
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
		s.log(diskBorn, appendUvarints(nil, d.born))
	}
	d.logged++
	s.out.Logs = append(s.out.Logs, LogEntry{d.logged, k, value})
}

func appendUvarints(b []byte, vs ...uint64) []byte {
	for _, v := range vs {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

func appendBallot(b []byte, v ballot) []byte {
	b = appendUvarints(b, v.n)
	b = appendBytes(b, v.name)
	return appendUvarints(b, v.incarnation)
}

// Synced tells that the disk has all entries up to that number, and lets out what
// waited for them.
func (s *Store) Synced(now time.Duration, upto uint64, out *StoreOut) {
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

// Restore takes what the disk of this node held, before any other input.
// damaged tells that entries were skipped which may have been whole once: then
// this node gives up its seat, in later lives too.
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
			x := decoder{b: v}
			d.born = x.uvarint()
		case strings.HasPrefix(k, "m/") && len(k) == 4:
			x := decoder{b: v}
			im := &image{incarnation: x.uvarint(), records: map[Key]*record{}}
			for len(x.b) > 0 && !x.bad && len(im.older) < olderMax {
				if i := x.uvarint(); i != 0 {
					im.older = append(im.older, i)
				} else {
					im.guess = true
				}
			}
			d.images[Shard(k[2])<<8|Shard(k[3])] = im
		case strings.HasPrefix(k, recordKey):
			records = append(records, LogEntry{Key: k[len(recordKey):], Value: v})
		}
	}
	s.clock.put(0, timedFunc((*Store).kick)) // a seat that nobody can tell asks the others
	for _, e := range records {
		if r, ok := decodeRecord(slices.Clone(e.Value)); ok {
			s.restoreRecord(Key(e.Key), r)
		}
	}
	d.unsaid = damaged
	if !damaged && !mutantSeatsForget {
		s.restoreSeat(promise, value)
	}
	if s.seat.generation == 0 {
		s.remember(latest[diskRecall])
	}
	if damaged {
		s.remember(value)
	}
	if mutantSeatsForget && value != nil {
		x := decoder{b: value}
		s.seat = seat{generation: x.uvarint()}
	}
}

// confess lets the next life know of the damage, when the disk has forgotten it:
// it is the first that this life appends, as the disk forgets once anything of
// this life is synced. What is left of the seat may be older than what was
// promised. And a disk that begins with this life is none that an earlier one was
// seated on.
func (s *Store) confess() {
	s.disk.unsaid = false
	s.disk.born = s.self.Incarnation
	s.log(diskBorn, appendUvarints(nil, s.disk.born))
	s.log(diskDamaged, []byte{1})
	if s.seat.generation == 0 {
		s.logRecall()
		s.log(diskPromise, nil)
		s.log(diskValue, nil)
	}
}

// bear begins the disk of a node that has learned a roster and never logged anything.
// Nobody hears that it knows one before that is on the disk: it may be given a seat
// then, and a later life takes it only if its disk is as old.
func (s *Store) bear() {
	d := &s.disk
	if d.born != 0 || d.reason != "" {
		return
	}
	d.born = s.self.Incarnation
	s.log(diskBorn, appendUvarints(nil, d.born))
	d.gate.floor = d.logged
	s.hurry(d.logged)
}

// remember keeps the newest of what is left of this node's seat, for who has to
// begin the roster anew.
func (s *Store) remember(value []byte) {
	x := decoder{b: value}
	generation, accepted := x.uvarint(), x.ballot()
	if delta := x.delta(); !x.bad && delta != nil && delta.base == 0 {
		if r := delta.applied(nil); r != nil && (s.disk.recall.value == nil || s.disk.recall.value.epoch < r.epoch) {
			s.disk.recall = seat{generation: generation, accepted: accepted, value: r}
		}
	}
}

func (s *Store) logRecall() {
	if s.disk.recall.value != nil {
		s.log(diskRecall, s.disk.recall.image())
	}
}

func (s *Store) restoreRecord(k Key, r *record) {
	at := pointOf(k)
	for depth := uint(shardBitsMax); depth >= shardBitsMin; depth-- {
		if im := s.disk.images[at.shard(depth)]; im != nil {
			im.records[k] = r
			return
		}
	}
	if s.disk.astray {
		s.disk.orphans[k] = r
	}
}

// adoptOrphans makes up for damage of the entries that say which shards were
// held, as far as configs still name an earlier life of this node; what else
// there is of records without a shard goes.
func (s *Store) adoptOrphans() {
	d := &s.disk
	if !d.astray || !s.roster.has(s.self) {
		return // what the lives before knew may be newer than this roster
	}
	d.astray = false
	for i, c := range s.roster.shards {
		id := s.roster.shardAt(i)
		j := slices.IndexFunc(c.replicas, func(r Replica) bool { return r.Name == s.self.Name && r.Incarnation < s.self.Incarnation })
		if j < 0 || d.images[id] != nil || s.hold.shards[id] != nil {
			continue
		}
		d.images[id] = &image{incarnation: c.replicas[j].Incarnation, records: map[Key]*record{}, guess: true}
		s.log(markerKey(id), d.images[id].marker())
	}
	keys := (&image{records: d.orphans}).keys()
	for _, k := range keys {
		id := pointOf(k).shard(s.roster.depth)
		switch im, sh := d.images[id], s.hold.shards[id]; {
		case im != nil && im.records[k] == nil:
			im.records[k] = d.orphans[k]
		case im == nil && (sh == nil || sh.records[k] == nil):
			s.log(recordKey+string(k), nil)
		}
	}
	d.orphans = nil
	if d.logged > d.synced {
		d.amends = d.logged // after the markers: parts of what is not synced may be lost in any order
	} else {
		s.log(diskDamaged, nil)
	}
}

// halfSeated reports whether a disk has a promise of a generation, and the value
// that was logged before it is lost. What was promised in the generation before is
// lost too: this node must not be seated there again, as if it never was.
func halfSeated(promise, value []byte) bool {
	p, v := decoder{b: promise}, decoder{b: value}
	return p.uvarint() > v.uvarint()
}

// restoreSeat takes the acceptor's state. Who accepted a value has promised its
// ballot, also where the entry that says so is lost or is of the generation before.
func (s *Store) restoreSeat(promise, value []byte) {
	p, v := decoder{b: promise}, decoder{b: value}
	pg, promised := p.uvarint(), p.ballot()
	vg, accepted := v.uvarint(), v.ballot()
	delta := v.delta()
	if p.bad && promise != nil || v.bad || delta == nil {
		return
	}
	if r := delta.applied(nil); r != nil {
		if pg < vg || promised.less(accepted) {
			promised = accepted
		}
		s.seat = seat{vg, promised, accepted, r}
		s.stew.high = max(promised.n, accepted.n)
	}
}

// Images is all that this store would want to find on its disk, for the
// Restore of another life of this node, in the order of [Store.Found]. Numbers
// are not set.
func (s *Store) Images() []LogEntry {
	var out []LogEntry
	add := func(k string, v []byte) { out = append(out, LogEntry{Key: k, Value: v}) }
	if s.disk.astray || s.disk.amends != 0 {
		add(diskDamaged, []byte{1})
		for _, k := range (&image{records: s.disk.orphans}).keys() {
			add(recordKey+string(k), s.disk.orphans[k].image)
		}
	}
	if s.seat.value != nil {
		add(diskValue, s.seat.image()) // in the order of logSeat
		add(diskPromise, appendBallot(appendUvarints(nil, s.seat.generation), s.seat.promised))
	}
	if s.disk.recall.value != nil {
		add(diskRecall, s.disk.recall.image())
	}
	if s.disk.born != 0 {
		add(diskBorn, appendUvarints(nil, s.disk.born))
	}
	for _, sh := range s.held() {
		if !sh.marked {
			continue
		}
		add(markerKey(sh.id), appendUvarints(nil, s.self.Incarnation))
		for _, k := range sh.keys() {
			add(recordKey+string(k), sh.records[k].image)
		}
	}
	for _, id := range s.imaged() {
		im := s.disk.images[id]
		add(markerKey(id), im.marker())
		for _, k := range im.keys() {
			add(recordKey+string(k), im.records[k].image)
		}
	}
	return out
}

// turning are the keys that an operation changes now, in order.
func (sh *shard) turning() []Key {
	keys := make([]Key, 0, len(sh.turns))
	for k, t := range sh.turns { // any order
		if t.next != nil {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	return keys
}

// imaged are the shards of which earlier incarnations left something.
func (s *Store) imaged() []Shard {
	all := make([]Shard, 0, len(s.disk.images))
	for id := range s.disk.images { // any order
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

func (im *image) keys() []Key {
	sh := shard{records: im.records}
	return sh.keys()
}

// splitImages gives the images the depth of a roster.
func (s *Store) splitImages(depth uint) {
	for _, id := range s.imaged() {
		im := s.disk.images[id]
		if id.depth() >= depth {
			continue
		}
		shift := depth - id.depth()
		for i := range Shard(1) << shift {
			child := id<<shift | i
			s.disk.images[child] = &image{im.incarnation, im.older, map[Key]*record{}, im.guess}
			s.log(markerKey(child), im.marker())
		}
		for k, r := range im.records { // any order
			s.disk.images[pointOf(k).shard(depth)].records[k] = r
		}
		delete(s.disk.images, id)
		s.log(markerKey(id), nil)
	}
}

// dropImages forgets what an earlier incarnation left of a shard that others
// hold now.
func (s *Store) dropImages(id Shard) {
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

// DiskFailed tells that entries which are not synced yet, and later ones,
// will not be. What waits for one of them never leaves; an answer that waits is
// replaced by one that says so. This node answers what needs no entry, and is
// shrunk away where others have the same.
func (s *Store) DiskFailed(now time.Duration, reason string, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	if reason == "" {
		reason = "it does not say why"
	}
	s.disk.reason = reason
	s.peers.local = slices.DeleteFunc(s.peers.local, func(l localMessage) bool { return l.after > s.disk.synced })
	s.void("the disk of " + string(s.self.Name) + " takes nothing: " + reason)
	s.note(StoreNote{Kind: NoteDisk, Text: reason})
	s.sickness()
}

// sickness tells the steward of the disk's state until the roster says it: with
// each roster, as one that says otherwise may come of a word that was late, or be
// the first in which this node is a member.
func (s *Store) sickness() {
	if s.roster == nil {
		return
	}
	m := s.roster.member(s.self.Name)
	sick := s.disk.reason != ""
	if m == nil || m.Replica != s.self || m.sick == sick {
		return
	}
	c := change{what: changeWell, who: s.self}
	if sick {
		c.what = changeSick
	}
	s.ask(c)
	if !s.disk.saying {
		s.disk.saying = true
		s.in(wishEvery, timedFunc(func(s *Store) {
			s.disk.saying = false
			s.sickness()
		}))
	}
}

// DiskBack tells that the disk takes entries again. It may hold what it held when it
// failed, or nothing: all that is to be there comes anew, and the rest goes.
func (s *Store) DiskBack(now time.Duration, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	if s.disk.reason == "" {
		return
	}
	s.disk.reason = ""
	s.note(StoreNote{Kind: NoteDisk})
	for _, e := range s.Images() {
		s.log(e.Key, e.Value)
		delete(s.disk.missed, e.Key)
	}
	for _, k := range slices.Sorted(maps.Keys(s.disk.missed)) {
		s.log(k, nil)
	}
	clear(s.disk.missed)
	s.logTurns()
	s.disk.gate.whole = s.disk.logged // a crash before that finds the log that failed
	s.sickness()
	s.kick()
}

// logTurns repeats what is under way to others and is no record here yet: the
// disk that failed took it with it.
func (s *Store) logTurns() {
	for _, sh := range s.held() {
		for _, k := range sh.turning() {
			t := sh.turns[k]
			s.log(recordKey+string(k), t.next.image)
			t.flight.number = s.disk.logged
		}
	}
}
