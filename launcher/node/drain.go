package node

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/stealer"
)

// Drain makes this node take no new work, and hands the tasks queued here to other nodes;
// running work continues. With nil the node takes work again.
func (n *Node) Drain(now time.Duration, d *launcher.Drain, out *launcher.Outbox) {
	t := n.turn(now, out)
	n.drain = d
	n.ledger.Drain(now, d != nil)
	n.records.keepOrHandOff(t)
	if w := n.cfg.Walltime; d == nil && w.End > 0 && w.Drain > 0 && now >= w.End-w.Drain {
		n.ledger.NearsEnd(now)
	}
	n.settle(t)
}

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

// keepOrHandOff makes a draining node hand off its records while enough other nodes take
// work, and take the records back when too few other nodes do.
func (m *records) keepOrHandOff(t *Turn) {
	if m.leave.goes || m.drain == nil && !m.leave.drains {
		return // called at each change in the list of members
	}
	others := 0
	for i := range m.members.Len() {
		if p := m.members.At(int32(i)); p.Name != m.cfg.Name && p.Standing == stealer.Up {
			others++
		}
	}
	l := &m.leave
	switch hand := m.drain != nil && others >= handOffMin; {
	case hand && !l.drains:
		l.drains = true
		m.store.Leave(t.Now, &m.out)
	case !hand && l.drains:
		*l = leaving{}
		m.store.Return(t.Now, &m.out)
	}
}

// Wind makes this node take no new work because all nodes go down: queued work stays.
func (n *Node) Wind(now time.Duration, out *launcher.Outbox) {
	t := n.turn(now, out)
	n.ledger.Drain(now, true)
	n.settle(t)
}

// drainText lists the draining nodes among the allowed nodes, with their reasons; "" if
// no allowed node drains. All reports whether every allowed live node drains.
func (s *self) drainText(allows func(filch.NodeName) bool) (text string, all bool) {
	type group struct {
		names []string
		why   string
	}
	var groups []group
	all = true
	for i := range s.members.Len() {
		p := *s.members.At(int32(i))
		if p.Name == s.cfg.Name && s.drain != nil { // the list lacks this node's drain
			p.Standing, p.Why = stealer.Draining, s.drain.Reason
		}
		switch {
		case !allows(p.Name) || p.Standing >= stealer.Dead:
		case p.Standing != stealer.Draining:
			all = false
		default:
			k := slices.IndexFunc(groups, func(g group) bool { return g.why == p.Why })
			if k < 0 {
				k = len(groups)
				groups = append(groups, group{why: p.Why})
			}
			groups[k].names = append(groups[k].names, string(p.Name))
		}
	}
	var parts []string
	for k, g := range groups {
		if k == drainGroups {
			parts = append(parts, fmt.Sprintf("others are drained for %d more reasons", len(groups)-k))
			break
		}
		slices.SortFunc(g.names, stealer.Natural)
		verb := " is drained"
		if len(g.names) > 1 {
			verb = " are drained"
		}
		if g.why != "" {
			verb += " (" + g.why + ")"
		}
		parts = append(parts, listNames(g.names)+verb)
	}
	return strings.Join(parts, ", "), all && len(groups) > 0
}

// drainGroups bounds the listed reasons.
const drainGroups = 3

// Drained lists the draining nodes with their reasons, "" if no node drains; all reports
// whether no node takes work.
func (s *self) Drained() (text string, all bool) {
	return s.drainText(func(filch.NodeName) bool { return true })
}
