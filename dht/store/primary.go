package store

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
)

// sweepFrom is the queue length from which enqueue drops jobs whose callers no longer
// wait.
const sweepFrom = 256

// job is an operation at the home, with the caller to answer.
type job struct {
	op     *dht.Op
	from   *peer  // the caller; peers.me for this node's own operations
	inc    uint64 // of the caller: another incarnation has other numbers
	number uint64
	epoch  uint64   // in which the operation is carried out
	order  uint64   // of arrival
	watch  *watcher // instead of from: a new watch
	// Begun in an earlier epoch: other replicas may have the change.
	begun bool
}

// turn is the operation that changes a key now, and the operations waiting for the key.
type turn struct {
	key    dht.Key
	cur    job
	next   *record.Record
	result dht.Result
	flight *flight
	queue  []job
}

// flight waits for the acknowledgments of all other replicas, for a turn or for the
// readers of a round of confirmations.
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

// submit carries out an operation at the home.
func (s *Store) submit(sh *shard, j job) {
	j.epoch = sh.cfg.Epoch
	if j.order == 0 {
		s.hold.serial++
		j.order = s.hold.serial
	}
	switch {
	case j.op.Code == dht.OpLookup && !j.op.Consistent:
		s.answer(j, sh.show(j.op.Key, true), 0)
		return
	case j.op.Code == dht.OpLookup:
		r := sh.records[j.op.Key]
		if r == nil || r.Stamp.Epoch == sh.cfg.Epoch || mutantNoWriteBack {
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

// enqueue adds a job to a queue. A replica may be missing for hours while the roster
// cannot change, and callers retry again and again: whenever the length reaches a power
// of two from sweepFrom on, enqueue drops the jobs whose callers no longer wait.
func (s *Store) enqueue(jobs []job, j job) []job {
	if n := len(jobs); n >= sweepFrom && n&(n-1) == 0 {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return s.givenUp(&j) })
	}
	return append(jobs, j)
}

// show returns the result of a lookup.
func (sh *shard) show(k dht.Key, stale bool) dht.Result {
	r := sh.records[k]
	if r == nil || r.Gone {
		return dht.Result{Outcome: dht.Absent, Stale: stale}
	}
	res := r.Found(dht.Done)
	res.Stale = stale
	return res
}

// read queues a lookup, to answer once the other replicas have confirmed this epoch.
func (s *Store) read(sh *shard, j job) {
	sh.readers = s.enqueue(sh.readers, j)
	if !sh.asking {
		sh.asking = true
		s.hold.asking = append(s.hold.asking, sh)
	}
}

// confirm begins the rounds of confirmations: a single round at a time in each shard, for
// all lookups queued meanwhile.
func (s *Store) confirm() {
	for i := 0; i < len(s.hold.asking); i++ {
		sh := s.hold.asking[i]
		sh.asking = false
		if sh.over || !sh.home || sh.round != nil || len(sh.readers) == 0 {
			continue
		}
		f := &flight{sh: sh, epoch: sh.cfg.Epoch, readers: sh.readers}
		sh.readers, sh.round = nil, f
		durable := slices.ContainsFunc(f.readers, func(j job) bool { return j.op.Durable })
		s.launch(f, message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: f.epoch}, durable)
	}
	s.hold.asking = s.hold.asking[:0]
}

// launch sends an item to all other replicas and the learner.
func (s *Store) launch(f *flight, it message.Item, durable bool) {
	for _, r := range f.sh.cfg.Replicas {
		if r != s.self {
			s.aim(f, s.peers.know(r.Name), it, durable)
		}
	}
	if l := f.sh.learn; l != nil && !mutantGrowBlind {
		it.Session = l.session
		s.aim(f, l.p, it, durable)
	}
	if mutantMajorityCommit {
		f.need = min(f.need, len(f.sh.cfg.Replicas)/2)
	}
	if f.need == 0 {
		s.land(f)
	}
}

func (s *Store) aim(f *flight, p *peer, it message.Item, durable bool) {
	f.need++
	f.waits = append(f.waits, p)
	s.pass(p, durable, delivery{it, f})
}

// onHeld records a peer's acknowledgment for a flight.
func (s *Store) onHeld(f *flight, p *peer) {
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

// land ends a flight acknowledged by all peers.
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

// reveal answers a lookup after the confirmation.
func (s *Store) reveal(sh *shard, j job) {
	r := sh.records[j.op.Key]
	if r != nil && r.Stamp.Epoch != sh.cfg.Epoch && !mutantNoWriteBack {
		s.submit(sh, j) // the record must be written back first
		return
	}
	after := uint64(0)
	if j.op.Durable {
		// Without another replica, the shown record may be on no disk yet.
		after = s.disk.logged
	}
	s.answer(j, sh.show(j.op.Key, false), after)
}

// run computes the effect of a turn's operation and sends the change to the other
// replicas.
func (s *Store) run(sh *shard, t *turn) {
	if s.givenUp(&t.cur) {
		s.nextTurn(sh, t)
		return
	}
	if a, ok := sh.replies.find(t.cur.op.ID); ok {
		s.answer(t.cur, a.result, a.after)
		s.nextTurn(sh, t)
		return
	}
	old := sh.records[t.key]
	var next *record.Record
	res, again := record.Repeated(old, t.cur.op, s.cfg.Kinds)
	if !again || mutantParentCounter {
		next, res = record.Apply(old, t.cur.op, s.cfg.Kinds)
	}
	logs := next != nil || old != nil && old.Stamp.Epoch != sh.cfg.Epoch && !mutantNoWriteBack
	switch {
	case logs && s.disk.reason != "":
		res = dht.Result{Outcome: dht.Unavailable, Err: "the disk of " + string(s.self.Name) + " takes nothing: " + s.disk.reason}
		if t.cur.begun {
			res.Outcome = dht.Unknown
		}
		s.answer(t.cur, res, 0)
		s.nextTurn(sh, t)
		return
	case next != nil:
		sh.seq++
		next.Stamp = dht.Version{Epoch: sh.cfg.Epoch, Seq: sh.seq}
		next.Version = next.Stamp
		res.Version, res.Kind = next.Stamp, next.Kind
		// Merges too: a merge repeated after a removal would bring the record back.
		next.Remember(old, t.cur.op.ID, s.answeredBefore)
		t.next = record.New(*next)
	case logs:
		sh.seq++ // never show a record perhaps held by this node alone (I5)
		back := *old
		back.Stamp = dht.Version{Epoch: sh.cfg.Epoch, Seq: sh.seq}
		t.next = record.New(back)
	}
	t.result = res
	t.flight = &flight{sh: sh, epoch: sh.cfg.Epoch, turn: t}
	it := message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: sh.cfg.Epoch}
	if t.next != nil {
		it.What, it.Key, it.Rec = message.ItemRecord, t.key, t.next
		s.log(recordKey+string(t.key), t.next.Image)
	}
	t.flight.number = s.disk.logged
	s.launch(t.flight, it, t.cur.op.Durable)
}

