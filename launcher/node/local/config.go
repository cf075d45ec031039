package local

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Config configures a Node. Name, Incarnation and Capacity must be set; the zero value of
// the other fields is usable.
type Config struct {
	Name        filch.NodeName
	Instance    string // uuid
	Group       string // of nodes near to each other: an allocation; "" unknown
	Labels      filch.Labels
	Role        filch.Role
	Incarnation uint64 // grows with every start of the launcher of this name
	Seed        uint64 // of all random choices
	Capacity    slots.Capacity
	// Ids up to this id belong to an earlier instance, and are not given out.
	After  filch.JobID
	Policy stealer.Policy
	// Shared by a simulator's nodes; nil: the node makes its own list.
	Members  *filch.Members
	Tasks    TaskConfig
	Walltime policy.Walltime
	Drain    *launcher.Drain // since before the launcher began
}

// Peer is the overlay's description of a member, including this node. Total is only an
// amount: the exact cores and GPUs of a node concern that node alone.
type Peer = filch.Member

// TaskConfig configures the balancing of tasks.
type TaskConfig struct {
	WallNS   int64 // unix time at now = 0
	Policy   policy.Policy
	Victims  policy.Victims
	Bounds   policy.Bounds
	DrainBad int  // see [mtc.Config]
	Mirror   bool // records homed here are written as lines; see [launcher.Outbox.Mirror]
}
