package store

import (
	"cmp"
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/message"
)

const (
	// RecoverAfter is how long a shard without any live replica waits for the disks of
	// all its replicas. Then any disk will do, unless after damage the disk may have no
	// records of the shard.
	RecoverAfter = 15 * time.Second

	offerEvery   = time.Second
	recoverEvery = 3 * time.Second // then the proposer asks another node
	fetchEvery   = 500 * time.Millisecond
	syncPoll     = 20 * time.Millisecond
)

// recovery is the state of recovering lost shards from the disks of their last replicas:
// as the proposer, and as the node asked to recover a shard.
type recovery struct {
	*input
	disk     *disk
	peers    *peers
	view     *view
	network  *network
	proposer *proposer
	images   *images
	replica  *replica
	offers   map[dht.Shard]*offered
	runs     map[dht.Shard]*restoring
	offering bool // the timer of repeated offers runs
}

// offered is the proposer's knowledge of a lost shard.
type offered struct {
	epoch uint64
	// The time of the first offer, or of the last loss of an offering node.
	since time.Duration
	from  []dht.Replica // nodes with a disk of the shard, in their present incarnation
	sound []dht.Replica // the nodes of from with an undamaged marker
	tried int
	at    time.Duration // of the last message.Recover
	last  bool          // a person has accepted the loss of all other disks
}

// restoring is the state of putting together a shard from disks.
type restoring struct {
	shard  dht.Shard
	epoch  uint64
	from   []dht.Replica // still to fetch from; the first is under way
	after  dht.Key
	ready  bool
	number uint64
}

// offer offers to the proposer the images of shards whose last replicas include an
// earlier incarnation of this node; and drops obsolete images.
func (rec *recovery) offer() {
	if rec.view.roster == nil || len(rec.images.byShard) == 0 || rec.offering {
		return
	}
	m := &message.Offer{}
	for _, id := range rec.images.shards() {
		c := rec.view.roster.Config(id)
		if c == nil {
			continue
		}
		old, ok := rec.images.byShard[id].replica(rec.self.Name, c)
		if !ok {
			// A roster with this life as a member is newer than all knowledge of the
			// earlier lives. An older roster may lack shards that the earlier lives held.
			if rec.view.roster.Has(rec.self) && rec.replica.shards[id] == nil && !rec.view.lost(c) {
				rec.images.drop(id) // other nodes hold newer records
			}
			continue
		}
		m.Offers = append(m.Offers, roster.DiskCopy{Shard: id, Epoch: c.Epoch, Incarnation: old.Incarnation, Guess: rec.images.byShard[id].guess})
	}
	if len(m.Offers) == 0 {
		return
	}
	rec.offering = true
	rec.in(offerEvery, func() {
		rec.offering = false
		rec.offer()
	})
	if to := rec.proposer.acting(); to == rec.self.Name {
		rec.onOffer(rec.peers.me, m)
	} else if p := rec.peers.get(to); p != nil {
		for o := range slices.Chunk(m.Offers, 2048) {
			rec.network.send(p, &message.Offer{Offers: slices.Clone(o)}, 0)
		}
	}
}

// onOffer collects, as the proposer, the nodes able to bring a shard back.
func (rec *recovery) onOffer(p *peer, m *message.Offer) {
	for _, w := range m.Offers {
		c := rec.view.roster.Config(w.Shard)
		if c == nil || c.Epoch != w.Epoch || !c.Has(dht.Replica{Name: p.name, Incarnation: w.Incarnation}) || w.Incarnation >= p.inc {
			continue
		}
		o := rec.offers[w.Shard]
		if o == nil || o.epoch != w.Epoch {
			o = &offered{epoch: w.Epoch, since: rec.now}
			rec.offers[w.Shard] = o
		}
		of := func(r dht.Replica) bool { return r.Name == p.name }
		o.from = append(slices.DeleteFunc(o.from, of), p.replica())
		o.sound = slices.DeleteFunc(o.sound, of)
		if !w.Guess {
			o.sound = append(o.sound, p.replica())
		}
		slices.SortFunc(o.from, func(a, b dht.Replica) int { return cmp.Compare(a.Name, b.Name) })
		rec.command(w.Shard, o)
	}
}

// command asks an offering node to recover a shard, when all replicas have offered or the
// time is up.
func (rec *recovery) command(id dht.Shard, o *offered) {
	c := rec.view.roster.Config(id)
	if c == nil || c.Epoch != o.epoch {
		delete(rec.offers, id)
		return
	}
	// A node lost after an offer most likely comes again, and may have records missing on
	// the other disks.
	n := len(o.from)
	o.from = slices.DeleteFunc(o.from, func(r dht.Replica) bool { return rec.view.standing(r) == roster.Over })
	if len(o.from) < n {
		o.since = rec.now
	}
	o.sound = slices.DeleteFunc(o.sound, func(r dht.Replica) bool { return !slices.Contains(o.from, r) })
	ready := len(o.from) == len(c.Replicas) || len(o.sound) > 0 && rec.now >= o.since+RecoverAfter || o.last && len(o.from) > 0
	if !ready || !rec.view.lost(c) || o.tried > 0 && rec.now < o.at+recoverEvery {
		return // the nodes offer again and again
	}
	who := o.from[o.tried%len(o.from)]
	o.tried++
	o.at = rec.now
	m := &message.Recover{Shard: id, Epoch: o.epoch, Offered: slices.Clone(o.from)}
	if who == rec.self {
		rec.onRecover(rec.peers.me, m)
	} else {
		rec.network.send(rec.peers.know(who.Name), m, 0)
	}
}

