package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/disk"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// storeLog is the shell of this node's part of the shared store: the log on the disk
// and the messages. The store itself belongs to the Node.
type storeLog struct {
	d       *Daemon
	log     *disk.Log
	found   bool        // this launcher is the first of its instance
	damaged atomic.Bool // damage was found when the log was opened
	syncs   syncTimes
	fault   diskFault

	// The loop's.
	marks []syncMark
	shed  time.Time // when checkQuota looks next
}

// syncMark is the time when an entry was appended.
type syncMark struct {
	number uint64
	at     time.Time
}

// Limits of the disk's statistics.
const (
	maxMarks  = 64
	lateSyncs = time.Minute     // how long a sync counts as recent
	shedEvery = 5 * time.Second // between checks of the quota
)

// openStore opens the log; the log posts reports and syncs to the loop.
func openStore(d *Daemon, dir string) (*storeLog, error) {
	m := &storeLog{d: d}
	var err error
	m.log, err = disk.Open(disk.Config{
		Dir:        dir,
		QuotaBytes: d.cfg.StoreBytes,
		Synced: func(upto uint64) {
			d.in.Post(func(t *inputs.Turn) { m.onSynced(upto); t.Node.StoreSynced(t.Now, upto, t.Out) })
		},
		Report: m.onReport,
	})
	return m, err
}

// onReport handles the reports of the log: damage while the log is opened, failures
// later.
func (m *storeLog) onReport(r disk.Report) {
	switch r.Kind {
	case disk.Damaged, disk.Unreadable:
		m.damaged.Store(true)
		m.d.in.Watch.Log().Error("the store's log is damaged", "err", r.String())
	case disk.Failed, disk.Failing:
		m.d.in.Watch.Log().Error("the store's log cannot be written", "err", r.String())
		m.fault.heard(r.Err.Error(), time.Now())
		if r.Kind == disk.Failed {
			text := r.String()
			m.d.in.Post(func(t *inputs.Turn) { t.Node.StoreDisk(t.Now, text, t.Out) })
		}
	case disk.Back:
		m.d.in.Watch.Log().Info("the store's log is written again")
		m.d.in.Post(func(t *inputs.Turn) { t.Node.StoreDisk(t.Now, "", t.Out) })
	default:
		m.d.in.Watch.Log().Warn("the store's log", "err", r.String())
	}
}

// begin restores the store from the disk's entries; on the loop, before any other
// input.
func (m *storeLog) begin(t *inputs.Turn) {
	var images []store.LogEntry
	err := m.log.Each(func(key string, value []byte) error {
		images = append(images, store.LogEntry{Key: key, Value: append([]byte(nil), value...)})
		return nil
	})
	if err != nil {
		m.d.in.Fault("cannot read the store's log", err)
	}
	m.found = m.d.cfg.Found && len(images) == 0
	t.Node.StoreRestore(images, m.damaged.Load() || err != nil)
}

// foundIfFirst founds the store if this node is the first of its instance; other nodes
// may have joined through this node since.
func (m *storeLog) foundIfFirst(t *inputs.Turn) {
	if m.found {
		t.Node.StoreFound(t.Now, t.Out)
	}
	m.found = false
}

// keep appends the store's entries to the log on disk.
func (m *storeLog) keep(logs []store.LogEntry, hurry uint64) {
	if len(logs) > 0 {
		entries := make([]disk.Entry, len(logs))
		for i := range logs {
			entries[i] = disk.Entry{Key: logs[i].Key, Value: logs[i].Value}
		}
		if err := m.log.Append(logs[len(logs)-1].Number, entries...); err != nil {
			m.d.in.Fault("cannot append to the store's log", err)
		}
	}
	if len(logs) > 0 && len(m.marks) < maxMarks {
		m.marks = append(m.marks, syncMark{logs[len(logs)-1].Number, time.Now()})
	}
	if hurry > 0 {
		m.log.Hurry(hurry)
	}
}

// onSynced counts the times that the synced entries took.
func (m *storeLog) onSynced(upto uint64) {
	now := time.Now()
	for len(m.marks) > 0 && m.marks[0].number <= upto {
		mark := m.marks[0]
		took := now.Sub(mark.at)
		m.marks = m.marks[1:]
		m.syncs.add(took, now, m.fault.since(mark.at))
	}
}

// syncTimes is the longest recent sync. It expires by itself: on an idle node, no sync comes
// that would replace a slow one.
type syncTimes struct {
	mu      sync.Mutex // guards the fields below
	longest time.Duration
	why     string // the fault of the disk meanwhile; "": none
	at      time.Time
}

// diskFault is the last fault of the disk.
type diskFault struct {
	mu   sync.Mutex // guards the fields below
	text string
	at   time.Time
}

// heard takes in a fault.
func (f *diskFault) heard(text string, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text, f.at = text, now
}

// since is the last fault, if the fault was heard after a time; else "".
func (f *diskFault) since(at time.Time) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.at.After(at) {
		return f.text
	}
	return ""
}

// add counts a sync that ended now, and the fault of the disk meanwhile.
func (s *syncTimes) add(took time.Duration, now time.Time, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if took >= s.longest || now.Sub(s.at) > lateSyncs {
		s.longest, s.at, s.why = took, now, why
	}
}

// slowest is the longest recent sync, 0 for none, and the fault of the disk meanwhile.
func (s *syncTimes) slowest(now time.Time) (took time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.at) > lateSyncs {
		return 0, ""
	}
	return s.longest, s.why
}

// Stats returns the state of the log.
func (m *storeLog) Stats() disk.Stats { return m.log.Stats() }

// Slowest returns the longest recent sync of an entry to the disk, and the fault of the disk
// meanwhile; "" for none.
func (m *storeLog) Slowest() (took time.Duration, why string) { return m.syncs.slowest(time.Now()) }

// checkQuota has ended jobs dropped when the records on this node near the quota.
func (m *storeLog) checkQuota(t *inputs.Turn) {
	now := time.Now()
	if now.Before(m.shed) {
		return
	}
	m.shed = now.Add(shedEvery)
	s := m.log.Stats()
	t.Node.StoreFull(s.LiveBytes > s.QuotaBytes/4*3)
	if s.LiveBytes > s.QuotaBytes/2 {
		t.Node.DropOldest(t.Now, t.Out)
		m.d.trimSoon()
	}
}

// send hands a message of the store to the overlay. The store repeats lost messages.
func (m *storeLog) send(s *store.Send) {
	d := m.d
	if s.To == d.in.Self {
		d.in.Watch.Add(watch.MessagesLost, 1)
		return
	}
	payload, err := wire.Payload(wire.KindStore, 0, message.Encode(s.Message))
	if err != nil {
		d.in.Fault("cannot encode a message of the store", err, "peer", string(s.To))
		return
	}
	if d.net.Send(s.To, overlay.Metadata, payload) != nil {
		d.in.Watch.Add(watch.MessagesLost, 1)
		return
	}
	d.in.Watch.SentStore(s.Message)
}

// onMessage decodes a message of another node's store for the loop.
func (m *storeLog) onMessage(from filch.NodeName, f wire.Frame) error {
	msg, err := message.Decode(f.Body)
	if err != nil {
		return err
	}
	m.d.in.Watch.Add(watch.StoreIn, 1)
	m.d.in.Post(func(t *inputs.Turn) { t.Node.StoreMessage(t.Now, from, msg, t.Out) })
	return nil
}
