package store

import (
	"time"

	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// style is what a run is after.
type style uint8

const (
	steady   style = iota // of each shard a replica lives at any time: nothing acknowledged may be lost
	blackout              // everybody may die at once: what was durable, or had been synced, comes back
	durable               // as blackout, and every operation is durable: the whole history is linearizable
)

func (s style) String() string { return [...]string{"steady", "blackout", "durable"}[s] }

// plan is the world that a seed names.
type plan struct {
	seed    uint64
	style   style
	nodes   int // founding members
	joiners int // names that may join later
	clients int
	links   engine.Links
	coded   bool // messages cross the network as bytes
	drains  bool // who leaves does not go, and comes back
	grows   bool // so many join that the shards are split
	bare    bool // the cores' own invariants are not asserted: the checkers outside see it alone
	delays
}

// delays are the paces of a run. The list of members is quicker than in life,
// where it takes 1.75 s to suspect and 5 s to bury a node: a run sees more
// failovers so.
type delays struct {
	span        time.Duration // faults come in it
	gap         time.Duration // between faults, at most
	think       time.Duration // of a client between its operations, mean
	suspect     time.Duration
	dead        time.Duration
	syncMax     time.Duration // of a disk
	patienceMin time.Duration // of a client
	patienceMax time.Duration
}

// grows ends the name of a run that grows.
const grows = ", growing"

func (p *plan) String() string {
	if p.grows {
		return p.style.String() + grows
	}
	return p.style.String()
}

func drawPlan(seed uint64) plan {
	d := engine.NewDice(seed, 1)
	p := plan{seed: seed, nodes: 5, clients: 3 + d.N(3), coded: d.N(4) == 0}
	if d.N(2) == 0 {
		p.nodes = 3 + d.N(7)
	}
	if d.N(2) == 0 {
		p.joiners = 1 + d.N(2)
	}
	switch d.N(10) {
	case 0:
		p.style = blackout
	case 1:
		p.style = durable
	}
	p.delays = drawDelays(d)
	p.links = drawLinks(d)
	if engine.NewDice(seed, 15).N(growsOf) == 0 {
		return p.growing()
	}
	return p
}

// One of growsOf runs grows: it costs as much as two others.
const growsOf = 20

// growing is the plan with 14 nodes that another 6 join one by one: the shards are
// split when there are 17.
func (p plan) growing() plan {
	p.grows, p.nodes, p.joiners = true, 14, 6
	return p
}

func drawDelays(d *engine.Dice) delays {
	x := delays{
		span: 8 * time.Second, gap: time.Duration(600+d.N(1000)) * time.Millisecond,
		think:   time.Duration(10+d.N(40)) * time.Millisecond,
		suspect: 1750 * time.Millisecond, dead: 5 * time.Second,
		syncMax:     time.Duration(1+d.N(20)) * time.Millisecond,
		patienceMin: 300 * time.Millisecond, patienceMax: 3 * time.Second,
	}
	scale := time.Duration([...]int{4, 8, 8, 12}[d.N(4)])
	x.suspect /= scale
	x.dead /= scale
	return x
}

// drawLinks is a network on a day of some badness.
func drawLinks(d *engine.Dice) engine.Links {
	l := engine.Links{LatencyMin: 100 * time.Microsecond, LatencyMax: time.Duration(1+d.N(5)) * time.Millisecond}
	l.LateMax, l.TailMax = 2*time.Second, 400*time.Millisecond
	bad := func(most float64) float64 {
		if d.N(4) == 0 {
			return 0
		}
		return most * d.Unit()
	}
	l.Loss, l.Dup, l.LateDup, l.Tail = bad(0.03), bad(0.03), bad(0.02), bad(0.04)
	return l
}
