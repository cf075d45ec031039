package records

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// The records of jobs trail the jobs' state. The changes within a BookPause are written
// together, and a short job is written once. Two actions wait for the record, as DESIGN
// promises: the acknowledgement of a detached job, and its launch.
const (
	WritePause = 50 * time.Millisecond
	// writeAgain is the pause after a failed write of a record.
	writeAgain = time.Second
	// writeBatch bounds the records written at once, and writeBytes their size.
	writeBatch = 256
	writeBytes = 512 << 10
	// MaxDrafts bounds the ends of jobs waiting to be written while the store is
	// unavailable. The oldest ends of attached jobs are dropped.
	MaxDrafts = 1 << 15
	// AttachedKept is how many ended attached jobs of an origin stay recorded: their
	// clients have received the end, and a launcher must not grow with every run.
	// Detached jobs stay until the quota.
	AttachedKept = 256
	// attachedBatch attached jobs are dropped together, and remembered as dropped for
	// attachedGone, for as long as an operation is repeated.
	attachedBatch = 64
	attachedGone  = 5 * time.Second
)

// recordwriter writes the records of this node's jobs to the store, several together and
// some time after the changes. A draft is in line at most once, and never while flying,
// which means sent to the store and not yet answered.
type recordwriter struct {
	*local.Self
	store asker
	jobs  recordSource

	at    time.Duration
	due   map[filch.JobID]*draft
	queue []filch.JobID // in the order in which they fell due
	ended int           // drafts of ended jobs

	attached []filch.JobID // ended attached jobs with a record, oldest first
}

// draft is a record to be written.
type draft struct {
	last    *launcher.JobEntry  // of an ended job; nil: taken from the job when written
	end     *launcher.JobRecord // on the disk, of an ended detached job
	queued  bool
	flying  bool
	changed bool // since the last send
	then    []onKept
	sent    []onKept // waiting for the sent record
}

// onKept is called when the store keeps a record.
type onKept = func(*local.Turn)

func newRecordwriter(s *local.Self, store asker) *recordwriter {
	return &recordwriter{Self: s, store: store, due: make(map[filch.JobID]*draft), at: filch.Never}
}

// recordSource supplies the records of jobs, and receives the results of the writes.
type recordSource interface {
	HasEnded(id filch.JobID) bool
	RecordOf(now time.Duration, id filch.JobID) (e *launcher.JobEntry, durable bool, order *[]dht.Op)
	OnRecorded(t *local.Turn, id filch.JobID, from dht.Version)
	OnUnkeepable(t *local.Turn, id filch.JobID, why string)
	OnOverruled(t *local.Turn, e *launcher.JobEntry, id filch.JobID, onDisk bool) (ours bool)
}

// hasDraft reports whether a record of a job is still to be written.
func (b *recordwriter) hasDraft(id filch.JobID) bool { return b.due[id] != nil }

// Mark schedules a write of a job's record after wait.
func (b *recordwriter) Mark(t *local.Turn, id filch.JobID, wait time.Duration) *draft {
	d := b.draft(id)
	d.changed = true
	b.push(t.Now+wait, id, d)
	return d
}

func (b *recordwriter) draft(id filch.JobID) *draft {
	d := b.due[id]
	if d == nil {
		d = &draft{}
		b.due[id] = d
	}
	return d
}

func (b *recordwriter) push(at time.Duration, id filch.JobID, d *draft) {
	if !d.queued && !d.flying {
		d.queued = true
		b.queue = append(b.queue, id)
	}
	b.at = min(b.at, at)
}

// Commit writes the record of a job at once, and calls then when all homes of the record
// have it.
func (b *recordwriter) Commit(t *local.Turn, id filch.JobID, then func(*local.Turn)) {
	d := b.Mark(t, id, 0)
	d.then = append(d.then, then)
}

// MarkEnd schedules a write of the end of a job.
func (b *recordwriter) MarkEnd(t *local.Turn, e *launcher.JobEntry) {
	d := b.draft(e.Info.ID)
	d.last, d.changed = e, true
	b.ended++
	wait := WritePause
	if e.Info.Detached {
		wait = 0
	}
	b.push(t.Now+wait, e.Info.ID, d)
	if b.ended > MaxDrafts {
		b.dropOldestEnd()
	}
}

// EndOnDisk keeps the disk's record of the end of a detached job until the store has the
// end.
func (b *recordwriter) EndOnDisk(id filch.JobID, r *launcher.JobRecord) {
	if d := b.due[id]; d != nil && r.Request.Detach {
		d.end = r
	}
}

// DropDraft forgets the draft of a job now owned by another node.
func (b *recordwriter) DropDraft(id filch.JobID) { delete(b.due, id) }

