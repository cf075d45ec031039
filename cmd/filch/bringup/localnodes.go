package bringup

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/filchd"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/topology"
	"github.com/filch-hpc/filch/launcher/wire"
)

// atOnce bounds the launchers that start at once. A join costs about 100 ms of
// CPU, and a hundred joins together would all run out of time.
const atOnce = 8

// localNodes is the launchers of an instance on this machine, during their start.
type localNodes struct {
	base     string
	instance string
	host     string // to listen on
	port     int    // of the first launcher; 0 any
	tied     bool   // to this process: the launchers end with it
	threads  bool   // slots are hardware threads
	machine  []filch.Processor
	filchd   string
	keeper   string
	hosts    string // the virtual nodes' /etc/hosts
	secret   []byte
	kinds    kindFlags
	shared   error // why there are no namespaces; nil: there are
	nodes    []place.Dir
	members  []place.Node
	procs    []*startedLauncher
	quit     <-chan struct{} // closed to stop waiting; nil never

	// Of an instance that this process makes.
	fresh bool  // made now, so a failure removes its files
	queue bool  // of tasks: is mirrored
	after int32 // job ids up to after are taken
	ending
}

// startedLauncher is a launcher started by this process.
type startedLauncher struct {
	cmd    *exec.Cmd
	dir    place.Dir
	ended  chan struct{} // closed when the process has ended
	quit   <-chan struct{}
	stderr string // a file
}

// survey splits the launchers of the instance on this machine into dead and
// alive: a live launcher answers a question, or refuses to as a launcher of another build
// does. The socket alone proves less: a launcher still has its socket while being killed.
func (b *localNodes) survey() (dead, alive []place.Dir) {
	for _, d := range place.Nodes(b.base, b.instance) {
		if c, err := client.DialDir(d, cli.Build); err == nil {
			_, err = c.Query(cli.AliveWait, wire.VerbVersion)
			c.Close()
			if err == nil || refused(err) {
				alive = append(alive, d)
				continue
			}
		}
		dead = append(dead, d)
	}
	return dead, alive
}

// refused reports whether err is the answer of a launcher that refuses to be asked.
func refused(err error) bool {
	var e *filch.Error
	return errors.As(err, &e) && e.Kind != filch.Unavailable && e.Kind != filch.Timeout
}

func answers(d place.Dir) bool {
	c, err := net.Dial("unix", d.Socket())
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// start makes the instance and starts n of its launchers.
func (b *localNodes) start(n, slots int) error {
	if err := b.prepare(n); err != nil {
		return err
	}
	home, err := place.HomeOf(b.instance)
	if err != nil {
		return err
	}
	if err := home.Make(); err != nil {
		return err
	}
	b.fresh = true
	if err := place.WriteSecret(home.Secret(), b.secret); err != nil {
		return err
	}
	uuid := uuidOf(b.secret)
	if b.queue {
		if err := makeQueue(home, uuid); err != nil {
			return err
		}
	}
	var names []filch.NodeName
	for i := range n {
		names = append(names, filch.NodeName(nodeName(i, n)))
	}
	if err := b.kinds.known(names); err != nil {
		return err
	}
	for i := range n {
		d := place.Dir{Base: b.base, Instance: b.instance, Node: nodeName(i, n)}
		b.nodes = append(b.nodes, d)
		b.members = append(b.members, place.Node{
			Dir: d, UUID: uuid, Members: int32(n), Secret: home.Secret(), Keeper: b.keeper,
			Listen: b.listen(i), Virtual: n > 1, Ends: b.Ends,
			Alloc: place.Alloc{Queue: queueHere(home, uuid), After: b.after, Drain: b.Drain, Blind: b.Blind},
		})
		b.share(i, n, slots)
		if err := b.kinds.give(&b.members[i]); err != nil {
			return err
		}
	}
	if err := b.startAndWait(0, nil); err != nil {
		return err
	}
	seeds, err := b.seeds()
	if err != nil {
		return err
	}
	if err := home.WriteContact(place.Contact{Instance: b.instance, UUID: uuid, Wire: cli.WireVersion, Addrs: seeds}); err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		if err := b.spawn(i, seeds); err != nil {
			return err
		}
		if k := len(b.procs) - atOnce; k > 0 {
			if err := b.procs[k].await(cli.JoinedWait); err != nil {
				return err
			}
		}
	}
	return b.gathered(n)
}

