package dht

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// When no majority of the seats knows any more what it promised, because their
// nodes or disks are gone or damaged, nobody can change the roster, and nothing
// can know that no change was chosen of which nobody alive has heard. So it is
// for a person to say that this does not matter: then the newest roster that
// anybody who lives knows is begun anew, with the asking node as its only seat.
//
// Of a shard that live nodes hold, one of them alone goes on; the others learn it
// anew, as one of them may have missed a config in which it was left out. A shard
// that nobody alive holds keeps its config, so that the disks of those who are in
// it bring it back. What nodes did that nobody who lives can reach is given up.

const (
	lossWait   = 12 * time.Second // an AcceptLoss takes at most: longer than unknownAfter
	countEvery = 500 * time.Millisecond

	// The epochs of a roster that was begun anew are beyond all that the one
	// before may have had, whoever knows them: the number of beginnings is in
	// the bits from anewShift on. Where two nodes that do not see each other do
	// it, the bits from saltShift on tell the two apart; the higher counts.
	anewShift = 52
	saltShift = 24
)

// losing is an AcceptLoss on its way.
type losing struct {
	tag     uint64
	only    []Shard // nil: all
	until   time.Duration
	epochs  map[Shard]uint64 // of those that are lost; nil until the register is known to work
	nonce   uint64
	answers map[Replica]*counted // to the question who knows what
	other   filch.NodeName       // who is at it, too
}

// counted is what a node knows of a roster that may be lost.
type counted struct {
	seat   uint64 // the generation in which it is seated and can say so, or 0
	known  *roster
	chosen bool // known is; else it was accepted, or was found on a damaged disk
	stamp  uint64
	astray bool // its disk does not say of all that is on it of which shard it is
	images []wireOffer
}

// AcceptLoss makes the named lost shards anew, empty but for what the disks of
// live nodes still have of them; no shard means all that are lost. The answer's
// Version Seq says how many it were. If the roster itself is lost, it is begun anew and
// nothing else: the answer's Version Epoch is that of the new one, and shards
// that are still lost after a while are for another call.
func (s *Store) AcceptLoss(now time.Duration, tag uint64, shards []Shard, out *StoreOut) {
	s.begin(now, out)
	defer s.end()
	l := &losing{tag: tag, only: shards, until: s.now + lossWait, nonce: mix(s.rand + uint64(s.now)), answers: map[Replica]*counted{}}
	if s.disk.recover.losing != nil {
		l.answer(s, Result{Outcome: Unavailable, Err: "this node is at it already"})
		return
	}
	s.disk.recover.losing = l
	l.due(s)
}

func (l *losing) answer(s *Store, r Result) {
	if s.disk.recover.losing == l {
		s.disk.recover.losing = nil
	}
	s.out.Results = append(s.out.Results, StoreResult{Tag: l.tag, Result: r})
}

func (l *losing) due(s *Store) {
	if l.epochs == nil && !l.count(s) {
		return
	}
	var asks []change
	n := 0
	for i, c := range s.roster.shards {
		id := s.roster.shardAt(i)
		was, ok := l.epochs[id]
		switch {
		case !ok:
		case c.epoch == was:
			asks = append(asks, change{changeLoss, id, was, Replica{}})
		case c.epoch > was:
			n++
		}
	}
	if len(asks) == 0 || s.now >= l.until {
		res := Result{Outcome: Done, Version: Version{Seq: uint64(n)}}
		if len(asks) > 0 {
			res.Outcome, res.Err = Unavailable, "the roster did not change in time"
		}
		l.answer(s, res)
		return
	}
	s.ask(asks...)
	s.in(wishEvery, l)
}