// EndUnkept reports whether the end of a detached job is not recorded yet. Until then the
// job's participants keep their ends, for a node taking the job over.
func (b *recordwriter) EndUnkept(id filch.JobID) bool {
	d := b.due[id]
	return d != nil && d.last != nil && d.last.Info.Detached
}

// dropOldestEnd drops the oldest end of an attached job not being written.
func (b *recordwriter) dropOldestEnd() {
	for i, id := range b.queue {
		if d := b.due[id]; d != nil && d.last != nil && !d.last.Info.Detached {
			delete(b.due, id)
			b.queue = slices.Delete(b.queue, i, i+1)
			b.ended--
			return
		}
	}
}

// writeDrafts sends the drafts in line.
func (b *recordwriter) writeDrafts(t *local.Turn) {
	b.at = filch.Never
	var ops []dht.Op
	var ids []filch.JobID
	size := 0
	for len(b.queue) > 0 {
		id := b.queue[0]
		if len(ops) >= writeBatch || size > writeBytes {
			b.sendDrafts(t, ops, ids)
			ops, ids, size = nil, nil, 0
		}
		b.queue = b.queue[1:]
		d := b.due[id]
		if d == nil {
			continue
		}
		d.queued = false
		op, order, ok := b.draftOp(t, id, d)
		if !ok {
			delete(b.due, id)
			continue
		}
		d.flying, d.changed = true, false
		d.sent, d.then = append(d.sent, d.then...), nil
		if mutantEarlyBook {
			d.tell(t)
		}
		if order != nil {
			b.sendOrder(t, id, append(*order, op))
			continue
		}
		ops, ids = append(ops, op), append(ids, id)
		size += len(op.Value)
	}
	if b.queue = nil; len(ops) > 0 {
		b.sendDrafts(t, ops, ids)
	}
}

// draftOp returns the operation writing a draft; false: there is nothing to write. Order
// holds the operations to write the job's order first; nil if the order is written
// already.
func (b *recordwriter) draftOp(t *local.Turn, id filch.JobID, d *draft) (op dht.Op, order *[]dht.Op, ok bool) {
	e, durable := d.last, false
	if e == nil {
		if e, durable, order = b.jobs.RecordOf(t.Now, id); e == nil {
			return dht.Op{}, nil, false
		}
	}
	v, err := launcher.EncodeJobEntry(e)
	if err != nil {
		return dht.Op{}, nil, false
	}
	return dht.Op{Code: dht.OpMerge, Key: launcher.JobKey(id), Kind: launcher.KindJob, Value: v, Durable: durable}, order, true
}

func (b *recordwriter) sendDrafts(t *local.Turn, ops []dht.Op, ids []filch.JobID) {
	b.store.Ask(t, ops, StoreWait, func(t *local.Turn, rs []dht.Result) {
		for i, id := range ids {
			b.onWritten(t, id, &rs[i])
		}
	})
}

// sendOrder writes a job's order and its record together.
func (b *recordwriter) sendOrder(t *local.Turn, id filch.JobID, ops []dht.Op) {
	b.store.Ask(t, ops, StoreWait, func(t *local.Turn, rs []dht.Result) {
		last := rs[len(rs)-1]
		for _, r := range rs[:len(rs)-1] {
			if r.Outcome != dht.Done && r.Outcome != dht.Exists {
				last = r
			}
		}
		b.onWritten(t, id, &last)
	})
}

// dropAttached remembers the end of an attached job, and drops the records of the oldest
// ended attached jobs when there are too many.
func (b *recordwriter) dropAttached(t *local.Turn, id filch.JobID) {
	if b.attached = append(b.attached, id); len(b.attached) < AttachedKept+attachedBatch {
		return
	}
	ops := make([]dht.Op, attachedBatch)
	for i, old := range b.attached[:attachedBatch] {
		ops[i] = dht.Op{Code: dht.OpRemove, Key: launcher.JobKey(old), Keep: attachedGone}
	}
	b.attached = slices.Delete(b.attached, 0, attachedBatch)
	b.store.Ask(t, ops, StoreWait, func(*local.Turn, []dht.Result) {})
}

// tell calls the functions waiting for the sent record. Functions added since the send
// wait for the next write: the sent record lacks their changes.
func (d *draft) tell(t *local.Turn) {
	then := d.sent
	d.sent = nil
	for _, f := range then {
		f(t)
	}
}

