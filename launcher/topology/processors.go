package topology

import (
	"cmp"
	"slices"

	"github.com/filch-hpc/filch"
)

// Processors returns the processors made of allowed CPUs: a processor for each core, or for
// each hardware thread. A core of which some threads are not allowed has the other threads.
// Near processors are neighbors in the result: the order is by socket, NUMA node and core.
func (m *Machine) Processors(threads bool) []filch.Processor {
	list := slices.DeleteFunc(slices.Clone(m.Threads), func(t Thread) bool {
		_, ok := slices.BinarySearch(m.Allowed, t.CPU)
		return !ok
	})
	slices.SortFunc(list, func(a, b Thread) int {
		return cmp.Or(cmp.Compare(a.Socket, b.Socket), cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Core, b.Core), cmp.Compare(a.CPU, b.CPU))
	})
	var all []filch.Processor
	for i, t := range list {
		if i > 0 && !threads && list[i-1].Core == t.Core {
			last := &all[len(all)-1]
			last.CPUs = append(last.CPUs, t.CPU)
			continue
		}
		all = append(all, filch.Processor{CPUs: []int32{t.CPU}, Core: t.Core, Socket: t.Socket, Domain: t.Domain})
	}
	return all
}

// Within keeps the CPUs of a list: the rest is not allowed. An empty list keeps all CPUs.
func (m *Machine) Within(cpus []int32) Machine {
	w := *m
	if len(cpus) > 0 {
		sorted := slices.Clone(cpus)
		slices.Sort(sorted)
		w.Allowed = both(m.Allowed, sorted)
	}
	return w
}

// CPUs are the hardware threads of processors, ascending.
func CPUs(processors []filch.Processor) []int32 {
	var all []int32
	for _, p := range processors {
		all = append(all, p.CPUs...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
