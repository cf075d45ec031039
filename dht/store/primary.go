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

// primary carries out the operations on the shards whose primary is this node.
type primary struct {
	*input
	disk        *disk
	peers       *peers
	view        *view
	replica     *replica
	replication *replication
	callers     *callers
	watchers    *watchers
	asking      []*shard // with readers to confirm
	serial      uint64   // of jobs, and of the sessions of learners
}

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
func (h *primary) submit(sh *shard, j job) {
	j.epoch = sh.cfg.Epoch
	if j.order == 0 {
		h.serial++
		j.order = h.serial
	}
	switch {
	case j.op.Code == dht.OpLookup && !j.op.Consistent:
		h.callers.answer(j, sh.show(j.op.Key, true), 0)
		return
	case j.op.Code == dht.OpLookup:
		r := sh.records[j.op.Key]
		if r == nil || r.Stamp.Epoch == sh.cfg.Epoch || mutantNoWriteBack {
			if mutantLocalReads {
				h.callers.answer(j, sh.show(j.op.Key, false), 0)
				return
			}
			h.read(sh, j)
			return
		}
	}
	if t := sh.turns[j.op.Key]; t != nil {
		t.queue = h.enqueue(t.queue, j)
		return
	}
	t := &turn{key: j.op.Key, cur: j}
	sh.turns[t.key] = t
	h.run(sh, t)
}

