package launcher

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// The records of jobs trail what they tell of: what changed is written together
// after BookPause, and a job that is short is written once. What DESIGN promises
// waits for its record: the acknowledgement of a detached job, and its launch.
const (
	BookPause = 50 * time.Millisecond
	// bookAgain is the pause after a record could not be written.
	bookAgain = time.Second
	// bookBatch bounds the records written at once, and bookBytes their size.
	bookBatch = 256
	bookBytes = 512 << 10
	// MaxDrafts bounds the ends of jobs that wait to be written, while the
	// store is not to be had; the oldest ends of attached jobs go.
	MaxDrafts = 1 << 15
	// AttachedKept is how many ended attached jobs of an origin stay recorded: their
	// clients have heard the end, and a launcher must not grow with every run.
	// Detached ones stay until the quota.
	AttachedKept = 256
	// attachedBatch of them are dropped together, and remembered as dropped for
	// attachedGone, as long as an operation is repeated.
	attachedBatch = 64
	attachedGone  = 5 * time.Second
	// OrderPiece is how much of an order is in one record.
	OrderPiece = 128 << 10
)

// maxEarlier bounds the nodes of earlier attempts that are remembered.
const maxEarlier = 256

// pastNodes remembers the nodes of an attempt that is given up.
func (j *job) pastNodes() {
	if j.run == nil || !j.run.going || !j.req.Detach {
		return
	}
	for _, at := range j.run.launch.Nodes {
		if len(j.kept.earlier) < maxEarlier && !slices.Contains(j.kept.earlier, at.Node) {
			j.kept.earlier = append(slices.Clip(j.kept.earlier), at.Node)
		}
	}
}

// kept is what the owner of a job remembers of its record.
type kept struct {
	hop    int32
	seq    uint64
	orders int32
	cancel *CancelOrder // the record asks for it
	watch  uint64       // of the record, for that
	unborn bool         // not recorded yet, so not acknowledged
	lost   []LostSeat   // where ranks of it may still run

	restored bool // by a launcher that was started again: it may have forgotten a launch

	earlier []filch.NodeName // nodes of earlier attempts, where output of it is
}

// book is the records that are to be written.
type book struct {
	at    time.Duration
	due   map[filch.JobID]*draft
	line  []filch.JobID // in the order in which they fell due
	ended int           // drafts of jobs that are over

	attached []filch.JobID // ended attached jobs that are recorded, oldest first
}

// draft is a record that is to be written.
type draft struct {
	last    *JobEntry  // of a job that is over; nil: as it is when it is written
	end     *JobRecord // on the disk, of a detached job that is over
	lined   bool
	flying  bool
	changed bool // since it was sent
	then    []onKept
	sent    []onKept // those that wait for what was sent
}

// onKept is called when a record is kept.
type onKept = func(now time.Duration, out *Outbox)

func (b *book) init() {
	b.due = make(map[filch.JobID]*draft)
	b.at = filch.Never
}

// mark has the record of a job written soon.
func (n *Node) mark(now time.Duration, j *job, wait time.Duration) *draft {
	b := &n.meta.book
	d := b.draft(j.id)
	d.changed = true
	b.push(now+wait, j.id, d)
	return d
}

func (b *book) draft(id filch.JobID) *draft {
	d := b.due[id]
	if d == nil {
		d = &draft{}
		b.due[id] = d
	}
	return d
}

func (b *book) push(at time.Duration, id filch.JobID, d *draft) {
	if !d.lined && !d.flying {
		d.lined = true
		b.line = append(b.line, id)
	}
	b.at = min(b.at, at)
}

// register writes the record of a new detached job with its order. The job is
// acknowledged, and begins, when both are kept.
func (n *Node) register(now time.Duration, j *job) {
	j.kept.unborn = true
	j.kept.orders = int32((len(j.req.Order) + OrderPiece - 1) / OrderPiece)
	j.clock.say = j.submitted + SayAfter
	n.commit(now, j, func(now time.Duration, out *Outbox) {
		if n.jobs[j.id] != j || !j.kept.unborn {
			return
		}
		j.kept.unborn, j.clock.say = false, filch.Never
		n.tell(j, Accepted{Job: j.id, Size: j.need.Ranks}, out)
		n.keep(now, j, out)
		n.begin(now, j, out)
	})
}

