package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// How long things may take that a launcher does.
const (
	answerWait = 10 * time.Second       // from its start to its first answer
	joinedWait = 25 * time.Second       // the same when it has to join first, which it tries for 20 s
	speakLate  = 5 * time.Second        // before a wait says what it waits for
	queryWait  = 5 * time.Second        // for an answer of one that runs
	aliveWait  = 2 * time.Second        // for an answer that shows life
	pollPause  = 5 * time.Millisecond   // between looks
	speakAfter = 500 * time.Millisecond // before the progress line shows
)

// atOnce bounds the launchers that start at the same time: a join costs about
// 100 ms of CPU, and a hundred at once would all run out of time.
const atOnce = 8

// brood is the launchers of one instance on this machine, while they are
// started.
type brood struct {
	base     string
	instance string
	host     string // to listen on
	port     int    // first one; 0 any
	tied     bool   // to this process: they end when it does
	cores    []int32
	filchd   string
	keeper   string
	hosts    string // the virtual nodes' /etc/hosts
	secret   []byte
	shared   error // why there are no namespaces; nil: there are
	nodes    []place.Dir
	members  []place.Node
	procs    []*newborn
	quit     <-chan struct{} // closed when nobody wants it any more; nil never
	own
}

// own is what is made with an instance.
type own struct {
	fresh bool  // it is made now, so a failure takes its files away
	queue bool  // of tasks: is mirrored
	after int32 // job ids up to this one are taken
	ending
}

// newborn is a launcher that was started by this process.
type newborn struct {
	cmd    *exec.Cmd
	dir    place.Dir
	ended  chan struct{} // closed when it has ended
	quit   <-chan struct{}
	stderr string // a file
}

// survey tells which launchers of the instance on this machine are alive: they
// answer a question. The socket alone says less, since one that is being killed
// still has it.
func (b *brood) survey() (dead, alive []place.Dir) {
	for _, d := range place.Nodes(b.base, b.instance) {
		if c, err := client.DialDir(d, version); err == nil {
			_, err = c.Query(aliveWait, wire.VerbVersion)
			c.Close()
			if err == nil {
				alive = append(alive, d)
				continue
			}
		}
		dead = append(dead, d)
	}
	return dead, alive
}

