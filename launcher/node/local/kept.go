package local

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// keptTerm is how long the room of a gang is kept between two starts of the task: longer than
// a node waits for the ranks on lost nodes. Meanwhile the core may give the task away, cancel
// it or hold its job.
const keptTerm = 12 * time.Second

// KeptRoom is room kept for the next attempt of a job: of a spare node, or of ranks that ended.
// Key is of the attempt that gathered the room; see [slots.Spares].
type KeptRoom struct {
	Key   slots.Key
	Node  filch.NodeName
	Lease filch.LeaseID
	Ranks int32
}

// Kept is the room kept for a job.
type Kept []KeptRoom

// Retain adds the room of the ended ranks of an attempt, on the nodes that done reports.
func (k *Kept) Retain(l *launcher.Launch, done func(i int) bool) {
	for i := range l.Nodes {
		if at := &l.Nodes[i]; done(i) {
			key := slots.Key{Job: l.Ident.Job, Attempt: l.Ident.Attempt}
			*k = append(*k, KeptRoom{key, at.Node, at.Lease, launcher.CountRanks(at.Ranks)})
		}
	}
}

// Place picks nodes out of the kept room, as [stealer.Need.Choose] does, and takes them out of k.
func (k *Kept) Place(n *stealer.Need, s *Self) (shares []stealer.Share, ok bool) {
	var offers []stealer.Offer
	for _, x := range *k {
		if s.Alive(x.Node) {
			offers = append(offers, stealer.Offer{Node: x.Node, Lease: x.Lease, Ranks: x.Ranks})
		}
	}
	chosen, ok := n.Choose(offers, s.Cfg.Name)
	if !ok {
		return nil, false
	}
	shares = n.Assign(chosen, s.Cfg.Name)
	*k = slices.DeleteFunc(*k, func(x KeptRoom) bool {
		return slices.ContainsFunc(shares, func(at stealer.Share) bool { return at.Node == x.Node })
	})
	return shares, true
}

// Give gives all kept room back.
func (k *Kept) Give(t *Turn) {
	for _, x := range *k {
		x.give(t)
	}
	*k = nil
}

func (x *KeptRoom) give(t *Turn) {
	t.Send(x.Node, &launcher.Release{Job: x.Key.Job, Attempt: x.Key.Attempt, Lease: x.Lease})
}

// Say renews the hold of kept room; incarnation is of this node.
func (x *KeptRoom) Say(t *Turn, incarnation uint64) {
	r := launcher.Renewal{Job: x.Key.Job, Attempt: x.Key.Attempt, Index: -1, Lease: x.Lease, Keep: x.Ranks}
	t.Send(x.Node, &launcher.Renew{Incarnation: incarnation, Leases: []launcher.Renewal{r}})
}

// OnGrant handles the question of a lender about kept room, and reports whether the lease is of
// kept room. Room that lost ranks is given back.
func (k *Kept) OnGrant(t *Turn, incarnation uint64, from filch.NodeName, m *launcher.Grant) bool {
	i := slices.IndexFunc(*k, func(x KeptRoom) bool { return x.Node == from && x.Lease == m.Lease })
	if i < 0 {
		return false
	}
	switch x := (*k)[i]; {
	case m.Held >= x.Ranks:
		x.Say(t, incarnation)
		return true
	case m.Held > 0:
		x.give(t)
	}
	*k = slices.Delete(*k, i, i+1)
	return true
}

// OnGone drops kept room on a node that died, or whose launcher is another.
func (k *Kept) OnGone(p Peer) {
	*k = slices.DeleteFunc(*k, func(x KeptRoom) bool {
		return x.Node == p.Name && (p.Standing >= filch.Dead || p.Incarnation > x.Lease.Incarnation)
	})
}

// Nodes names the nodes with kept room.
func (k Kept) Nodes() (names []filch.NodeName) {
	for _, x := range k {
		names = append(names, x.Node)
	}
	return names
}

// Text says which spare nodes a run has of those asked for; "" if it asked for none.
func (k Kept) Text(asked int32) string {
	switch names := k.Nodes(); {
	case asked == 0:
		return ""
	case len(names) == 0:
		return "; no spare node is left of " + filch.Plural(asked, "node") + " asked for"
	default:
		return "; holds the spare " + filch.Agree(len(names), "node ", "nodes ") + launcher.ListNames(names)
	}
}

// Between is the room kept between two starts of gangs that are tasks.
type Between struct{ list []between }

type between struct {
	task  launcher.TaskID
	kept  Kept
	until time.Duration
}

// Leave keeps the room of a gang that lost a node until the next start of the task.
func (b *Between) Leave(t *Turn, task launcher.TaskID, k Kept) {
	if len(k) > 0 {
		b.list = append(b.list, between{task, k, t.Now + keptTerm})
	}
}

// Enter is the room of the earlier start of a task.
func (b *Between) Enter(task launcher.TaskID) (k Kept) {
	if i := slices.IndexFunc(b.list, func(o between) bool { return o.task == task }); i >= 0 {
		k = b.list[i].kept
		b.list = slices.Delete(b.list, i, i+1)
	}
	return k
}

// Each calls f with the room of each gang until f returns true, and reports whether f did.
func (b *Between) Each(f func(k *Kept) bool) bool {
	for i := range b.list {
		if f(&b.list[i].kept) {
			return true
		}
	}
	return false
}

// At is when Tick is due.
func (b *Between) At() time.Duration {
	if len(b.list) == 0 {
		return filch.Never
	}
	return b.list[0].until
}

// Tick gives back the room of gangs that did not start again.
func (b *Between) Tick(t *Turn) {
	for b.At() <= t.Now {
		b.list[0].kept.Give(t)
		b.list = slices.Delete(b.list, 0, 1)
	}
}
