package node

import (
	"math"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
)

// Peer handles the overlay's description of a member. About this node itself only Dead
// counts: the others declared the node dead. Then the node ends all ranks here and all
// its running jobs, and waits for [Node.Reborn].
func (n *Node) Peer(now time.Duration, p Peer, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	if p.Name == n.self.Cfg.Name {
		if p.Standing == filch.Dead {
			n.onDeclaredDead(t)
			n.settle(t)
		}
		return
	}
	i, old, known := n.self.Members.Set(p)
	n.Records.OnMember(t, p)
	n.Ranks.WatchMajority(t)
	n.Tasks.OnMember(t, p)
	n.PeerChanged(now, i, old, known, out)
}

// Grows says whether the instance may get more nodes than it has: it has a pool of
// allocations. Then a run that fits on no nodes of today waits.
func (n *Node) Grows(may bool) { n.self.Grows = may }

// ListPartial handles the overlay's news that the list of members is not whole, or is
// whole again. While the list is not whole, a job that does not fit on the known members
// waits for the list, and a node missing from the list counts as living.
func (n *Node) ListPartial(now time.Duration, partial bool, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.ListPartial = partial
	n.Records.OnList(t)
	n.settle(t)
}

// PeerChanged is Peer for an already changed list of members shared by several nodes: it
// receives the index, and the member as known before.
func (n *Node) PeerChanged(now time.Duration, i int32, old Peer, known bool, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	p := *n.self.Members.At(i)
	if p.Name == n.self.Cfg.Name {
		return
	}
	n.Records.KeepOrHandOff(t)
	n.Ranks.Remains.OnMember(t, p)
	gone := p.Standing >= filch.Dead
	was := !known || old.Standing >= filch.Dead
	switch {
	case gone && !was:
		n.onPeerDead(t, p)
	case !gone && known && p.Incarnation != old.Incarnation:
		n.onPeerReborn(t, p)
	case !gone && was, known && p.Standing.Answers() && !old.Standing.Answers():
		// The origin may have been away when its ranks were adopted here, and either node
		// may be silenced again before the next renewal.
		n.Ranks.ReportTo(t, p.Name)
		n.Origin.OnPeerBack(t, p.Name)
	}
	if !gone && (was || p.Incarnation != old.Incarnation) {
		n.Origin.OnLostNodeBack(t, p, old, known)
	}
	n.Origin.OnMemberChanged(t, i, old, known)
	if p.Standing == filch.Draining {
		n.self.YieldDrain(t)
	}
	n.settle(t)
}

// onPeerDead ends everything in which a dead node took part: its holds here, the ranks
// here of its jobs, and our jobs with ranks there.
func (n *Node) onPeerDead(t *local.Turn, p Peer) {
	n.self.Ledger.Forget(t.Now, p.Name, math.MaxUint64)
	n.Ranks.OnOriginDead(t, p.Name)
	n.Origin.OnPeerDead(t, p)
}

// onPeerReborn handles the restart of a node's launcher. The node's holds here are void.
// Ranks of its jobs here go on if the new launcher remembers the jobs, and ranks there of
// our jobs go on if their keepers are adopted.
func (n *Node) onPeerReborn(t *local.Turn, p Peer) {
	n.self.Ledger.Forget(t.Now, p.Name, p.Incarnation)
	n.Ranks.ReportTo(t, p.Name)
	n.Origin.OnPeerReborn(t, p)
}

// onDeclaredDead handles this node's death as declared by the others while the node was
// stopped: they ended the ranks of its jobs, and gave up the ranks here.
func (n *Node) onDeclaredDead(t *local.Turn) {
	t.Note(local.NoteWarn, 0, n.self.Cfg.Name, "the other nodes declared this one dead: ending all ranks here")
	n.self.Dead = true
	// A job begun here now would delay the next life for as long as the job runs.
	n.self.Ledger.Shut()
	n.Tasks.EndAll(t)
	n.Ranks.EndAll(t)
	n.Origin.OnDeclaredDead(t)
}

// Reborn gives the node a new incarnation after the others declared it dead: its promises
// are void, and its waiting jobs ask again.
func (n *Node) Reborn(now time.Duration, incarnation uint64, out *launcher.Outbox) {
	t := n.self.Turn(now, out)
	n.self.Cfg.Incarnation, n.self.Dead = incarnation, false
	n.self.Ledger.Reborn(now, incarnation)
	if n.self.Opens == filch.Never {
		n.self.Ledger.Open(now)
	}
	if i := n.self.Members.Find(n.self.Cfg.Name); i >= 0 {
		p := n.self.Members.At(i)
		p.Incarnation, p.Standing = incarnation, filch.Up
	}
	n.Records.OnReborn(t)
	n.Ranks.WatchMajority(t)
	n.Records.Pump(t)
	n.Tasks.OnReborn(t)
	n.Origin.OnReborn(t)
	n.settle(t)
}
