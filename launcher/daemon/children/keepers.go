package children

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of the keepers.
const (
	maxSpawning = 4 // keepers being started while jobs wait for keepers
	maxIdle     = 4 // idle keepers that stay after a burst of jobs
	reapWait    = 1500 * time.Millisecond
	refillPause = 20 * time.Millisecond // from a start of ranks to the next keeper
)

// Keepers holds this node's keepers. The loop owns all fields except those of the
// goroutines.
type Keepers struct {
	in     *inputs.Queue
	cfg    Config
	Port   Port
	links  Links
	nodes  Nodes
	routes *dataplane.Routes
	copies Copies
	gangs  Gangs
	wants  chan struct{} // one per keeper to be started
	own    children
	reaps  atomic.Bool // every other child of this process is an orphan

	idle      []*keeperProcess
	jobs      map[filch.Ident]*keeperProcess
	all       map[*keeperProcess]bool
	queue     []pending
	unadopted map[*keeperProcess]bool // of an earlier launcher, and not adopted yet
	spawning  int
	failures  int
}

// keeperProcess is one keeper, with a job or without.
type keeperProcess struct {
	dataplane.Keeper
	proc *Process

	// The loop's.
	ident     filch.Ident
	done      bool // the keeper reported the end of its job
	forgotten bool
	stopping  bool
}

// pending is a start waiting for a keeper, with the deeds that followed the start.
type pending struct {
	start launcher.Start
	deeds []launcher.Deed
}

// Config holds the settings of the children of a launcher.
type Config struct {
	Dir      string // the state directory
	Program  string // the filch binary
	Instance string // the instance's id
	Name     string // the instance's name
	Build    string
	Nice     int // of the keepers
	Spare    int // keepers kept ready
}

// NewKeepers makes the keepers of a node.
func NewKeepers(in *inputs.Queue, cfg Config, links Links, nodes Nodes, routes *dataplane.Routes) *Keepers {
	ks := &Keepers{
		in: in, cfg: cfg, links: links, nodes: nodes, routes: routes,
		wants: make(chan struct{}, maxSpawning), own: children{known: map[int]bool{}},
		jobs: map[filch.Ident]*keeperProcess{}, all: map[*keeperProcess]bool{}, unadopted: map[*keeperProcess]bool{},
	}
	ks.Port = newPort(ks)
	return ks
}

// SetFiles sets the copies of programs and the files of gangs.
func (ks *Keepers) SetFiles(c Copies, g Gangs) { ks.copies, ks.gangs = c, g }

// gaveUp reports whether idle keepers are replaced no more: too many in a row have
// ended.
func (ks *Keepers) gaveUp() bool { return ks.failures >= maxSpawning }

// Begin starts the goroutine that starts keepers.
func (ks *Keepers) Begin() { ks.in.Go(ks.spawner) }

// Count returns the number of keepers.
func (ks *Keepers) Count() int { return len(ks.all) }

// Busy reports whether any keeper has a job.
func (ks *Keepers) Busy() bool { return len(ks.jobs) > 0 }

// Adopt takes over the keepers of an earlier launcher, and ends the orphans of keepers
// dead before this launcher began.
func (ks *Keepers) Adopt() {
	found, err := ks.Port.Redial()
	if err != nil {
		ks.in.Fault("cannot look for the keepers of an earlier launcher", err)
	}
	for _, p := range found {
		k := &keeperProcess{proc: p, Keeper: dataplane.Keeper{Conn: wire.NewConn(p.Link)}}
		ks.all[k] = true
		ks.unadopted[k] = true
		ks.greet(k)
		_ = k.Conn.WriteRaw(wire.KindAdopt, 0)
		_ = k.Conn.Flush()
		ks.in.Go(func() { ks.serve(k) })
	}
	// Before any start here: orphans may hold cores.
	ks.in.Go(func() {
		ks.endOrphans()
		ks.in.Post(func(*inputs.Turn) { ks.Refill() })
	})
}

func (ks *Keepers) endOrphans() {
	n, err := ks.Port.EndOrphans()
	if err != nil {
		ks.in.Fault("cannot sweep up after dead keepers", err)
	}
	if ks.reaps.Load() {
		n += ks.own.endOrphans(reapWait)
	}
	if n > 0 {
		ks.in.Watch.Add(watch.Swept, uint64(n))
		ks.in.Watch.Log().Warn("killed processes of dead attempts", "processes", n)
	}
}

