package keeper

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/pmi"
	"github.com/filch-hpc/filch/launcher/pmix"
	"github.com/filch-hpc/filch/launcher/proc"
	"github.com/filch-hpc/filch/launcher/wire"
	"golang.org/x/sys/unix"
)

// port is the keeper's interface to an engine of a wire-up.
type port interface {
	Feed(now time.Duration, r filch.Rank, data []byte, out *pmi.Out)
	Closed(now time.Duration, r filch.Rank, out *pmi.Out)
	Peer(now time.Duration, from int32, body []byte, out *pmi.Out)
	Deadline() time.Duration
	Tick(now time.Duration, out *pmi.Out)
	State(r filch.Rank) pmi.State
	Spoke() bool
	Wired() bool
	Spawned(id uint32, res pmi.SpawnResult, out *pmi.Out)
}

// wireup lets the ranks of this node find each other: by the engine of launcher/pmi over
// a socketpair per rank, or by the engine of launcher/pmix over a helper process.
type wireup struct {
	job     *job
	engine  port // nil: --mpi=none
	pmix    *pmix.Engine
	helper  *helper // with pmix
	clients map[filch.Rank]*client
	out     pmi.Out
	env0    map[int][]string // per program, the environment common to all ranks
	due     *proc.Timer
	look    *proc.Timer // for ranks that run alone, see lookForSingletons
	alone   bool        // a rank that runs alone was told
	began   time.Duration
	wired   bool // that the ranks are wired was told
}

// client is our end of a rank's PMI connection, or of the helper's.
type client struct {
	id    filch.Rank
	fd    int
	queue []byte // answers that the socket did not take
}

// pmiState is the PMI state of a rank at its end.
type pmiState struct{ state pmi.State }

// unfinished reports whether a rank ended between MPI_Init and MPI_Finalize.
func (s pmiState) unfinished() bool {
	return s.state == pmi.Inited || s.state == pmi.InFence
}

func newWireup(j *job) *wireup {
	w := &wireup{job: j, clients: map[filch.Rank]*client{}, env0: map[int][]string{}}
	switch j.library() {
	case libraryNone:
	case libraryPMIx:
		w.helper = newHelper(w)
		w.pmix = pmix.New(j.pmixConfig(w.helper.scratch.Dir))
		w.engine = w.pmix
	default:
		w.engine = pmi.New(j.pmiConfig())
	}
	return w
}

// pmiConfig describes the job to the engine of PMI.
func (j *job) pmiConfig() pmi.Config {
	l := &j.order.Launch
	local := make([]filch.Rank, len(j.ranks))
	appnum := make([]int32, len(j.ranks))
	for i, r := range j.ranks {
		local[i], appnum[i] = r.id, int32(r.program)
	}
	return pmi.Config{
		Kvsname: l.Ident.String(), Size: l.Size, Universe: l.Universe, Local: local, Appnum: appnum,
		Mapping: mapping(l), Early: pmi.EarlyDefault,
		Node: j.order.Index, Nodes: int32(len(l.Nodes)), Lowest: lowest(l), Preput: preput(j.what.Spawn),
	}
}

// preput are the pairs that spawned ranks find in their key-value set.
func preput(s *launcher.SpawnOrder) (all []pmi.Pair) {
	if s == nil {
		return nil
	}
	for _, p := range s.Preput {
		all = append(all, pmi.Pair{Key: p[0], Value: p[1]})
	}
	return all
}

// lowest is the lowest rank of each node.
func lowest(l *launcher.Launch) []filch.Rank {
	low := make([]filch.Rank, len(l.Nodes))
	for i, n := range l.Nodes {
		low[i] = filch.Rank(l.Size)
		for _, s := range n.Ranks {
			low[i] = min(low[i], s.First)
		}
	}
	return low
}

// mapping encodes which ranks share a node.
func mapping(l *launcher.Launch) string {
	nodes := make([]int32, l.Size)
	for i, n := range l.Nodes {
		for _, s := range n.Ranks {
			for r := s.First; r < s.First+filch.Rank(s.Count) && int(r) < len(nodes); r++ {
				nodes[r] = int32(i)
			}
		}
	}
	return pmi.Mapping(nodes)
}

