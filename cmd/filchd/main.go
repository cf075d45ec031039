// Command filchd is the launcher of one node. `filch up` and `filch join` start filchd
// with the path of a node.json; users do not start filchd by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/kad"
	"github.com/filch-hpc/filch/dht/members"
	"github.com/filch-hpc/filch/dht/overlay"
	"github.com/filch-hpc/filch/launcher/config"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/daemon"
	"github.com/filch-hpc/filch/launcher/daemon/metrics"
	"github.com/filch-hpc/filch/launcher/daemon/peers"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/policy"
)

// commit is set by make build (-ldflags -X).
var commit = "unknown"

func main() {
	if err := run(os.Args[1:]); err != nil {
		complain(err)
		if errors.As(err, new(wrongInput)) {
			os.Exit(filch.ExitUsage)
		}
		os.Exit(filch.ExitOurs)
	}
}

// wrongInput is the error of a setting that makes no sense, or of a file with settings: the command
// that started filchd exits with 2, as for a wrong option.
type wrongInput struct{ error }

func (w wrongInput) Unwrap() error { return w.error }

// ofSettings is the error of reading settings.
func ofSettings(err error) error {
	if e, ok := errors.AsType[*filch.Error](err); ok && e.Kind == filch.Invalid {
		return wrongInput{err}
	}
	return err
}

func complain(err error) {
	fmt.Fprintf(os.Stderr, "filch: error: %v\n", err)
	var e *filch.Error
	if errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintf(os.Stderr, "filch: hint: %s\n", e.Hint)
	}
}

func run(args []string) error {
	if slices.Equal(args, []string{"yaml"}) {
		return yamlMain()
	}
	if len(args) == 3 && args[0] == "config" {
		return ofSettings(configMain(args[1], args[2]))
	}
	if len(args) != 1 {
		return filch.Errorf(filch.Invalid, "filchd takes the path of a node.json").WithHint("`filch up` starts filchd")
	}
	if args[0] == "--version" {
		fmt.Printf("filchd %s (commit %s), wire version %d\n", filch.Version, commit, wire.Version)
		return nil
	}
	cfg, err := config.Load(args[0])
	if err != nil {
		return ofSettings(err)
	}
	// One processor: goroutines hand every input on to other goroutines. With a second
	// processor each hand-over wakes another thread, and the cores belong to the ranks.
	// One processor still carries a gigabyte of output a second.
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	limitMemory(restAfter)
	nice, err := daemon.PrepareProcess()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	signal.Ignore(unix.SIGHUP, unix.SIGPIPE)
	if err := cfg.Node.Dir.Make(); err != nil {
		return err
	}
	w, err := watch.Open(cfg.Node.Dir.Log(), cfg.Log.MaxBytes, cfg.Log.Debug)
	if err != nil {
		return err
	}
	defer w.Close()
	return serve(ctx, cfg, w, nice)
}

func serve(ctx context.Context, cfg config.Config, w *watch.Watch, nice int) error {
	capacity, err := config.Capacity(cfg.Node)
	if err != nil {
		return err
	}
	n := cfg.Node
	c := daemon.Config{
		Node: node.Config{
			Name: filch.NodeName(n.Dir.Node), Instance: n.UUID, Group: n.Alloc.Group, Labels: labels(n), Role: n.Role, Capacity: capacity,
			After:    filch.JobID(n.Alloc.After),
			Walltime: policy.Walltime{Drain: time.Duration(n.Alloc.Drain) * time.Millisecond, Blind: n.Alloc.Blind},
		},
		Dir: n.Dir, Keeper: n.Keeper, Watch: w, Build: filch.Build(commit), Nice: nice, Spare: cfg.Spare, DrainBad: cfg.DrainBad,
		StoreBytes: cfg.StoreBytes, Mirror: n.Alloc.Queue, Ends: ends(n),
	}
	c.Node.Tasks.Bounds = cfg.Bounds
	c.Metrics = metrics.Config{Addr: cfg.Metrics, Shared: n.Virtual}
	if cfg.Metrics != "" {
		if c.Metrics.Secret, err = place.ReadSecret(n.Secret); err != nil {
			return err
		}
	}
	if cfg.NoHistory {
		w.Log().Info("no history of jobs is kept: the setting history is false")
	} else if c.History, err = place.History(); err != nil {
		w.Log().Warn("no history of jobs is kept", "err", err.Error())
		c.History = ""
	}
	d, err := daemon.New(c)
	if err != nil {
		return err
	}
	if err := connect(ctx, d, n); err != nil {
		d.Abandon()
		return err
	}
	go d.Reap(ctx)
	pools, stopPools := context.WithCancel(ctx)
	defer stopPools()
	go keepPools(pools, n.Dir, n.Keeper, filch.Build(commit), c.History, w.Log(), d)
	err = d.Run(ctx)
	switch d.WentDown() {
	case "":
	case wire.DownAside:
		err = errors.Join(err, n.Dir.SetAside())
	case wire.DownAll:
		err = errors.Join(err, n.Dir.Remove())
		place.RemoveAside(n.Dir.Base, n.Dir.Instance)
	default:
		err = errors.Join(err, n.Dir.Remove())
	}
	return err
}

