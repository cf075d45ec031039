package store

import (
	"slices"
	"strconv"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/store"
)

// shardsAtStart is how many shards an instance has in the beginning. The world
// keeps its books by cell, of which there are as many as shards in an instance of
// 17 to 32 nodes: no split cuts a cell in two.
const (
	shardsAtStart = 64
	cells         = 2 * shardsAtStart
)

// truth is what the world knows of the shards: for aiming, and for excusing
// what was lost with all of a shard's replicas.
type truth struct {
	losses map[dht.Shard]int // by cell: how often it came back from disks alone
	lostAt map[dht.Shard][]int64
	// lacking are records of which no disk had the last version any more when
	// their shard was lost with all its replicas.
	lacking map[dht.Key]*lack
	calls   map[uint64]*call
	pleas   map[uint64]dht.Result // of those who accept a loss
	rotter  *node                 // whose disk rotted last
	tags    uint64
	sound   bool // all was on disk when it ended: nothing is excused
}

// lack is since when a record may be older than what was acknowledged.
type lack struct {
	at     int64
	rotted bool // some disk had it once: even what was durable is gone
}

func (g *truth) init() {
	g.lacking = make(map[dht.Key]*lack)
	g.losses = make(map[dht.Shard]int)
	g.lostAt = make(map[dht.Shard][]int64)
	g.calls = make(map[uint64]*call)
	g.pleas = make(map[uint64]dht.Result)
}

func cellOf(k dht.Key) dht.Shard { return dht.ShardOf(k, cells) }

// cellsOf are those of a shard.
func cellsOf(s dht.Shard) (all []dht.Shard) {
	all = []dht.Shard{s}
	for all[0] < cells {
		var halves []dht.Shard
		for _, s := range all {
			halves = append(halves, 2*s, 2*s+1)
		}
		all = halves
	}
	return all
}

// viewOf is the epoch of a key's shard that n knows.
func (g *truth) viewOf(n *node, k dht.Key) uint64 {
	_, epoch, _ := n.store.View(k)
	return epoch
}

// config is the newest config of a key's shard that any process knows.
func (w *World) config(k dht.Key) (newest uint64, replicas []dht.Replica) {
	_, newest, replicas = w.newestView(k)
	return newest, replicas
}

// shard is that of a key, and its replicas, by the newest config that any process
// knows.
func (w *World) shard(k dht.Key) (shard dht.Shard, replicas []dht.Replica) {
	shard, _, replicas = w.newestView(k)
	return shard, replicas
}

func (w *World) newestView(k dht.Key) (shard dht.Shard, newest uint64, replicas []dht.Replica) {
	for _, n := range w.nodes {
		if n.store == nil {
			continue
		}
		if s, epoch, reps := n.store.View(k); epoch > newest {
			shard, newest, replicas = s, epoch, reps
		}
	}
	return shard, newest, replicas
}

// shards is how many there are.
func (w *World) shards() (most int) {
	for _, n := range w.up() {
		most = max(most, n.store.Status().Shards)
	}
	return most
}

// alive reports whether that very process runs.
func (w *World) alive(r dht.Replica) bool {
	n := w.byName[r.Name]
	return n != nil && n.store != nil && n.incarnation == r.Incarnation
}

// noted takes in what a store says of itself. A shard that comes back from
// disks must have lost all its replicas; what was not durable may be gone.
func (w *World) noted(n *node, note *store.Note) {
	if w.stats.Bereft+w.stats.RostersLost > 0 && note.Kind != store.NoteDropped {
		return // what comes is not judged
	}
	switch note.Kind {
	case store.NoteRoster:
		w.stats.Epochs = max(w.stats.Epochs, note.Epoch)
	case store.NoteRecovering:
		w.lookForLack(n, note.Shard)
	case store.NoteRecovered, store.NoteLossTaken:
		w.stats.Lost++
		if w.ground.sound {
			return
		}
		at := w.past.next()
		for _, c := range cellsOf(note.Shard) {
			w.ground.losses[c]++
			w.ground.lostAt[c] = append(w.ground.lostAt[c], at)
		}
	case store.NoteDropped:
		w.Fail("dropped", "%s drops a message of %s: %s", n.Name, note.Peer, note.Text)
	}
}

// lookForLack notes which records of a lost shard are on no disk of those who
// held it last as they were known last.
func (w *World) lookForLack(n *node, shard dht.Shard) {
	lost := cellsOf(shard)
	for _, key := range w.past.keys {
		if !slices.Contains(lost, cellOf(key)) || w.ground.lacking[key] != nil {
			continue
		}
		_, _, replicas := n.store.View(key)
		all, rotted := true, false
		for _, r := range replicas {
			lacks, rots := w.byName[r.Name].lacks(key, r.Incarnation)
			all, rotted = all && lacks, rotted || rots
		}
		if all {
			w.ground.lacking[key] = &lack{w.past.next(), rotted}
		}
	}
}

// cellKeys has a key of each cell.
var cellKeys = func() (keys []dht.Key) {
	seen := make(map[dht.Shard]bool)
	for i := 0; len(keys) < cells; i++ {
		k := dht.Key(strconv.Itoa(i))
		if s := cellOf(k); !seen[s] {
			seen[s] = true
			keys = append(keys, k)
		}
	}
	return keys
}()

// endangered reports whether some shard would lose its last replica if the
// given node died now.
func (w *World) endangered(victim *node) bool {
	for _, k := range cellKeys {
		_, reps := w.config(k)
		left := 0
		for _, r := range reps {
			if n := w.byName[r.Name]; w.alive(r) && n != victim && !n.leaving {
				left++
			}
		}
		if left == 0 && len(reps) > 0 {
			return true
		}
	}
	return false
}
