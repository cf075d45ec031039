package node

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// ClientGone handles the end of a local client's connection: the node stops the client's
// attached jobs.
func (n *Node) ClientGone(now time.Duration, client launcher.ClientID, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.Origin.ForgetUnnumbered(client)
	n.Tasks.Unfollow(t, client)
	n.Origin.OnClientGone(t, client)
	n.settle(t)
}

// Settled reports that every keeper of an earlier launcher was adopted or is gone, after
// [Node.Restore]: from now on the node lends its slots.
func (n *Node) Settled(now time.Duration, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	if n.self.Opens == filch.Never {
		return
	}
	n.self.Opens = filch.Never
	if !n.self.Dead {
		n.self.Ledger.Open(now)
	}
	n.Origin.OnKeepersSettled(t)
	n.settle(t)
}

// Slots returns a snapshot of this node's ledger.
func (n *Node) Slots() launcher.SlotInfo {
	total, free := n.self.Ledger.Total(), n.self.Ledger.Free()
	held, locked, running, stuck, waiting := n.self.Ledger.Counts()
	return launcher.SlotInfo{
		Node: n.self.Cfg.Name, Slots: total.Slots, Free: free.Slots, Held: held, Locked: locked, Running: running, Stuck: stuck,
		MemBytes: total.MemBytes, MemFree: free.MemBytes, GPUs: append([]string{}, n.self.Cfg.Capacity.GPUs...), GPUsFree: n.self.Ledger.FreeGPUs(),
		Waiting: waiting, Jobs: n.Ranks.Count(), Draining: n.self.Ledger.Draining(), Drain: n.self.DrainOrder,
	}
}
