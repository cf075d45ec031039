package local

import (
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/stealer"
)

// DrainText lists the draining nodes among the allowed nodes, with their reasons; "" if
// no allowed node drains. All reports whether every allowed live node drains.
func (s *Self) DrainText(allows func(*filch.Member) bool) (text string, all bool) {
	type group struct {
		names []string
		why   string
	}
	var groups []group
	all = true
	for i := range s.Members.Len() {
		p := *s.Members.At(int32(i))
		if p.Name == s.Cfg.Name && s.DrainOrder != nil { // the list lacks this node's drain
			p.Standing, p.Why = filch.Draining, s.DrainOrder.Reason
		}
		switch {
		case !allows(&p) || p.Standing >= filch.Dead:
		case p.Standing != filch.Draining:
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
		parts = append(parts, launcher.ListNames(g.names)+verb)
	}
	return strings.Join(parts, ", "), all && len(groups) > 0
}

// Drains reports whether a node takes no work. The list lacks the drain of this node.
func (s *Self) Drains(p *filch.Member) bool {
	return p.Standing == filch.Draining || p.Name == s.Cfg.Name && s.DrainOrder != nil
}

// drainGroups bounds the listed reasons.
const drainGroups = 3

// Drained lists the draining nodes with their reasons, "" if no node drains; all reports
// whether no node takes work.
func (s *Self) Drained() (text string, all bool) {
	return s.DrainText(func(*filch.Member) bool { return true })
}
