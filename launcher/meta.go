package launcher

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/stealer"
)

// StoreWait is how long an operation of this node on the store may take before
// it is given up for now.
const StoreWait = 5 * time.Second

// meta is the node's part in the shared store: the store itself, and what this
// node wants of it.
type meta struct {
	store   Records
	out     dht.StoreOut // not acted on yet
	asks    map[uint64]*inquiry
	watches map[uint64]func(now time.Duration, r dht.Result, out *Outbox)
	tag     uint64
	leave   leaving
	fence   fence
	dropped int // ended jobs that went to stay within the quota
	drops   drops
	full    bool // too much is kept here to take in more
	block   block
	book    book
	sweep   sweep
	given   map[filch.JobID]time.Duration // jobs that were given up for another node
	advert  advert
}

// inquiry is a batch of operations of this node that is not answered yet.
type inquiry struct {
	results []dht.Result
	missing int
	then    func(now time.Duration, rs []dht.Result, out *Outbox)
}

func newMeta(records Records) *meta {
	m := &meta{
		store: records, asks: make(map[uint64]*inquiry),
		watches: make(map[uint64]func(time.Duration, dht.Result, *Outbox)), given: make(map[filch.JobID]time.Duration),
	}
	m.book.init()
	m.sweep.at, m.advert.at, m.block.again, m.block.say = filch.Never, 0, 0, filch.Never
	m.fence = fence{cut: filch.Never, at: filch.Never}
	return m
}

// StoreRestore takes in what the disk held of the store, before any other
// input. Damaged tells that some of it could not be read.
func (n *Node) StoreRestore(images []dht.LogEntry, damaged bool) {
	n.meta.store.Restore(images, damaged)
}

// StoreFound makes this node, the first of its instance, found the roster.
func (n *Node) StoreFound(now time.Duration, out *Outbox) {
	n.meta.store.Found(now, &n.meta.out)
	n.settle(now, out)
}

// StoreMessage takes in a message of another node's store.
func (n *Node) StoreMessage(now time.Duration, from filch.NodeName, m dht.StoreMessage, out *Outbox) {
	n.meta.store.Message(now, from, m, &n.meta.out)
	n.settle(now, out)
}

// StoreSynced takes in that the disk has all entries up to that number.
func (n *Node) StoreSynced(now time.Duration, upto uint64, out *Outbox) {
	n.meta.store.Synced(now, upto, &n.meta.out)
	n.settle(now, out)
}

// StoreDisk takes in that the disk fails, with a reason, or with "" that it is
// back.
func (n *Node) StoreDisk(now time.Duration, reason string, out *Outbox) {
	if reason != "" {
		n.meta.store.DiskFailed(now, reason, &n.meta.out)
	} else {
		n.meta.store.DiskBack(now, &n.meta.out)
	}
	n.settle(now, out)
}

// StoreLeave makes the node hand off what it keeps, for good: it goes down.
// [Node.StoreLeft] says when that is done.
func (n *Node) StoreLeave(now time.Duration, out *Outbox) {
	n.meta.leave.goes = true
	n.meta.store.Leave(now, &n.meta.out)
	n.settle(now, out)
}

// StoreLeft reports whether the node has handed off all that it kept.
func (n *Node) StoreLeft() bool { return n.meta.leave.done }

// StoreStatus is what the node knows of the store.
func (n *Node) StoreStatus() dht.StoreStatus { return n.meta.store.Status() }

// StoreAcceptLoss makes the shards anew of which no replica is left, or the roster
// of which no majority of the seats is; see [dht.Store.AcceptLoss]. Then is called
// when that is done.
func (n *Node) StoreAcceptLoss(now time.Duration, then func(dht.Result), out *Outbox) {
	n.meta.tag++
	n.meta.asks[n.meta.tag] = &inquiry{
		results: make([]dht.Result, 1), missing: 1,
		then: func(_ time.Duration, rs []dht.Result, _ *Outbox) { then(rs[0]) },
	}
	n.meta.store.AcceptLoss(now, n.meta.tag, nil, &n.meta.out)
	n.settle(now, out)
}

// StoreDo does operations for a client of this node; then is called with a
// result for each, at the latest after wait. Operations without an identity
// get one.
func (n *Node) StoreDo(now time.Duration, ops []dht.Op, wait time.Duration, then func([]dht.Result), out *Outbox) {
	if len(ops) == 0 {
		then(nil)
		return
	}
	n.ask(now, ops, wait, func(_ time.Duration, rs []dht.Result, _ *Outbox) { then(rs) })
	n.settle(now, out)
}