// orderOps writes the order of a job that is not registered yet.
func (n *Node) orderOps(j *job) (ops []dht.Op) {
	for i := range j.kept.orders {
		piece := j.req.Order[int(i)*OrderPiece:]
		ops = append(ops, dht.Op{
			Code: dht.OpInsert, Key: orderKey(j.id, i), Kind: dht.KindRegister,
			Value: piece[:min(len(piece), OrderPiece)], Durable: j.req.Durable,
		})
	}
	return ops
}

// commit writes the record of a job at once and calls then when all of its
// homes have it.
func (n *Node) commit(now time.Duration, j *job, then func(now time.Duration, out *Outbox)) {
	d := n.mark(now, j, 0)
	d.then = append(d.then, then)
}

// markEnd has the end of a job written.
func (n *Node) markEnd(now time.Duration, j *job, i JobInfo) {
	b := &n.meta.book
	d := b.draft(j.id)
	d.last, d.changed = n.entry(j, i), true
	b.ended++
	wait := BookPause
	if j.req.Detach {
		wait = 0
	}
	b.push(now+wait, j.id, d)
	if b.ended > MaxDrafts {
		b.shed()
	}
}

// endUnkept reports whether the end of a detached job is not recorded yet. Its
// participants keep theirs until then, for who would take the job over.
func (n *Node) endUnkept(id filch.JobID) bool {
	d := n.meta.book.due[id]
	return d != nil && d.last != nil && d.last.Info.Detached
}

// shed drops the oldest end of an attached job that is not being written.
func (b *book) shed() {
	for i, id := range b.line {
		if d := b.due[id]; d != nil && d.last != nil && !d.last.Info.Detached {
			delete(b.due, id)
			b.line = slices.Delete(b.line, i, i+1)
			b.ended--
			return
		}
	}
}

// entry is the record of a job of this node.
func (n *Node) entry(j *job, i JobInfo) *JobEntry {
	j.kept.seq++
	e := &JobEntry{
		Hop: j.kept.hop, Owner: n.cfg.Name, Incarnation: n.cfg.Incarnation, Seq: j.kept.seq, Info: i, Orders: j.kept.orders,
	}
	if j.req.Detach && i.Code == nil {
		e.Cancel = j.kept.cancel
		r := n.jobRecord(j)
		r.Request.Order = nil
		if j.run != nil && !mutantEntryParts {
			r.Shared.Done = j.run.parts
		}
		e.Resume = r
	}
	return e
}

// writeBook sends what is due.
func (n *Node) writeBook(now time.Duration, out *Outbox) {
	b := &n.meta.book
	b.at = filch.Never
	var ops []dht.Op
	var ids []filch.JobID
	size := 0
	for len(b.line) > 0 {
		id := b.line[0]
		if len(ops) >= bookBatch || size > bookBytes {
			n.sendBook(now, ops, ids)
			ops, ids, size = nil, nil, 0
		}
		b.line = b.line[1:]
		d := b.due[id]
		if d == nil {
			continue
		}
		d.lined = false
		op, ok := n.bookOp(now, id, d)
		if !ok {
			delete(b.due, id)
			continue
		}
		d.flying, d.changed = true, false
		d.sent, d.then = append(d.sent, d.then...), nil
		if mutantEarlyBook {
			d.tell(now, out)
		}
		if j := n.jobs[id]; j != nil && j.kept.unborn {
			n.sendOrder(now, j, op)
			continue
		}
		ops, ids = append(ops, op), append(ids, id)
		size += len(op.Value)
	}
	if b.line = nil; len(ops) > 0 {
		n.sendBook(now, ops, ids)
	}
}

