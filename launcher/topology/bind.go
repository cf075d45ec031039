package topology

import (
	"cmp"
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

// The orders of ranks over the sockets of a node, besides from one to the next.
const (
	orderCyclic  = "cyclic"  // the next rank starts on the next socket
	orderFcyclic = "fcyclic" // so does the next processor of a rank
)

// Ordered returns a list with an entry for each lent processor, such as the processors, in an
// order of n ranks over the sockets; block, or an empty order, keeps the list. Ranks without
// processors of their own share processors in any order.
func Ordered[T any](order string, lent []filch.Processor, n int, list []T) []T {
	size := 1 // processors that stay together
	switch {
	case order != orderCyclic && order != orderFcyclic || n == 0 || len(lent) < n || len(lent)%n != 0:
		return list
	case order == orderCyclic:
		size = len(lent) / n
	}
	type part struct {
		turn   int // how many parts of the socket come before
		socket int32
		list   []T
	}
	var parts []part
	seen := map[int32]int{}
	for i := 0; i < len(lent); i += size {
		s := lent[i].Socket
		parts = append(parts, part{seen[s], s, list[i : i+size]})
		seen[s]++
	}
	slices.SortStableFunc(parts, func(a, b part) int { return cmp.Or(a.turn-b.turn, int(a.socket-b.socket)) })
	ordered := make([]T, 0, len(list))
	for _, p := range parts {
		ordered = append(ordered, p.list...)
	}
	return ordered
}

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
