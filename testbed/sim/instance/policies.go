package instance

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// drawPolicy is a policy of placing and stealing tasks, with times as short as those of the
// tasks of a fault run.
func drawPolicy(d *engine.Dice) policy.Policy {
	p := policy.Policy{
		Kind: policy.MLB + policy.Kind(d.N(int(policy.Auto)+1)), Threshold: 1 << 20,
		LocalTime: d.Between(50*time.Millisecond, 2*time.Second), Guess: d.Between(10*time.Millisecond, time.Second),
	}
	if p.Victims = policy.Victims(d.N(int(policy.Fixed) + 1)); p.Victims == policy.ByDefault {
		p.Victims = policy.Hierarchical
	}
	if d.Chance(0.2) { // giving alone leaves work where a lost message left the work
		p.Balance = policy.ByBoth
	}
	return p
}

// drawPolicies changes the policy of the instance in some runs, while tasks run: a node
// writes the record, and the others read the record sooner or later.
func (w *World) drawPolicies(d *engine.Dice) {
	for range d.N(4) {
		p, k := drawPolicy(d), d.N(len(w.hosts))
		w.At(d.Between(time.Millisecond, faultSpan), func() {
			if h := w.hosts[k]; h.node != nil && !h.Paused() {
				h.call(func(now time.Duration, out *launcher.Outbox) {
					h.node.WriteTaskPolicy(now, p, func(dht.Version, *filch.Error) { w.stats.Policies++ }, out)
				})
			}
		})
	}
}