// onWritten handles the result of writing a record.
func (b *recordwriter) onWritten(t *local.Turn, id filch.JobID, r *dht.Result) {
	d := b.due[id]
	if d == nil {
		return
	}
	d.flying = false
	gone := r.Outcome == dht.Done && len(r.Value) > 0
	switch {
	case gone:
		b.onOverruled(t, id, d, r.Value)
	case r.Outcome == dht.Done:
		b.jobs.OnRecorded(t, id, r.Version)
		d.tell(t)
	case r.Outcome == dht.Invalid || r.Outcome == dht.Conflict || r.Outcome == dht.Full:
		t.Note(local.NoteError, id, b.Cfg.Name, "cannot store the record of the job: %s", r.Err)
		d.then, d.sent = nil, nil
		b.jobs.OnUnkeepable(t, id, r.Err)
	default:
		d.changed = true
		b.push(t.Now+writeAgain, id, d)
		return
	}
	if d.changed {
		b.push(t.Now+WritePause, id, d)
		return
	}
	if d.last != nil {
		b.ended--
		if !gone { // else the node taking the job over needs the order
			b.dropOrder(t, id, d.last.Orders)
		}
		b.endKept(t, id, d)
		if !d.last.Info.Detached {
			b.dropAttached(t, id)
		}
	}
	delete(b.due, id)
}

// endKept notes on the disk that the store has the end of a job, so the next launcher
// does not record the end again: the record may have been dropped by then.
func (b *recordwriter) endKept(t *local.Turn, id filch.JobID, d *draft) {
	if d.end != nil && b.jobs.HasEnded(id) {
		r := *d.end
		r.Shared.Kept = true
		t.Record(launcher.Record{Key: launcher.RecordKey(id), Job: &r})
	}
}

// overruled handles a store entry overruling the written entry: another node took the job
// over, or the job is to be cancelled.
func (b *recordwriter) onOverruled(t *local.Turn, id filch.JobID, d *draft, value []byte) {
	e, err := launcher.DecodeJobEntry(value)
	if err != nil {
		t.Note(local.NoteError, id, b.Cfg.Name, "%v", err)
		return
	}
	then := append(d.sent, d.then...)
	d.changed, d.then, d.sent = false, nil, nil
	if b.jobs.OnOverruled(t, e, id, d.end != nil) {
		d.changed, d.then = true, then // written again, the entry counts
	}
}

// StoreTrouble returns why the store does not answer, as far as this node knows.
func (m *Records) StoreTrouble() string {
	return cmp.Or(m.StoreFault(), "the store did not answer in time")
}

// StoreFault returns the known fault of the store; "" if no fault is known.
func (m *Records) StoreFault() string {
	s := m.store.Status()
	switch {
	case s.DiskReason != "":
		return "the disk of " + string(m.Cfg.Name) + " accepts no records: " + s.DiskReason
	case !s.Known:
		return "this node does not have the roster yet"
	case !m.SawMajority():
		return "most nodes of the instance do not answer"
	}
	if fault := m.seatsFault(&s); fault != "" {
		return fault
	}
	if len(s.Lost) > 0 && m.allBack(&s) {
		return fmt.Sprintf("%d of %d shards have no replica yet: all nodes that had their records are up, and read the records from their disks; if a disk is gone: filch roster recover --accept-loss", len(s.Lost), s.Shards)
	}
	if len(s.Lost) > 0 {
		return fmt.Sprintf("%d of %d shards have lost all replicas", len(s.Lost), s.Shards)
	}
	return ""
}

// allBack reports whether every member of the roster is up: the records of shards without a
// replica then come from the disks of these nodes.
func (m *Records) allBack(s *store.Status) bool {
	for _, r := range s.Members {
		if !m.Alive(r.Name) {
			return false
		}
	}
	return true
}

// seatsFault names the missing acceptors if the remaining acceptors cannot change the
// roster; "" if they can.
func (m *Records) seatsFault(s *store.Status) string {
	var gone []filch.NodeName
	for _, name := range s.Acceptors {
		if name == m.Cfg.Name && !s.Acceptor || name != m.Cfg.Name && !m.Alive(name) {
			gone = append(gone, name)
		}
	}
	switch seats := len(s.Acceptors); {
	case 2*len(gone) < seats || seats == 0:
		return ""
	case seats == 1:
		return fmt.Sprintf("the roster is lost: its only seat, %s, is gone or has a damaged disk; if the node does not come back: filch roster recover --accept-loss", gone[0])
	default:
		return fmt.Sprintf("the roster is lost: of its %d seats, %s are gone or have damaged disks; if these nodes do not come back: filch roster recover --accept-loss", seats, launcher.ListNames(gone))
	}
}

// dropOrder removes the order of an ended detached job.
func (b *recordwriter) dropOrder(t *local.Turn, id filch.JobID, pieces int32) {
	var ops []dht.Op
	for i := range pieces {
		ops = append(ops, dht.Op{Code: dht.OpRemove, Key: launcher.OrderKey(id, i)})
	}
	if len(ops) > 0 {
		b.store.Ask(t, ops, StoreWait, func(*local.Turn, []dht.Result) {})
	}
}
