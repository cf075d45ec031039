package launcher

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// Drain is why a node takes no new work, as all others are told.
type Drain struct {
	Reason string `json:"reason,omitempty"`
	By     string `json:"by,omitempty"`
	Since  int64  `json:"since_unix_ns"`
}

// Limits of a drain's words, in bytes: every node keeps them of every other.
const (
	MaxDrainReason = 256
	MaxDrainBy     = 64
)

// Check refuses words that are too long, or no text.
func (d *Drain) Check() *filch.Error {
	for _, w := range []struct {
		what, text string
		most       int
	}{{"reason", d.Reason, MaxDrainReason}, {"user", d.By, MaxDrainBy}} {
		if len(w.text) > w.most {
			return filch.Errorf(filch.Invalid, "the %s of a drain has at most %d bytes, not %d", w.what, w.most, len(w.text))
		}
		if !utf8.ValidString(w.text) {
			return filch.Errorf(filch.Invalid, "the %s of a drain is no UTF-8: %s", w.what, strconv.Quote(w.text))
		}
	}
	return nil
}

// Drain makes this node take no new work, and has the tasks that are queued here
// leave; what runs goes on. With nil the node takes work again.
func (n *Node) Drain(now time.Duration, d *Drain, out *Outbox) {
	n.drain = d
	n.ledger.Drain(now, d != nil)
	n.keepOrHandOff(now)
	if w := n.cfg.Walltime; d == nil && w.End > 0 && w.Drain > 0 && now >= w.End-w.Drain {
		n.ledger.NearsEnd(now)
	}
	n.settle(now, out)
}

// handOffMin is how many other nodes must take work for a node that drains to
// hand its records to them: as many as hold a record. With fewer, the records
// stay where they are: their nodes live, and may be all that is left.
const handOffMin = 3

// leaving is how far a node is with handing off what it keeps.
type leaving struct {
	drains bool // it does so since it drains
	goes   bool // it does so for good
	done   bool
}

// keepOrHandOff has a node that drains hand off its records while enough others
// take work, and take them back when these get too few.
func (n *Node) keepOrHandOff(now time.Duration) {
	if n.meta.leave.goes || n.drain == nil && !n.meta.leave.drains {
		return // it is asked with each change in the list of members
	}
	others := 0
	for i := range n.members.Len() {
		if p := n.members.At(int32(i)); p.Name != n.cfg.Name && p.Standing == stealer.Up {
			others++
		}
	}
	l := &n.meta.leave
	switch hand := n.drain != nil && others >= handOffMin; {
	case hand && !l.drains:
		l.drains = true
		n.meta.store.Leave(now, &n.meta.out)
	case !hand && l.drains:
		*l = leaving{}
		n.meta.store.Return(now, &n.meta.out)
	}
}

// Wind makes this node take no new work, as all nodes go down: what is queued stays.
func (n *Node) Wind(now time.Duration, out *Outbox) {
	n.ledger.Drain(now, true)
	n.settle(now, out)
}

// drainText names the nodes that drain and why, of those that may be used; "" if
// there are none. All says that there is no other.
func (n *Node) drainText(allows func(filch.NodeName) bool) (text string, all bool) {
	type group struct {
		names []string
		why   string
	}
	var groups []group
	all = true
	for i := range n.members.Len() {
		p := *n.members.At(int32(i))
		if p.Name == n.cfg.Name && n.drain != nil { // of which the list knows nothing
			p.Standing, p.Why = stealer.Draining, n.drain.Reason
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

// drainGroups bounds the reasons that are listed.
const drainGroups = 3

// Drained names the nodes that drain and why, "" if none does; all says that no
// node takes work.
func (n *Node) Drained() (text string, all bool) {
	return n.drainText(func(filch.NodeName) bool { return true })
}
