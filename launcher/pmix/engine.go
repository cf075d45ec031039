package pmix

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/pmi"
)

// Helper stands for the helper's connection in place of a rank.
const Helper filch.Rank = -1

// Config describes a job for the engine of a node.
type Config struct {
	Namespace string // the job's name for its ranks: unique among jobs and attempts, no spaces
	Dir       string // for the files of libpmix: ours alone, and short-lived
	Node      int32  // this node's place in the job
	Nodes     []Node
	Size      int32
	Universe  int32 // MPI_UNIVERSE_SIZE
	Apps      int32 // programs of the job
	Family    Family
}

// Node is a node of the job.
type Node struct {
	Name  string
	Ranks []filch.Rank
	Apps  []int32 // of each rank: the program's index
}

// goneGrace is the time from the departure of a rank to the report that others wait for
// the rank in vain. Meanwhile the keeper of the departed rank reports the true cause, and
// the first report counts.
const goneGrace = 300 * time.Millisecond

// Engine is the wire-up of a job on a node.
type Engine struct {
	cfg   Config
	ranks map[filch.Rank]*client // of this node
	order []filch.Rank           // their order
	home  []int32                // of every rank of the job: its node
	paths *pmi.Paths
	input []byte // of the helper: an incomplete frame

	ready   bool
	came    int    // ranks of this node that have come to MPI_Init
	wired   bool   // see Wired
	version string // of libpmix, as the helper reports
	failure *Failure

	groups map[groupKey]*group
	asks   map[uint32]ask   // questions to the helper, by our id
	wants  map[uint32]int32 // the helper's questions, by its id: the asked node
	serial uint32
	left   departed
	kin    *kin
}

// client is the state of a rank of this node.
type client struct {
	state pmi.State
	gone  bool
	env   []string
}

// departed is a rank that ended before MPI_Init: the ranks in MPI_Init wait for the
// departed rank in vain.
type departed struct {
	known bool
	rank  filch.Rank
	at    time.Duration // when this node learned
	said  bool
}

// ask is a question of another node, passed to our helper.
type ask struct {
	node int32
	id   uint32
	far  bool // of the hub of the family; its id
}

// New makes the engine of a node.
func New(cfg Config) *Engine {
	e := &Engine{
		cfg: cfg, ranks: map[filch.Rank]*client{}, home: make([]int32, cfg.Size),
		paths:  pmi.NewPaths(cfg.Node, int32(len(cfg.Nodes))),
		groups: map[groupKey]*group{}, asks: map[uint32]ask{}, wants: map[uint32]int32{},
	}
	for i := range e.home {
		e.home[i] = -1
	}
	for i, n := range cfg.Nodes {
		for _, r := range n.Ranks {
			if r < 0 || int(r) >= len(e.home) {
				continue
			}
			e.home[r] = int32(i)
			if int32(i) == cfg.Node {
				e.ranks[r] = &client{}
				e.order = append(e.order, r)
			}
		}
	}
	e.kin = newKin(e)
	return e
}

// Begin sends the helper the description of the job.
func (e *Engine) Begin(out *pmi.Out) {
	b := newFrame(kindSetup).u32(protocol).
		text(fmt.Sprintf("%s.%d", e.cfg.Namespace, e.cfg.Node)).text(e.cfg.Dir).u32(uint32(e.cfg.Node)).
		text(e.cfg.Family.Parent).u32(uint32(e.cfg.Family.Rank))
	e.tell(out, appendLayout(b, &e.cfg))
	e.kin.begin(0, out)
}

// Quit tells the helper that all ranks have ended.
func (e *Engine) Quit(out *pmi.Out) { e.tell(out, newFrame(kindQuit)) }

// Ready reports whether ranks can be started; Failure is the reason if they never can.
func (e *Engine) Ready() bool       { return e.ready }
func (e *Engine) Failure() *Failure { return e.failure }

// Env is the environment that the helper wants for rank r.
func (e *Engine) Env(r filch.Rank) []string {
	if c := e.ranks[r]; c != nil {
		return c.env
	}
	return nil
}

// State returns the progress of rank r. The engine does not see ranks wait in a fence.
func (e *Engine) State(r filch.Rank) pmi.State {
	if c := e.ranks[r]; c != nil {
		return c.state
	}
	return pmi.Fresh
}

// Spoke reports whether any rank of this node has come to MPI_Init.
func (e *Engine) Spoke() bool {
	for _, c := range e.ranks {
		if c.state != pmi.Fresh {
			return true
		}
	}
	return false
}

// Wired reports whether each rank can reach all others: a fence of the whole job is over. Of the
// fences on one node alone the helper says nothing: there, all ranks have come to MPI_Init.
func (e *Engine) Wired() bool { return e.wired }