// enqueue adds a job to a queue. A replica may be missing for hours while the roster
// cannot change, and callers retry again and again: whenever the length reaches a power
// of two from sweepFrom on, enqueue drops the jobs whose callers no longer wait.
func (h *primary) enqueue(jobs []job, j job) []job {
	if n := len(jobs); n >= sweepFrom && n&(n-1) == 0 {
		jobs = slices.DeleteFunc(jobs, func(j job) bool { return h.callers.givenUp(&j) })
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
func (h *primary) read(sh *shard, j job) {
	sh.readers = h.enqueue(sh.readers, j)
	if !sh.asking {
		sh.asking = true
		h.asking = append(h.asking, sh)
	}
}

// confirm begins the rounds of confirmations: a single round at a time in each shard, for
// all lookups queued meanwhile.
func (h *primary) confirm() {
	for i := 0; i < len(h.asking); i++ {
		sh := h.asking[i]
		sh.asking = false
		if sh.over || !sh.home || sh.round != nil || len(sh.readers) == 0 {
			continue
		}
		f := &flight{sh: sh, epoch: sh.cfg.Epoch, readers: sh.readers}
		sh.readers, sh.round = nil, f
		durable := slices.ContainsFunc(f.readers, func(j job) bool { return j.op.Durable })
		h.launch(f, message.Item{What: message.ItemConfirm, Shard: sh.id, Epoch: f.epoch}, durable)
	}
	h.asking = h.asking[:0]
}

// launch sends an item to all other replicas and the learner.
func (h *primary) launch(f *flight, it message.Item, durable bool) {
	for _, r := range f.sh.cfg.Replicas {
		if r != h.self {
			h.aim(f, h.peers.know(r.Name), it, durable)
		}
	}
	if l := f.sh.learn; l != nil && !mutantGrowBlind {
		it.Session = l.session
		h.aim(f, l.p, it, durable)
	}
	if mutantMajorityCommit {
		f.need = min(f.need, len(f.sh.cfg.Replicas)/2)
	}
	if f.need == 0 {
		h.land(f)
	}
}

func (h *primary) aim(f *flight, p *peer, it message.Item, durable bool) {
	f.need++
	f.waits = append(f.waits, p)
	h.replication.pass(p, durable, delivery{it, f})
}

// onHeld records a peer's acknowledgment for a flight.
func (h *primary) onHeld(f *flight, p *peer) {
	i := slices.Index(f.waits, p)
	if i < 0 || f.epoch != f.sh.epoch() {
		return
	}
	f.waits = slices.Delete(f.waits, i, i+1)
	if l := f.sh.learn; l != nil && l.p == p {
		l.heard = h.now
	}
	if f.need--; f.need == 0 && !f.done {
		h.land(f)
	}
}

// land ends a flight acknowledged by all peers.
func (h *primary) land(f *flight) {
	f.done = true
	sh := f.sh
	if f.turn != nil {
		h.commit(sh, f.turn)
		return
	}
	sh.round = nil
	for _, j := range f.readers {
		h.reveal(sh, j)
	}
	if len(sh.readers) > 0 && !sh.asking {
		sh.asking = true
		h.asking = append(h.asking, sh)
	}
}

// reveal answers a lookup after the confirmation.
func (h *primary) reveal(sh *shard, j job) {
	r := sh.records[j.op.Key]
	if r != nil && r.Stamp.Epoch != sh.cfg.Epoch && !mutantNoWriteBack {
		h.submit(sh, j) // the record must be written back first
		return
	}
	after := uint64(0)
	if j.op.Durable {
		// Without another replica, the shown record may be on no disk yet.
		after = h.disk.logged
	}
	h.callers.answer(j, sh.show(j.op.Key, false), after)
}

// run computes the effect of a turn's operation and sends the change to the other
// replicas.
func (h *primary) run(sh *shard, t *turn) {
	if h.callers.givenUp(&t.cur) {
		h.nextTurn(sh, t)
		return
	}
	if a, ok := sh.replies.Find(t.cur.op.ID); ok {
		h.callers.answer(t.cur, a.Result, a.After)
		h.nextTurn(sh, t)
		return
	}
	old := sh.records[t.key]
	var next *record.Record
	res, again := record.Repeated(old, t.cur.op, h.cfg.Kinds)
	if !again || mutantParentCounter {
		next, res = record.Apply(old, t.cur.op, h.cfg.Kinds)
	}
	logs := next != nil || old != nil && old.Stamp.Epoch != sh.cfg.Epoch && !mutantNoWriteBack
	switch {
	case logs && h.disk.reason != "":
		res = dht.Result{Outcome: dht.Unavailable, Err: "the disk of " + string(h.self.Name) + " takes nothing: " + h.disk.reason}
		if t.cur.begun {
			res.Outcome = dht.Unknown
		}
		h.callers.answer(t.cur, res, 0)
		h.nextTurn(sh, t)
		return
	case next != nil:
		sh.seq++
		next.Stamp = dht.Version{Epoch: sh.cfg.Epoch, Seq: sh.seq}
		next.Version = next.Stamp
		res.Version, res.Kind = next.Stamp, next.Kind
		// Merges too: a merge repeated after a removal would bring the record back.
		next.Remember(old, t.cur.op.ID, h.callers.answeredBefore)
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
		h.disk.log(recordKey+string(t.key), t.next.Image)
	}
	t.flight.number = h.disk.logged
	h.launch(t.flight, it, t.cur.op.Durable)
}

// commit makes the result of a turn visible, and continues with the next operation on the
// key.
func (h *primary) commit(sh *shard, t *turn) {
	old := sh.records[t.key]
	changed := t.next != nil && (old == nil || old.Version != t.next.Version)
	if t.next != nil {
		sh.records[t.key] = t.next
		h.forgetLater(sh, t.key, t.next)
	}
	after := uint64(0)
	if t.cur.op.Durable {
		after = t.flight.number
	}
	if !changed {
		sh.replies.Add(t.cur.op, t.result, after)
	}
	h.callers.answer(t.cur, t.result, after)
	if changed {
		h.watchers.tell(sh, t.key)
		h.tellChange(t)
	}
	h.nextTurn(sh, t)
}

// tellChange reports a change in Out.Changed if the key has the prefix Config.Tell.
func (h *primary) tellChange(t *turn) {
	if p := h.cfg.Tell; p != "" && strings.HasPrefix(string(t.key), string(p)) {
		r := HomedRecord{Key: t.key, Kind: t.next.Kind, Version: t.next.Version}
		if !t.next.Gone {
			r.Value = t.next.Value
		}
		h.out.Changed = append(h.out.Changed, r)
	}
}

// nextTurn starts the next operation on the key.
func (h *primary) nextTurn(sh *shard, t *turn) {
	if len(t.queue) == 0 {
		delete(sh.turns, t.key)
		return
	}
	n := &turn{key: t.key, cur: t.queue[0], queue: t.queue[1:]}
	sh.turns[t.key] = n
	h.run(sh, n)
}

// drain takes all operations out of a shard, in order of arrival. Their items are void in
// the next epoch. If a drained turn was to create a record, the record is removed from
// the disk, where the record would outlast a removal by a later primary.
func (h *primary) drain(sh *shard) []job {
	jobs := sh.readers
	if sh.round != nil && !sh.round.done {
		jobs = append(jobs, sh.round.readers...)
		sh.round.done = true
	}
	for _, k := range sh.turning() {
		if sh.records[k] == nil {
			h.disk.log(recordKey+string(k), nil)
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
func (h *primary) redirect(jobs []job) {
	for _, j := range jobs {
		h.callers.answer(j, dht.Result{Outcome: dht.OutcomeMoved}, 0)
	}
}

// forgetLater schedules a removed record to be forgotten.
func (h *primary) forgetLater(sh *shard, k dht.Key, r *record.Record) {
	if r.Gone {
		h.in(r.Keep, func() { h.forgetRemoved(sh, k, r.Version) })
	}
}

func (h *primary) forgetAllRemoved(sh *shard) {
	for _, k := range sh.keys() {
		h.forgetLater(sh, k, sh.records[k])
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

// forgetRemoved forgets a removed record, unless the record has changed since.
func (h *primary) forgetRemoved(sh *shard, k dht.Key, removed dht.Version) {
	rec := sh.records[k]
	if sh.over || !sh.home || rec == nil || !rec.Gone || rec.Version != removed {
		return
	}
	later := func() { h.forgetRemoved(sh, k, removed) }
	if sh.under(k, rec.Stamp) || sh.learn != nil || h.disk.reason != "" {
		h.in(time.Second, later)
		return
	}
	if rec.Stamp.Epoch != sh.cfg.Epoch && len(sh.cfg.Replicas) > 1 {
		// The other replicas may hold another version: write the record back first.
		h.serial++
		op := &dht.Op{Code: dht.OpLookup, Key: k, Consistent: true}
		h.submit(sh, job{op: op, order: h.serial})
		h.in(time.Second, later)
		return
	}
	for _, x := range sh.cfg.Replicas {
		if x != h.self {
			h.replication.pass(h.peers.know(x.Name), false, delivery{Item: message.Item{What: message.ItemDrop, Shard: sh.id, Epoch: sh.cfg.Epoch, Key: k, Stamp: rec.Stamp}})
		}
	}
	h.replica.forget(sh, k, rec.Stamp)
}

// logTurns logs again the uncommitted changes under way to other replicas: the failed
// disk lost these entries.
func (h *primary) logTurns() {
	for _, sh := range h.replica.held() {
		for _, k := range sh.turning() {
			t := sh.turns[k]
			h.disk.log(recordKey+string(k), t.next.Image)
			t.flight.number = h.disk.logged
		}
	}
}

// onOps receives operations for which the sender believes this node to be home.
func (h *primary) onOps(p *peer, m *message.Ops) {
	c := &p.caller.dedup
	c.Raise(m.Floor)
	for i := range m.Ops {
		o := &m.Ops[i]
		if o.Number < c.Floor {
			continue
		}
		if r, ok := c.Find(o.Number); ok {
			if r.Done && r.Epoch >= o.Epoch {
				h.callers.reply(p, message.Reply{Number: o.Number, Epoch: r.Epoch, Result: r.Result}, r.After)
			}
			if !r.Done || r.Epoch >= o.Epoch {
				continue
			} // otherwise another home may have done the operation since
		}
		if !o.Op.Reads() {
			c.Begin(o.Number)
		}
		h.serve(job{op: &o.Op, from: p, inc: p.inc, number: o.Number, epoch: o.Epoch}, o.Shard, o.Epoch)
	}
}

// serve carries out an operation if this node is the home of the shard in exactly the
// given epoch.
func (h *primary) serve(j job, id dht.Shard, epoch uint64) {
	sh := h.replica.shards[id]
	c := h.view.roster.Config(id)
	switch {
	case j.op.Code == dht.OpLookup && !j.op.Consistent && sh != nil && c.Has(h.self):
		h.callers.answer(j, sh.show(j.op.Key, true), 0)
	case sh == nil || !sh.home || c.Epoch != epoch:
		h.callers.answer(j, dht.Result{Outcome: dht.OutcomeMoved}, 0)
	default:
		h.submit(sh, j)
	}
}
