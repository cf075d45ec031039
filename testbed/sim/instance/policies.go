package instance

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// drawPolicy is a policy of placing and stealing tasks, with times as short as those of the
// tasks of a fault run.
func drawPolicy(d *engine.Dice) policy.Policy {
	p := policy.Policy{
		Kind: policy.MLB + policy.Kind(d.N(int(policy.Auto)+1)), Threshold: 1 << 20,
		LocalTime: d.Between(50*time.Millisecond, 2*time.Second), Guess: d.Between(10*time.Millisecond, time.Second),
	}
	if p.Victims = policy.Victims(d.N(int(policy.NoStealing) + 1)); p.Victims == policy.ByDefault {
		p.Victims = policy.Hierarchical
	}
	switch roll := d.Unit(); {
	case roll < 0.2:
		p.Balance = policy.ByBoth
	case roll < 0.4:
		p.Balance = policy.ByGiving
	}
	return p
}

// law is a policy that the instance got while tasks ran.
type law struct {
	policy.Policy
	version dht.Version
}

// allow takes in a policy of the run, for the checkers.
func (w *World) allow(p policy.Policy) {
	steals := p.Thieves(policy.Hierarchical) != policy.NoStealing
	w.steals, w.unserved = w.steals || steals, w.unserved || !steals
}

// drawPolicies changes the policy of the instance in some runs, while tasks run: a node writes
// the record and tells the others. Some hear it late, after a newer one, and some do not hear it:
// these read the record sooner or later.
func (w *World) drawPolicies(d *engine.Dice, most int) {
	for range d.N(most + 1) {
		p, k := drawPolicy(d), d.N(len(w.hosts))
		w.allow(p)
		w.At(d.Between(time.Millisecond, faultSpan), func() {
			if h := w.hosts[k]; h.node != nil && !h.Paused() {
				h.call(func(now time.Duration, out *launcher.Outbox) {
					h.node.WriteTaskPolicy(now, p, func(v dht.Version, err *filch.Error) {
						if err == nil {
							w.tellPolicy(d, h, law{p, v})
						}
					}, out)
				})
			}
		})
	}
}

// Of the nodes, policyUntold do not hear of a change, and the others hear of it within
// policyLate.
const (
	policyUntold = 0.2
	policyLate   = 4 * time.Second
)

// tellPolicy tells the other nodes of a policy that a node wrote.
func (w *World) tellPolicy(d *engine.Dice, from *host, l law) {
	w.act("changed")
	from.heardLaw(l.version)
	for _, h := range w.hosts {
		if h == from || d.Chance(policyUntold) {
			continue
		}
		w.At(w.Now()+d.Between(time.Millisecond, policyLate), func() {
			if h.node != nil && !h.Paused() {
				h.call(func(now time.Duration, out *launcher.Outbox) { h.takeLaw(now, l, out) })
			}
		})
	}
}

// heardLaw notes the newest policy that a launcher certainly has.
func (h *host) heardLaw(v dht.Version) {
	if h.lawLife != h.Life() || h.law.Less(v) {
		h.law, h.lawLife = v, h.Life()
	}
}

// takeLaw tells a node of a policy. An older policy than the node has changes nothing.
func (h *host) takeLaw(now time.Duration, l law, out *launcher.Outbox) {
	old := h.lawLife == h.Life() && l.version.Less(h.law)
	before, _, _ := h.node.TaskPolicy()
	h.node.TakeTaskPolicy(now, l.Policy, l.version, out)
	if after, _, _ := h.node.TaskPolicy(); old {
		h.w.act("old policy dropped")
		if after != before {
			h.w.Fail("old-policy", "%s had a newer policy, and goes by %s after an older word", h.Name, after)
		}
	}
	h.heardLaw(l.version)
}

// drawRoles gives some hosts of some runs a role; the first host is for all.
func drawRoles(d *engine.Dice, hosts int) []filch.Role {
	if d.Chance(0.8) {
		return nil
	}
	roles := make([]filch.Role, hosts)
	for i := range roles[1:] {
		roles[1+i] = []filch.Role{filch.ForAll, filch.ForAll, filch.ForTasks, filch.ForGangs}[d.N(4)]
	}
	return roles
}

// takers counts the hosts that are not lost and are for gangs and runs, or for tasks.
func (w *World) takers(gang bool) (n int32) {
	for _, h := range w.hosts {
		if !h.lost && h.role.Takes(gang) {
			n++
		}
	}
	return n
}

// checkRole: no work is on a host that is not for such work.
func (w *World) checkRole(h *host, gang bool, what any) {
	if !h.role.Takes(gang) {
		w.Fail("wrong-role", "%s is for %s, and has %s", h.Name, h.role, show(what))
	}
	if h.role != filch.ForAll {
		w.act("ran on nodes for " + h.role.String())
	}
}

// drawData gives most workflows what the placement of tasks goes by: kinds, stated lengths, input
// that no task writes, and output, of very different sizes. Some are chains.
func (w *World) drawData(nodes []record.GraphNode) {
	d := w.shapeRng
	if d.Chance(0.2) {
		return
	}
	kinds, stated, initial := 1+d.N(4), d.Chance(0.5), d.Chance(0.3)
	most := []int64{64 << 10, 4 << 20, 64 << 20}[d.N(3)]
	chains := 0
	if d.Chance(0.3) {
		chains = 1 + d.N(8)
	}
	for i := range nodes {
		g := &nodes[i]
		g.Kind, g.Output = "kind"+itoa(d.N(kinds)), 1+int64(d.Unit()*float64(most))
		if stated {
			g.Length = d.Between(time.Millisecond, 400*time.Millisecond)
		}
		if initial && len(g.Parents) == 0 {
			g.Bytes = int64(d.Unit() * float64(most))
		}
		if chains > 0 {
			if g.Parents = nil; i >= chains {
				g.Parents = []int32{int32(i - chains)}
			}
		}
	}
}

// outputOf is how much a task of a workflow writes: as stated, else some.
func (b *bag) outputOf(i int32) int64 {
	if n := b.request.Nodes[i].Output; n > 0 {
		return n
	}
	return int64(i%7) << 20
}

// slantPolicies has more workflows and longer bags, and the policy changes more often.
func slantPolicies(w *World, d *engine.Dice) {
	for range 3 {
		w.drawBag(d)
	}
	for _, b := range w.bags {
		s := &b.request
		if s.Open || b.gangs() || len(s.Nodes) > 0 || d.Chance(0.5) {
			continue
		}
		if n := int(min(s.Total, 120)); d.Chance(0.5) {
			s.Nodes, s.Long = graph(d, n), nil
			w.drawData(s.Nodes)
			s.Total = int32(len(s.Nodes))
			continue
		}
		b.longest = d.Between(200*time.Millisecond, 800*time.Millisecond)
		b.shortest = b.longest / 8
	}
	w.drawPolicies(w.Dice(streamLaws), 6)
}