// nodeName is n1, n2 ...; the only launcher of a machine has its host name.
func nodeName(i, n int) string {
	if n == 1 {
		if host, err := os.Hostname(); err == nil && place.CheckNode(host) == nil {
			return host
		}
	}
	return fmt.Sprintf("n%d", i+1)
}

// prepare installs the binaries and finds out the resources of this machine.
func (b *localNodes) prepare(n int) (err error) {
	if b.machine, err = place.Processors(b.threads); err != nil {
		return err
	}
	if b.filchd, b.keeper, err = filchd.Install(b.base); err != nil {
		return err
	}
	if n > 1 {
		b.shared = canIsolate()
	}
	return nil
}

func (b *localNodes) share(i, n, slots int) {
	b.members[i].Threads = b.threads
	share(&b.members[i], b.machine, i, n, slots)
}

// noSlots is --slots 0: the node starts no work.
const noSlots = -1

// share gives node i of n its part of the processors and of the memory. With fewer
// processors than nodes, several nodes share a processor.
func share(m *place.Node, machine []filch.Processor, i, n, slots int) {
	c := len(machine)
	from, to := i*c/n, (i+1)*c/n
	if to == from {
		to = from + 1
	}
	m.Cores = topology.CPUs(machine[from:to])
	m.SlotsGiven = slots != 0
	switch m.Slots = int32(slots); slots {
	case 0:
		m.Slots = int32(to - from)
	case noSlots:
		m.Slots = 0
	}
	if n > 1 {
		m.MemBytes = place.Memory() / int64(n)
	}
}

func (b *localNodes) listen(i int) []string {
	port := 0
	if b.port > 0 {
		port = b.port + i
	}
	return []string{net.JoinHostPort(b.host, fmt.Sprint(port))}
}

// startAndWait starts launcher i and waits until the launcher answers.
func (b *localNodes) startAndWait(i int, seeds []string) error {
	if err := b.spawn(i, seeds); err != nil {
		return err
	}
	wait := cli.AnswerWait
	if len(seeds) > 0 {
		wait = cli.JoinedWait
	}
	return b.procs[len(b.procs)-1].await(wait)
}

// spawn starts launcher i, in its own session.
func (b *localNodes) spawn(i int, seeds []string) error {
	m := &b.members[i]
	m.Seeds = seeds
	if err := m.Dir.Make(); err != nil {
		return err
	}
	if err := place.WriteNode(*m); err != nil {
		return err
	}
	argv := []string{b.filchd, m.Dir.NodeFile()}
	attr := &syscall.SysProcAttr{Setsid: true}
	if m.Virtual && b.shared == nil {
		if err := b.writeHosts(); err != nil {
			return err
		}
		argv = append([]string{"/proc/self/exe", "virtual", m.Dir.Node, b.hosts}, argv...)
		isolate(attr)
	}
	if b.tied {
		attr.Pdeathsig = unix.SIGTERM
	}
	p := &startedLauncher{dir: m.Dir, ended: make(chan struct{}), quit: b.quit, stderr: filepath.Join(m.Dir.Path(), "stderr")}
	f, err := os.OpenFile(p.stderr, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return filchd.NoRoom(m.Dir.Path(), err)
	}
	defer f.Close()
	p.cmd = &exec.Cmd{Path: argv[0], Args: argv, Dir: "/", Env: launcherEnv(), Stdout: f, Stderr: f, SysProcAttr: attr}
	if err := p.cmd.Start(); err != nil {
		return filch.Errorf(filch.Internal, "cannot start the launcher %s: %s", m.Dir.Node, ui.Cause(err))
	}
	b.procs = append(b.procs, p)
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return nil
}

