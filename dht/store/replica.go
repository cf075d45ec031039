package store

import (
	"slices"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/varint"
)

// replica is this node as a replica, or learner, of shards.
type replica struct {
	*input
	disk    *disk
	view    *view
	network *network
	sync    *rosterSync
	images  *images
	shards  map[dht.Shard]*shard
}

// shard is this node's part of a shard, as a replica or as a learner.
type shard struct {
	id      dht.Shard
	cfg     *roster.Config
	records map[dht.Key]*record.Record
	floor   dht.Version // removed records up to this stamp are forgotten
	seq     uint64      // of the last record stamped in this epoch
	turns   map[dht.Key]*turn
	replies record.ReplyCache
	readers []job   // wait for the next round of confirmations
	round   *flight // the round under way
	learn   *learner
	session learnerSession // in which this node is the learner
	marked  bool           // the disk has the marker with this incarnation
	over    bool           // split, or given up
	home    bool
	asking  bool
	watched map[dht.Key][]*watcher
}

// learnerSession is a session of a learner, in an epoch.
type learnerSession struct{ session, epoch uint64 }

// epoch returns 0 for a shard this node gave up.
func (sh *shard) epoch() uint64 {
	if sh.over {
		return 0
	}
	return sh.cfg.Epoch
}

func (h *replica) open(id dht.Shard, c *roster.Config) *shard {
	sh := &shard{id: id, cfg: c, records: map[dht.Key]*record.Record{}, turns: map[dht.Key]*turn{}}
	h.shards[id] = sh
	return sh
}

// held returns the shards of this node, by number.
func (h *replica) held() []*shard {
	all := make([]*shard, 0, len(h.shards))
	for _, sh := range h.shards { // any order
		all = append(all, sh)
	}
	slices.SortFunc(all, func(a, b *shard) int { return int(a.id) - int(b.id) })
	return all
}

// mark logs the incarnation under which this node holds a shard.
func (h *replica) mark(id dht.Shard) {
	h.disk.log(markerKey(id), varint.AppendUvarints(nil, h.self.Incarnation))
}

// giveUp drops a shard that other nodes hold now. If this node is now the learner, the
// shard stays, to receive the primary's records.
func (h *replica) giveUp(sh *shard, learning bool) {
	h.wipe(sh)
	if !learning {
		sh.over = true
		delete(h.shards, sh.id)
	}
}

// wipe drops the records of a shard, on the disk too.
func (h *replica) wipe(sh *shard) {
	for _, k := range sh.keys() {
		h.disk.log(recordKey+string(k), nil)
	}
	if sh.marked {
		sh.marked = false
		h.disk.log(markerKey(sh.id), nil)
	}
	clear(sh.records)
	sh.session, sh.floor = learnerSession{}, dht.Version{}
}

// keys returns the keys of the records, in order.
func (sh *shard) keys() []dht.Key {
	keys := make([]dht.Key, 0, len(sh.records))
	for k := range sh.records { // any order
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// verdict is a replica's answer to an item of the primary.
type verdict uint8

const (
	held    verdict = iota // the item is applied
	ended                  // the item's epoch is over
	waiting                // this node cannot apply the item now
)

// onReplicate handles the items of a primary, as a replica or learner.
func (h *replica) onReplicate(p *peer, m *message.Replicate) {
	a := message.BatchAck{Number: m.Batch}
	for i := range m.Items {
		switch h.take(p, &m.Items[i], m.Roster) {
		case ended:
			a.Over = append(a.Over, uint32(i))
		case waiting:
			return // the primary will send it again
		}
	}
	if len(a.Over) > 0 {
		h.sync.tell(p)
	}
	if m.Durable && h.disk.logged > h.disk.synced {
		h.network.send(p, &message.Ack{Batches: []message.BatchAck{a}}, h.disk.logged)
		return
	}
	p.streams.acks = append(p.streams.acks, a)
	h.network.touch(p)
}

// take applies an item; known is the epoch of p's roster.
func (h *replica) take(p *peer, it *message.Item, known uint64) verdict {
	c, sh := h.view.roster.Config(it.Shard), h.shards[it.Shard]
	switch {
	case mutantNoFence && c != nil && sh != nil && it.Epoch < c.Epoch:
	case c == nil || it.Epoch < c.Epoch || it.Epoch == c.Epoch && c.Primary() != p.replica():
		return ended
	case it.Epoch > c.Epoch:
		return waiting
	case it.Session != 0 && c.Has(h.self) || it.Session == 0 && !c.Has(h.self):
		return ended
	case it.Session != 0 && c.Learner != h.self:
		// The item is meant for an earlier incarnation of this node, which may have been
		// admitted, or belongs to a plan not yet known here.
		if known > h.view.roster.Epoch {
			return waiting
		}
		return ended
	case h.disk.reason != "" && it.What != message.ItemConfirm:
		return waiting
	case it.Session != 0:
		if sh = h.learning(it.Shard, c, it.Session); sh == nil {
			return ended
		}
	}
	switch it.What {
	case message.ItemRecord:
		h.keep(sh, it.Key, it.Rec)
	case message.ItemDrop:
		if r := sh.records[it.Key]; r != nil && r.Stamp == it.Stamp {
			h.forget(sh, it.Key, it.Stamp)
		}
	}
	return held
}

// keep stores a version of a record, unless this node has a newer version.
func (h *replica) keep(sh *shard, k dht.Key, r *record.Record) {
	old := sh.records[k]
	if old != nil && !old.Stamp.Less(r.Stamp) || old == nil && !sh.floor.Less(r.Stamp) {
		return
	}
	sh.records[k] = r
	h.disk.log(recordKey+string(k), r.Image)
}

// forget drops a removed record for good. The floor refuses late items sent before the
// removal.
func (h *replica) forget(sh *shard, k dht.Key, stamp dht.Version) {
	delete(sh.records, k)
	if sh.floor.Less(stamp) {
		sh.floor = stamp
	}
	h.disk.log(recordKey+string(k), nil)
}

// learning returns the shard, as learned in a session; nil if the session is older than
// the current session.
func (h *replica) learning(id dht.Shard, c *roster.Config, session uint64) *shard {
	sh := h.shards[id]
	if sh == nil {
		sh = h.open(id, c)
	}
	if sh.session.epoch == c.Epoch && session < sh.session.session {
		return nil
	}
	if sh.session.epoch != c.Epoch || session > sh.session.session {
		h.wipe(sh)
		h.images.drop(id)
		sh.session, sh.marked = learnerSession{session, c.Epoch}, true
		h.mark(id)
	}
	return sh
}

// onSnapshot receives a piece, as the learner.
func (h *replica) onSnapshot(p *peer, m *message.Snapshot) {
	c := h.view.roster.Config(m.Shard)
	if c == nil || m.Epoch != c.Epoch || c.Primary() != p.replica() || c.Learner != h.self || c.Has(h.self) || h.disk.reason != "" {
		return
	}
	sh := h.learning(m.Shard, c, m.Session)
	if sh == nil {
		return
	}
	for _, x := range m.Items {
		h.keep(sh, x.Key, x.Rec)
	}
	h.network.send(p, &message.SnapshotAck{Shard: m.Shard, Epoch: m.Epoch, Session: m.Session, Piece: m.Piece}, h.disk.logged)
}
