package daemon

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/dht/disk"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/dht/store"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon/children"
	"github.com/filch-hpc/filch/launcher/daemon/dataplane"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/metrics"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/daemon/query"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/policy"
)

// Config holds the settings of a daemon. Node, Dir and Keeper must be set.
type Config struct {
	Node        node.Config
	Dir         place.Dir
	Keeper      string       // the filch binary, whose `keeper` is started
	Watch       *watch.Watch // nil: no log
	Build       string
	Addr        string         // under which other nodes reach this node, for display
	Nice        int            // of the keepers
	Spare       int            // keepers kept ready; 0 is 1
	StoreBytes  int64          // limit of the node's part of the store; 0 is 512 MB
	OutputBytes int64          // limit of tasks' output on the node; 0 is 1 GB
	Mirror      string         // the folder of the mirrored queue; "" for none
	History     string         // the folder of ended jobs; "" for none
	Ends        time.Time      // when the allocation takes the node away; zero: not known
	Metrics     metrics.Config // Addr "": none; Read is the daemon's
	DrainBad    int            // failures after which the node drains as bad; 0: no number
	Found       bool           // first node of its instance: the node joined nobody
}

// Daemon runs one launcher.
type Daemon struct {
	cfg        Config
	net        *overlay.Mesh
	in         *inputs.Queue
	loop       *loop
	clients    *clients
	keepers    *children.Keepers
	runners    *children.Runners
	folderGone atomic.Bool     // the node's folder was removed
	trim       chan struct{}   // a message has the daemon trim output now
	files      *staging.Files  // of tasks
	copies     *staging.Copies // of programs
	mirror     *mirroring      // of the queue
	past       *pastJobs
	routes     *dataplane.Routes
	nodes      *peers.Directory
	members    *memberNews
	questions  *peers.Questions
	queries    *query.Server
	inbound    *inbound
	records    *recordLog
	store      *storeLog
	lock       *os.File
	exports    exports // of the metrics
	board      board   // the dashboard
}

// New takes the state directory for this process, restores the records of an earlier
// launcher and adopts the keepers of that launcher. The daemon serves nobody before
// [Daemon.Run].
func New(cfg Config) (*Daemon, error) {
	if cfg.Watch == nil {
		cfg.Watch = watch.Discard()
	}
	if cfg.Node.Seed == 0 {
		cfg.Node.Seed = rand.Uint64()
	}
	if cfg.Spare == 0 {
		cfg.Spare = 1
	}
	if cfg.OutputBytes == 0 {
		cfg.OutputBytes = outputQuota
	}
	if err := cfg.Dir.Make(); err != nil {
		return nil, err
	}
	lock, err := takeLock(cfg.Dir)
	if err != nil {
		return nil, err
	}
	d := &Daemon{cfg: cfg, in: inputs.New(cfg.Node.Name, cfg.Watch), lock: lock}
	if d.cfg.Node.Incarnation == 0 {
		d.cfg.Node.Incarnation, err = nextIncarnation(cfg.Dir)
	}
	if err == nil {
		d.records, err = openRecords(cfg.Dir.Jobs(), d.onRecordsReport)
	}
	if err == nil {
		d.store, err = openStore(d, cfg.Dir.Store())
	}
	if err != nil {
		if d.records != nil {
			_ = d.records.close()
		}
		lock.Close()
		return nil, err
	}
	d.cfg.Node.Drain = loadDrain(cfg.Dir)
	d.mirror = newMirroring(d)
	d.past = newPast(d)
	d.loop = newLoop(d)
	d.routes = dataplane.New(d.in, cfg.Node.Instance, cfg.Dir.Out())
	d.nodes = peers.NewDirectory(cfg.Node.Name)
	d.members = newMembers(d)
	d.questions = peers.NewQuestions(d.in, d.nodes)
	d.questions.SetAnswer(func(q wire.Query) (any, error) { return d.queries.Answer(q, false) })
	d.clients = newClients(d)
	d.keepers = children.NewKeepers(d.in, children.Config{
		Dir: cfg.Dir.Path(), Program: cfg.Keeper, Instance: cfg.Node.Instance, Name: cfg.Dir.Instance, Build: cfg.Build, Nice: cfg.Nice, Spare: cfg.Spare,
	}, d.loop, d.nodes, d.routes)
	d.runners = children.NewRunners(d.in, d.keepers, cfg.Node.Capacity.Slots, d.mirror.holdBack)
	d.trim = make(chan struct{}, 1)
	d.files = staging.NewFiles(d.in, cfg.Dir.Path(), cfg.Keeper, d.nodes, d.runners)
	d.runners.SetFiles(d.files, cfg.Dir.Path())
	d.routes.SetGangs(d.runners.TakerOf)
	gangs := staging.NewGangs(d.in, d.files, d.keepers, d.routes)
	d.copies = staging.NewCopies(d.in, cfg.Dir, d.files, gangs, d.routes)
	d.keepers.SetFiles(d.copies, gangs)
	d.queries = query.New(d.in, query.Parts{
		Dir: cfg.Dir, Build: cfg.Build, Nodes: d.nodes, Questions: d.questions, Routes: d.routes, Files: d.files,
		Clients: d.clients, Keepers: d.keepers, Runners: d.runners, Cuts: &d.runners.Cuts, Mirror: d.mirror, History: d.past.trouble, Disk: d.store,
		Incarnation: d.Incarnation, Metrics: d.exports.info, Board: d.board.order, Network: func() query.Network { return d.net }, Drain: d.drain, Down: d.down,
	})
	d.exports.in, d.cfg.Metrics.Read = d.in, d.queries.Read
	d.board.begin(d)
	d.inbound = newInbound(d)
	return d, nil
}