func (b *localNodes) writeHosts() error {
	if b.hosts != "" {
		return nil
	}
	names := make([]string, len(b.nodes))
	for i, d := range b.nodes {
		names[i] = d.Node
	}
	path := place.Hosts(b.base, b.instance)
	if err := os.WriteFile(path, hostsFile(names), 0o644); err != nil {
		return filchd.NoRoom(b.base, err)
	}
	b.hosts = path
	return nil
}

// launcherEnv is our environment without the variables of a job around this
// process.
func launcherEnv() []string {
	var env []string
	for _, kv := range os.Environ() {
		switch name, _, _ := bytes.Cut([]byte(kv), []byte("=")); string(name) {
		case "FILCH_JOB", "FILCH_RANK", "FILCH_NODE", "FILCH_INSTANCE", "FILCH_FILCHD":
		default:
			env = append(env, kv)
		}
	}
	return env
}

// await waits until the launcher answers; if the launcher ended instead, the
// error is the launcher's last message.
func (p *startedLauncher) await(d time.Duration) error {
	speak := time.AfterFunc(cli.SpeakLate, func() { ui.Say("still waiting for the launcher " + p.dir.Node + " to answer") })
	defer speak.Stop()
	for deadline := time.Now().Add(d); ; {
		if answers(p.dir) {
			return nil
		}
		select {
		case <-p.ended:
			return p.failure()
		case <-p.quit:
			return filch.Errorf(filch.Unavailable, "filch up has ended")
		case <-time.After(cli.PollPause):
		}
		if time.Now().After(deadline) {
			return filch.Errorf(filch.Timeout, "the launcher %s did not answer within %s", p.dir.Node, filch.ShortTime(d)).
				WithHint("its log is %s", p.dir.Log())
		}
	}
}

// failure is the last message of a launcher before its end.
func (p *startedLauncher) failure() error {
	said, _ := os.ReadFile(p.stderr)
	return filchd.SaidBy(said, fmt.Sprintf("the launcher %s ended at once (%s)", p.dir.Node, p.cmd.ProcessState), p.cmd.ProcessState.ExitCode())
}

// seeds asks the first launcher for its addresses, which are known once the
// launcher's network is up.
func (b *localNodes) seeds() ([]string, error) {
	for deadline := time.Now().Add(cli.AnswerWait); ; time.Sleep(cli.PollPause) {
		list, err := nodesOf(b.nodes[0])
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			if n.Local && len(n.Addrs) > 0 {
				b.members[0].Slots = n.Slots // settings may have changed the slots
				return n.Addrs, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, filch.Errorf(filch.Timeout, "the launcher %s does not report the address where it listens", b.nodes[0].Node).
				WithHint("its log is %s", b.nodes[0].Log())
		}
	}
}

// clear ends the started launchers and, for a new instance, removes the
// instance's files.
func (b *localNodes) clear() {
	for _, p := range b.procs {
		// A launcher that gets TERM hands its records to the others, which end, too.
		if !b.fresh || askDown(p.dir, wire.DownAll) != nil {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	patience := time.After(cli.QueryWait)
	for _, p := range b.procs {
		select {
		case <-p.ended:
		case <-patience:
			_ = p.cmd.Process.Kill()
			<-p.ended
		}
	}
	for _, p := range b.procs {
		_ = p.dir.Remove()
	}
	if b.fresh {
		removeInstance(b.base, b.instance)
	}
}

// removeInstance removes all files of an instance on this machine, after its
// launchers here have ended.
func removeInstance(base, instance string) {
	for _, d := range place.Nodes(base, instance) {
		_ = d.Remove()
	}
	_ = os.RemoveAll(filepath.Join(base, instance))
	if home, err := place.HomeOf(instance); err == nil {
		_ = home.Remove()
		leaveQueues(home)
	}
}

// unit is the name of the processors behind slots.
func (b *localNodes) unit() string {
	if b.threads {
		return "hardware thread"
	}
	return "core"
}
