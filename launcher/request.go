package launcher

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/stealer"
)

// Limits of a request; a request above a limit is refused as Invalid.
const (
	MaxRanks      = 1 << 20
	MaxOrderBytes = 8 << 20 // argv, environment and I/O of a job
)

// Request is a client's request to run a job. The Node reads all of Request except Order;
// only the keepers read Order.
type Request struct {
	Name   string
	Shape  Shape
	Policy Policy
	Parent filch.JobID // a step of this job: uses its slots, never steals; 0 none
	// Of Parent's tasks, the task with this step, by its serial on its node; 0: not a
	// step of a task.
	Task uint64
	// The job or task whose process the client is, also with Parent 0.
	Inside Inside
	// Of a spawn (MPI_Comm_spawn), the run whose rank called: that run has ranks on the node of
	// this client, and this run waits for slots under the ticket of that run; 0: no spawn.
	Spawner filch.JobID
	// Of a spawn, a number that the client chose: the client asks again with this number where
	// the launcher died before it answered.
	Call    uint64
	Class   int32 // of the ticket
	Detach  bool  // the job goes on without its client
	Durable bool  // with Detach: acknowledged when its record is on disks
	// What each rank takes of a resource that all nodes share; no name: nothing.
	License record.License
	// The person who holds the job, which then gathers no slots; "" nobody.
	HeldBy string
	// What the job waits for before it gathers slots.
	Before  record.Conditions
	Patient time.Duration // -I: give up when not started by then; 0 waits forever
	Order   []byte        // an encoded [Order]
	// The task that the run does as a gang; the zero value of a run of its own.
	Of TaskID
	// The order has [GangFiles] to be fetched by each node before its ranks are ready.
	Staged bool
	// Runs of the same kind: runs of the same name, or of the same command line; "" none.
	Like string
	// The array with the job; the zero value without an array.
	Array Array
	// --bcast: files copied to the nodes before the start; nil nothing
	Copy *Copy
}

// MaxArrayKey bounds the key of an array, in bytes.
const MaxArrayKey = 64

// Array says how many jobs of an array may run at a time.
type Array struct {
	Key  string // the same for all jobs of the array
	Most int32  // 0 no bound
}

// Shape is the room taken by a job, and its place.
type Shape struct {
	Ranks    int32      // 0: as many as Nodes x PerNode, or one per node
	PerRank  filch.Room // the room of each rank, all on the same node
	MinNodes int32      // -N min-max; 0 as many as needed
	MaxNodes int32
	PerNode  int32 // --ntasks-per-node: the most ranks on a node; 0 no bound
	Spare    int32 // --spare: nodes held besides, for the ranks of lost nodes
	NodeGPUs int32 // of each node, for all ranks there; thousandths
	// Sets PerNode: the least for which the nodes of the job, or of its parent, have
	// room.
	Even       bool
	Layout     Layout
	Plane      int32            // ranks in a row on a node, for LayoutPlane
	Only       []filch.NodeName // -w: these nodes, and every node of the list is used
	Exclude    []filch.NodeName // -x
	Labels     filch.Constraint // -C
	Exclusive  bool             // whole nodes
	Overcommit bool
}

// Nodes are the nodes that the job may use.
func (s *Shape) Nodes() filch.Nodes {
	return filch.Nodes{Only: s.Only, Exclude: s.Exclude, Labels: s.Labels}
}

// Size is the number of ranks. A shape that leaves the number open has PerNode ranks, or one,
// on each node.
func (s *Shape) Size() int64 {
	if s.Ranks != 0 {
		return int64(s.Ranks)
	}
	return int64(s.least()) * int64(max(s.PerNode, 1))
}

// least is the least number of nodes.
func (s *Shape) least() int32 { return max(s.MinNodes, int32(len(s.Only)), 1) }

// Need is what the ranks, at most [MaxRanks], take of the nodes: of a run and of a task that is
// a gang alike.
func (s *Shape) Need() stealer.Need {
	d := stealer.Need{
		Ranks: int32(s.Size()), Each: s.PerRank, MinNodes: s.least(), MaxNodes: s.MaxNodes,
		PerNode: s.PerNode, Spare: s.Spare, Nodes: s.Nodes(), Exclusive: s.Exclusive,
		Layout: s.Layout, Plane: s.Plane,
	}
	d.Base.GPUs = s.NodeGPUs
	if s.Overcommit {
		// As srun does: one slot of each node, and as many ranks as wanted.
		d.Base.Slots, d.Each.Slots = 1, 0
	} else {
		d.Each.Slots = max(d.Each.Slots, 1)
	}
	if d.MinNodes > d.Ranks && len(s.Only) == 0 {
		d.MinNodes = d.Ranks
		d.MaxNodes = min(d.MaxNodes, d.Ranks)
	}
	return d
}

// NeedOfTask is what a task with the need takes of the nodes.
func NeedOfTask(n *record.Need) stealer.Need {
	s := Shape{Ranks: 1, PerRank: n.Each}
	if g := &n.Gang; g.Ranks > 0 {
		s.Ranks, s.MinNodes, s.MaxNodes, s.PerNode, s.NodeGPUs, s.Spare = g.Ranks, g.Nodes, g.Most, g.PerNode, g.NodeGPUs, g.Spare
	}
	if n.Nodes != nil {
		s.Only, s.Exclude, s.Labels = n.Nodes.Only, n.Nodes.Exclude, n.Nodes.Labels
	}
	d := s.Need()
	if d.Task = n.Gang.Ranks == 0; d.Task {
		d.Each, d.MinNodes = n.Each, 1 // of a list of nodes, a task takes one
	}
	return d
}

