package node

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
)

// Drain makes this node take no new work, and hands the tasks queued here to other nodes;
// running work continues. With nil the node takes work again.
func (n *Node) Drain(now time.Duration, d *launcher.Drain, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.DrainOrder = d
	n.self.Ledger.Drain(now, d != nil)
	n.Records.KeepOrHandOff(t)
	n.self.YieldDrain(t) // other nodes may have begun at the same time
	if w := n.self.Cfg.Walltime; d == nil && w.End > 0 && w.Drain > 0 && now >= w.End-w.Drain {
		n.self.Ledger.NearsEnd(now)
	}
	n.settle(t)
}

// Wind makes this node take no new work because all nodes go down: queued work stays.
func (n *Node) Wind(now time.Duration, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.Ledger.Drain(now, true)
	n.settle(t)
}

// Drained lists the draining nodes with their reasons, "" if no node drains; all reports
// whether no node takes work.
func (n *Node) Drained() (text string, all bool) { return n.self.Drained() }
