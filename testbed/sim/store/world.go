package store

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/testbed/sim/disk"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// World is one simulated instance.
type World struct {
	*engine.Engine
	plan    plan
	rng     dices
	nodes   []*node
	byName  map[filch.NodeName]*node
	members *members
	clients []*client
	past    history
	faults  faultState
	ground  truth
	out     store.Out
	calls   uint64 // inputs of stores
	looks   engine.Looks
	stats   Stats
}

// dices are one stream for each part, so that a change of one does not disturb
// what the others draw.
type dices struct{ fault, client, disk, member *engine.Dice }

// Stats counts what happened in a run.
type Stats struct {
	Events    uint64
	Messages  uint64
	Faults    int
	Asked     int // operations begun by clients
	Done      int // of those, answered for good
	Unknown   int // of those, never answered or answered with unknown
	Epochs    uint64
	Restarts  int
	Splits    int           // runs in which shards were split
	Plain     int           // plain lookups that were judged
	Stale     int           // of those, the ones that missed something
	Undecided int           // keys whose history took porcupine too long
	Healing   time.Duration // from calm until all was whole
	Losses
}

// Losses counts what went with the last node that had it.
type Losses struct {
	Lost        int // shards whose last replica was lost, and that came back from disk
	Bereft      int // shards whose last replicas were lost with what their disks had
	RostersLost int // rosters whose acceptors were lost with what most of their disks had
	Lacking     int // records that lost something with the last of their shard, as no disk had it
}

func (s *Stats) add(t *Stats) {
	s.Events += t.Events
	s.Messages += t.Messages
	s.Faults += t.Faults
	s.Asked += t.Asked
	s.Done += t.Done
	s.Unknown += t.Unknown
	s.Epochs += t.Epochs
	s.Restarts += t.Restarts
	s.Splits += t.Splits
	s.Lost += t.Lost
	s.Bereft += t.Bereft
	s.RostersLost += t.RostersLost
	s.Lacking += t.Lacking
	s.Plain += t.Plain
	s.Stale += t.Stale
	s.Undecided += t.Undecided
	s.Healing = max(s.Healing, t.Healing)
}

// stepsMax is far beyond what a run of sound cores needs.
const stepsMax = 5_000_000

func newWorld(p plan, trace func(line string)) *World {
	count := p.nodes + p.joiners
	e := engine.New(engine.Options{Seed: p.seed, Hosts: count, Links: p.links, Trace: trace, Steps: stepsMax})
	w := &World{
		Engine: e, plan: p, byName: make(map[filch.NodeName]*node, count),
		rng: dices{e.Dice(3), e.Dice(4), e.Dice(5), e.Dice(6)},
	}
	if !p.bare {
		w.looks = engine.LooksOf(p.seed)
	}
	w.past.init()
	w.ground.init()
	w.members = newMembers(w, count)
	for i := range count {
		n := &node{w: w}
		e.Add(&n.Host, filch.NodeName(fmt.Sprintf("n%d", i+1)))
		n.disk = disk.New(e, &n.Host, w.rng.disk, p.syncMax, n.synced)
		w.nodes = append(w.nodes, n)
		w.byName[n.Name] = n
	}
	return w
}

// sound reports whether no rule is broken.
func (w *World) sound() bool { return len(w.Broken()) == 0 }

// acrossEvery is how often the stores are held against each other, in inputs.
const acrossEvery = 512

func (w *World) across() {
	var all []*store.Store
	for _, n := range w.up() {
		all = append(all, n.store)
	}
	store.CheckAll(all...)
}

// up lists the nodes whose process runs, paused ones too.
func (w *World) up() []*node {
	var all []*node
	for _, n := range w.nodes {
		if n.store != nil {
			all = append(all, n)
		}
	}
	return all
}
