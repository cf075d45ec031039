// Package peril says what a simulated instance would lose with one more node: the
// last replica of a shard, or the majority of the seats of its roster. A plan of
// faults that asks it first takes away only what the product promises to survive.
package peril

import (
	"slices"
	"strconv"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// shardsAtStart is how many shards an instance has before any of them splits.
const shardsAtStart = 64

// Node is a process of a simulated instance that runs.
type Node struct {
	Name        filch.NodeName
	Incarnation uint64
	Store       *store.Store
	Leaves      bool // it is on its way out: what it holds counts no more
}

// shardKeys has a key of each shard.
var shardKeys = func() (keys []dht.Key) {
	seen := make(map[dht.Shard]bool)
	for i := 0; len(keys) < shardsAtStart; i++ {
		k := dht.Key(strconv.Itoa(i))
		if s := dht.ShardOf(k, shardsAtStart); !seen[s] {
			seen[s] = true
			keys = append(keys, k)
		}
	}
	return keys
}()

// Shards reports whether some shard would have no replica left without a node.
func Shards(nodes []Node, without filch.NodeName) bool {
	for _, k := range shardKeys {
		replicas := Replicas(nodes, k)
		left := 0
		for _, r := range replicas {
			for i := range nodes {
				if n := &nodes[i]; n.Name == r.Name && n.Incarnation == r.Incarnation && n.Name != without && !n.Leaves {
					left++
				}
			}
		}
		if left == 0 && len(replicas) > 0 {
			return true
		}
	}
	return false
}

// Replicas are those of a key's shard by the newest config that a node knows.
func Replicas(nodes []Node, k dht.Key) (replicas []dht.Replica) {
	var newest uint64
	for i := range nodes {
		if _, epoch, reps := nodes[i].Store.View(k); epoch > newest {
			newest, replicas = epoch, reps
		}
	}
	return replicas
}

// Seats reports whether the roster would have no majority of its seats left
// without a node. A seat that was never told that it is one knows nothing. While
// the seats move it may be any: a move that one seat has accepted may come true
// when its proposer is gone, and those who are to be seated do not know of it yet.
func Seats(nodes []Node, without filch.NodeName) bool {
	best, statuses := store.Status{}, make([]store.Status, len(nodes))
	for i := range nodes {
		s := nodes[i].Store.Status()
		statuses[i] = s
		if s.Known && (!best.Known || s.Generation > best.Generation || s.Generation == best.Generation && s.Epoch > best.Epoch) {
			best = s
		}
	}
	moves := func(s store.Status) bool { return s.Sealed && s.Generation == best.Generation }
	if slices.ContainsFunc(statuses, moves) {
		return true
	}
	left := 0
	for _, name := range best.Acceptors {
		for i := range nodes {
			if s := &statuses[i]; nodes[i].Name == name && name != without && s.Acceptor && s.Generation == best.Generation {
				left++
			}
		}
	}
	return left <= len(best.Acceptors)/2
}
