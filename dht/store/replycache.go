package store

import (
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store/record"
)

// Bounds of a home's replies to operations without a change, for each shard.
const (
	cachedMax   = 512
	cachedBytes = 256 << 10
)

// replyCache holds the replies of this epoch to operations without a change, by identity.
// Records do not remember such operations. Without the cache a late first try would still
// be carried out, although a retry through another node was already answered. In the next
// epoch no home accepts the late first try.
type replyCache struct {
	answers map[dht.OpID]given
	order   []dht.OpID
	bytes   int
}

// find returns the stored reply to an operation.
func (t *replyCache) find(id dht.OpID) (given, bool) {
	g, ok := t.answers[id]
	return g, ok
}

// add stores a reply, unless only the node with the identity can repeat the operation:
// such a node numbers everything sent.
func (t *replyCache) add(o *dht.Op, res dht.Result, after uint64) {
	if o.Reads() || o.ID.Seq == 0 || o.ID.Seq&record.OwnSeq != 0 {
		return
	}
	if _, ok := t.answers[o.ID]; ok {
		return
	}
	if t.answers == nil {
		t.answers = map[dht.OpID]given{}
	}
	t.answers[o.ID] = given{result: res, after: after, done: true}
	t.order = append(t.order, o.ID)
	t.bytes += len(res.Value)
	for len(t.order) > cachedMax || t.bytes > cachedBytes && len(t.order) > 1 {
		t.bytes -= len(t.answers[t.order[0]].result.Value)
		delete(t.answers, t.order[0])
		t.order = t.order[1:]
	}
}
