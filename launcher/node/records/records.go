package records

import (
	"fmt"
	"iter"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// StoreWait is how long an operation of this node on the store may take until the node
// gives up for now.
const StoreWait = 5 * time.Second

// Records is the node's side of the records kept by the instance together: records sends
// operations to the store, and calls back the part that asked. Each operation is answered
// once. The ids of jobs, the writer of job records, the scan for orphans and
// the quota are built on records.
type Records struct {
	*local.Self
	*ids
	gangs *ids
	*recordwriter
	*orphans
	*quota
	user homedUser

	store   Store
	out     store.Out // not acted on yet
	asks    map[uint64]*inquiry
	watches map[uint64]func(*local.Turn, dht.Result)
	tag     uint64
	leave   leaving
}

// asker does operations on the store for a part of this node.
type asker interface {
	Ask(t *local.Turn, ops []dht.Op, wait time.Duration, then func(*local.Turn, []dht.Result))
	Homed(prefix dht.Key) iter.Seq[store.HomedRecord]
}

// homedUser receives changes of the records homed here.
type homedUser interface {
	OnChanged(t *local.Turn, changed []store.HomedRecord)
	OnRehomed(t *local.Turn)
}

// inquiry is an unanswered batch of operations of this node.
type inquiry struct {
	results []dht.Result
	missing int
	then    func(*local.Turn, []dht.Result)
}

// New makes the part of a node that uses the store; [Records.Serve] completes the part.
func New(s *local.Self, store Store) *Records {
	m := &Records{Self: s, store: store, asks: make(map[uint64]*inquiry), watches: make(map[uint64]func(*local.Turn, dht.Result))}
	m.ids = &ids{Self: s, store: m, key: jobsKey}
	m.gangs = &ids{Self: s, store: m, key: gangsKey, again: filch.Never}
	m.recordwriter = newRecordwriter(s, m)
	m.orphans = &orphans{Self: s, store: m, writer: m.recordwriter, at: filch.Never}
	m.quota = &quota{Self: s, store: m}
	return m
}

// Serve sets the users of the records.
func (m *Records) Serve(user homedUser, requests, gangs func(*local.Turn), jobs recordSource, takesOver heir) {
	m.user, m.ids.user, m.gangs.user = user, requests, gangs
	m.recordwriter.jobs, m.orphans.jobs = jobs, takesOver
}

// GangID takes an id for the run of a gang; false: none is at hand, and the user of the
// records is called when ids have come.
func (m *Records) GangID(t *local.Turn) (filch.JobID, bool) {
	if !m.gangs.HaveID() {
		m.gangs.FetchBlock(t)
		return 0, false
	}
	return m.gangs.NextID(), true
}

// StoreRestore restores the store's state from the disk, before any other input. Damaged
// says that parts of the state could not be read.
func (m *Records) StoreRestore(images []store.LogEntry, damaged bool) {
	m.store.Restore(images, damaged)
}

// StoreFound makes this node, the first of its instance, found the roster.
func (m *Records) StoreFound(now time.Duration, out *launcher.Outbox) {
	t := m.Turn(now, out)
	m.store.Found(now, &m.out)
	t.End()
}

// StoreMessage handles a message of another node's store.
func (m *Records) StoreMessage(now time.Duration, from filch.NodeName, word message.Message, out *launcher.Outbox) {
	t := m.Turn(now, out)
	m.store.Message(now, from, word, &m.out)
	t.End()
}

// StoreSynced reports to the store that the disk has all entries up to the given number.
func (m *Records) StoreSynced(now time.Duration, upto uint64, out *launcher.Outbox) {
	t := m.Turn(now, out)
	m.store.Synced(now, upto, &m.out)
	t.End()
}

// StoreDisk reports to the store a failure of the disk, with a reason, or with "" the
// disk's recovery.
func (m *Records) StoreDisk(now time.Duration, reason string, out *launcher.Outbox) {
	t := m.Turn(now, out)
	if reason != "" {
		m.store.DiskFailed(now, reason, &m.out)
	} else {
		m.store.DiskBack(now, &m.out)
	}
	t.End()
}

// StoreLeave makes the node hand off all its records, for good: the node goes down.
// Node.StoreLeft reports when this is done.
func (m *Records) StoreLeave(now time.Duration, out *launcher.Outbox) {
	t := m.Turn(now, out)
	m.LeaveForGood(t)
	t.End()
}

// LeaveForGood makes the node hand off all its records.
func (m *Records) LeaveForGood(t *local.Turn) {
	m.leave.goes = true
	m.store.Leave(t.Now, &m.out)
}

// StoreLeft reports whether the node has handed off all its records.
func (m *Records) StoreLeft() bool { return m.leave.done }

// StoreStatus returns this node's knowledge of the store.
func (m *Records) StoreStatus() store.Status { return m.store.Status() }

// KnowsRoster reports whether this node knows the roster.
func (m *Records) KnowsRoster() bool { return m.store.Status().Known }

// StoreHome returns the shard of a record, with its replicas in this node's roster. The
// first replica is the home of the record.
func (m *Records) StoreHome(k dht.Key) (shard dht.Shard, epoch uint64, replicas []dht.Replica) {
	return m.store.View(k)
}

// StoreAcceptLoss recreates the shards with no replica left, or the roster with no
// majority of its acceptors left; see [store.Store.AcceptLoss]. StoreAcceptLoss calls then
// when this is done.
func (m *Records) StoreAcceptLoss(now time.Duration, then func(dht.Result), out *launcher.Outbox) {
	t := m.Turn(now, out)
	m.tag++
	m.asks[m.tag] = &inquiry{
		results: make([]dht.Result, 1), missing: 1,
		then: func(_ *local.Turn, rs []dht.Result) { then(rs[0]) },
	}
	m.store.AcceptLoss(now, m.tag, nil, &m.out)
	t.End()
}

// StoreDo does operations for a client of this node, and calls then with a result for
// each, at the latest after wait. Operations without an identity get an identity.
func (m *Records) StoreDo(now time.Duration, ops []dht.Op, wait time.Duration, then func([]dht.Result), out *launcher.Outbox) {
	t := m.Turn(now, out)
	if len(ops) == 0 {
		then(nil)
		return
	}
	m.Ask(t, ops, wait, func(_ *local.Turn, rs []dht.Result) { then(rs) })
	t.End()
}

// Ask does operations of this node and calls then with a result for each.
func (m *Records) Ask(t *local.Turn, ops []dht.Op, wait time.Duration, then func(*local.Turn, []dht.Result)) {
	m.tag++
	m.asks[m.tag] = &inquiry{results: make([]dht.Result, len(ops)), missing: len(ops), then: then}
	m.store.Do(t.Now, m.tag, ops, t.Now+wait, &m.out)
}

// Watch calls then after each change of a key since a version, until unwatch.
func (m *Records) Watch(t *local.Turn, key dht.Key, from dht.Version, then func(*local.Turn, dht.Result)) uint64 {
	m.tag++
	m.watches[m.tag] = then
	m.store.Watch(t.Now, m.tag, key, from, &m.out)
	return m.tag
}

// Unwatch ends a Watch.
func (m *Records) Unwatch(t *local.Turn, tag uint64) {
	delete(m.watches, tag)
	m.store.Unwatch(t.Now, tag, &m.out)
}

// Pump acts on the store's output, and reports whether this led to more.
func (m *Records) Pump(t *local.Turn) bool {
	o := m.out
	m.out = store.Out{}
	for i := range o.Notes {
		t.Out.Notes = append(t.Out.Notes, storeNote(m.Cfg.Name, &o.Notes[i]))
	}
	t.Out.Logs = append(t.Out.Logs, o.Logs...)
	t.Out.Hurry = max(t.Out.Hurry, o.Hurry)
	t.Out.Stores = append(t.Out.Stores, o.Sends...)
	m.leave.done = m.leave.done || o.Left
	m.user.OnChanged(t, o.Changed)
	if len(o.Homes) > 0 {
		m.orphans.scanSoon(t)
		m.user.OnRehomed(t)
	}
	for i := range o.Results {
		m.onResult(t, &o.Results[i])
	}
	return len(o.Homes)+len(o.Results) > 0
}

// onResult passes a result to the caller of ask or watch.
func (m *Records) onResult(t *local.Turn, r *store.Answer) {
	if then := m.watches[r.Tag]; then != nil {
		then(t, r.Result)
		return
	}
	q := m.asks[r.Tag]
	if q == nil {
		return // given up
	}
	q.results[r.Index] = r.Result
	if q.missing--; q.missing > 0 && !mutantFirstAnswer {
		return
	}
	delete(m.asks, r.Tag)
	q.then(t, q.results)
}

// storeNote is a line about the store for the log.
func storeNote(node filch.NodeName, s *store.Note) launcher.Note {
	level, text := int8(local.NoteDebug), "store: "+s.Kind.String()
	switch s.Kind {
	case store.NoteAcceptors, store.NoteRecovering, store.NoteRecovered:
		level = local.NoteInfo
	case store.NoteLossTaken, store.NoteDropped, store.NoteForced:
		level = local.NoteWarn
	case store.NoteDisk:
		level = local.NoteError
	}
	for _, f := range []struct {
		name string
		v    any
		set  bool
	}{
		{"shard", s.Shard, s.Shard != 0}, {"epoch", s.Epoch, s.Epoch != 0}, {"peer", s.Peer, s.Peer != ""}, {"n", s.N, s.N != 0}, {"text", s.Text, s.Text != ""},
	} {
		if f.set {
			text += fmt.Sprintf(" %s=%v", f.name, f.v)
		}
	}
	return launcher.Note{Level: level, Text: text, Node: node}
}

// Tick does everything due in the store and in the parts built on the store.
func (m *Records) Tick(t *local.Turn) {
	if m.store.Deadline() <= t.Now {
		m.store.Tick(t.Now, &m.out)
	}
	if m.recordwriter.at <= t.Now {
		m.recordwriter.writeDrafts(t)
	}
	for _, b := range []*ids{m.ids, m.gangs} {
		if b.again <= t.Now {
			b.again = filch.Never
			b.FetchBlock(t)
		}
	}
	if m.orphans.at <= t.Now {
		m.orphans.scan(t)
	}
}

// Deadline is when Tick is due.
func (m *Records) Deadline() time.Duration {
	return min(m.store.Deadline(), m.recordwriter.at, m.ids.again, m.gangs.again, m.orphans.at)
}

// OnMember passes an entry of the list of members to the store.
func (m *Records) OnMember(t *local.Turn, p local.Peer) {
	state := dht.PeerUp
	switch p.Standing {
	case filch.Suspect:
		state = dht.PeerSuspect
	case filch.Gone:
		state = dht.PeerGone
	case filch.Dead:
		state = dht.PeerDead
	case filch.Left:
		state = dht.PeerLeft
	}
	m.store.Member(t.Now, dht.Peer{Name: p.Name, Incarnation: p.Incarnation, State: state}, &m.out)
	m.orphans.scanSoon(t)
}

// OnList tells the store whether the list of members is whole.
func (m *Records) OnList(t *local.Turn) {
	m.store.Member(t.Now, dht.Peer{Name: m.Cfg.Name, Incarnation: m.Cfg.Incarnation, Partial: m.ListPartial}, &m.out)
}

// OnReborn gives the store a new life after this node was declared dead. The store
// offers its old contents to the nodes that lost theirs, and answers the open operations.
func (m *Records) OnReborn(t *local.Turn) {
	m.leave.done = false
	m.store.Rejoin(t.Now, m.Cfg.Incarnation, &m.out)
	m.orphans.scanSoon(t)
}

// Check panics if an invariant of the store's part is broken.
func (m *Records) Check() {
	m.store.Check()
	for tag, q := range m.asks { // in any order: nothing comes out
		if q.missing <= 0 || q.missing > len(q.results) {
			panic(fmt.Sprintf("launcher: inquiry %d misses %d of %d answers", tag, q.missing, len(q.results)))
		}
	}
}

// Homed iterates over the records with a prefix whose home is this node.
func (m *Records) Homed(prefix dht.Key) iter.Seq[store.HomedRecord] { return m.store.Homed(prefix) }

// MergeWait is how long a merge may take before the core has to repeat the merge. The
// store itself repeats the merge until an answer comes, and recognizes a repetition. A
// second proposal would be another operation for the store, and the first operation could
// take effect long after an answer.
const MergeWait = time.Hour