// count asks everybody who lives what they know of the roster. It reports true
// once a majority of the seats is known to work: then what is lost are shards.
// When all have answered and there is none, it begins the roster anew.
func (l *losing) count(s *Store) bool {
	l.answers[s.self] = s.counted()
	missing := 0
	var silent filch.NodeName
	for _, p := range s.peers.order {
		if p.listed && p.state < PeerDead && l.answers[p.replica()] == nil {
			missing++
			silent = p.name
			s.send(p, &msgCount{nonce: l.nonce}, 0)
		}
	}
	newest, who := l.newest()
	seats := 0
	if newest != nil {
		for r, c := range l.answers { // any order
			if newest.seated(r.Name) && c.seat == newest.generation && s.standing(r) != over {
				seats++
			}
		}
	}
	why := ""
	switch {
	case newest != nil && 2*seats > len(newest.seats) && s.roster != nil:
		l.find(s)
		return true
	case l.other != "":
		why = fmt.Sprintf("%s is at it already", l.other)
	case missing > 0:
		why = fmt.Sprintf("%d nodes live and do not say what they know of the roster, %s is one", missing, silent)
	case s.now < s.stew.began+unknownAfter:
		why = "this node has just begun, others may be on their way"
	case s.disk.reason != "":
		why = "the disk of this node takes nothing: " + s.disk.reason
	case s.course == goes:
		why = "this node is leaving"
	case newest != nil && 2*seats > len(newest.seats):
		why = "the roster's seats live, and this node has not heard of the roster yet"
	default:
		s.refound(newest, who, l.answers)
		l.answer(s, Result{Outcome: Done, Version: Version{Epoch: s.roster.epoch}})
		return false
	}
	if s.now >= l.until || l.other != "" {
		l.answer(s, Result{Outcome: Unavailable, Err: why})
		return false
	}
	s.in(countEvery, l)
	return false
}

// find notes which shards are to be made anew.
func (l *losing) find(s *Store) {
	l.epochs = map[Shard]uint64{}
	for i, c := range s.roster.shards {
		if id := s.roster.shardAt(i); s.lost(c) && (len(l.only) == 0 || slices.Contains(l.only, id)) {
			l.epochs[id] = c.epoch
		}
	}
}

// newest is the newest roster of those that are known to who answered.
func (l *losing) newest() (best *roster, who filch.NodeName) {
	chosen := false
	for _, r := range slices.SortedFunc(maps.Keys(l.answers), Replica.compare) {
		c := l.answers[r]
		if c.known != nil && (best == nil || c.known.epoch > best.epoch || c.known.epoch == best.epoch && c.chosen && !chosen) {
			best, who, chosen = c.known, r.Name, c.chosen
		}
	}
	return best, who
}

// counted is what this node itself knows.
func (s *Store) counted() *counted {
	c := &counted{known: s.roster, chosen: s.roster != nil, astray: s.disk.astray}
	if s.disk.reason == "" {
		c.seat = s.seat.generation
	}
	for _, r := range []*roster{s.seat.value, s.disk.recall.value} {
		if r != nil && (c.known == nil || r.epoch > c.known.epoch) {
			c.known, c.chosen = r, false
		}
	}
	if s.roster != nil {
		return c // its configs say whose disks are needed
	}
	highest := func(records map[Key]*record) {
		for _, r := range records { // any order
			c.stamp = max(c.stamp, r.stamp.Epoch)
		}
	}
	highest(s.disk.orphans)
	for _, id := range s.imaged() {
		im := s.disk.images[id]
		highest(im.records)
		c.images = append(c.images, wireOffer{shard: id, incarnation: im.incarnation, guess: im.guess})
	}
	return c
}

// onCount tells another node what this one knows of the roster. Of two who ask
// at the same time the one with the lesser name goes on.
func (s *Store) onCount(p *peer, m *msgCount) {
	if l := s.disk.recover.losing; l != nil && l.epochs == nil {
		if s.self.Name < p.name {
			s.send(p, &msgCounted{nonce: m.nonce, busy: true}, 0)
			return
		}
		l.other = p.name
	}
	c := s.counted()
	out := &msgCounted{nonce: m.nonce, seat: c.seat, chosen: c.chosen, stamp: c.stamp, astray: c.astray, images: c.images}
	if c.known != nil {
		out.known = c.known.since(nil)
	}
	s.send(p, out, 0)
}

