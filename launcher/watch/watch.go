// Package watch takes a launcher's events: it writes a log of bounded size, counts, and
// keeps the last events for clients.
//
// The brain does not log; the brain emits notes, and the daemon hands the notes to this
// package with its own events. A line in the log is a JSON object with the keys of slog
// and the fixed keys (job, node, peer, err, took). Counters only grow; a caller
// computes a rate from two readings.
package watch

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/events/ring"
)

// Counter names one count.
type Counter uint8

// The counters.
const (
	Clients        Counter = iota // connections accepted
	ClientsRefused                // of another uid, another version, or beyond the limit
	FramesBad                     // protocol errors, on any link
	Submissions
	KeepersSpawned
	KeepersGone // vanished before they were done
	KeepersKept // reused for another job
	Adopted     // keepers of an earlier launcher, taken over
	Swept       // killed processes of dead attempts
	MessagesIn
	MessagesOut
	MessagesLost // not sent: no way, or the queue was full
	RelaysIn
	RelaysOut
	RelaysLost
	Turns   // of the loop
	StoreIn // messages between stores
	StoreOut
	CopiesIn // complete archives of programs from other nodes
	numCounters
)

var counterNames = [numCounters]string{
	"clients", "clients_refused", "frames_bad", "submissions",
	"keepers_spawned", "keepers_gone", "keepers_kept", "adopted", "swept",
	"messages_in", "messages_out", "messages_lost",
	"relays_in", "relays_out", "relays_lost", "turns", "store_in", "store_out", "copies_in",
}

// Watch takes the events of one launcher. Any goroutine may call its methods.
type Watch struct {
	log    *slog.Logger
	file   *File
	counts [numCounters]atomic.Uint64
	ring   *ring.Ring

	mu   sync.Mutex        // guards sent
	sent map[string]uint64 // messages to other nodes, by kind
}

// Open makes a Watch that logs to path, as JSON lines.
func Open(path string, maxBytes int64, debug bool) (*Watch, error) {
	f, err := OpenFile(path, maxBytes)
	if err != nil {
		return nil, err
	}
	level := slog.LevelInfo
	if debug {
		level = slog.LevelDebug
	}
	return &Watch{log: slog.New(slog.NewJSONHandler(f, &slog.HandlerOptions{Level: level})), file: f, ring: newRing()}, nil
}

// Discard makes a Watch that counts and does not log.
func Discard() *Watch { return &Watch{log: slog.New(slog.DiscardHandler), ring: newRing()} }

// newRing makes the ring of this launcher: no two launchers of a node begin at one time.
func newRing() *ring.Ring { return ring.New(uint64(time.Now().UnixNano())) }

// Ring returns the last events.
func (w *Watch) Ring() *ring.Ring { return w.ring }

// Events keeps events of one moment. Events changes the list.
func (w *Watch) Events(list []events.Event) {
	if len(list) > 0 {
		w.ring.Add(time.Now().UnixNano(), list)
	}
}

// Event keeps an event.
func (w *Watch) Event(e events.Event) { w.Events([]events.Event{e}) }

// Log returns the logger for events of the daemon itself.
func (w *Watch) Log() *slog.Logger { return w.log }

// Note logs an event of the brain.
func (w *Watch) Note(n launcher.Note) {
	level := slog.Level(n.Level)
	if kind := noteKind(level); kind != events.None {
		w.Event(events.Event{Kind: kind, Job: n.Job, Peer: n.Node, Reason: n.Text})
	}
	ctx := context.Background()
	if !w.log.Enabled(ctx, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 2)
	if n.Job != 0 {
		attrs = append(attrs, slog.Int("job", int(n.Job)))
	}
	if n.Node != "" {
		attrs = append(attrs, slog.String("peer", string(n.Node)))
	}
	w.log.LogAttrs(ctx, level, n.Text, attrs...)
}

// noteKind returns the kind of event of a note; None for a note that only a log at debug
// level has.
func noteKind(level slog.Level) events.Kind {
	switch {
	case level >= slog.LevelError:
		return events.Fault
	case level >= slog.LevelWarn:
		return events.Warning
	case level >= slog.LevelInfo:
		return events.Note
	}
	return events.None
}

// Fault logs a fault that needs a person, and keeps an event.
func (w *Watch) Fault(what string, err error, args ...any) {
	text := fmt.Sprint(err)
	w.Event(events.Event{Kind: events.Fault, Reason: what + ": " + text})
	w.log.Error(what, append(args, "err", text)...)
}

// Sent counts a message of the brain to another node, and logs the message at debug
// level.
func (w *Watch) Sent(to filch.NodeName, m launcher.Message) {
	w.Add(MessagesOut, 1)
	kind := kindOf(m)
	w.count(kind)
	ctx := context.Background()
	if !w.log.Enabled(ctx, slog.LevelDebug) {
		return
	}
	if d, ok := m.(*launcher.Dispatch); ok {
		short := *d
		short.Launch.Order = nil // arguments and environment: long, and not for a log
		m = &short
	}
	w.log.LogAttrs(ctx, slog.LevelDebug, "sent", slog.String("kind", kind), slog.String("peer", string(to)), slog.Any("message", m))
}

// SentStore counts a message of the store to another node.
func (w *Watch) SentStore(m any) {
	w.Add(StoreOut, 1)
	w.count(kindOf(m))
}

// kindOf returns the type of a message; for a message between many-task cores, the type
// of the carried message.
func kindOf(m any) string {
	if word, ok := m.(*launcher.TaskWord); ok {
		return word.Name()
	}
	return reflect.TypeOf(m).String()[1:] // without the star
}

func (w *Watch) count(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.sent == nil {
		w.sent = map[string]uint64{}
	}
	w.sent[kind]++
}

// Kinds returns how many messages went to other nodes, by kind.
func (w *Watch) Kinds() map[string]uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.sent)
}

// Add adds n to a counter.
func (w *Watch) Add(c Counter, n uint64) { w.counts[c].Add(n) }

// Count returns the count so far.
func (w *Watch) Count(c Counter) uint64 { return w.counts[c].Load() }

// Counts returns all counters by name.
func (w *Watch) Counts() map[string]uint64 {
	m := make(map[string]uint64, numCounters)
	for c, name := range counterNames {
		m[name] = w.counts[c].Load()
	}
	return m
}

// Refused logs and counts a refused peer or frame.
func (w *Watch) Refused(c Counter, link string, err error, peer filch.NodeName) {
	w.Add(c, 1)
	w.log.Warn("refused on the "+link+" link", "peer", string(peer), "err", err.Error())
}

// Close flushes and closes the log.
func (w *Watch) Close() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