func (ks *Keepers) greet(k *keeperProcess) {
	hello, err := wire.EncodeHello(wire.Hello{Role: "launcher", Build: ks.cfg.Build})
	if err == nil {
		err = k.Conn.WriteRaw(wire.KindHello, 0, hello)
	}
	if err != nil {
		ks.in.Fault("cannot greet a keeper", err, "pid", k.proc.PID)
	}
}

// OnAdopted notes that a keeper of an earlier launcher was adopted or is gone. After the
// last such keeper the Node may lend free slots.
func (ks *Keepers) OnAdopted(t *inputs.Turn, k *keeperProcess) {
	if k != nil && !ks.unadopted[k] {
		return
	}
	delete(ks.unadopted, k)
	if len(ks.unadopted) == 0 {
		ks.routes.Settle()
		ks.gangs.Settle()
		t.Node.Settled(t.Now, t.Out)
	}
}

// Start gives a job to a ready keeper, or has a new keeper started.
func (ks *Keepers) Start(s launcher.Start) {
	s.Net, s.Home = ks.nodes.Net(s.Launch.Nodes), ks.nodes.Address(s.Launch.Origin)
	if len(ks.idle) == 0 {
		ks.queue = append(ks.queue, pending{start: s})
		ks.Refill()
		return
	}
	k := ks.idle[len(ks.idle)-1]
	ks.idle = ks.idle[:len(ks.idle)-1]
	ks.assign(k, pending{start: s})
}

func (ks *Keepers) assign(k *keeperProcess, p pending) {
	k.ident, k.done, k.forgotten, k.stopping = p.start.Launch.Ident, false, false, false
	ks.jobs[k.ident] = k
	ks.routes.Attach(&k.Keeper, &p.start)
	if err := k.Conn.Write(wire.KindStart, 0, &p.start); err != nil {
		ks.in.Fault("cannot hand a job to a keeper", err, "job", int(k.ident.Job))
		_ = k.Conn.Close() // the reader of the link reports the keeper gone
		return
	}
	for i := range p.deeds {
		ks.Deed(&p.deeds[i])
	}
	ks.links.Touch(k.Conn)
}

// Deed sends a deed to the keeper of a job.
func (ks *Keepers) Deed(d *launcher.Deed) {
	k := ks.jobs[d.Ident]
	if k == nil {
		for i := range ks.queue {
			if ks.queue[i].start.Launch.Ident == d.Ident {
				ks.queue[i].deeds = append(ks.queue[i].deeds, *d)
			}
		}
		return
	}
	if d.Kind == launcher.DeedForget {
		k.Settle()
		k.forgotten = true
		delete(ks.jobs, d.Ident)
		ks.routes.Detach(d.Ident, &k.Keeper)
		if k.Conn.Write(wire.KindDeed, 0, d) == nil {
			ks.links.TouchLast(k.Conn)
		}
		return
	}
	if k.Conn.Write(wire.KindDeed, 0, d) == nil {
		ks.links.Touch(k.Conn)
	}
	if d.Kind == launcher.DeedStop {
		k.stopping = true
		k.wake()
	}
}

// wake continues a keeper that a user has stopped (SIGSTOP), so that the keeper can end
// its job.
func (k *keeperProcess) wake() {
	if k.proc.Wake != nil {
		k.proc.Wake()
	}
}

// Beat tells the keepers that their launcher is alive, and how long their ranks may run
// on without a launcher.
func (ks *Keepers) Beat(t *inputs.Turn) {
	for _, k := range ks.jobs {
		if k.stopping {
			k.wake()
		}
		err := k.Conn.WriteRaw(wire.KindLease, 0)
		if left, known := t.Node.Lease(t.Now, k.ident); known && err == nil {
			err = k.Conn.Write(wire.KindDeed, 0, &launcher.Deed{Ident: k.ident, Kind: launcher.DeedLease, Grace: left})
		}
		if err == nil {
			_ = k.Conn.Flush()
		}
	}
	ks.Refill()
}

// Refill has keepers started up to the number to keep ready.
func (ks *Keepers) Refill() {
	for len(ks.idle)+ks.spawning < ks.cfg.Spare+len(ks.queue) && ks.spawning < maxSpawning {
		select {
		case ks.wants <- struct{}{}:
			ks.spawning++
		default:
			return
		}
	}
}

