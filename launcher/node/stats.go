package node

import (
	"time"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/tasks"
)

// Work counts the work of this node, but for its messages.
func (n *Node) Work(now time.Duration) launcher.Work {
	l := n.self.Ledger
	spent, since, busy := l.Meter.Spent(now)
	w := launcher.Work{
		Node: n.self.Cfg.Name, Slots: l.Total().Slots, Busy: busy,
		SlotSecs: float64(l.Total().Slots) * (now - since).Seconds(), BusySecs: spent.Seconds(),
	}
	if end := n.self.Cfg.Walltime.End; end > 0 {
		w.Left = max(end-now, time.Second).Seconds()
	}
	tasks.CountWork(n.Tasks, &w)
	w.Rate()
	return w
}
