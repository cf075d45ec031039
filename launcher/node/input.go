package node

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
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
	n.Origin.OnKeepersFound(t)
	n.settle(t)
}

// Holders returns the jobs with slots of this node, by id. Slots out of service have no
// holder.
func (n *Node) Holders(now time.Duration) []launcher.Holder {
	all := n.Tasks.TaskHolders(now)
	for _, h := range n.self.Ledger.Holders() {
		if h.State == slots.Stuck {
			continue
		}
		i := slices.IndexFunc(all, func(o launcher.Holder) bool { return o.Job == h.Job })
		if i < 0 {
			i = len(all)
			all = append(all, launcher.Holder{Job: h.Job, Gathers: true})
		}
		all[i].Slots += h.Slots
		all[i].Named = all[i].Named.Plus(h.Named)
		if h.Kept {
			all[i].Spare += h.Slots
		}
		all[i].Gathers = all[i].Gathers && h.State == slots.Held && !h.Kept
	}
	slices.SortFunc(all, func(a, b launcher.Holder) int { return cmp.Compare(a.Job, b.Job) })
	return all
}

// Processors returns the processors of this node, by number of the slot, and the numbers of
// the free slots.
func (n *Node) Processors() (all []filch.Processor, free []int32) {
	return n.self.Cfg.Capacity.Processors, n.self.Ledger.FreeSlots()
}

// Slots returns a snapshot of this node's ledger.
func (n *Node) Slots() launcher.SlotInfo {
	total, free := n.self.Ledger.Total(), n.self.Ledger.Free()
	in := n.self.Ledger.Counts()
	return launcher.SlotInfo{
		Node: n.self.Cfg.Name, Slots: total.Slots, Free: in.Free, Held: in.Held, Lent: in.Lent, Locked: in.Locked, Running: in.Running, Tasks: in.Tasks, Stuck: in.Stuck,
		MemBytes: total.MemBytes, MemFree: free.MemBytes, GPUs: append([]string{}, n.self.Cfg.Capacity.GPUs...), GPUsFree: n.self.Ledger.FreeGPUs(),
		Labels: n.self.Cfg.Labels, Role: n.self.Cfg.Role, Named: total.Named, NamedFree: free.Named,
		Waiting: in.Waiting, Jobs: n.Ranks.Count(), Draining: n.self.Ledger.Draining(), Drain: n.self.DrainOrder,
	}
}