// spawner starts keepers, one after another, on a thread of its own, so that keepers
// begin with the priority configured for keepers and not the launcher's.
func (ks *Keepers) spawner() {
	release := plainThread(ks.cfg.Nice)
	defer release()
	for {
		select {
		case <-ks.wants:
		case <-ks.in.Context().Done():
			return
		}
		p, err := ks.own.start(ks.Port.Spawn)
		if err != nil {
			ks.in.Post(func(t *inputs.Turn) { ks.onSpawnFailed(t, err) })
			continue
		}
		ks.in.Watch.Add(watch.KeepersSpawned, 1)
		k := &keeperProcess{proc: p, Keeper: dataplane.Keeper{Conn: wire.NewConn(p.Link)}}
		ks.greet(k)
		_ = k.Conn.Flush()
		ks.in.Post(func(*inputs.Turn) { ks.onSpawned(k) })
		if ks.in.Context().Err() != nil { // the loop may not run onSpawned any more
			_ = k.Conn.Close() // the keeper ends, as late as the last ranks of this node
			return
		}
	}
}

// onSpawned adds a keeper to the pool. The loop may write a Start before the keeper's
// first frame: the keeper reads the Start when ready.
func (ks *Keepers) onSpawned(k *keeperProcess) {
	ks.spawning--
	ks.all[k] = true
	ks.in.Go(func() { ks.serve(k) })
	ks.offer(k)
}

// offer gives k the oldest waiting start, or adds k to the idle keepers.
func (ks *Keepers) offer(k *keeperProcess) {
	if len(ks.queue) > 0 {
		p := ks.queue[0]
		ks.queue = slices.Delete(ks.queue, 0, 1)
		ks.assign(k, p)
		return
	}
	ks.idle = append(ks.idle, k)
}

// onSpawnFailed refuses the oldest waiting start: without keepers this node cannot launch, and
// the origin of the job must learn so.
func (ks *Keepers) onSpawnFailed(t *inputs.Turn, err error) {
	ks.spawning--
	ks.failures++
	ks.in.Fault("cannot start a keeper", err, "binary", ks.cfg.Program)
	if len(ks.queue) == 0 {
		return
	}
	p := ks.queue[0]
	ks.queue = slices.Delete(ks.queue, 0, 1)
	text := filch.Errorf(filch.Internal, "cannot start a keeper on %s: %s", ks.in.Self, err.Error())
	t.Node.Keeper(t.Now, launcher.KeeperReady{Ident: p.start.Launch.Ident, Err: text, Cause: launcher.CauseOurs}, t.Out)
}

// serve reads the link of one keeper until the keeper ends.
func (ks *Keepers) serve(k *keeperProcess) {
	err := ks.read(k)
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
		ks.in.Watch.Refused(watch.FramesBad, "keeper", err, ks.in.Self)
	}
	_ = k.Conn.Close()
	if ks.in.Context().Err() != nil {
		return // the keeper waits for the next launcher
	}
	_ = k.proc.Wait()
	ks.own.ended(k.proc.PID)
	ks.in.Post(func(t *inputs.Turn) { ks.onGone(t, k) })
}

func (ks *Keepers) read(k *keeperProcess) error {
	for {
		f, err := k.Conn.ReadShared() // posted events are decoded copies of the frame
		if err != nil {
			return err
		}
		if err := ks.onFrame(k, f); err != nil {
			return err
		}
		if !k.Conn.Buffered() {
			k.Flush()
		}
	}
}

// onFrame acts on one frame of a keeper.
func (ks *Keepers) onFrame(k *keeperProcess, f wire.Frame) error {
	if !f.Kind.On(wire.FromKeeper) {
		return filch.Errorf(filch.Invalid, "a keeper does not send %s", f.Kind)
	}
	switch f.Kind {
	case wire.KindHello:
		h, err := wire.DecodeHello(f.Body)
		if err != nil {
			return err
		}
		if h.Ident == "" {
			ks.in.Post(func(*inputs.Turn) { ks.onHello(k) })
		}
		return nil
	case wire.KindRefusal:
		return wire.DecodeRefusal(f.Body)
	case wire.KindOutput, wire.KindOutputEnd, wire.KindStdinWant, wire.KindPeerFrame, wire.KindKinFrame, wire.KindWarn:
		return k.OnFrame(f)
	}
	ev, err := wire.DecodeKeeper(f.Kind, f.Body)
	if err != nil {
		return err
	}
	taken := make(chan struct{})
	ks.in.Post(func(t *inputs.Turn) { ks.onEvent(t, k, ev); close(taken) })
	if f.Kind == wire.KindAdopted {
		ks.awaitRoute(k, taken)
	}
	return nil
}

