package roster

import (
	"maps"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// The epochs of a forced roster are above all epochs the lost roster may have reached,
// even unseen. The bits from ForcedShift on count the forced rosters. If two nodes both
// force a roster, unable to reach each other, the bits from saltShift on differ; the
// higher epoch wins.
const (
	ForcedShift = 52
	saltShift   = 24
)

// DiskCopy is data of a shard on the disk of a node.
type DiskCopy struct {
	Shard       dht.Shard
	Epoch       uint64
	Incarnation uint64 // the incarnation that was a replica
	Guess       bool   // the disk is damaged and may have nothing of the shard
}

// Evidence is the knowledge of one node about a roster that may be lost.
type Evidence struct {
	Acceptor uint64 // the generation in which the node is a working acceptor, or 0
	Known    *Roster
	// Known was chosen; otherwise Known was accepted, or came from a damaged disk.
	Chosen bool
	// Without a known chosen roster: the disk's highest epoch of a record, and the shards
	// with a marker. Astray: some records have no marker.
	Stamp  uint64
	Astray bool
	Images []DiskCopy
}

// Newest returns the newest roster that a node knows, and the name of the node.
func Newest(all map[dht.Replica]*Evidence) (best *Roster, who filch.NodeName) {
	chosen := false
	for _, r := range slices.SortedFunc(maps.Keys(all), dht.Replica.Compare) {
		e := all[r]
		if e.Known != nil && (best == nil || e.Known.Epoch > best.Epoch || e.Known.Epoch == best.Epoch && e.Chosen && !chosen) {
			best, who, chosen = e.Known, r.Name, e.Chosen
		}
	}
	return best, who
}

// ForceNew returns a roster after the lost roster base, with node self as the only
// acceptor, and the number of shards that wait for disks. lives reports whether a replica
// may live.
func ForceNew(self dht.Replica, base *Roster, lives func(dht.Replica) bool, all map[dht.Replica]*Evidence) (r *Roster, lost int) {
	salt := filch.Mix(self.Name.Hash()^filch.Mix(self.Incarnation)) % (1 << (ForcedShift - saltShift))
	after := func(epoch uint64) uint64 { return (epoch>>ForcedShift+1)<<ForcedShift | salt<<saltShift }
	r = &Roster{Epoch: after(base.Epoch), Generation: after(base.Generation), By: self.Name, Depth: base.Depth, Acceptors: []dht.Replica{self}}
	for _, m := range base.Members {
		if m.Name != self.Name && lives(m.Replica) {
			r.Members = append(r.Members, m)
		}
	}
	r.Members = append(r.Members, Member{Replica: self})
	for _, c := range base.Shards {
		n := &Config{Epoch: after(c.Epoch), Replicas: c.Replicas}
		if i := slices.IndexFunc(c.Replicas, func(x dht.Replica) bool { return all[x] != nil && lives(x) }); i >= 0 {
			n.Replicas = c.Replicas[i : i+1]
			// The node may not know yet that the shard was recovered.
			n.Recovered = c.Recovered && i == 0
		} else {
			lost++
		}
		r.Shards = append(r.Shards, n)
	}
	return r, lost
}

// Piece returns a roster for an instance of which no live node knows a roster. A node
// whose disk has records of a shard was a replica, and a node whose disk cannot tell may
// have been.
func Piece(self dht.Replica, all map[dht.Replica]*Evidence) *Roster {
	r := New(self)
	nodes := slices.SortedFunc(maps.Keys(all), dht.Replica.Compare)
	epoch := uint64(1)
	for _, x := range nodes {
		epoch = max(epoch, all[x].Stamp)
		for _, w := range all[x].Images {
			for r.Depth < w.Shard.Depth() {
				r.Split()
			}
		}
	}
	held := make([][]dht.Replica, len(r.Shards))
	add := func(i int, x dht.Replica) {
		if len(held[i]) < MaxReplicas && !slices.Contains(held[i], x) {
			held[i] = append(held[i], x)
		}
	}
	for _, x := range nodes {
		for _, w := range all[x].Images {
			shift := r.Depth - w.Shard.Depth()
			for i := range 1 << shift {
				add(int(w.Shard)<<shift&(1<<r.Depth-1)|i, dht.Replica{Name: x.Name, Incarnation: w.Incarnation})
			}
		}
	}
	for _, x := range nodes {
		for i := range held {
			said := slices.ContainsFunc(held[i], func(h dht.Replica) bool { return h.Name == x.Name })
			if all[x].Astray && !said && x.Incarnation > 1 {
				add(i, dht.Replica{Name: x.Name, Incarnation: x.Incarnation - 1})
			}
		}
	}
	for i := range r.Shards {
		if len(held[i]) == 0 {
			held[i] = []dht.Replica{self}
		}
		r.Shards[i] = &Config{Epoch: epoch, Replicas: held[i]}
	}
	r.Epoch, r.Generation = epoch, epoch
	return r
}
