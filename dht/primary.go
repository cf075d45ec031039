package dht

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// sweepFrom is how many operations may wait for one thing before it is looked
// whether somebody still waits for each.
const sweepFrom = 256

// job is an operation at its home, with whom to answer.
type job struct {
	op     *Op
	from   *peer  // who asked; this node's own peer for its own
	inc    uint64 // of who asked: another life has other numbers
	number uint64
	epoch  uint64  // in which it is carried out
	order  uint64  // in which they came
	watch  *viewer // instead of from: a watch that begins
	begun  bool    // in an epoch before, and others may have what it changed
}

// turn is the one operation that changes a key now, and those that wait.
type turn struct {
	key    Key
	cur    job
	next   *record
	result Result
	flight *flight
	queue  []job
}

// flight is what waits for the acknowledgments of all other replicas: a turn,
// or the readers of a round of confirmations.
type flight struct {
	sh      *shard
	epoch   uint64
	need    int
	turn    *turn
	readers []job
	waits   []*peer
	number  uint64 // of the log entry here
	done    bool
}

// submit carries an operation out at its home.
func (s *Store) submit(sh *shard, j job) {
	j.epoch = sh.cfg.epoch
	if j.order == 0 {
		s.hold.serial++
		j.order = s.hold.serial
	}
	switch {
	case j.op.Code == OpLookup && !j.op.Consistent:
		s.answer(j, sh.show(j.op.Key, true), 0)
		return
	case j.op.Code == OpLookup:
		r := sh.records[j.op.Key]
		if r == nil || r.stamp.Epoch == sh.cfg.epoch || mutantNoWriteBack {
			if mutantLocalReads {
				s.answer(j, sh.show(j.op.Key, false), 0)
				return
			}
			s.read(sh, j)
			return
		}
	}
	if t := sh.turns[j.op.Key]; t != nil {
		t.queue = s.enqueue(t.queue, j)
		return
	}
	t := &turn{key: j.op.Key, cur: j}
	sh.turns[t.key] = t
	s.run(sh, t)
}

// enqueue lets a job wait. A replica may be missing for hours, where the roster
// cannot change, and who asks asks again and again: now and then those go whose
// callers wait no more.
func (s *Store) enqueue(jobs []job, j job) []job {
	if n := len(jobs); n >= sweepFrom && n&(n-1) == 0 {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return s.givenUp(&j) })
	}
	return append(jobs, j)
}

// show is the answer to a lookup.
func (sh *shard) show(k Key, stale bool) Result {
	r := sh.records[k]
	if r == nil || r.gone {
		return Result{Outcome: Absent, Stale: stale}
	}
	res := r.found(Done)
	res.Stale = stale
	return res
}

// read puts a job among those who are answered when the other replicas
// confirmed that they are still in this epoch.
func (s *Store) read(sh *shard, j job) {
	sh.readers = s.enqueue(sh.readers, j)
	if !sh.asking {
		sh.asking = true
		s.hold.asking = append(s.hold.asking, sh)
	}
}

// confirm begins the rounds of confirmations: one at a time in each shard, for
// all who came meanwhile.
func (s *Store) confirm() {
	for i := 0; i < len(s.hold.asking); i++ {
		sh := s.hold.asking[i]
		sh.asking = false
		if sh.over || !sh.home || sh.round != nil || len(sh.readers) == 0 {
			continue
		}
		f := &flight{sh: sh, epoch: sh.cfg.epoch, readers: sh.readers}
		sh.readers, sh.round = nil, f
		durable := slices.ContainsFunc(f.readers, func(j job) bool { return j.op.Durable })
		s.launch(f, item{what: itemConfirm, shard: sh.id, epoch: f.epoch, flight: f}, durable)
	}
	s.hold.asking = s.hold.asking[:0]
}

// launch sends an item to all other replicas and the learner.
func (s *Store) launch(f *flight, it item, durable bool) {
	for _, r := range f.sh.cfg.replicas {
		if r != s.self {
			s.aim(f, s.peers.know(r.Name), it, durable)
		}
	}
	if l := f.sh.learn; l != nil && !mutantGrowBlind {
		it.session = l.session
		s.aim(f, l.p, it, durable)
	}
	if mutantMajorityCommit {
		f.need = min(f.need, len(f.sh.cfg.replicas)/2)
	}
	if f.need == 0 {
		s.land(f)
	}
}

