package daemon

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
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of the keepers.
const (
	maxSpawning = 4 // keepers that are being started while jobs wait for them
	maxIdle     = 4 // that are kept when a burst of jobs is over
	reapWait    = 1500 * time.Millisecond
	refillPause = 20 * time.Millisecond // from the start of ranks to that of the next keeper
)

// process is a keeper as the operating system sees it.
type process struct {
	pid  int
	link net.Conn
	wait func() error // returns when it has ended
	wake func()       // has it go on when it was stopped
}

// port is what the daemon needs of launcher/proc.
type port struct {
	spawn  func() (*process, error)
	runner func() (*process, error)
	redial func() ([]*process, error)
	// sweep kills the processes of dead attempts on this node, for some time at
	// most, and returns how many it killed.
	sweep func() (int, error)
}

// keepers holds this node's keepers. All but its goroutines' own is the loop's.
type keepers struct {
	d     *Daemon
	port  port
	wants chan struct{} // one per keeper to be started
	own   children
	reaps atomic.Bool // whatever else is a child of this process is a stray

	idle     []*keeper
	jobs     map[filch.Ident]*keeper
	all      map[*keeper]bool
	queue    []pending
	unheard  map[*keeper]bool // of an earlier launcher, and not adopted yet
	spawning int
	failures int
	settled  atomic.Bool // all keepers of an earlier launcher were heard of
}

// keeper is one of them, with a job or without.
type keeper struct {
	proc  *process
	conn  *wire.Conn
	route atomic.Pointer[route] // of its job, for the goroutine that reads

	// The loop's.
	ident     filch.Ident
	done      bool // said so
	forgotten bool
	stopping  bool
}

// pending is a start that waits for a keeper, with what came after it.
type pending struct {
	start launcher.Start
	deeds []launcher.Deed
}

func newKeepers(d *Daemon) *keepers {
	from := newPort(d)
	if d.cfg.port != nil {
		from = *d.cfg.port
	}
	return &keepers{
		d: d, port: from,
		wants: make(chan struct{}, maxSpawning), own: children{kept: map[int]bool{}},
		jobs: map[filch.Ident]*keeper{}, all: map[*keeper]bool{}, unheard: map[*keeper]bool{},
	}
}

// begin starts the goroutine that starts keepers.
func (ks *keepers) begin() { ks.d.work.Go(ks.spawner) }

// busy reports whether any keeper has a job.
func (ks *keepers) busy() bool { return len(ks.jobs) > 0 }

// adopt takes over the keepers of an earlier launcher and sweeps up after
// those that did not live to see this one.
func (ks *keepers) adopt() {
	found, err := ks.port.redial()
	if err != nil {
		ks.d.fault("cannot look for the keepers of an earlier launcher", err)
	}
	for _, p := range found {
		k := &keeper{proc: p, conn: wire.NewConn(p.link)}
		ks.all[k] = true
		ks.unheard[k] = true
		ks.greet(k)
		_ = k.conn.WriteRaw(wire.KindAdopt, 0)
		_ = k.conn.Flush()
		ks.d.work.Go(func() { ks.serve(k) })
	}
	// Before anything is started here: what is swept up may hold cores.
	ks.d.work.Go(func() {
		ks.sweep()
		ks.d.post(func(*turn) { ks.refill() })
	})
}

func (ks *keepers) sweep() {
	n, err := ks.port.sweep()
	if err != nil {
		ks.d.fault("cannot sweep up after dead keepers", err)
	}
	if ks.reaps.Load() {
		n += ks.own.endStrays(reapWait)
	}
	if n > 0 {
		ks.d.watch.Add(watch.Swept, uint64(n))
		ks.d.watch.Log().Warn("killed processes of dead attempts", "processes", n)
	}
}

func (ks *keepers) greet(k *keeper) {
	hello, err := wire.EncodeHello(wire.Hello{Role: "launcher", Build: ks.d.cfg.Build})
	if err == nil {
		err = k.conn.WriteRaw(wire.KindHello, 0, hello)
	}
	if err != nil {
		ks.d.fault("cannot greet a keeper", err, "pid", k.proc.pid)
	}
}

// heard notes that a keeper of an earlier launcher was adopted or is gone.
// After the last one the brain may lend what is free.
func (ks *keepers) heard(t *turn, k *keeper) {
	if k != nil && !ks.unheard[k] {
		return
	}
	delete(ks.unheard, k)
	if len(ks.unheard) == 0 {
		ks.settled.Store(true)
		t.node.Settled(t.now, t.out)
	}
}

// start gives a job to a keeper that is ready, or has one started.
func (ks *keepers) start(s launcher.Start) {
	s.Net = ks.d.members.net(s.Launch.Nodes)
	if len(ks.idle) == 0 {
		ks.queue = append(ks.queue, pending{start: s})
		ks.refill()
		return
	}
	k := ks.idle[len(ks.idle)-1]
	ks.idle = ks.idle[:len(ks.idle)-1]
	ks.assign(k, pending{start: s})
}