// bookOp is the operation that writes a draft; false: there is nothing to say.
func (n *Node) bookOp(now time.Duration, id filch.JobID, d *draft) (dht.Op, bool) {
	e, durable := d.last, false
	if e == nil {
		j := n.jobs[id]
		if j == nil {
			return dht.Op{}, false
		}
		e, durable = n.entry(j, n.liveInfo(now, j)), j.req.Durable
	}
	v, err := EncodeJobEntry(e)
	if err != nil {
		return dht.Op{}, false
	}
	return dht.Op{Code: dht.OpMerge, Key: jobKey(id), Kind: KindJob, Value: v, Durable: durable}, true
}

func (n *Node) sendBook(now time.Duration, ops []dht.Op, ids []filch.JobID) {
	n.ask(now, ops, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		for i, id := range ids {
			n.booked(now, id, &rs[i], out)
		}
	})
}

// sendOrder writes a job's order and its record together.
func (n *Node) sendOrder(now time.Duration, j *job, record dht.Op) {
	ops := append(n.orderOps(j), record)
	n.ask(now, ops, StoreWait, func(now time.Duration, rs []dht.Result, out *Outbox) {
		last := rs[len(rs)-1]
		for _, r := range rs[:len(rs)-1] {
			if r.Outcome != dht.Done && r.Outcome != dht.Exists {
				last = r
			}
		}
		n.booked(now, j.id, &last, out)
	})
}

// dropAttached remembers the end of an attached job, and drops the records of
// the oldest of them when there are too many.
func (n *Node) dropAttached(now time.Duration, id filch.JobID) {
	b := &n.meta.book
	if b.attached = append(b.attached, id); len(b.attached) < AttachedKept+attachedBatch {
		return
	}
	ops := make([]dht.Op, attachedBatch)
	for i, old := range b.attached[:attachedBatch] {
		ops[i] = dht.Op{Code: dht.OpRemove, Key: jobKey(old), Keep: attachedGone}
	}
	b.attached = slices.Delete(b.attached, 0, attachedBatch)
	n.ask(now, ops, StoreWait, func(time.Duration, []dht.Result, *Outbox) {})
}

// tell calls those that waited for what was sent. What was asked for since waits for
// the next one: this one has not all of it.
func (d *draft) tell(now time.Duration, out *Outbox) {
	then := d.sent
	d.sent = nil
	for _, f := range then {
		f(now, out)
	}
}

// booked takes in what became of a record.
func (n *Node) booked(now time.Duration, id filch.JobID, r *dht.Result, out *Outbox) {
	b := &n.meta.book
	d := b.due[id]
	if d == nil {
		return
	}
	d.flying = false
	gone := r.Outcome == dht.Done && len(r.Value) > 0
	switch {
	case gone:
		n.overruled(now, id, d, r.Value, out)
	case r.Outcome == dht.Done:
		n.watchCancel(now, id, r.Version)
		d.tell(now, out)
	case r.Outcome == dht.Invalid || r.Outcome == dht.Conflict || r.Outcome == dht.Full:
		note(out, noteError, id, n.cfg.Name, "cannot keep the record of the job: %s", r.Err)
		d.then, d.sent = nil, nil
		n.unkeepable(now, id, r.Err, out)
	default:
		d.changed = true
		b.push(now+bookAgain, id, d)
		return
	}
	if d.changed {
		b.push(now+BookPause, id, d)
		return
	}
	if d.last != nil {
		b.ended--
		if !gone { // else who took the job over has need of it
			n.dropOrder(now, id, d.last.Orders)
		}
		n.endKept(id, d, out)
		if !d.last.Info.Detached {
			n.dropAttached(now, id)
		}
	}
	delete(b.due, id)
}

// endKept notes on the disk that the store has the end of a job, so that the next
// launcher does not record it again: it may have been dropped by then.
func (n *Node) endKept(id filch.JobID, d *draft, out *Outbox) {
	if d.end != nil && n.past.find(id) != nil {
		r := *d.end
		r.Shared.Kept = true
		out.Records = append(out.Records, Record{Key: recordKey(id), Job: &r})
	}
}

