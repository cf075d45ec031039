package store

import (
	"fmt"
	"slices"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/message"
)

// syncGate holds back the messages and answers that depend on entries not yet on the
// disk. A message or an answer leaves the store only when everything that the message
// depends on would survive a crash of this process.
//
// The gate holds as much as this node is asked between two syncs. While the disk accepts
// no entries, the gate holds nothing: see [Store.DiskFailed].
type syncGate struct {
	// No message leaves before the disk has the entry floor, the last entry of the life
	// before: a message of this life may depend on knowledge of that life.
	floor uint64
	// The entry that founds the instance. No message leaves before the disk has this
	// entry, even if the disk accepts no entries.
	founded uint64
	whole   uint64 // the last entry of the log that began when the disk came back
	sends   []waitingSend
	results []waitingResult
}

// waitingSend leaves once the disk has all entries up to after.
type waitingSend struct {
	send  Send
	after uint64
}

// waitingResult leaves once the disk has all entries up to after.
type waitingResult struct {
	answer Answer
	reads  bool // the answer of a lookup
	after  uint64
}

// emit sends a message once the disk has all entries up to after. While the disk accepts
// no entries the message is dropped: the node waiting for the message asks again.
func (s *Store) emit(x Send, after uint64) {
	after = max(after, s.disk.gate.floor, s.disk.gate.founded)
	switch {
	case after <= s.disk.synced:
		s.out.Sends = append(s.out.Sends, x)
	case s.disk.reason == "":
		s.disk.gate.sends = append(s.disk.gate.sends, waitingSend{x, after})
		s.hurry(after)
	}
}

// result returns an answer once the disk has all entries up to after. While the disk
// accepts no entries, the answer is that the outcome is unknown.
func (s *Store) result(x Answer, reads bool, after uint64) {
	switch {
	case after <= s.disk.synced || mutantDoneUnsynced:
		s.out.Results = append(s.out.Results, x)
	case s.disk.reason != "":
		s.out.Results = append(s.out.Results, unsure(x, reads, "the disk of "+string(s.self.Name)+" takes nothing: "+s.disk.reason))
	default:
		s.disk.gate.results = append(s.disk.gate.results, waitingResult{x, reads, after})
		s.hurry(after)
	}
}

// unsure replaces an answer that must not be shown.
func unsure(x Answer, reads bool, why string) Answer {
	x.Result = dht.Result{Outcome: dht.Unknown, Err: why}
	if reads {
		x.Result.Outcome = dht.Unavailable
	}
	return x
}

// hurry asks the shell to sync the log up to an entry.
func (s *Store) hurry(after uint64) { s.out.Hurry = max(s.out.Hurry, after) }

// open releases the messages and answers whose entries are synced, in order of arrival.
func (g *syncGate) open(synced uint64, out *Out) {
	g.sends = slices.DeleteFunc(g.sends, func(w waitingSend) bool {
		if w.after > synced {
			return false
		}
		out.Sends = append(out.Sends, w.send)
		return true
	})
	g.results = slices.DeleteFunc(g.results, func(w waitingResult) bool {
		if w.after > synced {
			return false
		}
		out.Results = append(out.Results, w.answer)
		return true
	})
}

// void drops the waiting messages, and answers the waiting results with an unknown
// outcome.
func (s *Store) void(why string) {
	g := &s.disk.gate
	for _, w := range g.results {
		s.out.Results = append(s.out.Results, unsure(w.answer, w.reads, why))
	}
	clear(g.sends)
	clear(g.results)
	g.sends, g.results, g.floor = g.sends[:0], g.results[:0], 0
}

// checkGate panics when a message or an answer waits needlessly, or would wait for ever.
func (s *Store) checkGate() {
	waits := func(after uint64) bool {
		return s.disk.reason == "" && after > s.disk.synced && after <= s.disk.logged
	}
	for i := range s.disk.gate.sends {
		if w := &s.disk.gate.sends[i]; !waits(w.after) {
			panic(fmt.Sprintf("%s holds a %T for %s until entry %d, the disk has %d of %d and says %q", s.self.Name, w.send.Message, w.send.To, w.after, s.disk.synced, s.disk.logged, s.disk.reason))
		}
	}
	for i := range s.disk.gate.results {
		if w := &s.disk.gate.results[i]; !waits(w.after) {
			panic(fmt.Sprintf("%s holds answer %d of %d until entry %d, the disk has %d of %d and says %q", s.self.Name, w.answer.Index, w.answer.Tag, w.after, s.disk.synced, s.disk.logged, s.disk.reason))
		}
	}
}

// unsynced applies the planted faults that release one sort of messages at once.
func unsynced(m message.Message, after uint64) uint64 {
	switch m.(type) {
	case *message.Promise, *message.Accepted:
		if mutantSeatUnsynced {
			return 0
		}
	case *message.Ack, *message.Replies:
		if mutantDoneUnsynced {
			return 0
		}
	}
	return after
}
