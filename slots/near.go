package slots

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
)

// gather exchanges the slots of t for slots that are nearer to each other, out of the slots
// of t and of s. The amounts stay the same.
func (c Capacity) gather(t, s *share, ranks int32) {
	n := t.room.Slots
	if n < 2 || ranks < 1 || !c.bound() {
		return
	}
	s.slots = s.slots.grown(len(t.slots))
	s.slots.plus(t.slots)
	each := max(n/ranks, 1)
	t.slots = setOf(Near(s.slots.list(), c.Processors, each, n), c.Slots)
	s.slots.minus(t.slots)
}

// inOrder are the numbers of slots in the order of ranks.
func (c Capacity) inOrder(slots set, ranks int32) []int32 {
	numbers := slots.list()
	if n := int32(len(numbers)); c.bound() && n > 1 && ranks > 0 {
		return Near(numbers, c.Processors, max(n/ranks, 1), n)
	}
	return numbers
}

// Near chooses n of the free slots, near to each other, in units of each slots: the slots of a
// rank. at are the processors behind slots, where near processors are neighbors. Units are not
// divided between sockets, NUMA nodes or cores as far as possible. Of several sockets, NUMA
// nodes or cores that divide the units as little, Near takes the fullest, so that the others
// stay whole. The result lists unit after unit. n is at most the number of free slots.
func Near(free []int32, at []filch.Processor, each, n int32) []int32 {
	free = slices.Sorted(slices.Values(free))
	k := chooser{at, int(each)}
	got := k.units(free, 0, int(n/each))
	if rest := int(n % each); rest > 0 {
		got = append(got, chooser{at, rest}.units(k.without(free, got), 0, 1)...)
	}
	return got
}

// chooser chooses slots in units.
type chooser struct {
	at   []filch.Processor
	each int
}

// The parts of a machine, the largest first. A group of the last level is not divided.
const levels = 3

// part is the part of the machine with a slot, on a level.
func (k chooser) part(slot int32, level int) int32 {
	switch p := &k.at[slot]; level {
	case 0:
		return p.Socket
	case 1:
		return p.Domain
	default:
		return p.Core
	}
}

// groups divides slots by the parts of a level.
func (k chooser) groups(free []int32, level int) (all [][]int32) {
	for i, s := range free {
		if i == 0 || k.part(s, level) != k.part(free[i-1], level) {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], s)
	}
	return all
}

// units chooses n units out of free slots of one part; there are enough.
func (k chooser) units(free []int32, level, n int) []int32 {
	if level == levels || n*k.each == len(free) && n == 1 {
		return free[:n*k.each]
	}
	groups := k.groups(free, level)
	var got []int32
	take := func(i, units, each int) {
		chosen := chooser{k.at, each}.units(groups[i], level+1, units)
		got, groups[i] = append(got, chosen...), k.without(groups[i], chosen)
	}
	for n > 0 {
		if whole := k.inOne(groups, level, n); whole != nil {
			return append(got, whole...)
		}
		most := 0
		for i, g := range groups {
			if len(g)/k.each > len(groups[most])/k.each {
				most = i
			}
		}
		whole := len(groups[most]) / k.each
		if whole == 0 {
			break
		}
		take(most, whole, k.each)
		n -= whole
	}
	// Units that no group holds alone: the largest groups first.
	slices.SortStableFunc(groups, func(a, b []int32) int { return cmp.Compare(len(b), len(a)) })
	for i, rest := 0, n*k.each; rest > 0; i++ {
		part := min(len(groups[i]), rest)
		take(i, 1, part)
		rest -= part
	}
	return got
}

// inOne chooses n units in one of the groups: where the units are divided least, of several
// such groups in the smallest; nil if no group has so many slots.
func (k chooser) inOne(groups [][]int32, level, n int) (best []int32) {
	parts, size := 0, 0
	for _, g := range groups {
		if len(g)/k.each < n || best != nil && k.each == 1 && len(g) >= size {
			continue // a unit of one slot is never divided
		}
		chosen := k.units(g, level+1, n)
		if p := k.parts(chosen); best == nil || p < parts || p == parts && len(g) < size {
			best, parts, size = chosen, p, len(g)
		}
	}
	return best
}

// parts is how many parts of the machine the units have, all units and levels together.
func (k chooser) parts(chosen []int32) (n int) {
	for unit := range slices.Chunk(chosen, k.each) {
		for level := range levels {
			n += len(k.groups(slices.Sorted(slices.Values(unit)), level))
		}
	}
	return n
}

// without returns slots without some slots.
func (k chooser) without(from, some []int32) []int32 {
	out := setOf(some, int32(len(k.at)))
	return slices.DeleteFunc(slices.Clone(from), func(s int32) bool { return out[s/64]&(1<<(s%64)) != 0 })
}