// watchCancel has the owner of a detached job hear of a cancel that was recorded
// while it did not answer.
func (n *Node) watchCancel(now time.Duration, id filch.JobID, from dht.Version) {
	j := n.jobs[id]
	if j == nil || !j.req.Detach || j.kept.watch != 0 {
		return
	}
	j.kept.watch = n.watch(now, jobKey(id), from, func(now time.Duration, r dht.Result, out *Outbox) {
		if r.Outcome != dht.Done || n.jobs[id] != j {
			return
		}
		if e, err := DecodeJobEntry(r.Value); err == nil && e.Cancel != nil && e.Owner == n.cfg.Name && e.Hop == j.kept.hop {
			n.fenced(now, j, e, out)
		}
	})
}

func (n *Node) endWatch(now time.Duration, j *job) {
	if j.kept.watch != 0 {
		n.unwatch(now, j.kept.watch)
		j.kept.watch = 0
	}
}

// unkeepable ends a job that waits for a record that can never be kept.
func (n *Node) unkeepable(now time.Duration, id filch.JobID, why string, out *Outbox) {
	j := n.jobs[id]
	switch {
	case j == nil:
	case j.kept.unborn:
		n.refuse(now, j, filch.Errorf(filch.Invalid, "cannot keep the record of job %d: %s", id, why), out)
	case j.run != nil && j.run.unsent != nil:
		n.end(now, j, Cause{Kind: CauseOurs, Rank: -1, Text: "its record cannot be kept: " + why}, sigTerm, 0, out)
	}
}

// overruled takes in that something else counts: another node took the job
// over, or it is to be cancelled.
func (n *Node) overruled(now time.Duration, id filch.JobID, d *draft, value []byte, out *Outbox) {
	e, err := DecodeJobEntry(value)
	if err != nil {
		note(out, noteError, id, n.cfg.Name, "%v", err)
		return
	}
	then := append(d.sent, d.then...)
	d.changed, d.then, d.sent = false, nil, nil
	if j := n.jobs[id]; j != nil {
		n.fenced(now, j, e, out)
		if n.jobs[id] == j { // it is ours as before: said again, it counts
			d.changed, d.then = true, then
		}
		return
	}
	if e.Owner != n.cfg.Name {
		n.endedElsewhere(id, e, out)
		if d.end != nil {
			out.Records = append(out.Records, Record{Key: recordKey(id)})
		}
	}
}

// storeTrouble says why the store does not answer.
func (n *Node) storeTrouble() string {
	return cmp.Or(n.storeFault(), "the store does not answer in time")
}

// storeFault says what is known to be wrong with the store; "" if nothing is.
func (n *Node) storeFault() string {
	s := n.meta.store.Status()
	switch {
	case s.DiskReason != "":
		return "the disk of " + string(n.cfg.Name) + " takes nothing: " + s.DiskReason
	case !s.Known:
		return "this node has not heard of the roster yet"
	case !n.SawMajority():
		return "most nodes of the instance do not answer"
	}
	if fault := n.seatsFault(&s); fault != "" {
		return fault
	}
	if len(s.Lost) > 0 {
		return fmt.Sprintf("%d of %d shards have no replica left", len(s.Lost), s.Shards)
	}
	return ""
}

// seatsFault says which seats are gone where those that are left cannot change the
// roster; "" if they can.
func (n *Node) seatsFault(s *dht.StoreStatus) string {
	var gone []filch.NodeName
	for _, name := range s.Seats {
		if name == n.cfg.Name && !s.Seated || name != n.cfg.Name && !n.alive(name) {
			gone = append(gone, name)
		}
	}
	switch seats := len(s.Seats); {
	case 2*len(gone) < seats || seats == 0:
		return ""
	case seats == 1:
		return fmt.Sprintf("the roster is lost: %s is its only seat, and gone or on a damaged disk; if it does not come back: filch roster recover --accept-loss", gone[0])
	default:
		return fmt.Sprintf("the roster is lost: of its %d seats %s are gone or on a damaged disk; if they do not come back: filch roster recover --accept-loss", seats, listNames(gone))
	}
}