func (ks *keepers) assign(k *keeper, p pending) {
	k.ident, k.done, k.forgotten, k.stopping = p.start.Launch.Ident, false, false, false
	ks.jobs[k.ident] = k
	ks.d.routes.attach(k, &p.start)
	if err := k.conn.Write(wire.KindStart, 0, &p.start); err != nil {
		ks.d.fault("cannot hand a job to a keeper", err, "job", int(k.ident.Job))
		_ = k.conn.Close() // its reader reports it gone
		return
	}
	for i := range p.deeds {
		ks.deed(&p.deeds[i])
	}
	ks.d.loop.touch(k.conn)
}

// deed tells a keeper what to do.
func (ks *keepers) deed(d *launcher.Deed) {
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
		if r := k.route.Load(); r != nil {
			r.settle(k)
		}
		k.forgotten = true
		delete(ks.jobs, d.Ident)
		ks.d.routes.detach(d.Ident, k)
		if k.conn.Write(wire.KindDeed, 0, d) == nil {
			ks.d.loop.later = append(ks.d.loop.later, k.conn)
		}
		return
	}
	if k.conn.Write(wire.KindDeed, 0, d) == nil {
		ks.d.loop.touch(k.conn)
	}
	if d.Kind == launcher.DeedStop {
		k.stopping = true
		k.wake()
	}
}

// wake makes a keeper go on that somebody has stopped: it is to end its job.
func (k *keeper) wake() {
	if k.proc.wake != nil {
		k.proc.wake()
	}
}

// beat tells the keepers that their launcher lives, and how long their ranks may run on
// without one.
func (ks *keepers) beat(t *turn) {
	for _, k := range ks.jobs {
		if k.stopping {
			k.wake()
		}
		err := k.conn.WriteRaw(wire.KindLease, 0)
		if left, known := t.node.Lease(t.now, k.ident); known && err == nil {
			err = k.conn.Write(wire.KindDeed, 0, &launcher.Deed{Ident: k.ident, Kind: launcher.DeedLease, Grace: left})
		}
		if err == nil {
			_ = k.conn.Flush()
		}
	}
	ks.refill()
}

// refill has keepers started up to the number that is to be ready.
func (ks *keepers) refill() {
	for len(ks.idle)+ks.spawning < ks.d.cfg.Spare+len(ks.queue) && ks.spawning < maxSpawning {
		select {
		case ks.wants <- struct{}{}:
			ks.spawning++
		default:
			return
		}
	}
}

// spawner starts keepers, one at a time, on a thread of its own so that they
// begin with the priority that was set for them and not the launcher's.
func (ks *keepers) spawner() {
	release := plainThread(ks.d.cfg.Nice)
	defer release()
	for {
		select {
		case <-ks.wants:
		case <-ks.d.ctx.Done():
			return
		}
		p, err := ks.own.start(ks.port.spawn)
		if err != nil {
			ks.d.post(func(t *turn) { ks.failed(t, err) })
			continue
		}
		ks.d.watch.Add(watch.KeepersSpawned, 1)
		k := &keeper{proc: p, conn: wire.NewConn(p.link)}
		ks.greet(k)
		_ = k.conn.Flush()
		ks.d.post(func(*turn) { ks.spawned(k) })
		if ks.d.ctx.Err() != nil { // nobody will hear of it
			_ = k.conn.Close()
			_ = p.wait()
			ks.own.ended(p.pid)
			return
		}
	}
}

// spawned takes a keeper into the pool. Its Start may be written before it has
// said anything: it will read it when it is up.
func (ks *keepers) spawned(k *keeper) {
	ks.spawning--
	ks.all[k] = true
	ks.d.work.Go(func() { ks.serve(k) })
	ks.ready(k)
}

// ready gives k the oldest start that waits, or keeps it.
func (ks *keepers) ready(k *keeper) {
	if len(ks.queue) > 0 {
		p := ks.queue[0]
		ks.queue = slices.Delete(ks.queue, 0, 1)
		ks.assign(k, p)
		return
	}
	ks.idle = append(ks.idle, k)
}

// failed refuses the oldest start that waits: without keepers this node cannot
// launch, and its origin must hear so.
func (ks *keepers) failed(t *turn, err error) {
	ks.spawning--
	ks.failures++
	ks.d.fault("cannot start a keeper", err, "binary", ks.d.cfg.Keeper)
	if len(ks.queue) == 0 {
		return
	}
	p := ks.queue[0]
	ks.queue = slices.Delete(ks.queue, 0, 1)
	text := filch.Errorf(filch.Internal, "cannot start a keeper on %s: %s", ks.d.self, err.Error())
	t.node.Keeper(t.now, launcher.KeeperReady{Ident: p.start.Launch.Ident, Err: text, Cause: launcher.CauseOurs}, t.out)
}

