package records

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// handOffMin is the number of other nodes that must take work before a draining node
// hands its records to them: as many as hold a record. With fewer nodes, the records stay
// in place: their nodes are alive, and may be the only nodes left.
const handOffMin = 3

// leaving is the progress of a node in handing off its records.
type leaving struct {
	drains bool // because of a drain
	goes   bool // for good
	done   bool
}

// KeepOrHandOff makes a draining node hand off its records while enough other nodes take
// work, and take the records back when too few other nodes do.
func (m *Records) KeepOrHandOff(t *local.Turn) {
	if m.leave.goes || m.DrainOrder == nil && !m.leave.drains {
		return // called at each change in the list of members
	}
	others := 0
	for i := range m.Members.Len() {
		if p := m.Members.At(int32(i)); p.Name != m.Cfg.Name && p.Standing == filch.Up {
			others++
		}
	}
	l := &m.leave
	switch hand := m.DrainOrder != nil && others >= handOffMin; {
	case hand && !l.drains:
		l.drains = true
		m.store.Leave(t.Now, &m.out)
	case !hand && l.drains:
		*l = leaving{}
		m.store.Return(t.Now, &m.out)
	}
}
