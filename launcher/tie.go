package launcher

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/stealer"
)

// Inside names the run or the task that has a client as a process: a rank of Job or, with
// Task, the task of Job with this number on its node.
type Inside struct {
	Job  filch.JobID
	Task uint64
}

// Tie is a holder of slots of a node whose clients wait for runs. The holder is tied if
// all other processes of the holder wait for these clients, as the node's daemon knows.
type Tie struct {
	Node    filch.NodeName `json:"node"`
	Inside  Inside         `json:"inside"`
	Of      Inside         `json:"of"` // of a step: the owner of the slots; else zero
	Room    filch.Room     `json:"room"`
	Waits   []Wait         `json:"waits"`
	Clients []ClientID     `json:"-"` // of Waits
}

// Wait is a run that a holder waits for.
type Wait struct {
	Job    filch.JobID  `json:"job"`
	Runs   bool         `json:"runs"` // with slots: the run's Tie tells whether it is tied
	Ticket filch.Ticket `json:"ticket"`
	Need   stealer.Need `json:"need"`

	// Of a step: the owner of the slots, and all slots of the owner, by node.
	Of    Inside         `json:"of"`
	Rooms []filch.Member `json:"rooms,omitempty"`
}
