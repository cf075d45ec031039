package policy

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Kind is a choice between balance and locality: MATRIX v2 (III.B.3) has four, ADAGE one,
// and Auto chooses among these.
type Kind uint8

// The policies.
const (
	MLB   Kind = iota // maximized load balancing: every task may be stolen
	MDL               // maximized data locality: a task with input stays with its input
	RLDS              // rigid: split by the threshold, for good
	FLDS              // flexible: as RLDS, and tasks that wait too long are shared
	ADAGE             // a task goes to the node that would finish the task first
	Auto              // each workflow has the policy that suits what is known of its tasks
)

var policyNames = [...]string{"mlb", "mdl", "rlds", "flds", "adage", "auto"}

func (k Kind) String() string {
	if int(k) < len(policyNames) {
		return policyNames[k]
	}
	return fmt.Sprintf("policy-%d", uint8(k))
}

// ParseKind reads a policy's name.
func ParseKind(name string) (Kind, error) {
	for k, n := range policyNames {
		if n == name {
			return Kind(k), nil
		}
	}
	return 0, filch.Errorf(filch.Invalid, "%q is no scheduling policy", name).WithHint("the policies are auto, mlb, mdl, rlds, flds and adage")
}

// Policy is the placement of ready tasks. The zero Policy is MLB; [Read] reads a Policy
// from text.
type Policy struct {
	Kind Kind
	// Threshold is t of Algorithm 1 in bytes per second: the rate of a tenth of the
	// network. 0 is [Threshold]; MLB and MDL have their own.
	Threshold float64
	// LocalTime is tt: dedicated tasks with a longer total time are shared (FLDS). The
	// mover adapts tt from there; 0 is [LocalTime].
	LocalTime time.Duration
	// Victims is the thieves' choice of victims.
	Victims Victims
	Balance Balance
	// Guess is the length of a task before the first end; 0 is a second.
	Guess time.Duration
}

// Defaults of a [Policy]: a tenth of 10 Gb/s, and the paper's first tt.
const (
	Threshold = 0.1 * 10e9 / 8
	LocalTime = 10 * time.Second
)

// Asks reports whether a leader asks nodes for their load, and places waiting tasks again.
func (k Kind) Asks() bool { return k == ADAGE || k == Auto }

// Thieves is the thieves' choice of victims, where usual is the choice by default.
func (p Policy) Thieves(usual Victims) Victims {
	switch {
	case p.Balance == ByGiving, p.Balance == ByBoth && mutantBothGive:
		return NoStealing
	case p.Victims == ByDefault && p.Kind == Auto && mutantAutoMesh:
		return Mesh
	case p.Victims == ByDefault:
		return usual
	}
	return p.Victims
}

// threshold is t.
func (p Policy) threshold() float64 {
	switch {
	case p.Kind == MLB && mutantMLBBinds:
		return 0
	case p.Kind == MLB, p.Kind >= ADAGE, p.Kind == MDL && mutantMDLShares:
		return math.Inf(1)
	case p.Kind == MDL:
		return 0
	case p.Threshold > 0:
		return p.Threshold
	}
	return Threshold
}

// LocalTimeMax is a node's first tt: the configured LocalTime, else [LocalTime].
func (p Policy) LocalTimeMax() time.Duration {
	if p.LocalTime > 0 {
		return p.LocalTime
	}
	return LocalTime
}

// Placement is where a ready task goes.
type Placement uint8

// The placements.
const (
	ToShared Placement = iota
	ToDedicated
	ToPeer // to the dedicated queue of the node with most of the task's input
)

// Place is Algorithm 1 of MATRIX v2: inputs are the outputs of the task's parents, with
// their nodes; length is the estimated length of the task.
func (p Policy) Place(inputs []Input, self filch.NodeName, length time.Duration) (Placement, filch.NodeName) {
	t := p.threshold()
	var all, most int64
	var where filch.NodeName
	for _, in := range inputs {
		all += in.Bytes
		if in.Bytes > most {
			most, where = in.Bytes, in.Node
			if in.At(self) {
				where = self
			}
		}
	}
	est := max(length, time.Microsecond).Seconds()
	if mutantNoEstimate {
		est = 1
	}
	switch {
	case float64(all)/est <= t, float64(most)/est <= t:
		return ToShared, ""
	case where == self || where == "":
		return ToDedicated, ""
	}
	return ToPeer, where
}

// excess is how many of n dedicated tasks FLDS shares: at a throughput of rate tasks per
// second the tasks take n/rate, and the part above tt moves. The paper's example: 1,000
// done in 10 s, 5,000 queued, tt 30 s: 2,000 move.
func excess(n int, rate float64, tt time.Duration) int {
	if n == 0 || rate <= 0 || mutantFLDSNever {
		return 0
	}
	est := float64(n) / rate
	if est <= tt.Seconds() {
		return 0
	}
	return min(n, int(math.Round((est-tt.Seconds())/est*float64(n))))
}

// Input is a parent's output.
type Input struct {
	Parent int32
	Node   filch.NodeName
	Bytes  int64
	Copies []filch.NodeName // further nodes, which fetched the output; known to the leader only
}

// At reports whether a node has the output.
func (in *Input) At(node filch.NodeName) bool {
	return in.Node == node || slices.Contains(in.Copies, node) && !mutantNoCopies
}