// Feed takes bytes written by the helper.
func (e *Engine) Feed(now time.Duration, from filch.Rank, data []byte, out *pmi.Out) {
	if from != Helper || e.failure != nil {
		return
	}
	e.input = append(e.input, data...)
	rest := e.input
	for {
		k, body, n, ok := cut(rest)
		if ok && n > 0 {
			ok = e.frame(now, k, body, out)
		}
		if !ok {
			e.fail(failedSetup, fmt.Sprintf("a frame of kind %d makes no sense", k), out)
			return
		}
		if n == 0 {
			break
		}
		if rest = rest[n:]; e.failure != nil {
			return // the frame was the helper's last word
		}
	}
	if e.input = append(e.input[:0], rest...); len(e.input) == 0 {
		e.input = nil
	}
	e.kin.flush(now, out)
	e.paths.Flush(now, out)
}

// frame acts on a frame of the helper; false means an invalid frame.
func (e *Engine) frame(now time.Duration, k kind, body []byte, out *pmi.Out) bool {
	r := &reader{b: body, ok: true}
	switch k {
	case kindEnv:
		return e.takeEnv(r)
	case kindReady:
		e.version = clip(r.text())
		e.ready = true
		return r.whole()
	case kindFailed:
		why, text := failure(r.u32()), r.text()
		e.fail(why, text, out)
		return r.whole()
	case kindNote:
		out.Notes = append(out.Notes, clip(r.text()))
		return r.whole()
	case kindConnected, kindFinalized:
		c := e.ranks[r.rank()]
		if c == nil || !r.whole() {
			return false
		}
		if c.state == pmi.Fresh {
			e.came++
			e.wired = e.wired || len(e.cfg.Nodes) == 1 && e.came == len(e.ranks)
		}
		if c.state = pmi.Inited; k == kindFinalized {
			c.state = pmi.Finalized
		}
		e.vain(now, out)
		return true
	case kindAborted:
		return e.aborted(r, out)
	case kindFence:
		id, ranks, blob := r.u32(), r.ranks(), r.blob()
		return r.whole() && e.enter(id, ranks, blob, out)
	case kindModexNeed:
		id, rank := r.u32(), r.rank()
		if r.whole() {
			e.need(id, rank, out)
		}
		return r.whole()
	case kindModexHave:
		id, status, blob := r.u32(), int32(r.u32()), r.blob()
		if r.whole() {
			e.have(now, id, status, blob, out)
		}
		return r.whole()
	}
	return e.kin.helper(now, k, r, out)
}

func (e *Engine) takeEnv(r *reader) bool {
	rank, text := r.rank(), r.text()
	c := e.ranks[rank]
	if c == nil || !r.whole() || len(c.env) >= maxEnv {
		return false
	}
	c.env = append(c.env, text)
	return true
}

func (e *Engine) aborted(r *reader, out *pmi.Out) bool {
	rank, code, text := r.rank(), int32(r.u32()), r.text()
	c := e.ranks[rank]
	if c == nil || !r.whole() {
		return false
	}
	c.state = pmi.Aborted
	out.Aborts = append(out.Aborts, pmi.Abort{Rank: rank, Code: abortCode(code), Text: clip(abortText(text))})
	return true
}

// tell sends a frame to the helper.
func (e *Engine) tell(out *pmi.Out, b builder) {
	out.Writes = append(out.Writes, pmi.Write{Rank: Helper, Data: b.done()})
}

// Closed reports that the process of rank r has ended and that all earlier bytes of the
// helper were fed.
func (e *Engine) Closed(now time.Duration, r filch.Rank, out *pmi.Out) {
	c := e.ranks[r]
	if c == nil || c.gone {
		return
	}
	if c.gone = true; c.state == pmi.Fresh {
		e.depart(now, r, e.cfg.Node, out)
	}
	e.paths.Flush(now, out)
}

// depart notes that a rank ended before MPI_Init, and passes the news on to all neighbors
// but the sender.
func (e *Engine) depart(now time.Duration, r filch.Rank, from int32, out *pmi.Out) {
	if e.left.known {
		return
	}
	e.left = departed{known: true, rank: r, at: now}
	for _, n := range e.paths.Neighbors() {
		if n != from {
			e.send(n, parcel{kind: parcelLeft, id: uint32(r)}, out)
		}
	}
	e.vain(now, out)
}

// vainAt is the time from which a rank here certainly waits in vain for a departed rank.
func (e *Engine) vainAt() time.Duration {
	if !e.left.known || e.left.said || e.waiter() < 0 {
		return filch.Never
	}
	return e.left.at + goneGrace
}

// waiter is a rank of this node between MPI_Init and MPI_Finalize, -1 where there is
// none.
func (e *Engine) waiter() filch.Rank {
	for _, r := range e.order {
		if c := e.ranks[r]; c.state == pmi.Inited && !c.gone {
			return r
		}
	}
	return -1
}

