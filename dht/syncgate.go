package dht

import (
	"fmt"
	"slices"
)

// syncGate keeps what rests on entries that the disk does not have yet. A message
// or an answer leaves the store only when all that it rests on would survive a
// crash of this process.
//
// What is kept is as much as this node is asked between two syncs. While the disk
// takes nothing, nothing is kept: see [Store.DiskFailed].
type syncGate struct {
	// Before the disk has this entry no message leaves. It is the last one of the
	// life before: what this life says may be what that one found out.
	floor   uint64
	founded uint64 // nor before it has this one, which founds the instance, even if it takes nothing
	whole   uint64 // the last entry of the log that began when the disk came back
	sends   []waitingSend
	results []waitingResult
}

// waitingSend leaves once the disk has everything up to the entry after.
type waitingSend struct {
	StoreSend
	after uint64
}

// waitingResult is shown once the disk has everything up to the entry after.
type waitingResult struct {
	StoreResult
	reads bool // it answers a lookup
	after uint64
}

// emit has a message leave once the disk has everything up to the entry after.
// While the disk takes nothing it is dropped: whoever waits for it asks again.
func (s *Store) emit(x StoreSend, after uint64) {
	after = max(after, s.disk.gate.floor, s.disk.gate.founded)
	switch {
	case after <= s.disk.synced:
		s.out.Sends = append(s.out.Sends, x)
	case s.disk.reason == "":
		s.disk.gate.sends = append(s.disk.gate.sends, waitingSend{x, after})
		s.hurry(after)
	}
}

// result has an answer leave once the disk has everything up to the entry after.
// While the disk takes nothing it says that the outcome is not known.
func (s *Store) result(x StoreResult, reads bool, after uint64) {
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

// unsure is the answer in place of one that must not be shown.
func unsure(x StoreResult, reads bool, why string) StoreResult {
	x.Result = Result{Outcome: Unknown, Err: why}
	if reads {
		x.Result.Outcome = Unavailable
	}
	return x
}

// hurry says that something waits for an entry.
func (s *Store) hurry(after uint64) { s.out.Hurry = max(s.out.Hurry, after) }

// open lets out what the disk has everything for, in the order in which it came.
func (g *syncGate) open(synced uint64, out *StoreOut) {
	g.sends = slices.DeleteFunc(g.sends, func(w waitingSend) bool {
		if w.after > synced {
			return false
		}
		out.Sends = append(out.Sends, w.StoreSend)
		return true
	})
	g.results = slices.DeleteFunc(g.results, func(w waitingResult) bool {
		if w.after > synced {
			return false
		}
		out.Results = append(out.Results, w.StoreResult)
		return true
	})
}

// void gives up what waits: the messages are dropped, and the answers say that
// the outcome is not known.
func (s *Store) void(why string) {
	g := &s.disk.gate
	for _, w := range g.results {
		s.out.Results = append(s.out.Results, unsure(w.StoreResult, w.reads, why))
	}
	clear(g.sends)
	clear(g.results)
	g.sends, g.results, g.floor = g.sends[:0], g.results[:0], 0
}

// checkGate panics when something waits that need not, or would wait for ever.
func (s *Store) checkGate() {
	waits := func(after uint64) bool {
		return s.disk.reason == "" && after > s.disk.synced && after <= s.disk.logged
	}
	for i := range s.disk.gate.sends {
		if w := &s.disk.gate.sends[i]; !waits(w.after) {
			panic(fmt.Sprintf("%s holds a %T for %s until entry %d, the disk has %d of %d and says %q", s.self.Name, w.Message, w.To, w.after, s.disk.synced, s.disk.logged, s.disk.reason))
		}
	}
	for i := range s.disk.gate.results {
		if w := &s.disk.gate.results[i]; !waits(w.after) {
			panic(fmt.Sprintf("%s holds answer %d of %d until entry %d, the disk has %d of %d and says %q", s.self.Name, w.Index, w.Tag, w.after, s.disk.synced, s.disk.logged, s.disk.reason))
		}
	}
}

// unsynced is how the planted faults let one sort of messages out at once.
func unsynced(m StoreMessage, after uint64) uint64 {
	switch m.(type) {
	case *msgPromise, *msgAccepted:
		if mutantSeatUnsynced {
			return 0
		}
	case *msgAck, *msgReplies:
		if mutantDoneUnsynced {
			return 0
		}
	}
	return after
}