// awaitRoute has the reader of an adopted keeper wait until the loop has made the route of
// the keeper's job. The output that no launcher has taken follows the frame at once, and output
// without a route is dropped: the origin would count the ranks as ended, and the output as none.
func (ks *Keepers) awaitRoute(k *keeperProcess, made <-chan struct{}) {
	for !ks.in.Await(made, inputs.LoopWait) && ks.in.Context().Err() == nil {
		ks.in.Watch.Log().Warn("a keeper waits to be adopted: the launcher is busy", "pid", k.proc.PID, "took", inputs.LoopWait)
	}
}

// onEvent feeds the Node. The next keeper is started when the job is done, or has run
// for a while, so that the new keeper does not compete with the job's start.
func (ks *Keepers) onEvent(t *inputs.Turn, k *keeperProcess, ev any) {
	switch e := ev.(type) {
	case launcher.Adopted:
		if k.ident != (filch.Ident{}) {
			return
		}
		ks.in.Watch.Add(watch.Adopted, 1)
		k.ident = e.Start.Launch.Ident
		ks.jobs[k.ident] = k
		ks.gangs.OnAdopted(&e.Start)
		ks.routes.Learn(&e.Start.Launch, e.Start.Index)
		ks.routes.Attach(&k.Keeper, &e.Start)
		t.Node.Keeper(t.Now, ev, t.Out)
		ks.OnAdopted(t, k)
		return
	case launcher.KeeperReady:
		ks.copies.OnReady(e.Ident)
	case launcher.RanksStarted:
		ks.links.RefillAt(t.Now + refillPause)
	case launcher.KeeperDone:
		k.done = true
		ks.links.RefillAt(t.Now + refillPause) // by then this keeper may be idle again
		if ks.gangs.Hold(e.Ident, func() { ks.in.Post(func(t *inputs.Turn) { ks.onEvent(t, k, ev) }) }) {
			return
		}
		again := func(unsent bool) {
			e.Unsent = unsent
			ks.in.Post(func(t *inputs.Turn) { t.Node.Keeper(t.Now, e, t.Out) })
		}
		if k.Hold(again) {
			return
		}
	}
	t.Node.Keeper(t.Now, ev, t.Out)
}

// onHello takes back a keeper after a job. The first hello of a new keeper shows a
// working keeper. A successful spawn does not: a keeper dying at once would otherwise be
// replaced forever.
func (ks *Keepers) onHello(k *keeperProcess) {
	ks.failures = 0
	if !k.forgotten {
		return
	}
	k.forgotten, k.done, k.ident = false, false, filch.Ident{}
	if len(ks.queue) == 0 && len(ks.idle) >= max(maxIdle, ks.cfg.Spare) {
		_ = k.Conn.Close()
		return
	}
	ks.in.Watch.Add(watch.KeepersKept, 1)
	ks.offer(k)
}

// onGone handles the end of a keeper. A keeper that was not done left processes behind:
// endOrphans ends these processes before the Node learns of the end.
func (ks *Keepers) onGone(t *inputs.Turn, k *keeperProcess) {
	delete(ks.all, k)
	defer ks.OnAdopted(t, k)
	if i := slices.Index(ks.idle, k); i >= 0 {
		ks.idle = slices.Delete(ks.idle, i, i+1)
		ks.failures++
		ks.in.Watch.Log().Warn("an idle keeper ended", "pid", k.proc.PID)
		if !ks.gaveUp() {
			ks.Refill()
		}
	}
	if k.ident == (filch.Ident{}) || k.forgotten {
		return
	}
	delete(ks.jobs, k.ident)
	ks.routes.Detach(k.ident, &k.Keeper)
	if k.done {
		return
	}
	ks.gangs.OnGone(k.ident)
	ks.in.Watch.Add(watch.KeepersGone, 1)
	ks.in.Watch.Log().Warn("a keeper vanished", "job", int(k.ident.Job), "pid", k.proc.PID)
	ident := k.ident
	ks.in.Go(func() {
		ks.endOrphans()
		ks.in.Post(func(t *inputs.Turn) {
			t.Node.Keeper(t.Now, launcher.KeeperGone{Ident: ident, Text: "the keeper vanished"}, t.Out)
		})
	})
}

// Release closes the links of all keepers: idle keepers exit, the others wait for the
// next launcher. The loop calls release last.
func (ks *Keepers) Release() {
	for k := range ks.all {
		_ = k.Conn.Drain(releaseDrain)
		_ = k.Conn.Close()
	}
}

// releaseDrain limits how long an ending launcher lets a keeper read queued frames.
const releaseDrain = 200 * time.Millisecond