// ask does operations of this node and calls then with a result for each.
func (n *Node) ask(now time.Duration, ops []dht.Op, wait time.Duration, then func(time.Duration, []dht.Result, *Outbox)) {
	m := n.meta
	m.tag++
	m.asks[m.tag] = &inquiry{results: make([]dht.Result, len(ops)), missing: len(ops), then: then}
	m.store.Do(now, m.tag, ops, now+wait, &m.out)
}

// watch calls then each time that a key changed after a version, until unwatch.
func (n *Node) watch(now time.Duration, key dht.Key, from dht.Version, then func(time.Duration, dht.Result, *Outbox)) uint64 {
	m := n.meta
	m.tag++
	m.watches[m.tag] = then
	m.store.Watch(now, m.tag, key, from, &m.out)
	return m.tag
}

func (n *Node) unwatch(now time.Duration, tag uint64) {
	delete(n.meta.watches, tag)
	n.meta.store.Unwatch(now, tag, &n.meta.out)
}

// pump acts on what the store put out, and reports whether that led to more.
func (n *Node) pump(now time.Duration, out *Outbox) bool {
	m := n.meta
	o := m.out
	m.out = dht.StoreOut{}
	for i := range o.Notes {
		out.Notes = append(out.Notes, storeNote(n.cfg.Name, &o.Notes[i]))
	}
	out.Logs = append(out.Logs, o.Logs...)
	out.Hurry = max(out.Hurry, o.Hurry)
	out.Stores = append(out.Stores, o.Sends...)
	m.leave.done = m.leave.done || o.Left
	n.mirrorChanges(now, o.Changed)
	if len(o.Homes) > 0 {
		n.homesChanged(now)
	}
	for i := range o.Results {
		n.answered(now, &o.Results[i], out)
	}
	return len(o.Homes)+len(o.Results) > 0
}

// answered hands a result to whoever asked.
func (n *Node) answered(now time.Duration, r *dht.StoreResult, out *Outbox) {
	m := n.meta
	if then := m.watches[r.Tag]; then != nil {
		then(now, r.Result, out)
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
	q.then(now, q.results, out)
}

// storeNote is a line about the store for the log.
func storeNote(node filch.NodeName, s *dht.StoreNote) Note {
	level, text := int8(noteDebug), "store: "+s.Kind.String()
	switch s.Kind {
	case dht.NoteSeats, dht.NoteRecovering, dht.NoteRecovered:
		level = noteInfo
	case dht.NoteLossTaken, dht.NoteDropped, dht.NoteAnew:
		level = noteWarn
	case dht.NoteDisk:
		level = noteError
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
	return Note{Level: level, Text: text, Node: node}
}

// tickMeta does what is due in the store and of what this node wants of it.
func (n *Node) tickMeta(now time.Duration, out *Outbox) {
	m := n.meta
	if m.store.Deadline() <= now {
		m.store.Tick(now, &m.out)
	}
	if m.book.at <= now {
		n.writeBook(now, out)
	}
	if m.block.again <= now || m.block.say <= now {
		n.tickBlock(now, out)
	}
	if m.sweep.at <= now {
		n.sweepJobs(now, out)
	}
	if m.advert.at <= now {
		n.advertise(now)
	}
	if m.fence.at <= now {
		n.fenceOff(out)
	}
}

func (n *Node) metaDeadline() time.Duration {
	m := n.meta
	return min(m.store.Deadline(), m.book.at, m.block.again, m.block.say, m.sweep.at, m.advert.at, m.fence.at)
}

// storeMember tells the store what the list of members says.
func (n *Node) storeMember(now time.Duration, p Peer) {
	state := dht.PeerUp
	switch p.Standing {
	case stealer.Suspect:
		state = dht.PeerSuspect
	case stealer.Gone:
		state = dht.PeerGone
	case stealer.Dead:
		state = dht.PeerDead
	case stealer.Left:
		state = dht.PeerLeft
	}
	n.meta.store.Member(now, dht.Peer{Name: p.Name, Incarnation: p.Incarnation, State: state}, &n.meta.out)
	n.sweepSoon(now)
	n.watchMajority(now)
}

// rebornMeta gives the store a new life after this node was declared dead. What it
// held it offers to those who lost it, and what it was asked is answered.
func (n *Node) rebornMeta(now time.Duration, out *Outbox) {
	m := n.meta
	m.leave.done = false
	m.store.Rejoin(now, n.cfg.Incarnation, &m.out)
	n.sweepSoon(now)
	n.watchMajority(now)
	n.pump(now, out)
}

// checkMeta panics where an invariant of the store's part is broken.
func (n *Node) checkMeta() {
	n.meta.store.Check()
	for tag, q := range n.meta.asks { // in any order: nothing comes out
		if q.missing <= 0 || q.missing > len(q.results) {
			panic(fmt.Sprintf("launcher: inquiry %d misses %d of %d answers", tag, q.missing, len(q.results)))
		}
	}
}