// salvage recovers a shard after AcceptLoss from the offered disks. salvage returns false
// if there are none, and the shard begins empty.
func (rec *recovery) salvage(c roster.Change) bool {
	o := rec.offers[c.Shard]
	if o == nil || o.epoch != c.Epoch {
		return false
	}
	o.last = true
	rec.command(c.Shard, o)
	return len(o.from) > 0
}

// onRecover begins to put a shard together from the disks of other nodes and of this
// node.
func (rec *recovery) onRecover(_ *peer, m *message.Recover) {
	im := rec.images.byShard[m.Shard]
	c := rec.view.roster.Config(m.Shard)
	if im == nil || c == nil || c.Epoch != m.Epoch || rec.disk.reason != "" {
		return
	}
	if r := rec.runs[m.Shard]; r != nil && r.epoch == m.Epoch {
		return
	}
	r := &restoring{shard: m.Shard, epoch: m.Epoch, from: roster.Without(m.Offered, rec.self)}
	rec.runs[m.Shard] = r
	rec.note(Note{Kind: NoteRecovering, Shard: m.Shard, Epoch: m.Epoch, N: len(m.Offered)})
	rec.fetch(r)
}

// fetch fetches the next part. When all records are here and on the disk, fetch asks the
// proposer for the shard.
func (rec *recovery) fetch(r *restoring) {
	c := rec.view.roster.Config(r.shard)
	if rec.runs[r.shard] != r {
		return
	}
	if c == nil || c.Epoch != r.epoch || rec.images.byShard[r.shard] == nil {
		delete(rec.runs, r.shard)
		return
	}
	if len(r.from) > 0 && rec.view.standing(r.from[0]) == roster.Over {
		// Without the disk of the lost node this node might recover less than was
		// acknowledged. The proposer decides whether to wait for the disk.
		delete(rec.runs, r.shard)
		return
	}
	switch {
	case len(r.from) > 0:
		rec.network.send(rec.peers.know(r.from[0].Name), &message.Fetch{Shard: r.shard, Epoch: r.epoch, After: r.after}, 0)
	case !r.ready:
		// From here on the disk holds the shard for this incarnation too.
		r.ready = true
		im := rec.images.byShard[r.shard]
		if im.incarnation != rec.self.Incarnation {
			im.older = slices.Insert(im.older, 0, im.incarnation)
			im.older = im.older[:min(len(im.older), olderMax)]
			im.incarnation = rec.self.Incarnation
		}
		im.guess = false // the records of the other nodes are here too
		rec.disk.log(markerKey(r.shard), im.marker())
		r.number = rec.disk.logged
	}
	if r.ready && r.number > rec.disk.synced {
		rec.in(syncPoll, func() { rec.fetch(r) })
		return
	}
	if r.ready {
		rec.proposer.ask(roster.Change{What: roster.ChangeRecovered, Shard: r.shard, Epoch: r.epoch, Who: rec.self})
	}
	rec.in(fetchEvery, func() { rec.fetch(r) })
}

// onFetch sends a lost shard's records from this node's disk.
func (rec *recovery) onFetch(p *peer, m *message.Fetch) {
	im := rec.images.byShard[m.Shard]
	c := rec.view.roster.Config(m.Shard)
	if c == nil || c.Epoch != m.Epoch {
		return
	}
	out := &message.Images{Shard: m.Shard, Epoch: m.Epoch, After: m.After}
	if im == nil {
		// This node began to learn the shard again before the other replicas were lost.
		rec.network.send(p, out, 0)
		return
	}
	if _, ok := im.replica(rec.self.Name, c); !ok {
		return
	}
	size := 0
	for _, k := range im.keys() {
		if k <= m.After && m.After != "" {
			continue
		}
		if size > pieceBytes || len(out.Items) == pieceItems {
			out.More = true
			break
		}
		out.Items = append(out.Items, message.Keyed{Key: k, Rec: im.records[k]})
		size += len(k) + len(im.records[k].Image)
	}
	rec.network.send(p, out, 0)
}

// onImages merges the records of another disk: of each record the highest version counts.
func (rec *recovery) onImages(p *peer, m *message.Images) {
	r := rec.runs[m.Shard]
	im := rec.images.byShard[m.Shard]
	if r == nil || im == nil || r.epoch != m.Epoch || len(r.from) == 0 || r.from[0] != p.replica() || r.after != m.After || rec.disk.reason != "" {
		return
	}
	for _, x := range m.Items {
		if old := im.records[x.Key]; old == nil || old.Stamp.Less(x.Rec.Stamp) {
			im.records[x.Key] = x.Rec
			rec.disk.log(recordKey+string(x.Key), x.Rec.Image)
		}
		r.after = x.Key
	}
	if !m.More {
		r.from, r.after = r.from[1:], ""
	}
	n := *r // a timer of the old run finds a new run in the map
	rec.runs[m.Shard] = &n
	rec.fetch(&n)
}

// take opens a recovered shard, which this node holds alone, with the records from
// the disk.
func (rec *recovery) take(sh *shard) {
	im := rec.images.byShard[sh.id]
	c := rec.view.roster.Config(sh.id)
	// This node may have missed the very config of the recovery. A marker of this
	// incarnation on the disk proves a wish of this node for the shard.
	if im == nil || im.incarnation != rec.self.Incarnation && (!c.Recovered || c.Primary() != rec.self) {
		rec.images.drop(sh.id)
		if c.Recovered {
			rec.note(Note{Kind: NoteLossTaken, Shard: sh.id, Epoch: c.Epoch})
		}
		return
	}
	delete(rec.images.byShard, sh.id)
	delete(rec.runs, sh.id)
	sh.records = im.records
	rec.note(Note{Kind: NoteRecovered, Shard: sh.id, Epoch: c.Epoch, N: len(sh.records)})
}