// connect gives r its connection.
func (w *wireup) connect(r *rank) error {
	if w.engine == nil || w.pmix != nil {
		return nil
	}
	p, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	r.files.Give(p[1])
	return w.serve(r.id, p[0])
}

// serve takes over our end of a connection.
func (w *wireup) serve(id filch.Rank, fd int) error {
	unix.SetNonblock(fd, true)
	c := &client{id: id, fd: fd}
	w.clients[id] = c
	return w.job.keeper.poll.Watch(fd, proc.Readable, func(e uint32) { w.ready(c, e) })
}

// env is the whole environment of r but for the variables of the rank alone.
func (w *wireup) env(r *rank) []string {
	shared, ok := w.env0[r.program]
	if !ok {
		shared = w.job.jobEnv(w.job.programEnv(r.program))
		w.env0[r.program] = shared
	}
	switch {
	case w.engine == nil:
		return shared
	case w.pmix != nil:
		return w.pmixEnv(r, shared)
	}
	env := w.refuseAlone(shared[:len(shared):len(shared)])
	if w.job.what.Spawn != nil {
		env = append(env, "PMI_SPAWNED=1")
	}
	return append(env,
		"PMI_FD="+strconv.Itoa(pmiFD), "PMI_RANK="+strconv.Itoa(int(r.id)),
		"PMI_SIZE="+strconv.Itoa(int(w.job.order.Launch.Size)))
}

func (w *wireup) ready(c *client, events uint32) {
	if events&unix.EPOLLOUT != 0 {
		w.write(c)
	}
	if events&^uint32(unix.EPOLLOUT) != 0 && len(c.queue) == 0 {
		w.read(c)
	}
	w.act()
}

// read feeds the engine with the bytes that the rank wrote, and reports whether there may
// be more.
func (w *wireup) read(c *client) bool {
	if c.fd < 0 {
		return false
	}
	buf := w.job.keeper.scratch[:pmi.FeedBytes]
	n, err := unix.Read(c.fd, buf)
	switch {
	case err == unix.EINTR:
		return true
	case err == unix.EAGAIN:
		return false
	case err != nil || n == 0:
		w.hangUp(c)
		return false
	}
	w.engine.Feed(w.job.now(), c.id, buf[:n], &w.out)
	return true
}

// hangUp closes a connection; the cause is judged when the process ends.
func (w *wireup) hangUp(c *client) {
	if c.fd >= 0 {
		w.job.keeper.poll.Drop(c.fd)
		unix.Close(c.fd)
		c.fd = -1
	}
}

// closed reads the last messages of an ended rank. The helper writes its messages about a
// rank before that rank can end.
func (w *wireup) closed(r *rank) pmiState {
	if w.engine == nil {
		return pmiState{}
	}
	id := r.id
	if w.pmix != nil {
		id = pmix.Helper
	}
	if c := w.clients[id]; c != nil {
		for w.read(c) {
			w.act()
		}
		w.act()
	}
	if c := w.clients[r.id]; c != nil {
		w.hangUp(c)
		delete(w.clients, r.id)
	}
	state := pmiState{w.engine.State(r.id)}
	w.engine.Closed(w.job.now(), r.id, &w.out)
	w.act()
	return state
}

// close closes all connections.
func (w *wireup) close() {
	for _, c := range w.clients {
		w.hangUp(c)
	}
	w.helper.end()
	w.job.keeper.poll.Stop(w.due)
	w.job.keeper.poll.Stop(w.look)
}

// peer takes a frame of another keeper of the job.
func (w *wireup) peer(f wire.PeerFrame) {
	if w.engine != nil && f.To == w.job.order.Index {
		w.engine.Peer(w.job.now(), f.From, append([]byte(nil), f.Body...), &w.out)
		w.act()
	}
}

// kin takes a frame of the first keeper of another job of the family.
func (w *wireup) kin(f wire.KinFrame) {
	ident := w.job.ident()
	if w.pmix == nil || f.ToJob != ident.Job || f.ToAttempt != ident.Attempt {
		return
	}
	from := filch.Ident{Instance: ident.Instance, Job: f.FromJob, Attempt: f.FromAttempt}
	w.pmix.Kin(w.job.now(), from, f.From, append([]byte(nil), f.Body...), &w.out)
	w.act()
}

