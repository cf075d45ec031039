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

// unsure replaces an answer that must not be shown.
func unsure(x Answer, reads bool, why string) Answer {
	x.Result = dht.Result{Outcome: dht.Unknown, Err: why}
	if reads {
		x.Result.Outcome = dht.Unavailable
	}
	return x
}

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

// unsynced applies the planted faults that release one sort of messages at once.
func unsynced(m message.Message, after uint64) uint64 {
	switch m.(type) {
	case *message.Promise, *message.Accepted:
		if mutantAcceptorUnsynced {
			return 0
		}
	case *message.Ack, *message.Replies:
		if mutantDoneUnsynced {
			return 0
		}
	}
	return after
}

// check panics when a message or an answer waits needlessly, or would wait for ever.
func (d *disk) check() {
	waits := func(after uint64) bool {
		return d.reason == "" && after > d.synced && after <= d.logged
	}
	for i := range d.gate.sends {
		if w := &d.gate.sends[i]; !waits(w.after) {
			panic(fmt.Sprintf("%s holds a %T for %s until entry %d, the disk has %d of %d and says %q", d.self.Name, w.send.Message, w.send.To, w.after, d.synced, d.logged, d.reason))
		}
	}
	for i := range d.gate.results {
		if w := &d.gate.results[i]; !waits(w.after) {
			panic(fmt.Sprintf("%s holds answer %d of %d until entry %d, the disk has %d of %d and says %q", d.self.Name, w.answer.Index, w.answer.Tag, w.after, d.synced, d.logged, d.reason))
		}
	}
}

// result returns an answer once the disk has all entries up to after. While the disk
// accepts no entries, the answer is that the outcome is unknown.
func (d *disk) result(x Answer, reads bool, after uint64) {
	switch {
	case after <= d.synced || mutantDoneUnsynced:
		d.out.Results = append(d.out.Results, x)
	case d.reason != "":
		d.out.Results = append(d.out.Results, unsure(x, reads, "the disk of "+string(d.self.Name)+" takes nothing: "+d.reason))
	default:
		d.gate.results = append(d.gate.results, waitingResult{x, reads, after})
		d.hurry(after)
	}
}

// send sends a message once the disk has all entries up to after. While the disk accepts
// no entries the message is dropped: the node waiting for the message asks again.
func (d *disk) send(x Send, after uint64) {
	after = max(after, d.gate.floor, d.gate.founded)
	switch {
	case after <= d.synced:
		d.out.Sends = append(d.out.Sends, x)
	case d.reason == "":
		d.gate.sends = append(d.gate.sends, waitingSend{x, after})
		d.hurry(after)
	}
}

// void drops the waiting messages, and answers the waiting results with an unknown
// outcome.
func (d *disk) void(why string) {
	g := &d.gate
	for _, w := range g.results {
		d.out.Results = append(d.out.Results, unsure(w.answer, w.reads, why))
	}
	clear(g.sends)
	clear(g.results)
	g.sends, g.results, g.floor = g.sends[:0], g.results[:0], 0
}