// Reap waits for processes that dead keepers left to this process, until ctx ends. Only
// a process without other duties than a launcher's may call Reap.
func (d *Daemon) Reap(ctx context.Context) { d.keepers.Reap(ctx) }

// Grows says whether the instance has a pool of allocations: see [node.Node.Grows].
func (d *Daemon) Grows(may bool) {
	_ = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) { t.Node.Grows(may) })
}

// AwaitChange waits until a record has another version than the given one, or until ctx ends.
// A wait costs no message: the home of the record tells of a change.
func (d *Daemon) AwaitChange(ctx context.Context, seen map[dht.Key]dht.Version) {
	changed := make(chan struct{}, 1)
	var stops []func(time.Duration, *launcher.Outbox)
	err := d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		for _, key := range slices.Sorted(maps.Keys(seen)) {
			stops = append(stops, t.Node.WatchRecord(t.Now, key, seen[key], func() {
				select {
				case changed <- struct{}{}:
				default: // the wait is over already
				}
			}, t.Out))
		}
	})
	if err != nil {
		return // the launcher ends
	}
	select {
	case <-changed:
	case <-ctx.Done():
	case <-d.in.Context().Done():
	}
	_ = d.in.Ask(inputs.LoopWait, func(t *inputs.Turn) {
		for _, stop := range stops {
			stop(t.Now, t.Out)
		}
	})
}

// Incarnation returns the incarnation of this launcher.
func (d *Daemon) Incarnation() uint64 { return d.cfg.Node.Incarnation }

// Card returns the description of this node for other nodes.
func (d *Daemon) Card() peers.Card {
	n := &d.cfg.Node
	return peers.Card{Total: n.Capacity.Total(), PID: int32(os.Getpid()), Build: d.cfg.Build, Group: n.Group, Labels: n.Labels, Role: n.Role, Drain: n.Drain}
}

// Connect sets the overlay that reaches other nodes, and the incarnation with which
// this node joined the overlay. Run needs both, so Connect comes first. The daemon
// closes the overlay.
func (d *Daemon) Connect(net *overlay.Mesh, incarnation uint64) {
	d.net = net
	d.routes.Connect(net)
	d.files.Connect(net)
	d.questions.Connect(net)
	d.cfg.Addr = net.Addr()
	if a, err := netip.ParseAddrPort(d.cfg.Addr); err == nil {
		d.cfg.Metrics.Host = a.Addr().String()
		if err := d.cfg.Dir.WritePort(a.Port()); err != nil {
			d.in.Fault("cannot remember the port", err)
		}
	}
	d.cfg.Node.Incarnation = max(d.cfg.Node.Incarnation, incarnation)
}

// Found marks this node as the first of its instance, since the node has joined nobody;
// Found comes before Run.
func (d *Daemon) Found() { d.cfg.Found = true }

