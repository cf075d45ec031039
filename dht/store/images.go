package store

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/roster"
	"github.com/filch-hpc/filch/dht/store/record"
	"github.com/filch-hpc/filch/varint"
)

// images is the data that earlier lives of this node left on the disk.
type images struct {
	*input
	disk     *disk
	view     *view
	acceptor *acceptor
	replica  *replica
	byShard  map[dht.Shard]*image
	damaged  bool // entries were lost in the middle
	unlogged bool // damaged, but no entry records the damage yet
	// Entries were lost, in this life or an earlier life, and the loss is not repaired.
	astray bool
	// The loss is repaired once the disk has this entry; 0: none.
	amends uint64
	// orphans are records of shards for which this disk has no marker: the markers are
	// damaged, as are other entries.
	orphans map[dht.Key]*record.Record
}

// image is a shard's data on the disk of an earlier incarnation.
type image struct {
	incarnation uint64
	older       []uint64 // earlier incarnations with the same data
	records     map[dht.Key]*record.Record
	guess       bool // the marker was damaged: only a config names this node
}

// replica returns the replica of a config with an incarnation of the image.
func (im *image) replica(n filch.NodeName, c *roster.Config) (dht.Replica, bool) {
	for _, i := range append([]uint64{im.incarnation}, im.older...) {
		if r := (dht.Replica{Name: n, Incarnation: i}); c.Has(r) {
			return r, true
		}
	}
	return dht.Replica{}, false
}

// marker returns the log entry of an image; a 0 after the incarnations marks a guess.
func (im *image) marker() []byte {
	b := varint.AppendUvarints(varint.AppendUvarints(nil, im.incarnation), im.older...)
	if im.guess {
		b = varint.AppendUvarints(b, 0)
	}
	return b
}

// olderMax is how many lives in a row may begin to recover a shard and end before the
// roster shows the outcome.
const olderMax = 16

// adoptOrphans repairs the loss of markers for all shards whose configs still name an
// earlier life of this node. Other records without a shard are removed.
func (d *images) adoptOrphans() {
	if !d.astray || !d.view.roster.Has(d.self) {
		return // earlier lives may have known a newer roster
	}
	d.astray = false
	for i, c := range d.view.roster.Shards {
		id := d.view.roster.ShardAt(i)
		j := slices.IndexFunc(c.Replicas, func(r dht.Replica) bool { return r.Name == d.self.Name && r.Incarnation < d.self.Incarnation })
		if j < 0 || d.byShard[id] != nil || d.replica.shards[id] != nil {
			continue
		}
		d.byShard[id] = &image{incarnation: c.Replicas[j].Incarnation, records: map[dht.Key]*record.Record{}, guess: true}
		d.disk.log(markerKey(id), d.byShard[id].marker())
	}
	keys := (&image{records: d.orphans}).keys()
	for _, k := range keys {
		id := dht.PointOf(k).Shard(d.view.roster.Depth)
		switch im, sh := d.byShard[id], d.replica.shards[id]; {
		case im != nil && im.records[k] == nil:
			im.records[k] = d.orphans[k]
		case im == nil && (sh == nil || sh.records[k] == nil):
			d.disk.log(recordKey+string(k), nil)
		}
	}
	d.orphans = nil
	if d.disk.logged > d.disk.synced {
		// The markers must be synced before diskDamaged is removed: entries not yet
		// synced may be lost in any order.
		d.amends = d.disk.logged
	} else {
		d.disk.log(diskDamaged, nil)
	}
}

// drop drops an earlier incarnation's data of a shard held by other nodes now.
func (d *images) drop(id dht.Shard) {
	im := d.byShard[id]
	if im == nil {
		return
	}
	delete(d.byShard, id)
	for _, k := range im.keys() {
		d.disk.log(recordKey+string(k), nil)
	}
	d.disk.log(markerKey(id), nil)
}

// finishFounding makes this node hold all shards of the roster that an earlier life
// founded, including shards whose markers a crash kept from the disk. The acceptor knows
// no other roster, so there was none.
func (d *images) finishFounding() {
	if v := d.acceptor.value; v == nil || v.Epoch > 1 {
		return
	}
	for i, c := range d.view.roster.Shards {
		id, who := d.view.roster.ShardAt(i), c.Primary()
		if who.Name != d.self.Name || who == d.self || d.byShard[id] != nil {
			continue
		}
		d.byShard[id] = &image{incarnation: who.Incarnation, records: map[dht.Key]*record.Record{}}
		d.disk.log(markerKey(id), d.byShard[id].marker())
	}
}

// shards returns the shards of which earlier incarnations left data.
func (d *images) shards() []dht.Shard {
	all := make([]dht.Shard, 0, len(d.byShard))
	for id := range d.byShard { // any order
		all = append(all, id)
	}
	slices.Sort(all)
	return all
}

// split splits the images to the depth of a roster.
func (d *images) split(depth uint) {
	for _, id := range d.shards() {
		im := d.byShard[id]
		if id.Depth() >= depth {
			continue
		}
		shift := depth - id.Depth()
		for i := range dht.Shard(1) << shift {
			child := id<<shift | i
			d.byShard[child] = &image{im.incarnation, im.older, map[dht.Key]*record.Record{}, im.guess}
			d.disk.log(markerKey(child), im.marker())
		}
		for k, r := range im.records { // any order
			d.byShard[dht.PointOf(k).Shard(depth)].records[k] = r
		}
		delete(d.byShard, id)
		d.disk.log(markerKey(id), nil)
	}
}

func (d *images) restoreRecord(k dht.Key, r *record.Record) {
	at := dht.PointOf(k)
	for depth := uint(dht.ShardBitsMax); depth >= dht.ShardBitsMin; depth-- {
		if im := d.byShard[at.Shard(depth)]; im != nil {
			im.records[k] = r
			return
		}
	}
	if d.astray {
		d.orphans[k] = r
	}
}

func (im *image) keys() []dht.Key {
	sh := shard{records: im.records}
	return sh.keys()
}