// act carries out the engine's output.
func (w *wireup) act() {
	for _, n := range w.out.Notes {
		fmt.Fprintf(os.Stderr, "filch: keeper: job %s: %s\n", w.job.ident().Job, n)
	}
	for _, x := range w.out.Writes {
		if c := w.clients[x.Rank]; c != nil && c.fd >= 0 {
			c.queue = append(c.queue, x.Data...)
			w.write(c)
		}
	}
	for _, p := range w.out.Peers {
		head := wire.PeerFrame{From: w.job.order.Index, To: p.To}
		w.job.link().SendRaw(wire.KindPeerFrame, head.Head(nil), p.Body)
	}
	for _, k := range w.out.Kin {
		from := w.job.ident()
		head := wire.KinFrame{
			ToJob: k.To.Job, ToAttempt: k.To.Attempt, To: k.Node,
			FromJob: from.Job, FromAttempt: from.Attempt, From: w.job.node(),
		}
		w.job.link().SendRaw(wire.KindKinFrame, head.Head(nil), k.Body)
	}
	for _, a := range w.out.Aborts {
		e := launcher.RankEnd{Kind: launcher.CauseAbort, Code: a.Code, Text: "called MPI_Abort(" + strconv.Itoa(int(a.Code)) + ")"}
		if a.Text != "" {
			e.Text += ": " + a.Text
		}
		if a.Code == mpichLost && w.pmix == nil {
			e.Doubt = w.job.doubt(a.Rank)
		}
		w.verdict(a.Rank, e)
	}
	for _, b := range w.out.Breaks {
		w.verdict(b.Rank, launcher.RankEnd{Kind: launcher.CauseProtocol, Code: 1, Text: b.Text})
		// The keeper no longer reads from the rank, but does not close the connection
		// either: MPICH would print errors of its own about a closed connection.
		if c := w.clients[b.Rank]; c != nil {
			w.job.keeper.poll.Drop(c.fd)
		}
	}
	asked := append([]pmi.Spawn(nil), w.out.Spawns...)
	w.out.Reset()
	for _, s := range asked {
		w.job.spawns.begin(s)
	}
	w.helper.heard()
}

// spawnOver notes that the ranks of a spawned run have ended.
func (w *wireup) spawnOver(namespace string) {
	if w.pmix != nil {
		w.pmix.Over(w.job.now(), namespace, &w.out)
		w.act()
	}
}

// spawned tells a rank how its spawn went.
func (w *wireup) spawned(id uint32, res pmi.SpawnResult) {
	w.engine.Spawned(id, res, &w.out)
	w.act()
}

// verdict reports the end of a rank before its process ends: later events are
// consequences.
func (w *wireup) verdict(id filch.Rank, e launcher.RankEnd) {
	for _, r := range w.job.ranks {
		if r.id == id && !r.said {
			phase := r.phase
			w.job.endRank(r, e)
			r.phase = phase
		}
	}
}

// write sends answers; the keeper does not read from a rank with unread answers.
func (w *wireup) write(c *client) {
	for c.fd >= 0 && len(c.queue) > 0 {
		n, err := unix.Write(c.fd, c.queue)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			w.job.keeper.poll.Ask(c.fd, unix.EPOLLOUT)
			return
		case err != nil:
			w.hangUp(c)
			return
		default:
			c.queue = c.queue[n:]
		}
	}
	c.queue = nil
	if c.fd >= 0 {
		w.job.keeper.poll.Ask(c.fd, proc.Readable)
	}
}

// settle tells the launcher once that the ranks are wired, and sets the engine's timer.
func (w *wireup) settle() {
	if w.engine == nil {
		return
	}
	if !w.wired && w.engine.Wired() {
		w.wired = true
		w.job.link().Send(wire.KindRanksWired, launcher.RanksWired{Ident: w.job.ident(), Took: w.job.now() - w.began})
	}
	w.job.keeper.poll.Stop(w.due)
	w.due = nil
	d := w.engine.Deadline()
	if d == filch.Never {
		return
	}
	w.due = w.job.keeper.poll.After(max(d-w.job.now(), 0), func() {
		w.due = nil
		w.engine.Tick(w.job.now(), &w.out)
		w.act()
	})
}