// Abandon releases the state directory when nobody will call Run.
func (d *Daemon) Abandon() {
	d.in.Stop()
	_ = d.records.close()
	if err := d.store.log.Close(); err != nil {
		d.in.Fault("cannot close the store's log", err)
	}
	d.lock.Close()
}

// Run serves until a client asks for the end or ctx ends; after [Daemon.Connect].
func (d *Daemon) Run(ctx context.Context) error {
	d.cfg.Node.Tasks.WallNS = d.in.Began.UnixNano()
	if !d.cfg.Ends.IsZero() {
		d.cfg.Node.Walltime.End = max(d.cfg.Ends.Sub(d.in.Began), 1) // 0 would be a node that stays
	}
	d.cfg.Node.Tasks.Mirror = d.mirror.on()
	d.cfg.Node.Tasks.DrainBad = d.cfg.DrainBad
	d.cfg.Node.Tasks.Policy.Kind = policy.Auto
	d.cfg.Node.Tasks.Victims = policy.Hierarchical // without groups, drawn from all nodes
	d.loop.node = node.New(d.cfg.Node, store.New(records.StoreConfig(&d.cfg.Node)))
	if err := d.clients.listen(); err != nil {
		return errors.Join(err, d.close())
	}
	d.exports.begin(d.cfg.Metrics)
	d.keepers.Begin()
	d.mirror.begin()
	d.past.begin()
	d.in.Go(d.loop.run)
	d.in.Go(d.trimLoop)
	d.in.Go(d.watchFolder)
	d.net.SetHandler(d.inbound.receive)
	d.net.SetWritable(d.routes.OnWritable)
	if d.cfg.Node.Drain != nil {
		d.in.Go(d.resumeDrain)
	}
	d.in.Go(d.clients.accept)
	d.in.Watch.Log().Info("launcher is up", "node", string(d.in.Self), "pid", os.Getpid(),
		"incarnation", d.cfg.Node.Incarnation, "build", d.cfg.Build, "addr", d.cfg.Addr)
	d.in.Watch.Event(events.Event{Kind: events.LauncherUp, Reason: d.cfg.Build})
	select {
	case <-ctx.Done():
		d.shutDown(downGrace, wire.DownNode)
	case <-d.in.Context().Done():
	}
	return d.close()
}

// Stop makes Run return.
func (d *Daemon) Stop() { d.in.Stop() }

// close ends all goroutines. Running keepers stay for a successor.
func (d *Daemon) close() error {
	d.in.Stop()
	d.clients.close()
	err := d.net.Close()
	hung := d.within(endWait, "what it began", d.in.Wait)
	if hung == nil {
		hung = d.within(endWait, "its logs", func() {
			_ = d.records.close() // the loop closed the log, if the loop ran
			if bad := d.store.log.Close(); bad != nil {
				d.in.Fault("cannot close the store's log", bad)
			}
		})
	}
	if hung != nil {
		// The lock ends with the process: a goroutine may still write.
		d.in.Fault("the launcher ends all the same", hung)
		return errors.Join(err, hung)
	}
	d.in.Watch.Log().Info("launcher has ended", "node", string(d.in.Self))
	d.lock.Close()
	return err
}

// endWait limits how long an ending launcher waits for its goroutines, and then for its
// logs: longer than either waits for anything but a file system.
const endWait = 30 * time.Second

// within waits for the end of f, at most for wait: a process cannot interrupt a file
// system that hangs, only leave.
func (d *Daemon) within(wait time.Duration, what string, f func()) error {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-timer.C:
		return filch.Errorf(filch.Timeout, "the launcher of %s waited %v for the end of %s", d.in.Self, wait, what).
			WithHint("a file system may hang: the file system of %s, or of the queue", d.cfg.Dir.Path())
	}
}

// onRecordsReport logs the reports of the records' log.
func (d *Daemon) onRecordsReport(r disk.Report) {
	switch r.Kind {
	case disk.Failed, disk.Failing:
		d.in.Fault("cannot keep the records", errors.New(r.String()))
	case disk.Back:
		d.in.Watch.Log().Info("the records are kept again", "node", string(d.in.Self))
	default:
		d.in.Watch.Log().Warn("the records' log", "err", r.String())
	}
}
