package policy

import (
	"math"
	"time"

	"github.com/filch-hpc/filch"
)

// Estimates are how long tasks and runs take, by kind, as the last of the kind took; how
// much longer tasks take on a node; and how fast data come from other nodes.
type Estimates struct {
	kinds map[string]*kind
	names []string // oldest kind first
	nodes map[filch.NodeName]float64
	rate  float64 // bytes per second; 0: none measured
	heard float64 // the same, as other nodes measured
}

type kind struct {
	Durations
	node    filch.NodeName // of the first end
	several bool           // ends came from several nodes
}

// estimatesMax bounds the kinds, and factorsMax the nodes: further nodes count as all others
// do.
const (
	estimatesMax = 1024
	factorsMax   = 1 << 16
)

// Add takes in how long a task of a kind took on a node. The kind "" is none, and without
// the node the end tells nothing about a node.
func (e *Estimates) Add(name string, node filch.NodeName, took time.Duration) {
	if name == "" {
		return
	}
	k := e.kinds[name]
	if k == nil {
		if e.kinds == nil {
			e.kinds = make(map[string]*kind)
		}
		if len(e.names) == estimatesMax {
			delete(e.kinds, e.names[0])
			e.names = e.names[1:]
		}
		k = &kind{node: node}
		e.kinds[name] = k
		e.names = append(e.names, name)
	}
	if k.several = k.several || k.node != node; k.several && node != "" {
		e.compare(node, took, k.Mean())
	}
	k.Durations.Add(took)
}

// A single end moves the factor of a node by a part of the difference, and counts as at most
// factorMost times the mean: one straggler is no slow node.
const (
	averagePart = 0.2
	factorMost  = 16
)

// compare takes in how long a task took on a node, beside the mean of its kind.
func (e *Estimates) compare(node filch.NodeName, took, mean time.Duration) {
	f := min(max(float64(took)/float64(mean), 1.0/factorMost), factorMost)
	if _, known := e.nodes[node]; !known && len(e.nodes) >= factorsMax || mutantAlike {
		return
	}
	if e.nodes == nil {
		e.nodes = make(map[filch.NodeName]float64)
	}
	e.nodes[node] = e.factor(node) + averagePart*(f-e.factor(node))
}

// On is how long a task takes on a node that takes d on a usual node: nodes differ once tasks
// of one kind ended on several nodes.
func (e *Estimates) On(node filch.NodeName, d time.Duration) time.Duration {
	return time.Duration(float64(min(d, math.MaxInt64/(4*factorMost))) * e.factor(node))
}

func (e *Estimates) factor(node filch.NodeName) float64 {
	if f := e.nodes[node]; f > 0 {
		return f
	}
	return 1
}

// Limit is [Durations.Limit] of a kind.
func (e *Estimates) Limit(name string) time.Duration {
	if k := e.kinds[name]; k != nil {
		return k.Durations.Limit()
	}
	return 0
}

// Mean is [Durations.Mean] of a kind.
func (e *Estimates) Mean(name string) time.Duration {
	if k := e.kinds[name]; k != nil {
		return k.Durations.Mean()
	}
	return 0
}

// Spread is [Durations.Spread] of a kind.
func (e *Estimates) Spread(name string) (mean, deviation time.Duration, n int) {
	if k := e.kinds[name]; k != nil {
		return k.Durations.Spread()
	}
	return 0, 0, 0
}

// movedLeast is the least transfer that tells about the bandwidth: the latency is most of the
// time of a shorter transfer.
const movedLeast = 64 << 10

// Moved takes in a transfer from other nodes. All senders share the mean: a pair of nodes has
// too few transfers, see mtc/DESIGN.md.
func (e *Estimates) Moved(bytes int64, took time.Duration) {
	if bytes < movedLeast || took <= 0 {
		return
	}
	rate := float64(bytes) / took.Seconds()
	if e.rate > 0 {
		rate = e.rate + averagePart*(rate-e.rate)
	}
	e.rate = rate
}

// Heard takes in the rate of transfers to another node; 0 is not known.
func (e *Estimates) Heard(rate int64) {
	if rate <= 0 {
		return
	}
	if e.heard == 0 {
		e.heard = float64(rate)
	}
	e.heard += averagePart * (float64(rate) - e.heard)
}

// Measured is the rate of transfers to this node in bytes per second; 0 before the first.
func (e *Estimates) Measured() int64 { return int64(e.rate) }

// Bandwidth is the rate of transfers to this node in bytes per second: before the first, as
// to other nodes, and 10 Gb/s (MATRIX v2) before the first of all.
func (e *Estimates) Bandwidth() float64 {
	if rate := e.Known(); rate > 0 {
		return rate
	}
	return bandwidth
}

// Known is the [Estimates.Bandwidth] after the first transfer, here or elsewhere; 0 before.
func (e *Estimates) Known() float64 {
	if e.rate > 0 {
		return e.rate
	}
	return e.heard
}

const bandwidth = 10e9 / 8

// TransferTime is how long bytes take at a rate in bytes per second.
func TransferTime(bytes int64, rate float64) time.Duration {
	if bytes <= 0 {
		return 0
	}
	return time.Duration(min(float64(bytes)/rate*1e9, math.MaxInt64/4))
}
