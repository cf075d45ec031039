package topology

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// The ways to bind ranks to lent processors.
const (
	bindAuto    = ""        // as bindCores; ranks that have no processor of their own run unbound
	bindNone    = "none"    // to nothing
	bindRank    = "rank"    // the i-th rank of a node to the i-th processor
	bindThreads = "threads" // to a hardware thread of each processor
	bindCores   = "cores"   // to all lent threads of the rank's cores
	bindSockets = "sockets" // to all lent threads of the sockets with the rank's cores
	bindDomains = "ldoms"   // the same with NUMA nodes
)

// bind returns the CPUs of rank i of n on a node, ascending; none: the rank runs unbound.
// Lent are the processors of all n ranks, in the order of ranks. With fewer processors than
// ranks, ranks share processors where a way other than bindAuto was asked for. No CPU is
// chosen that was not lent.
func bind(way string, lent []filch.Processor, i, n int) []int32 {
	if way == bindNone || len(lent) == 0 || n == 0 {
		return nil
	}
	var own []filch.Processor
	switch {
	case way == bindRank:
		own = lent[i%len(lent) : i%len(lent)+1]
	case len(lent) >= n:
		own = lent[i*len(lent)/n : (i+1)*len(lent)/n]
	case way == bindAuto:
		return nil
	default:
		own = lent[i%len(lent) : i%len(lent)+1]
	}
	var same func(a, b *filch.Processor) bool
	switch way {
	case bindThreads:
		return firstThreads(own)
	case bindAuto, bindRank:
		return CPUs(own)
	case bindCores:
		same = func(a, b *filch.Processor) bool { return a.Core == b.Core }
	case bindSockets:
		same = func(a, b *filch.Processor) bool { return a.Socket == b.Socket }
	case bindDomains:
		same = func(a, b *filch.Processor) bool { return a.Domain == b.Domain }
	default:
		return CPUs(own)
	}
	var near []filch.Processor
	for _, p := range lent {
		if slices.ContainsFunc(own, func(o filch.Processor) bool { return same(&o, &p) }) {
			near = append(near, p)
		}
	}
	return CPUs(near)
}

// firstThreads are the lowest CPUs of processors.
func firstThreads(own []filch.Processor) []int32 {
	var all []int32
	for _, p := range own {
		if len(p.CPUs) > 0 {
			all = append(all, p.CPUs[0])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
