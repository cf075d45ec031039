package launcher

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
)

// dropShare of the ended jobs that are homed here go at a time when a node
// keeps too much, the oldest, and dropMin at least.
const (
	dropShare = 8
	dropMin   = 64
	dropMax   = 1024
)

// Dropped counts the ended jobs that this node dropped to stay within its quota.
func (n *Node) Dropped() int {
	if n.meta == nil {
		return 0
	}
	return n.meta.dropped
}

// DropOldest removes the records of the oldest ended jobs that are homed here:
// the node keeps more than it should. What others home here goes the same way
// when they hear of theirs.
func (n *Node) DropOldest(now time.Duration, out *Outbox) {
	m := n.meta
	if m == nil || m.drops {
		return
	}
	var over []filch.JobID
	for r := range m.store.Homed(jobPrefix) {
		if id, ok := jobOfKey(r.Key); ok && r.Kind == KindJob && entryOver(r.Value) {
			over = append(over, id)
		}
	}
	slices.Sort(over)
	over = over[:min(max(len(over)/dropShare, dropMin), dropMax, len(over))]
	if len(over) == 0 {
		return
	}
	ops := make([]dht.Op, len(over))
	for i, id := range over {
		ops[i] = dht.Op{Code: dht.OpRemove, Key: jobKey(id)}
	}
	m.drops = true
	n.ask(now, ops, StoreWait, func(_ time.Duration, rs []dht.Result, out *Outbox) {
		m.drops = false
		k := 0
		for i := range rs {
			if rs[i].Outcome == dht.Done {
				k++
			}
		}
		m.dropped += k
		note(out, noteWarn, 0, n.cfg.Name, "dropped the records of %d ended jobs: the store is near its quota", k)
	})
	n.settle(now, out)
}

// dropOrder removes the order of a detached job that is over.
func (n *Node) dropOrder(now time.Duration, id filch.JobID, pieces int32) {
	var ops []dht.Op
	for i := range pieces {
		ops = append(ops, dht.Op{Code: dht.OpRemove, Key: orderKey(id, i)})
	}
	if len(ops) > 0 {
		n.ask(now, ops, StoreWait, func(time.Duration, []dht.Result, *Outbox) {})
	}
}
