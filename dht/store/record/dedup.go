package record

import "github.com/filch-hpc/filch/dht"

// Bounds of a [ReplyCache].
const (
	cachedMax   = 512
	cachedBytes = 256 << 10
)

// Reply is the reply of a primary to an operation.
type Reply struct {
	Epoch  uint64
	Result dht.Result
	After  uint64 // the reply waits until the disk has the entry of this number
	Done   bool   // false: the operation is under way
}

// Dedup is the memory that a primary keeps of the operations of one other node, so that
// an operation received twice is not carried out twice. An entry stays only while the
// caller may still wait for the reply.
type Dedup struct {
	Floor uint64 // the caller has the replies to all operations of lower numbers
	known map[uint64]Reply
}

// Raise drops operations whose replies the caller has.
func (c *Dedup) Raise(floor uint64) {
	if floor <= c.Floor {
		return
	}
	if floor-c.Floor < uint64(len(c.known)) {
		for n := c.Floor; n < floor; n++ {
			delete(c.known, n)
		}
	} else {
		for n := range c.known { // any order
			if n < floor {
				delete(c.known, n)
			}
		}
	}
	c.Floor = floor
}

// Find returns the reply to an operation, if the operation was received before.
func (c *Dedup) Find(number uint64) (Reply, bool) {
	r, ok := c.known[number]
	return r, ok
}

// Begin notes that an operation is under way.
func (c *Dedup) Begin(number uint64) {
	if c.known == nil {
		c.known = map[uint64]Reply{}
	}
	c.known[number] = Reply{}
}

// End stores the reply to an operation under way. The reply that the primary has moved
// leaves no memory: another primary will carry the operation out.
func (c *Dedup) End(number uint64, r Reply) {
	if _, ok := c.known[number]; !ok {
		return
	}
	if r.Result.Outcome == dht.OutcomeMoved {
		delete(c.known, number)
		return
	}
	r.Done = true
	c.known[number] = r
}

// ReplyCache holds the replies of an epoch to operations without a change, by identity.
// Records do not remember such operations. Without the cache a late first try would still
// be carried out, although a retry through another node was already answered. In the next
// epoch no primary accepts the late first try.
type ReplyCache struct {
	replies map[dht.OpID]Reply
	order   []dht.OpID
	bytes   int
}

// Find returns the stored reply to an operation.
func (t *ReplyCache) Find(id dht.OpID) (Reply, bool) {
	r, ok := t.replies[id]
	return r, ok
}

// Add stores a reply, unless only the node with the identity can repeat the operation:
// such a node numbers everything sent.
func (t *ReplyCache) Add(o *dht.Op, res dht.Result, after uint64) {
	if o.Reads() || o.ID.Seq == 0 || o.ID.Seq&OwnSeq != 0 {
		return
	}
	if _, ok := t.replies[o.ID]; ok {
		return
	}
	if t.replies == nil {
		t.replies = map[dht.OpID]Reply{}
	}
	t.replies[o.ID] = Reply{Result: res, After: after, Done: true}
	t.order = append(t.order, o.ID)
	t.bytes += len(res.Value)
	for len(t.order) > cachedMax || t.bytes > cachedBytes && len(t.order) > 1 {
		t.bytes -= len(t.replies[t.order[0]].Result.Value)
		delete(t.replies, t.order[0])
		t.order = t.order[1:]
	}
}