// vain ends the job when a rank waits for a departed rank.
func (e *Engine) vain(now time.Duration, out *pmi.Out) {
	if now < e.vainAt() {
		return
	}
	e.left.said = true
	out.Breaks = append(out.Breaks, pmi.Break{Rank: e.waiter(), Text: fmt.Sprintf("waits for rank %d, which ended before MPI_Init", e.left.rank)})
}

// Peer takes a frame of the keeper of node from.
func (e *Engine) Peer(now time.Duration, from int32, body []byte, out *pmi.Out) {
	if len(body) == 0 {
		e.paths.Receive(now, from, nil, out)
		e.unreachable(out)
		return
	}
	for _, p := range e.paths.Receive(now, from, body, out) {
		if !e.parcel(now, p, out) {
			out.Notes = append(out.Notes, fmt.Sprintf("dropped a message of node %d that makes no sense", p.From))
		}
	}
	e.kin.flush(now, out)
	e.paths.Flush(now, out)
}

// Deadline is the time of the next Tick.
func (e *Engine) Deadline() time.Duration {
	return min(e.paths.Deadline(), e.vainAt(), e.kin.deadline())
}

// Tick handles the due deadlines.
func (e *Engine) Tick(now time.Duration, out *pmi.Out) {
	e.vain(now, out)
	e.kin.tick(now, out)
	e.paths.Flush(now, out)
}

// fail notes the reason why the helper cannot serve.
func (e *Engine) fail(why failure, text string, out *pmi.Out) {
	if e.failure == nil {
		e.failure = &Failure{kind: why, text: clip(text)}
		e.input = nil
		out.Notes = append(out.Notes, "no PMIx: "+e.failure.text)
	}
}

// Failure is the reason why there is no PMIx server.
type Failure struct {
	kind failure
	text string
}

// Explain returns a line for the user, and advice.
func (f *Failure) Explain(node filch.NodeName) (text, hint string) {
	switch f.kind {
	case failedLibrary:
		return fmt.Sprintf("libpmix.so.2 is not on %s: %s", node, f.text),
			"apt-get install libpmix2 (Debian, Ubuntu), dnf install pmix (Fedora); or FILCH_LIBPMIX names the file"
	case failedSymbol:
		return fmt.Sprintf("libpmix.so.2 on %s has no %s: it is too old", node, f.text), "version 4 or newer is needed"
	}
	return fmt.Sprintf("the PMIx server on %s failed: %s", node, f.text), ""
}

// abortCode is the job's code for an MPI_Abort: the low byte of n, as with exit, but 1
// where the low byte of another code is 0.
func abortCode(n int32) int32 {
	if n == 0 {
		return 0
	}
	if n &= 255; n == 0 {
		return 1
	}
	return n
}

// clip shortens a foreign text to a line of ours and replaces control characters.
func clip(s string) string {
	const most = 300
	b := []byte(s)
	b = b[:min(len(b), most)]
	for i, c := range b {
		if c < ' ' || c >= 0x7f {
			b[i] = '?'
		}
	}
	return string(b)
}

// abortText is the part of a rank's message worth repeating: Open MPI prints the rest
// itself.
func abortText(s string) string {
	if s == "N/A" {
		return ""
	}
	return s
}

// sorted is the ascending set of ranks.
func sorted(ranks []filch.Rank) []filch.Rank {
	s := slices.Clone(ranks)
	slices.Sort(s)
	return slices.Compact(s)
}

// Spawned answers the spawn with this id.
func (e *Engine) Spawned(id uint32, res pmi.SpawnResult, out *pmi.Out) {
	status := int32(statusOK)
	switch {
	case res.Refused == "":
	case res.Kind == filch.Timeout:
		status = statusTimeout
	case res.Kind == filch.NoFit, res.Kind == filch.Busy:
		status = statusFull
	case res.Kind == filch.NotFound:
		status = statusNotFound
	case res.Kind == filch.Invalid:
		status = statusBadParam
	default:
		status = statusNotLaunched
	}
	e.tell(out, newFrame(kindSpawned).u32(id).u32(uint32(status)).text(res.Namespace))
}

// Over notes that the ranks of a job that a rank here spawned have ended.
func (e *Engine) Over(now time.Duration, namespace string, out *pmi.Out) {
	e.kin.raise(now, word{kind: wordOver, node: e.cfg.Node, body: builder(nil).text(namespace)}, out)
	e.kin.flush(now, out)
	e.paths.Flush(now, out)
}

// Kin takes a frame of the first keeper of another job of the family, on this node of the
// instance.
func (e *Engine) Kin(now time.Duration, from filch.Ident, node filch.NodeName, body []byte, out *pmi.Out) {
	e.kin.frame(now, from, node, body, out)
	e.paths.Flush(now, out)
}
