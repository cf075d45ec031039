package pmi

import (
	"time"

	"github.com/filch-hpc/filch"
)

// Config describes a job for the engine of a node.
type Config struct {
	Kvsname  string        // the job's name for the ranks: no spaces, at most 255 bytes
	Size     int32         // ranks of the job
	Local    []filch.Rank  // ranks of this node, ascending
	Appnum   []int32       // program index of each rank in Local; nil is 0 for all
	Universe int32         // MPI_UNIVERSE_SIZE; 0 is Size
	Mapping  string        // the result of [Mapping]; "": MPICH then compares host names
	Early    time.Duration // see [EarlyDefault]; 0 never
	Node     int32         // this node's place in the tree
	Nodes    int32         // nodes of the job; 0 is 1
	Lowest   []filch.Rank  // of each node, to name a departed rank; nil: no names
	Preput   []Pair        // of spawned ranks: pairs that a get finds from the start
}

// EarlyDefault is the shortest time for which a rank is held in the barrier of
// MPI_Finalize while others are missing. MPICH before 4.2 with UCX deadlocks there: a
// rank spins until a peer answers its disconnect, and the peer, blocked in a read of our
// answer, makes no progress (pmodels/mpich PR 6596; 4.2 removed the barrier).
// mpiexec.hydra hangs so in 6 of 10 runs of 2+2 ranks.
//
// A rank released too soon is gone before its connections are set up, and the others fail
// with "Endpoint timeout": measured with 1 to 10 ms on two cores, never with 20 and more.
// The time grows with the load: four times the duration of MPI_Init, at least
// Config.Early and at most [EarlyMost] times Config.Early. A rank that comes to
// MPI_Finalize much later than the others is not hurt.
//
// The engine releases early only from a barrier of PMI-1 in which this node put nothing,
// after a barrier that carried MPICH's addresses.
const EarlyDefault = 250 * time.Millisecond

// EarlyMost bounds the growth; see [EarlyDefault].
const EarlyMost = 8

// State is the progress of a rank in the protocol.
type State uint8

// The states of a rank.
const (
	Fresh     State = iota // no message yet: not an MPI program, or not in MPI_Init
	Inited                 // between MPI_Init and MPI_Finalize
	InFence                // the same, waiting in a barrier
	Finalized              // left the job in good order
	Aborted                // called MPI_Abort
	Broken                 // broke the protocol
)

var stateNames = [...]string{"fresh", "inited", "in-fence", "finalized", "aborted", "broken"}

func (s State) String() string { return stateNames[s] }

// Out holds the actions for the caller, in the order of the fields. The caller reuses an
// Out; the engine only appends and keeps no reference.
type Out struct {
	Notes  []string // for the log
	Writes []Write
	Peers  []PeerFrame
	Aborts []Abort
	Breaks []Break
	Spawns []Spawn
	Kin    []KinFrame
}

// KinFrame goes to the first keeper of another job of the family: the jobs that descend, by
// spawns, from one job.
type KinFrame struct {
	To   filch.Ident
	Node filch.NodeName // of that keeper
	Body []byte
}

// Write is bytes for a rank's connection.
type Write struct {
	Rank filch.Rank
	Data []byte
}

// PeerFrame goes to the keeper of another node of the job, by the node's place in the
// tree. A lost, repeated or reordered frame costs time and nothing else.
type PeerFrame struct {
	To   int32
	Body []byte
}

// Abort is an MPI_Abort: the job ends with Code. Text is the rank's message, often empty:
// MPICH before 4.2 prints the reason itself.
type Abort struct {
	Rank filch.Rank
	Code int32
	Text string
}

// Break ends the job for a fault of a rank; Text goes on after "rank N ".
type Break struct {
	Rank filch.Rank
	Text string
}

// Reset empties o and keeps the memory.
func (o *Out) Reset() {
	clear(o.Notes)
	clear(o.Writes)
	clear(o.Peers)
	clear(o.Spawns)
	clear(o.Kin)
	o.Notes, o.Writes, o.Peers = o.Notes[:0], o.Writes[:0], o.Peers[:0]
	o.Aborts, o.Breaks, o.Spawns, o.Kin = o.Aborts[:0], o.Breaks[:0], o.Spawns[:0], o.Kin[:0]
}

// write appends to the bytes of r, joining consecutive answers.
func (o *Out) write(r filch.Rank, s string) {
	if n := len(o.Writes); n > 0 && o.Writes[n-1].Rank == r {
		o.Writes[n-1].Data = append(o.Writes[n-1].Data, s...)
		return
	}
	o.Writes = append(o.Writes, Write{r, []byte(s)})
}

// Engine is the wire-up of a job on a node.
type Engine struct {
	cfg   Config
	ranks []client
	at    map[filch.Rank]int // index into ranks
	kvs   store
	fence fence
	tree  tree
	names names // at the root only
	attrs attrs
	asks  uint32        // serial of the questions to the root
	began time.Duration // the first init of a rank here
	early time.Duration // see [EarlyDefault]; 0 never
}