func answers(d place.Dir) bool {
	c, err := net.Dial("unix", d.Socket())
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// start makes the instance and starts n launchers of it.
func (b *brood) start(n, slots int) error {
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
	for i := range n {
		d := place.Dir{Base: b.base, Instance: b.instance, Node: nodeName(i, n)}
		b.nodes = append(b.nodes, d)
		b.members = append(b.members, place.Node{
			Dir: d, UUID: uuid, Members: int32(n), Secret: home.Secret(), Keeper: b.keeper,
			Listen: b.listen(i), Virtual: n > 1, Ends: b.Ends,
			Alloc: place.Alloc{Queue: queueHere(home, uuid), After: b.after, Drain: b.Drain, Blind: b.Blind},
		})
		share(&b.members[i], b.cores, i, n, slots)
	}
	if err := b.hatch(0, nil); err != nil {
		return err
	}
	seeds, err := b.seeds()
	if err != nil {
		return err
	}
	if err := home.WriteContact(place.Contact{Instance: b.instance, UUID: uuid, Wire: wireVersion, Addrs: seeds}); err != nil {
		return err
	}
	for i := 1; i < n; i++ {
		if err := b.spawn(i, seeds); err != nil {
			return err
		}
		if k := len(b.procs) - atOnce; k > 0 {
			if err := b.procs[k].await(joinedWait); err != nil {
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

// prepare installs the binaries and finds out what this machine has.
func (b *brood) prepare(n int) (err error) {
	if b.cores, err = place.Affinity(); err != nil {
		return err
	}
	if b.filchd, b.keeper, err = install(b.base); err != nil {
		return err
	}
	if n > 1 {
		b.shared = canIsolate()
	}
	return nil
}

// share gives node i of n its part of the cores and of the memory. With fewer
// cores than nodes several have the same one.
func share(m *place.Node, cores []int32, i, n, slots int) {
	c := len(cores)
	from, to := i*c/n, (i+1)*c/n
	if to == from {
		to = from + 1
	}
	m.Cores = cores[from:to]
	if m.Slots = int32(slots); slots == 0 {
		m.Slots = int32(to - from)
	}
	if n > 1 {
		m.MemBytes = place.Memory() / int64(n)
	}
}

func (b *brood) listen(i int) []string {
	port := 0
	if b.port > 0 {
		port = b.port + i
	}
	return []string{net.JoinHostPort(b.host, fmt.Sprint(port))}
}

// hatch starts launcher i and waits until it answers.
func (b *brood) hatch(i int, seeds []string) error {
	if err := b.spawn(i, seeds); err != nil {
		return err
	}
	wait := answerWait
	if len(seeds) > 0 {
		wait = joinedWait
	}
	return b.procs[len(b.procs)-1].await(wait)
}

// spawn starts launcher i, in a session of its own.
func (b *brood) spawn(i int, seeds []string) error {
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
	p := &newborn{dir: m.Dir, ended: make(chan struct{}), quit: b.quit, stderr: filepath.Join(m.Dir.Path(), "stderr")}
	f, err := os.OpenFile(p.stderr, os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return noRoom(m.Dir.Path(), err)
	}
	defer f.Close()
	p.cmd = &exec.Cmd{Path: argv[0], Args: argv, Dir: "/", Env: launcherEnv(), Stdout: f, Stderr: f, SysProcAttr: attr}
	if err := p.cmd.Start(); err != nil {
		return filch.Errorf(filch.Internal, "cannot start the launcher %s: %s", m.Dir.Node, err.Error())
	}
	b.procs = append(b.procs, p)
	go func() {
		_ = p.cmd.Wait()
		close(p.ended)
	}()
	return nil
}

func (b *brood) writeHosts() error {
	if b.hosts != "" {
		return nil
	}
	names := make([]string, len(b.nodes))
	for i, d := range b.nodes {
		names[i] = d.Node
	}
	path := place.Hosts(b.base, b.instance)
	if err := os.WriteFile(path, hostsFile(names), 0o644); err != nil {
		return noRoom(b.base, err)
	}
	b.hosts = path
	return nil
}

// launcherEnv is our environment without what belongs to a job that we may be
// a rank of.
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

// await waits until the launcher answers; when it ended instead, the error is
// what it said.
func (p *newborn) await(d time.Duration) error {
	speak := time.AfterFunc(speakLate, func() { say("still waiting for the launcher " + p.dir.Node + " to answer") })
	defer speak.Stop()
	for deadline := time.Now().Add(d); ; {
		if answers(p.dir) {
			return nil
		}
		select {
		case <-p.ended:
			return p.failure()
		case <-p.quit:
			return filch.Errorf(filch.Unavailable, "filch up went away")
		case <-time.After(pollPause):
		}
		if time.Now().After(deadline) {
			return filch.Errorf(filch.Timeout, "the launcher %s did not answer within %v", p.dir.Node, d).
				WithHint("its log is %s", p.dir.Log())
		}
	}
}

// failure is what a launcher said before it ended: `filch: error: ` and
// `filch: hint: ` lines.
func (p *newborn) failure() error {
	said, _ := os.ReadFile(p.stderr)
	text, hint := "", ""
	for line := range bytes.SplitSeq(said, []byte("\n")) {
		if s, ok := bytes.CutPrefix(line, []byte("filch: error: ")); ok {
			text = string(s)
		} else if s, ok := bytes.CutPrefix(line, []byte("filch: hint: ")); ok {
			hint = string(s)
		}
	}
	if text == "" {
		text = fmt.Sprintf("the launcher %s ended at once (%s)", p.dir.Node, p.cmd.ProcessState)
		if tail := lastLine(said); tail != "" {
			text += ": " + tail
		}
	}
	e := filch.Errorf(filch.Internal, "%s", text)
	if hint != "" {
		e = e.WithHint("%s", hint)
	}
	return e
}

func lastLine(b []byte) string {
	b = bytes.TrimSpace(b)
	if i := bytes.LastIndexByte(b, '\n'); i >= 0 {
		b = b[i+1:]
	}
	return string(b)
}

// seeds asks the first launcher for its addresses, which it has once its
// network is up.
func (b *brood) seeds() ([]string, error) {
	for deadline := time.Now().Add(answerWait); ; time.Sleep(pollPause) {
		list, err := nodesOf(b.nodes[0])
		if err != nil {
			return nil, err
		}
		for _, n := range list {
			if n.Local && len(n.Addrs) > 0 {
				return n.Addrs, nil
			}
		}
		if time.Now().After(deadline) {
			return nil, filch.Errorf(filch.Timeout, "the launcher %s does not say where it listens", b.nodes[0].Node).
				WithHint("its log is %s", b.nodes[0].Log())
		}
	}
}

// clear ends what was started and, for a new instance, takes its files away.
func (b *brood) clear() {
	for _, p := range b.procs {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	patience := time.After(queryWait)
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

// removeInstance takes away all that this machine has of an instance whose
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