// labels are those of filch up or join, and of the GPUs' model.
func labels(n place.Node) filch.Labels {
	if n.GPUs != nil && len(n.GPUs) == 0 { // the batch system granted none
		return n.Labels
	}
	return n.Labels.With(config.GPULabels("/proc/driver/nvidia/gpus"))
}

// ends is when the allocation takes a node away; zero: not known.
func ends(n place.Node) time.Time {
	if n.Ends == 0 {
		return time.Time{}
	}
	return time.Unix(n.Ends, 0)
}

// joinWait bounds how long a launcher tries to become a member.
const joinWait = 20 * time.Second

// againWait bounds how long the restarted first node of an instance looks for the other
// nodes: a host beyond a dead link does not answer at all. Meanwhile the keepers wait
// for adoption, for at most 6.5 s.
const againWait = 2 * time.Second

// connect opens the overlay and joins the instance.
func connect(ctx context.Context, d *daemon.Daemon, n place.Node) error {
	secret, err := place.ReadSecret(n.Secret)
	if err != nil {
		return err
	}
	card, err := peers.EncodeCard(d.Card())
	if err != nil {
		return err
	}
	open := func() (*overlay.Mesh, error) {
		finder, host, err := listen(d, n, secret)
		if err != nil {
			return nil, filch.Errorf(filch.Unavailable, "%s", err.Error())
		}
		return overlay.NewMesh(host, overlay.MeshConfig{
			Incarnation: d.Incarnation(), Capacity: card, Seed: rand.Uint64(), Finder: finder,
			Events: func(e members.Event) {
				finder.Follow(e)
				d.MemberEvent(e)
			},
		}), nil
	}
	mesh, alone, err := join(ctx, n, open)
	if err != nil {
		return err
	}
	if alone {
		d.Found()
	}
	d.Connect(mesh, mesh.Self().Incarnation)
	return nil
}

// listen opens the host of this node. If any port will do, listen tries the port of the
// node's last launcher first, since other nodes look for this node at the old port.
func listen(d *daemon.Daemon, n place.Node, secret []byte) (finder *kad.Finder, h *overlay.Host, err error) {
	given := ""
	if len(n.Listen) > 0 {
		given = n.Listen[0]
	}
	tries := []string{given}
	if host, port, err := net.SplitHostPort(given); err == nil && port == "0" && n.Dir.ReadPort() > 0 {
		tries = []string{net.JoinHostPort(host, strconv.Itoa(int(n.Dir.ReadPort()))), given}
	}
	for _, at := range tries {
		finder = &kad.Finder{}
		h, err = overlay.NewHost(overlay.Config{
			Instance: n.UUID, Secret: secret, Name: filch.NodeName(n.Dir.Node), Incarnation: d.Incarnation(), Listen: at,
			Attach: finder.Attach, Detach: finder.Close,
		})
		if err == nil {
			break
		}
	}
	return finder, h, err
}

// join opens the overlay and becomes a member through the addresses given to the node,
// and the addresses saved by its last launcher. The first node of an instance has no
// given addresses: when no saved address listens any more, the node begins alone. So
// does a node that was a member before, after waiting in vain: live nodes find this
// node, or are found.
func join(ctx context.Context, n place.Node, open func() (*overlay.Mesh, error)) (mesh *overlay.Mesh, alone bool, err error) {
	if mesh, err = open(); err != nil {
		return nil, false, err
	}
	seeds, old := n.Seeds, n.Dir.ReadPeers()
	if len(seeds) > 0 || listens(ctx, old) {
		seeds = append(slices.Clone(seeds), old...)
	}
	if len(seeds) == 0 {
		mesh.Seek(old...)
		return mesh, true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, joinWait)
	defer cancel()
	enter := mesh.Join
	if len(old) > 0 {
		enter = mesh.JoinAgain
	}
	if err = enter(ctx, seeds...); err == nil {
		return mesh, false, nil
	}
	var refused *overlay.Refusal
	first, again := len(n.Seeds) == 0, len(old) > 0 && !errors.As(err, &refused)
	err = errors.Join(filch.Errorf(filch.Unavailable, "%s", err.Error()), mesh.Close())
	if !first && !again {
		return nil, false, err
	}
	if mesh, err = open(); err == nil {
		mesh.Seek(seeds...)
	}
	return mesh, err == nil && first, err
}

// listens reports whether a process listens at one of the addresses. The kernel of the
// host answers, so a launcher short of time counts as listening.
func listens(ctx context.Context, addrs []string) bool {
	ctx, cancel := context.WithTimeout(ctx, againWait)
	defer cancel()
	found := make(chan bool, len(addrs))
	for _, a := range addrs {
		go func() {
			var d net.Dialer
			c, err := d.DialContext(ctx, "tcp", a)
			if err == nil {
				_ = c.Close()
			}
			found <- err == nil
		}()
	}
	for range addrs {
		if <-found {
			return true
		}
	}
	return false
}