// New makes the engine of a node.
func New(cfg Config) *Engine {
	if cfg.Universe == 0 {
		cfg.Universe = cfg.Size
	}
	cfg.Nodes = max(cfg.Nodes, 1)
	e := &Engine{cfg: cfg, began: filch.Never, at: make(map[filch.Rank]int, len(cfg.Local))}
	e.ranks = make([]client, len(cfg.Local))
	for i, r := range cfg.Local {
		e.ranks[i].rank = r
		if i < len(cfg.Appnum) {
			e.ranks[i].appnum = cfg.Appnum[i]
		}
		e.at[r] = i
	}
	e.kvs.init()
	e.tree = newTree(cfg.Node, cfg.Nodes)
	e.fence = newFence(len(e.tree.children))
	return e
}

// client is the engine's state of a rank.
type client struct {
	rank    filch.Rank
	appnum  int32
	state   State
	v2      bool // speaks PMI-2
	full    bool // PMI-2: fullinit came
	gone    bool // the connection is closed
	due     int  // answers waiting for the root or for another rank
	entry   entry
	entered time.Duration // the last barrier_in
	left    time.Duration // time of the close or the finalize
	thrid   string        // PMI-2: echoed in the answer to the fence
	buf     []byte        // an incomplete message
	block   block         // an mcmd being collected
	spawn   spawning
}

// entry is the state of a rank in the open fence.
type entry uint8

const (
	outside  entry = iota
	waiting        // counted, waits for the answer
	released       // counted, answered early
	queued         // answered early, and already in the next fence
)

// State returns the progress of rank r.
func (e *Engine) State(r filch.Rank) State {
	i, ok := e.at[r]
	if !ok {
		return Fresh
	}
	c := &e.ranks[i]
	if c.state == Inited && (c.entry == waiting || c.entry == queued) {
		return InFence
	}
	return c.state
}

// Spoke reports whether any rank of this node sent a valid init: a program with a PMI
// environment that never sends init is not MPI, or uses another kind of wire-up than
// expected.
func (e *Engine) Spoke() bool {
	for i := range e.ranks {
		if e.ranks[i].state != Fresh {
			return true
		}
	}
	return false
}

// Wired reports whether the ranks have left a fence: each knows the addresses of all.
func (e *Engine) Wired() bool { return e.fence.seq > firstFence }

// Feed takes bytes written by rank r.
func (e *Engine) Feed(now time.Duration, r filch.Rank, data []byte, out *Out) {
	i, ok := e.at[r]
	if !ok {
		return
	}
	c := &e.ranks[i]
	if len(c.buf) > 0 {
		c.buf = append(c.buf, data...)
		data = c.buf
	}
	rest := data
	for len(rest) > 0 && !c.gone && c.state != Aborted && c.state != Broken {
		n := e.message(now, c, rest, out)
		if n == 0 {
			break
		}
		rest = rest[n:]
	}
	switch {
	case c.gone || c.state == Aborted || c.state == Broken || len(rest) == 0:
		c.buf = nil
	default:
		c.buf = append(c.buf[:0], rest...)
	}
}

// message handles the first message of b and returns the length in bytes; 0 for an
// incomplete message.
func (e *Engine) message(now time.Duration, c *client, b []byte, out *Out) int {
	if c.v2 {
		return e.message2(now, c, b, out)
	}
	return e.message1(now, c, b, out)
}

// Closed reports that rank r can send nothing more: the connection is at its end, or the
// process has ended and all of its bytes were fed. Only the first call counts.
func (e *Engine) Closed(now time.Duration, r filch.Rank, out *Out) {
	i, ok := e.at[r]
	if !ok || e.ranks[i].gone {
		return
	}
	c := &e.ranks[i]
	c.gone, c.buf = true, nil
	if c.state != Finalized {
		c.left = now
	}
	e.attrs.drop(c.rank)
	e.progress(now, out)
}

// Peer takes a frame of the keeper at place from of the tree. An empty body means that
// there is no such keeper: all ranks of the node have ended, and the node's launcher
// answered a frame of ours with the empty body.
func (e *Engine) Peer(now time.Duration, from int32, body []byte, out *Out) {
	l := e.tree.link(from)
	if l == nil {
		out.Notes = append(out.Notes, "dropped a fence frame from a node that is not a neighbor in the tree")
		return
	}
	if len(body) == 0 {
		l.leave(now)
		e.progress(now, out)
		return
	}
	m, ok := l.receive(now, body)
	if !ok {
		out.Notes = append(out.Notes, "dropped a malformed fence frame")
	} else if m.kind != kindAck {
		e.deliver(now, l, m, out)
	}
	e.flush(now, out)
}

// Deadline is the time of the next Tick; [filch.Never] when nothing waits.
func (e *Engine) Deadline() time.Duration {
	d := min(e.earlyAt(), e.stuckAt(), e.orphanAt(), e.askAt())
	for i := range e.tree.links {
		d = min(d, e.tree.links[i].deadline())
	}
	return d
}

// Tick handles the due deadlines.
func (e *Engine) Tick(now time.Duration, out *Out) {
	e.releaseEarly(now, out)
	e.askChildren(now)
	e.progress(now, out)
}

// broken ends the job for a fault of c.
func (e *Engine) broken(c *client, out *Out, text string) {
	if c.state == Broken {
		return
	}
	c.state = Broken
	out.Breaks = append(out.Breaks, Break{c.rank, text})
}

func (e *Engine) abort(c *client, out *Out, exitcode, text string) {
	c.state = Aborted
	out.Aborts = append(out.Aborts, Abort{c.rank, abortCode(exitcode), clip(text)})
}
