package launcher

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Config is what a Node is made with; Name, Incarnation and Capacity must be
// set, the rest has a use as it is.
type Config struct {
	Name        filch.NodeName
	Instance    string // uuid
	Incarnation uint64 // grows with every start of the launcher of this name
	Seed        uint64 // of all random choices
	Capacity    slots.Capacity
	IDs         JobIDs
	Policy      stealer.Policy
	Members     *stealer.Members // shared by a simulator's nodes; nil: one of its own
}

// Peer is what the overlay says of a member, this node included. Capacity is
// an amount: what is on a node is the node's own affair.
type Peer = stealer.Member
