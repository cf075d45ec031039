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

// Capacity is all that a node has to lend. Where Slots equals len(Processors), slot
// i is the processor Processors[i] and ranks can be bound; otherwise slots are counted
// and name no processor (virtual nodes, more slots than hardware threads). Processors
// near to each other are neighbors.
type Capacity struct {
	Processors []filch.Processor
	CPUs       int32 // processors not shared with another node, named or not
	Slots      int32
	MemBytes   int64
	GPUs       []string
	Named      filch.Amounts
}

// Total is c as an amount.
func (c Capacity) Total() filch.Room {
	return filch.Room{Slots: c.Slots, MemBytes: c.MemBytes, GPUs: filch.GPU * int32(len(c.GPUs)), Named: c.Named}
}

// bound reports whether slots of c are processors.
func (c Capacity) bound() bool { return c.Slots > 0 && int(c.Slots) == len(c.Processors) }

// processorsOf are the processors of some slots; none where slots are not processors.
func (c Capacity) processorsOf(slots []int32) []filch.Processor {
	if !c.bound() {
		return nil
	}
	all := make([]filch.Processor, len(slots))
	for i, s := range slots {
		all[i] = c.Processors[s]
	}
	return all
}

// gpusOf are the names of some GPUs, for ranks that take each. A GPU that several ranks
// share is named once for each of these ranks.
func (c Capacity) gpusOf(gpus devices, each int32) (names []string) {
	unit := unitOf(each)
	for i, v := range gpus {
		for ; v >= unit; v -= unit {
			names = append(names, c.GPUs[i])
		}
	}
	return names
}

// gpusIn are the names of the GPUs of which devices have a part, each once.
func (c Capacity) gpusIn(gpus devices) (names []string) {
	for i, v := range gpus {
		if v > 0 {
			names = append(names, c.GPUs[i])
		}
	}
	return names
}

// share is the share of a loan to ranks that take each.
func (c Capacity) share(n Loan, each filch.Room) share {
	s := share{slots: setOf(n.Slots, c.Slots), gpus: make(devices, len(c.GPUs))}
	for _, name := range n.GPUs {
		if i := slices.Index(c.GPUs, name); i >= 0 {
			s.gpus[i] += unitOf(each.GPUs)
		}
	}
	s.room = filch.Room{Slots: s.slots.count(), MemBytes: n.MemBytes, GPUs: s.gpus.sum(), Named: n.Named}
	return s
}

// Key names a claim: an attempt of a job has at most one claim on a node.
type Key struct {
	Job     filch.JobID
	Attempt filch.Attempt
}