func (s *Store) onCounted(p *peer, m *msgCounted) {
	l := s.disk.recover.losing
	if l == nil || l.nonce != m.nonce {
		return
	}
	if m.busy {
		l.other = p.name
		return
	}
	c := &counted{seat: m.seat, chosen: m.chosen, stamp: m.stamp, astray: m.astray, images: m.images}
	if m.known != nil {
		c.known = m.known.applied(nil)
	}
	l.answers[p.replica()] = c
}

// anew is the first epoch, or generation, after all that a lost roster may have
// had.
func (s *Store) anew(epoch uint64) uint64 {
	salt := mix(key(s.self.Name)^mix(s.self.Incarnation)) % (1 << (anewShift - saltShift))
	return (epoch>>anewShift+1)<<anewShift | salt<<saltShift
}

// refound makes a new roster of the newest that is known, nil if there is none,
// with this node as its only seat.
func (s *Store) refound(base *roster, who filch.NodeName, answers map[Replica]*counted) {
	if base == nil {
		base, who = s.pieced(answers), s.self.Name
	}
	r := &roster{epoch: s.anew(base.epoch), generation: s.anew(base.generation), by: s.self.Name, depth: base.depth, seats: []Replica{s.self}}
	for _, m := range base.members {
		if m.Name != s.self.Name && s.standing(m.Replica) != over {
			r.members = append(r.members, m)
		}
	}
	r.members = append(r.members, rosterMember{Replica: s.self})
	lost := 0
	for _, c := range base.shards {
		n := &shardConfig{epoch: s.anew(c.epoch), replicas: c.replicas}
		if i := slices.IndexFunc(c.replicas, func(x Replica) bool { return answers[x] != nil && s.standing(x) != over }); i >= 0 {
			n.replicas = c.replicas[i : i+1]
			n.recovered = c.recovered && i == 0 // it may not have heard of that yet
		} else {
			lost++
		}
		r.shards = append(r.shards, n)
	}
	w := &s.stew
	w.run, w.cache, w.value, w.asks = nil, ballot{}, nil, nil
	clear(w.asked)
	s.seat = seat{generation: r.generation, value: r}
	s.logSeat()
	s.note(StoreNote{Kind: NoteAnew, Epoch: base.epoch, Peer: who, N: lost})
	s.adopt(r)
}

// pieced is a roster for an instance of which nobody who lives knows one: whose
// disks have something of a shard were its replicas, and one whose disk cannot
// say may have been.
func (s *Store) pieced(answers map[Replica]*counted) *roster {
	r := founding(s.self)
	all := slices.SortedFunc(maps.Keys(answers), Replica.compare)
	epoch := uint64(1)
	for _, x := range all {
		c := answers[x]
		epoch = max(epoch, c.stamp)
		for _, w := range c.images {
			for r.depth < w.shard.depth() {
				r.split()
			}
		}
	}
	held := make([][]Replica, len(r.shards))
	add := func(i int, x Replica) {
		if len(held[i]) < maxReplicas && !slices.Contains(held[i], x) {
			held[i] = append(held[i], x)
		}
	}
	for _, x := range all {
		for _, w := range answers[x].images {
			shift := r.depth - w.shard.depth()
			for i := range 1 << shift {
				add(int(w.shard)<<shift&(1<<r.depth-1)|i, Replica{x.Name, w.incarnation})
			}
		}
	}
	for _, x := range all {
		for i := range held {
			said := slices.ContainsFunc(held[i], func(h Replica) bool { return h.Name == x.Name })
			if answers[x].astray && !said && x.Incarnation > 1 {
				add(i, Replica{x.Name, x.Incarnation - 1})
			}
		}
	}
	for i := range r.shards {
		if len(held[i]) == 0 {
			held[i] = []Replica{s.self}
		}
		r.shards[i] = &shardConfig{epoch: epoch, replicas: held[i]}
	}
	r.epoch, r.generation = epoch, epoch
	return r
}
