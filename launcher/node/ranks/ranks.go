package ranks

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/slots"
)

// Ranks is this node's part in the attempts of jobs of any origin. Ranks lends slots of
// the ledger, starts ranks by keepers, reports their state, and ends the ranks when their
// lease is over. The slots of a participant are freed exactly when the participant is over.
type Ranks struct {
	*local.Self
	Remains Remains
	store   storeView
	tasks   stepRooms
	fills   fills

	participants map[slots.Key]*participant
	tombstones   tombstones
	timers       local.Timers
	changed      []slots.Status // memory of SendGrants
	cutoff       cutoff
}

// storeView is the view of this node on the nodes that keep the records.
type storeView interface {
	SawMajority() bool
	KnowsRoster() bool
}

// stepRooms is the interface to the slots of tasks, for ranks of the tasks' steps.
type stepRooms interface {
	BorrowTask(t *local.Turn, a slots.Ask, l *launcher.Launch) (slots.Loan, bool)
	OnStepOver(t *local.Turn, serial uint64)
	InTheWay(lacks string) (job filch.JobID, most int64)
}

// fills is the interface to the tasks in this node's slots, and in held slots.
type fills interface {
	// In returns the number of tasks in the hold of a claim, and the job with most of them.
	In(k slots.Key) (job filch.JobID, n int32)
	// Occupants are the tasks here that are in no hold.
	Occupants() []slots.Occupant
}

// New makes the part of a node that lends slots; [Ranks.Serve] completes the part.
func New(s *local.Self, v storeView) *Ranks {
	h := &Ranks{Self: s, store: v, participants: make(map[slots.Key]*participant), cutoff: cutoff{cut: filch.Never, at: filch.Never}}
	h.Remains = Remains{ranks: h, deaths: make(map[filch.NodeName]time.Duration)}
	return h
}

// Count returns the number of attempts in which this node participates.
func (h *Ranks) Count() int32 { return int32(len(h.participants)) }

// Serve sets the tasks whose steps have ranks here, and the tasks in held slots.
func (h *Ranks) Serve(tasks stepRooms, f fills) { h.tasks, h.fills = tasks, f }

// Next returns when the next timer of a participant expires.
func (h *Ranks) Next() time.Duration { return h.timers.Next() }

// TickNext handles the participant whose timer expires next.
func (h *Ranks) TickNext(t *local.Turn) {
	e := h.timers.Pop()
	if p := h.participants[e.Key]; p != nil && p.due == e.At {
		p.due = filch.Never
		h.tickParticipant(t, p)
	}
}

// Deadline is when Tick is due.
func (h *Ranks) Deadline() time.Duration {
	next := h.timers.NextValid(func(e local.Timer) bool { p := h.participants[e.Key]; return p != nil && p.due == e.At })
	return min(next, h.cutoff.at, h.Remains.at())
}

func (h *Ranks) sorted() []*participant {
	return slices.SortedFunc(maps.Values(h.participants), func(a, b *participant) int {
		if a.key.Job != b.key.Job {
			return int(a.key.Job) - int(b.key.Job)
		}
		return int(a.key.Attempt) - int(b.key.Attempt)
	})
}

// setTimer sets a timer if at is earlier than the present timer of the participant.
func (h *Ranks) setTimer(p *participant, at time.Duration) {
	if at < p.due {
		p.due = at
		h.timers.Push(local.Timer{At: at, Key: p.key})
	}
}

// Check panics if an invariant is broken.
func (h *Ranks) Check() {
	for k, p := range h.participants { // in any order: nothing comes out
		if p.key != k {
			panic(fmt.Sprintf("launcher: participant %v filed under %v", p.key, k))
		}
		if p.over() != p.flags.freed {
			panic(fmt.Sprintf("launcher: %s: participant %v is in phase %d, its slots freed: %t", h.Cfg.Name, k, p.phase, p.flags.freed))
		}
		if int(p.have) > len(p.ends) {
			panic(fmt.Sprintf("launcher: %s: origin of %v has %d ends of %d", h.Cfg.Name, k, p.have, len(p.ends)))
		}
	}
}
