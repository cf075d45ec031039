// Package slots is the ledger of one node: which slots, memory and GPUs are free,
// held, locked or running, for which job, and which jobs wait.
//
// The [Ledger] is the only authority over a node's slots. The ledger decides
// nothing about other nodes, sends nothing, and reads no clock: every method
// depending on time takes now. [Ledger.Changed] lists the claims changed by a
// method; the caller drains the list and sends each status to the claim's origin.
// Slots are given back by lease, never by number.
package slots

import (
	"slices"

	"github.com/filch-hpc/filch"
)

// Capacity is all that a node has to lend. Where Slots equals len(Cores), slot
// i is the core Cores[i] and ranks can be bound; otherwise slots are counted
// and name no core (virtual nodes, more slots than cores).
type Capacity struct {
	Cores    []int32
	CPUs     int32 // cores not shared with another node, named or not
	Slots    int32
	MemBytes int64
	GPUs     []string
}

// Total is c as an amount.
func (c Capacity) Total() filch.Room {
	return filch.Room{Slots: c.Slots, MemBytes: c.MemBytes, GPUs: int32(len(c.GPUs))}
}

// Bound reports whether slots of c are cores.
func (c Capacity) Bound() bool { return c.Slots > 0 && int(c.Slots) == len(c.Cores) }

// coresOf are the cores of some slots; none where slots are not cores.
func (c Capacity) coresOf(slots set) []int32 {
	if !c.Bound() {
		return nil
	}
	cores := slots.list()
	for i, s := range cores {
		cores[i] = c.Cores[s]
	}
	return cores
}

// gpusOf are the names of some GPUs.
func (c Capacity) gpusOf(gpus set) (names []string) {
	for _, i := range gpus.list() {
		names = append(names, c.GPUs[i])
	}
	return names
}

// share is the share of a loan.
func (c Capacity) share(n Loan) share {
	s := share{slots: setOf(n.Slots, c.Slots), gpus: full(int32(len(c.GPUs)))}
	for i, name := range c.GPUs {
		if !slices.Contains(n.GPUs, name) {
			s.gpus[i/64] &^= 1 << (i % 64)
		}
	}
	s.room = filch.Room{Slots: s.slots.count(), MemBytes: n.MemBytes, GPUs: s.gpus.count()}
	return s
}

// Key names a claim: an attempt of a job has at most one claim on a node.
type Key struct {
	Job     filch.JobID
	Attempt filch.Attempt
}