// Layout is the order in which ranks are assigned to nodes.
type Layout = stealer.Layout

// The layouts, as srun -m names them. LayoutAuto is cyclic when there are not more ranks
// than nodes, else block.
const (
	LayoutAuto   = stealer.LayoutAuto
	LayoutBlock  = stealer.LayoutBlock
	LayoutCyclic = stealer.LayoutCyclic
	LayoutPlane  = stealer.LayoutPlane
)

// Policy says how a run ends.
type Policy struct {
	KillOnBad bool // -K: the first bad end of a rank ends the job
	// -W: after the first rank ended, the rest has this long; 0 forever
	WaitFirst time.Duration
	TimeLimit time.Duration // -t; 0 none
	KillWait  time.Duration // between TERM and KILL
	// --signal=SIG@time: sent WarnTime before the time limit; 0 none
	WarnSig   int32
	WarnTime  time.Duration
	NoKill    bool // -k: a lost node does not end the job
	Requeue   bool // an attempt with a lost node is started again
	HighestRC bool // the code is the highest of all ranks (srun), not the first cause
}

// Order is the work for the keepers of a job; the Node only forwards it. Strings are
// bytes as received from the client, newlines included.
type Order struct {
	Programs []Program
	Cwd      string
	Env      []string // NAME=VALUE, already filtered by --export
	Umask    uint32
	Rlimits  []Rlimit
	IO       IO
	MPI      string // auto, pmi1, pmi2, pmix, none
	Bind     Bind
	NoGPUs   bool      // the ranks use no GPU of the job around either: --gpus=0
	Pty      *Window   // --pty: rank 0 has a terminal of this size
	Slurm    *Slurm    // the ranks have SLURM_*; nil: they have not
	Task     *GangTask // nil: the ranks are of a run
	Files    *GangFiles
	Hooks    Hooks
	Spawn    *SpawnOrder // of spawned ranks; nil: the ranks were started by a client
}

// SpawnOrder is what ranks know that another run spawned (MPI_Comm_spawn).
type SpawnOrder struct {
	Parent filch.Ident // the run whose rank called
	Rank   filch.Rank  // that rank
	// The run at the top: Parent, or the run that spawned Parent, and so on. The keeper of its
	// first node, which is Hub, connects all runs that descend from it.
	Top filch.Ident
	Hub filch.NodeName
	// The pairs that the ranks find in the key-value set of PMI.
	Preput [][2]string
	NoMPI  bool // the ranks need not call MPI_Init
}

// GangOrder is what all gangs of a job have in common, besides the command and the
// streams, which all tasks have.
type GangOrder struct {
	Shape  Shape
	Policy Policy
	MPI    string // as in [Order]
	Bind   Bind
}

// GangTask is the task of the ranks of a gang, as variables and file patterns name the
// task.
type GangTask struct {
	TaskID
	Number  int32 // the submitter's number of the task: FILCH_TASK
	Attempt filch.Attempt
	Limit   time.Duration // the time limit; 0 none
}

// GangFiles are the files of a workflow's task that is a gang. Each node of the ranks makes
// a folder for the task, copies the inputs there, and in the end takes the outputs from
// there; the node that owns the task fetches these outputs. Nil: the ranks run in the
// folder of the order.
type GangFiles struct {
	Origin   filch.NodeName // the node has Folder
	Folder   string         // of the files not written by any task
	Inputs   []TaskFile
	Outputs  []TaskFile
	AllNodes bool // as in [TaskItem]
}

// Slurm is the job that ranks with SLURM_* belong to, as variables and file patterns name
// the job. With Job 0, this is the run itself.
type Slurm struct {
	Job   filch.JobID
	Array filch.JobID // the first job of the array; 0 none
	Task  string      // the index in the array
	Name  string
	// The ranks hold room for a batch script, which sees every GPU of the job on its node.
	Script bool
}

// Program is an executable with its arguments and its ranks. In Argv, %t and %o stand for
// the rank and its offset among Ranks if Expand is set (--multi-prog).
type Program struct {
	Argv   []string
	Expand bool
	Ranks  []Span // ascending; all programs together cover 0..n-1 once
	Env    []string
	Cwd    string // of these ranks; "": as in the order
	Path   string // folders to look in before those of PATH, separated by colons
}

// Span is the ranks First .. First+Count-1.
type Span = stealer.Span

// Rlimit is a soft limit of the submitter; Max bounds the limit on the node.
type Rlimit struct {
	Resource int32 // RLIMIT_* of Linux
	Soft     uint64
}

// Bind says how ranks are bound to cores.
type Bind struct {
	Kind    string   // "", none, rank, threads, cores, sockets, ldoms, map_cpu, mask_cpu
	List    []string // for map_cpu and mask_cpu
	Order   string   // of the ranks over the sockets of a node: "" or block, cyclic, fcyclic
	Verbose bool
}

// Window is a terminal's size.
type Window struct{ Rows, Cols uint16 }

// IO says where the three standard streams of the ranks go. Patterns are
// srun's (%t %n %N %j %J %s %u %x and padding), expanded on the node for
// per-rank and per-node files; "" is the client.
type IO struct {
	// "" or all: the client's to every rank; none; N: to rank N; else a file.
	Stdin      string
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