func (s *Store) aim(f *flight, p *peer, it item, durable bool) {
	f.need++
	f.waits = append(f.waits, p)
	s.pass(p, durable, it)
}

// acked notes that one more has what a flight carries.
func (s *Store) acked(f *flight, p *peer) {
	i := slices.Index(f.waits, p)
	if i < 0 || f.epoch != f.sh.epoch() {
		return
	}
	f.waits = slices.Delete(f.waits, i, i+1)
	if l := f.sh.learn; l != nil && l.p == p {
		l.heard = s.now
	}
	if f.need--; f.need == 0 && !f.done {
		s.land(f)
	}
}

// land ends a flight that everybody has.
func (s *Store) land(f *flight) {
	f.done = true
	sh := f.sh
	if f.turn != nil {
		s.commit(sh, f.turn)
		return
	}
	sh.round = nil
	for _, j := range f.readers {
		s.reveal(sh, j)
	}
	if len(sh.readers) > 0 && !sh.asking {
		sh.asking = true
		s.hold.asking = append(s.hold.asking, sh)
	}
}

// reveal answers a lookup that waited for a confirmation.
func (s *Store) reveal(sh *shard, j job) {
	r := sh.records[j.op.Key]
	if r != nil && r.stamp.Epoch != sh.cfg.epoch && !mutantNoWriteBack {
		s.submit(sh, j) // it became one that must be written back first
		return
	}
	after := uint64(0)
	if j.op.Durable {
		after = s.disk.logged // with no other replica, what it shows may be on no disk yet
	}
	s.answer(j, sh.show(j.op.Key, false), after)
}

// run works out what a turn's operation does, and sends it to the others.
func (s *Store) run(sh *shard, t *turn) {
	if s.givenUp(&t.cur) {
		s.nextTurn(sh, t)
		return
	}
	if a, ok := sh.told.find(t.cur.op.ID); ok {
		s.answer(t.cur, a.result, a.after)
		s.nextTurn(sh, t)
		return
	}
	old := sh.records[t.key]
	next, res := apply(old, t.cur.op, s.cfg.Kinds)
	logs := next != nil || old != nil && old.stamp.Epoch != sh.cfg.epoch && !mutantNoWriteBack
	switch {
	case logs && s.disk.reason != "":
		res = Result{Outcome: Unavailable, Err: "the disk of " + string(s.self.Name) + " takes nothing: " + s.disk.reason}
		if t.cur.begun {
			res.Outcome = Unknown
		}
		s.answer(t.cur, res, 0)
		s.nextTurn(sh, t)
		return
	case next != nil:
		sh.seq++
		next.stamp = Version{sh.cfg.epoch, sh.seq}
		next.version = next.stamp
		res.Version, res.Kind = next.stamp, next.kind
		var recent []byte
		if old != nil {
			recent = old.recent
		}
		// A merge too: repeated after a removal it would bring the record back.
		id := &t.cur.op.ID
		next.recent = appendRecent(recent, answered{[]byte(id.Node), id.Incarnation, id.Seq, next.version, next.reply}, s.answeredBefore)
		t.next = newRecord(*next)
	case logs:
		sh.seq++ // show nothing that perhaps only this node has (I5)
		back := *old
		back.stamp = Version{sh.cfg.epoch, sh.seq}
		t.next = newRecord(back)
	}
	t.result = res
	t.flight = &flight{sh: sh, epoch: sh.cfg.epoch, turn: t}
	it := item{what: itemConfirm, shard: sh.id, epoch: sh.cfg.epoch, flight: t.flight}
	if t.next != nil {
		it.what, it.key, it.rec = itemRecord, t.key, t.next
		s.log(recordKey+string(t.key), t.next.image)
	}
	t.flight.number = s.disk.logged
	s.launch(t.flight, it, t.cur.op.Durable)
}

