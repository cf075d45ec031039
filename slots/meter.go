package slots

import "time"

// Meter adds up how long the slots of a ledger have been busy: lent to ranks that were
// launched, or to tasks. Slots that are promised, or out of service, are not busy.
type Meter struct {
	ledger *Ledger
	begun  bool
	since  time.Duration
	last   time.Duration
	busy   int32
	spent  time.Duration
}

// Look takes in the state of the ledger at the end of an input at now; time goes forward.
// The first look begins the sum.
func (m *Meter) Look(now time.Duration) {
	if !m.begun {
		m.begun, m.since, m.last = true, now, now
	}
	m.spent += time.Duration(m.busy) * (now - m.last)
	m.last, m.busy = now, m.count()
}

// Spent is the busy time of all slots up to now, since the first look, and the number of
// slots that are busy now.
func (m *Meter) Spent(now time.Duration) (spent, since time.Duration, busy int32) {
	return m.spent + time.Duration(m.busy)*(now-m.last), m.since, m.busy
}

// count is the number of slots with ranks that were launched, or with tasks.
func (m *Meter) count() int32 {
	l := m.ledger
	n := l.tasks.held().Slots + l.Backfill.Slots()
	for _, c := range l.holds {
		if c.state == Running {
			n += c.room.Slots
		}
	}
	return n
}
