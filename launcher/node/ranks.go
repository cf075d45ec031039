package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
)

// ranks is this node's part in the attempts of jobs of any origin. ranks lends slots of
// the ledger, starts ranks by keepers, reports their state, and ends the ranks when their
// lease is over. The slots of a part are freed exactly when the part is over.
type ranks struct {
	*self
	records *records
	tasks   stepRooms

	parts      map[slots.Key]*part
	tombstones tombstones
	agenda     agenda
	changed    []slots.Status // memory of tellChanged
	fence      fence
}

// stepRooms is the interface to the slots of tasks, for ranks of the tasks' steps.
type stepRooms interface {
	borrowTask(a slots.Ask, l *launcher.Launch) (slots.Loan, bool)
	taskStepOver(t *Turn, serial uint64)
	tasksInTheWay() (job filch.JobID, most int32)
}

func newRanks(s *self, m *records) *ranks {
	return &ranks{self: s, records: m, parts: make(map[slots.Key]*part), fence: fence{cut: filch.Never, at: filch.Never}}
}

// tickNext handles the part whose timer expires next.
func (h *ranks) tickNext(t *Turn) {
	e := h.agenda.pop()
	if p := h.parts[e.key]; p != nil && p.due == e.at {
		p.due = filch.Never
		h.tickPart(t, p)
	}
}

func (h *ranks) deadline() time.Duration {
	for len(h.agenda.heap) > 0 {
		if p := h.parts[h.agenda.heap[0].key]; p != nil && p.due == h.agenda.heap[0].at {
			break
		}
		h.agenda.pop()
	}
	return min(h.agenda.next(), h.fence.at)
}
