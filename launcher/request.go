package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// Limits on what a request may hold; what is over is refused as Invalid.
const (
	MaxRanks      = 1 << 20
	MaxOrderBytes = 8 << 20 // argv, environment and I/O of a job
)

// Request is what a client asks to be run. The brain reads all of it but
// Order, which only the keepers read.
type Request struct {
	Name    string
	Shape   Shape
	Policy  Policy
	Parent  filch.JobID   // a step of this job: uses its slots, never steals; 0 none
	Task    uint64        // of Parent's tasks the one whose step it is, as its node calls it; 0 of none
	Inside  Inside        // what its client is a process of, also with Parent 0
	Class   int32         // of the ticket
	Detach  bool          // goes on without its client
	Durable bool          // with Detach: acknowledged when its record is on disks
	Patient time.Duration // -I: give up when not started by then; 0 waits for ever
	Order   []byte        // an encoded [Order]
	Like    string        // runs of the same kind: those of a name, or of a command line; "" none
	Copy    *Copy         // --bcast: what is copied to the nodes before the start; nil nothing
}

// Shape is the room that a job takes and where.
type Shape struct {
	Ranks      int32 // 0: as many as Nodes x PerNode, or one per node
	PerRank    Room  // what each rank holds, all on one node
	MinNodes   int32 // -N min-max; 0 as many as it takes
	MaxNodes   int32
	PerNode    int32 // --ntasks-per-node: the most ranks of one node; 0 no bound
	Even       bool  // sets PerNode: as few as the nodes of the job, or of its parent, have room for
	Layout     Layout
	Plane      int32            // ranks in a row on a node, for LayoutPlane
	Only       []filch.NodeName // -w: these, every one of them used
	Exclude    []filch.NodeName // -x
	Exclusive  bool             // whole nodes
	Overcommit bool
}

// Room is an amount of what a node has.
type Room = slots.Room

// Layout says in which order ranks go to nodes.
type Layout = stealer.Layout

// The layouts, as srun -m names them. LayoutAuto is cyclic when there are not
// more ranks than nodes, else block.
const (
	LayoutAuto   = stealer.LayoutAuto
	LayoutBlock  = stealer.LayoutBlock
	LayoutCyclic = stealer.LayoutCyclic
	LayoutPlane  = stealer.LayoutPlane
)

// Policy says how a run ends.
type Policy struct {
	KillOnBad bool          // -K: the first bad end of a rank ends the job
	WaitFirst time.Duration // -W: after the first rank ended, the rest has this long; 0 for ever
	TimeLimit time.Duration // -t; 0 none
	KillWait  time.Duration // between TERM and KILL
	WarnSig   int32         // --signal=SIG@time: sent WarnTime before the time limit; 0 none
	WarnTime  time.Duration
	NoKill    bool // -k: a lost node does not end the job
	Requeue   bool // an attempt that lost a node is started again
	HighestRC bool // the code is the highest of all ranks (srun), not the first cause
}

// Order is what the keepers of a job are to start; the brain only carries it.
// Strings are bytes as the client had them, newlines included.
type Order struct {
	Programs []Program
	Cwd      string
	Env      []string // NAME=VALUE, already filtered by --export
	Umask    uint32
	Rlimits  []Rlimit
	IO       IO
	MPI      string // auto, pmi1, pmi2, pmix, none
	Bind     Bind
	Pty      *Window // --pty: rank 0 has a terminal of this size
	SlurmEnv bool    // --slurm-env
	GPUKinds []string
}

// Program is an executable with its arguments and the ranks that run it. In
// Argv, %t and %o stand for the rank and its offset among Ranks where Expand
// is set (--multi-prog).
type Program struct {
	Argv   []string
	Expand bool
	Ranks  []Span // ascending; all programs together cover 0..n-1 once
	Env    []string
}

// Span is the ranks First .. First+Count-1.
type Span = stealer.Span

// Rlimit is one soft limit of the submitter; Max bounds it on the node.
type Rlimit struct {
	Resource int32 // RLIMIT_* of Linux
	Soft     uint64
}

// Bind says how ranks are bound to cores.
type Bind struct {
	Kind    string   // "", none, rank, cores, map_cpu, mask_cpu
	List    []string // for map_cpu and mask_cpu
	Verbose bool
}

// Window is a terminal's size.
type Window struct{ Rows, Cols uint16 }

// IO says where the three standard streams of the ranks go. Patterns are
// srun's (%t %n %N %j %J %s %u %x and padding), expanded on the node for
// per-rank and per-node files; "" is the client.
type IO struct {
	Stdin      string // "" or all: the client's to every rank; none; N: to one rank; else a file
	StdinRank  filch.Rank
	StdinMode  StdinMode
	Stdout     string     // "" the client; none; else a pattern
	Stderr     string     // "" follows Stdout; all: the client; none; else a pattern
	OutRank    filch.Rank // -1, or only this rank's stdout
	ErrRank    filch.Rank
	Append     bool // --open-mode=append
	Label      bool // -l, for files too
	Unbuffered bool // -u: not line by line
}

// StdinMode is the kind of a run's stdin.
type StdinMode uint8

// The kinds of stdin.
const (
	StdinAll StdinMode = iota
	StdinNone
	StdinOne
	StdinFile
)