// serve reads one keeper until it ends.
func (ks *keepers) serve(k *keeper) {
	err := ks.read(k)
	if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) && !errors.Is(err, unix.ECONNRESET) {
		ks.d.watch.Refused(watch.FramesBad, "keeper", err, ks.d.self)
	}
	_ = k.conn.Close()
	if ks.d.ctx.Err() != nil {
		return // it waits for the next launcher
	}
	_ = k.proc.wait()
	ks.own.ended(k.proc.pid)
	ks.d.post(func(t *turn) { ks.gone(t, k) })
}

func (ks *keepers) read(k *keeper) error {
	for {
		f, err := k.conn.ReadShared() // what is posted was decoded, and shares nothing with it
		if err != nil {
			return err
		}
		if err := ks.handle(k, f); err != nil {
			return err
		}
		if !k.conn.Buffered() {
			if r := k.route.Load(); r != nil {
				r.flush()
			}
		}
	}
}

// handle acts on one frame of a keeper.
func (ks *keepers) handle(k *keeper, f wire.Frame) error {
	switch f.Kind {
	case wire.KindHello:
		h, err := wire.DecodeHello(f.Body)
		if err != nil {
			return err
		}
		if h.Ident == "" {
			ks.d.post(func(*turn) { ks.again(k) })
		}
		return nil
	case wire.KindRefusal:
		return wire.DecodeRefusal(f.Body)
	case wire.KindOutput, wire.KindOutputEnd, wire.KindStdinWant, wire.KindPeerFrame, wire.KindWarn:
		if r := k.route.Load(); r != nil {
			return r.fromKeeper(k, f)
		}
		return nil
	}
	ev, err := wire.DecodeKeeper(f.Kind, f.Body)
	if err != nil {
		return err
	}
	ks.d.post(func(t *turn) { ks.event(t, k, ev) })
	return nil
}

// event feeds the brain. The next keeper is started when the job is done, or
// has run for a while, so that it does not compete with its start.
func (ks *keepers) event(t *turn, k *keeper, ev any) {
	switch e := ev.(type) {
	case launcher.Adopted:
		if k.ident != (filch.Ident{}) {
			return
		}
		ks.d.watch.Add(watch.Adopted, 1)
		k.ident = e.Start.Launch.Ident
		ks.jobs[k.ident] = k
		ks.d.routes.learn(&e.Start.Launch, e.Start.Index)
		ks.d.routes.attach(k, &e.Start)
		t.node.Keeper(t.now, ev, t.out)
		ks.heard(t, k)
		return
	case launcher.KeeperReady:
		ks.d.copies.ready(e.Ident)
	case launcher.RanksStarted:
		ks.d.loop.refillAt(t.now + refillPause)
	case launcher.KeeperDone:
		k.done = true
		ks.d.loop.refillAt(t.now + refillPause) // by then it may be back itself
		again := func() { ks.d.post(func(t *turn) { t.node.Keeper(t.now, ev, t.out) }) }
		if r := k.route.Load(); r != nil && r.hold(again) {
			return
		}
	}
	t.node.Keeper(t.now, ev, t.out)
}

// again takes back a keeper that has done a job and offers to do another. The
// first such word of a new one says that it works, which its start does not:
// one that dies at once would else be followed by another for ever.
func (ks *keepers) again(k *keeper) {
	ks.failures = 0
	if !k.forgotten {
		return
	}
	k.forgotten, k.done, k.ident = false, false, filch.Ident{}
	if len(ks.queue) == 0 && len(ks.idle) >= max(maxIdle, ks.d.cfg.Spare) {
		_ = k.conn.Close()
		return
	}
	ks.d.watch.Add(watch.KeepersKept, 1)
	ks.ready(k)
}

// gone handles the end of a keeper. One that was not done left processes
// behind: they are swept up before the brain hears of it.
func (ks *keepers) gone(t *turn, k *keeper) {
	delete(ks.all, k)
	defer ks.heard(t, k)
	if i := slices.Index(ks.idle, k); i >= 0 {
		ks.idle = slices.Delete(ks.idle, i, i+1)
		ks.failures++
		ks.d.watch.Log().Warn("an idle keeper ended", "pid", k.proc.pid)
		if ks.failures < maxSpawning {
			ks.refill()
		}
	}
	if k.ident == (filch.Ident{}) || k.forgotten {
		return
	}
	delete(ks.jobs, k.ident)
	ks.d.routes.detach(k.ident, k)
	if k.done {
		return
	}
	ks.d.watch.Add(watch.KeepersGone, 1)
	ks.d.watch.Log().Warn("a keeper vanished", "job", int(k.ident.Job), "pid", k.proc.pid)
	ident := k.ident
	ks.d.work.Go(func() {
		ks.sweep()
		ks.d.post(func(t *turn) {
			t.node.Keeper(t.now, launcher.KeeperGone{Ident: ident, Text: "its keeper vanished"}, t.out)
		})
	})
}

// release closes the links of all keepers: idle ones leave, the others wait for
// the next launcher. The loop does it last.
func (ks *keepers) release() {
	for k := range ks.all {
		_ = k.conn.Drain(closeDrain)
		_ = k.conn.Close()
	}
}