// commit makes the result of a turn visible, and continues with the next operation on the
// key.
func (s *Store) commit(sh *shard, t *turn) {
	old := sh.records[t.key]
	changed := t.next != nil && (old == nil || old.Version != t.next.Version)
	if t.next != nil {
		sh.records[t.key] = t.next
		sh.forgetLater(s, t.key, t.next)
	}
	after := uint64(0)
	if t.cur.op.Durable {
		after = t.flight.number
	}
	if !changed {
		sh.replies.add(t.cur.op, t.result, after)
	}
	s.answer(t.cur, t.result, after)
	if changed {
		s.tellWatchers(sh, t.key)
		s.tellChange(t)
	}
	s.nextTurn(sh, t)
}

// tellChange reports a change in Out.Changed if the key has the prefix Config.Tell.
func (s *Store) tellChange(t *turn) {
	if p := s.cfg.Tell; p != "" && strings.HasPrefix(string(t.key), string(p)) {
		r := HomedRecord{Key: t.key, Kind: t.next.Kind, Version: t.next.Version}
		if !t.next.Gone {
			r.Value = t.next.Value
		}
		s.out.Changed = append(s.out.Changed, r)
	}
}

// nextTurn starts the next operation on the key.
func (s *Store) nextTurn(sh *shard, t *turn) {
	if len(t.queue) == 0 {
		delete(sh.turns, t.key)
		return
	}
	n := &turn{key: t.key, cur: t.queue[0], queue: t.queue[1:]}
	sh.turns[t.key] = n
	s.run(sh, n)
}

// drain takes all operations out of a shard, in order of arrival. Their items are void in
// the next epoch. If a drained turn was to create a record, the record is removed from
// the disk, where the record would outlast a removal by a later primary.
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
		t.cur.begun = t.cur.begun || t.next != nil && !t.cur.op.Reads()
		jobs = append(append(jobs, t.cur), t.queue...)
	}
	slices.SortFunc(jobs, func(a, b job) int { return cmp.Compare(a.order, b.order) })
	sh.readers, sh.round = nil, nil
	clear(sh.turns)
	return jobs
}

// redirect sends operations on to the present home.
func (s *Store) redirect(jobs []job) {
	for _, j := range jobs {
		s.answer(j, dht.Result{Outcome: dht.OutcomeMoved}, 0)
	}
}

// removal is the timer that forgets a removed record.
type removal struct {
	sh      *shard
	key     dht.Key
	version dht.Version
}

// forgetLater schedules a removed record to be forgotten.
func (sh *shard) forgetLater(s *Store, k dht.Key, r *record.Record) {
	if r.Gone {
		s.in(r.Keep, &removal{sh, k, r.Version})
	}
}

func (s *Store) rememberRemoved(sh *shard) {
	for _, k := range sh.keys() {
		sh.forgetLater(s, k, sh.records[k])
	}
}

// under reports whether an operation is under way on a key, or items up to the stamp are
// under way to other replicas. A replica may refuse such items after forgetting a record
// with the stamp. Newer items do not matter: on a busy shard newer items are always under
// way.
func (sh *shard) under(k dht.Key, stamp dht.Version) bool {
	for _, t := range sh.turns { // any order
		if t.key == k || t.next != nil && !stamp.Less(t.next.Stamp) {
			return true
		}
	}
	return false
}

func (r *removal) due(s *Store) {
	sh := r.sh
	rec := sh.records[r.key]
	if sh.over || !sh.home || rec == nil || !rec.Gone || rec.Version != r.version {
		return
	}
	if sh.under(r.key, rec.Stamp) || sh.learn != nil || s.disk.reason != "" {
		s.in(time.Second, r)
		return
	}
	if rec.Stamp.Epoch != sh.cfg.Epoch && len(sh.cfg.Replicas) > 1 {
		// The other replicas may hold another version: write the record back first.
		s.hold.serial++
		op := &dht.Op{Code: dht.OpLookup, Key: r.key, Consistent: true}
		s.submit(sh, job{op: op, order: s.hold.serial})
		s.in(time.Second, r)
		return
	}
	for _, x := range sh.cfg.Replicas {
		if x != s.self {
			s.pass(s.peers.know(x.Name), false, delivery{Item: message.Item{What: message.ItemDrop, Shard: sh.id, Epoch: sh.cfg.Epoch, Key: r.key, Stamp: rec.Stamp}})
		}
	}
	s.forget(sh, r.key, rec.Stamp)
}