// commit makes the result of a turn what this shard shows, and goes on with
// those who wait for the key.
func (s *Store) commit(sh *shard, t *turn) {
	old := sh.records[t.key]
	changed := t.next != nil && (old == nil || old.version != t.next.version)
	if t.next != nil {
		sh.records[t.key] = t.next
		t.next.remember(s, sh, t.key)
	}
	after := uint64(0)
	if t.cur.op.Durable {
		after = t.flight.number
	}
	if !changed {
		sh.told.add(t.cur.op, t.result, after)
	}
	s.answer(t.cur, t.result, after)
	if changed {
		s.tellViewers(sh, t.key)
		s.tellChange(t)
	}
	s.nextTurn(sh, t)
}

// tellChange tells of a change whoever runs this store, where it wants that.
func (s *Store) tellChange(t *turn) {
	if p := s.cfg.Tell; p != "" && strings.HasPrefix(string(t.key), string(p)) {
		r := HomedRecord{Key: t.key, Kind: t.next.kind, Version: t.next.version}
		if !t.next.gone {
			r.Value = t.next.value
		}
		s.out.Changed = append(s.out.Changed, r)
	}
}

// nextTurn lets the next operation have the key.
func (s *Store) nextTurn(sh *shard, t *turn) {
	if len(t.queue) == 0 {
		delete(sh.turns, t.key)
		return
	}
	n := &turn{key: t.key, cur: t.queue[0], queue: t.queue[1:]}
	sh.turns[t.key] = n
	s.run(sh, n)
}

// drain takes all operations out of a shard, in the order in which they came.
// What they sent is void: the next epoch begins anew. A record that one of them was
// to make goes from the disk, where it would outlast the removal of what others made
// of it.
func (s *Store) drain(sh *shard) []job {
	jobs := sh.readers
	if sh.round != nil && !sh.round.done {
		jobs = append(jobs, sh.round.readers...)
		sh.round.done = true
	}
	for _, k := range sh.turning() {
		if sh.records[k] == nil {
			s.log(recordKey+string(k), nil)
		}
	}
	for _, t := range sh.turns { // any order
		t.flight.done = true
		t.cur.begun = t.cur.begun || t.next != nil && !t.cur.op.reads()
		jobs = append(append(jobs, t.cur), t.queue...)
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.order, b.order) })
	sh.readers, sh.round = nil, nil
	clear(sh.turns)
	return jobs
}

// moved sends operations on to the home of now.
func (s *Store) moved(jobs []job) {
	for _, j := range jobs {
		s.answer(j, Result{Outcome: outcomeMoved}, 0)
	}
}

// removal is a removed record that is forgotten in its time.
type removal struct {
	sh      *shard
	key     Key
	version Version
}

// remember has a removed record forgotten later.
func (r *record) remember(s *Store, sh *shard, k Key) {
	if r.gone {
		s.in(r.keep, &removal{sh, k, r.version})
	}
}

func (s *Store) rememberRemoved(sh *shard) {
	for _, k := range sh.keys() {
		sh.records[k].remember(s, sh, k)
	}
}

// under reports whether something is under way on a key, or to others which may
// refuse it when they have forgotten a record of that stamp. What is newer does
// not matter: on a busy shard there always is some.
func (sh *shard) under(k Key, stamp Version) bool {
	for _, t := range sh.turns { // any order
		if t.key == k || t.next != nil && !stamp.Less(t.next.stamp) {
			return true
		}
	}
	return false
}

func (r *removal) due(s *Store) {
	sh := r.sh
	rec := sh.records[r.key]
	if sh.over || !sh.home || rec == nil || !rec.gone || rec.version != r.version {
		return
	}
	if sh.under(r.key, rec.stamp) || sh.learn != nil || s.disk.reason != "" {
		s.in(time.Second, r)
		return
	}
	if rec.stamp.Epoch != sh.cfg.epoch && len(sh.cfg.replicas) > 1 {
		// The others may hold another version: write it back first.
		s.hold.serial++
		op := &Op{Code: OpLookup, Key: r.key, Consistent: true}
		s.submit(sh, job{op: op, order: s.hold.serial})
		s.in(time.Second, r)
		return
	}
	for _, x := range sh.cfg.replicas {
		if x != s.self {
			s.pass(s.peers.know(x.Name), false, item{what: itemDrop, shard: sh.id, epoch: sh.cfg.epoch, key: r.key, stamp: rec.stamp})
		}
	}
	s.forget(sh, r.key, rec.stamp)
}
