package bringup

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/alloc"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of an agent.
const (
	maxWelcome = 8 << 20          // bytes of a line that the agent reads
	windGrace  = 5 * time.Second  // for jobs, from TERM to KILL at the end
	maxRevives = 5                // restarts of the launcher after a crash
	reviveRest = 10 * time.Minute // after which the count starts at 0
)

func MemberCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "member [NAME]",
		Hidden: true,
		Short:  "run the launcher of a node until standard input closes; started by filch up",
		Args:   cobra.MaximumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return ui.Exit(MemberMain(args)) },
	}
}

// agent is the process at the far end of a link.
type agent struct {
	lines     chan []byte   // the first two lines of standard input
	gone      chan struct{} // closed when standard input ends
	name      string
	dir       place.Dir
	launchers *localNodes
	made      bool // the agent made the home
}

// MemberMain is `filch member`, an agent. Its standard output carries reports
// only.
func MemberMain(args []string) int {
	m := &agent{lines: make(chan []byte, 2), gone: make(chan struct{})}
	go m.listen(os.Stdin)
	signal.Ignore(syscall.SIGHUP, syscall.SIGINT)
	ended := make(chan os.Signal, 4)
	signal.Notify(ended, syscall.SIGTERM)
	r, err := m.begin(args)
	if err != nil {
		m.clear()
		r = asReport(m.name, err)
	}
	b, _ := json.Marshal(r)
	_, _ = os.Stdout.Write(append(b, '\n'))
	switch {
	case err != nil:
		return filch.ExitOurs
	case r.State == memberKept:
		select {
		case <-m.gone:
		case <-ended:
		}
		return 0
	}
	m.stay(ended)
	return 0
}

// listen reads the two lines and then waits for the end of standard input.
func (m *agent) listen(in io.Reader) {
	defer close(m.gone)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxWelcome)
	for range cap(m.lines) {
		if !lines.Scan() {
			return
		}
		m.lines <- bytes.Clone(lines.Bytes())
	}
	_, _ = io.Copy(io.Discard, in)
}

// readLine reads a line of JSON.
func (m *agent) readLine(v any) error {
	select {
	case line := <-m.lines:
		if err := json.Unmarshal(line, v); err != nil {
			return filch.Errorf(filch.Invalid, "cannot read the message of filch up").WithHint("filch member is started by filch up, not by hand")
		}
		return nil
	case <-m.gone:
		return filch.Errorf(filch.Unavailable, "filch up has ended")
	}
}

// begin starts the launcher of this node.
func (m *agent) begin(args []string) (report, error) {
	var w assignment
	if err := m.readLine(&w); err != nil {
		return report{}, err
	}
	if w.Wire != cli.WireVersion {
		return report{}, filch.Errorf(filch.Invalid, "filch up speaks wire version %d, and filch on this node speaks %d", w.Wire, cli.WireVersion).
			WithHint("use one version of filch on all nodes")
	}
	for name, value := range w.Env {
		if slices.Contains(carried, name) {
			_ = os.Setenv(name, value)
		}
	}
	m.name = ownName(args)
	index := slices.IndexFunc(w.Nodes, func(n alloc.Node) bool { return n.Name == m.name })
	if index < 0 || place.CheckInstance(w.Instance) != nil {
		return report{}, filch.Errorf(filch.Invalid, "this node is called %s, and the allocation has no node of that name", ui.Clean(m.name))
	}
	base, err := place.Base()
	if err != nil {
		return report{}, err
	}
	m.dir = place.Dir{Base: base, Instance: w.Instance, Node: m.name}
	held, err := m.alone()
	if err != nil || !held {
		return m.kept(&w, err)
	}
	var s seedList
	if index > 0 || w.Joins {
		if err := m.readLine(&s); err != nil {
			return report{}, err
		}
	}
	return m.startAndWait(&w, index, s.Seeds)
}

// ownName is this node's name in the allocation.
func ownName(args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	if name := os.Getenv("SLURMD_NODENAME"); name != "" {
		return name
	}
	host, _ := os.Hostname()
	return host
}

// alone reports whether this agent is the only agent of its node, for the agent's
// whole life: of several started agents, one goes on.
func (m *agent) alone() (bool, error) {
	if err := m.dir.Make(); err != nil {
		return false, err
	}
	fd, err := unix.Open(filepath.Join(m.dir.Path(), "member.lock"), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return false, filch.Errorf(filch.Invalid, "cannot make a lock in %s: %s", m.dir.Path(), ui.Cause(err))
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = unix.Close(fd)
		return false, nil //nolint:nilerr // another agent holds the lock
	}
	return !answers(m.dir), nil
}

// kept reports the launcher that runs here already, if the instance owns that
// launcher.
func (m *agent) kept(w *assignment, err error) (report, error) {
	if err != nil {
		return report{}, err
	}
	r := report{Node: m.name, State: memberKept}
	for deadline := time.Now().Add(cli.AnswerWait); !answers(m.dir); time.Sleep(cli.PollPause) {
		if time.Now().After(deadline) {
			return r, filch.Errorf(filch.Busy, "another filch up is starting %s on this node and does not finish", w.Instance)
		}
	}
	n, err := place.ReadNode(m.dir.NodeFile())
	if err != nil {
		return r, err
	}
	if n.UUID != w.UUID {
		return r, filch.Errorf(filch.Busy, "a launcher of an earlier %s runs on %s", w.Instance, m.name).WithHint("filch down --instance %s", w.Instance)
	}
	b := &localNodes{nodes: []place.Dir{m.dir}}
	r.Addrs, err = b.seeds()
	r.Slots = int(n.Slots)
	return r, err
}

// startAndWait starts the launcher and waits until the launcher is a member.
func (m *agent) startAndWait(w *assignment, index int, seeds []string) (report, error) {
	o := &upOptions{address: w.Address, iface: w.Iface}
	host, err := o.fabricHost(len(w.Nodes) > 1)
	if err != nil {
		return report{}, err
	}
	b := &localNodes{base: m.dir.Base, instance: w.Instance, host: host, port: w.Port, threads: w.Threads, tied: true, quit: m.gone}
	m.launchers = b
	if err := b.prepare(1); err != nil {
		return report{}, err
	}
	home, err := place.HomeOf(w.Instance)
	if err != nil {
		return report{}, err
	}
	if err := m.settle(home, w); err != nil {
		return report{}, err
	}
	own := w.Nodes[index]
	queue := ""
	if w.Queue {
		queue = queueHere(home, w.UUID)
	}
	b.nodes = []place.Dir{m.dir}
	b.members = []place.Node{{
		Dir: m.dir, UUID: w.UUID, Members: int32(len(w.Nodes)), Secret: home.Secret(),
		Keeper: b.keeper, Listen: b.listen(0), MemBytes: grantedMemory(own.MemBytes), GPUs: grantedGPUs(w.Kind, os.LookupEnv), Ends: w.Ends,
		Alloc: place.Alloc{Group: w.Group, Queue: queue, After: w.After, Drain: w.Drain, Blind: w.Blind},
	}}
	if err := w.Kinds.give(&b.members[0]); err != nil {
		return report{}, err
	}
	slots := w.Slots
	if slots == 0 && own.Slots > 0 {
		slots = min(int(own.Slots), len(b.machine))
		if w.Kind != alloc.Slurm {
			slots = int(own.Slots)
		}
	}
	b.share(0, 1, slots)
	b.members[0].SlotsGiven = w.Slots != 0 // slots that the allocation grants are no flag
	if err := b.startAndWait(0, seeds); err != nil {
		return report{}, err
	}
	addrs, err := b.seeds()
	if err == nil && (index > 0 || w.Joins) {
		err = b.gathered(2)
	}
	return report{Node: m.name, State: memberUp, Addrs: addrs, Slots: int(b.members[0].Slots), Apart: w.Queue && queue == ""}, err
}

// settle writes the secret to the home of this node, unless this node shares the
// home of the first node.
func (m *agent) settle(home place.Home, w *assignment) error {
	secret, err := place.ParseSecret([]byte(w.Secret), "the message of filch up")
	if err != nil {
		return err
	}
	have, err := place.ReadSecret(home.Secret())
	if err == nil && hex.EncodeToString(have) == w.Secret {
		return nil
	}
	m.made = true
	if err := home.Make(); err != nil {
		return err
	}
	return place.WriteSecret(home.Secret(), secret)
}

// grantedMemory is the memory granted by the batch system, at most the memory of
// the machine; 0 leaves the choice to the launcher.
func grantedMemory(granted int64) int64 {
	if granted == 0 {
		return 0
	}
	if have := place.Memory(); have > 0 {
		return min(have, granted)
	}
	return granted
}

// grantedGPUs are the GPUs made visible by the batch system; none if no variable
// is set. On hosts of the user's own the launcher looks for GPUs itself.
func grantedGPUs(kind string, env func(string) (string, bool)) []string {
	for _, v := range []struct{ name, number, other string }{
		{"CUDA_VISIBLE_DEVICES", "", "nvidia:"}, {"ROCR_VISIBLE_DEVICES", "amd", "amd:"}, {"ZE_AFFINITY_MASK", "intel", "intel:"},
	} {
		list, set := env(v.name)
		if !set {
			continue
		}
		gpus := []string{}
		for name := range strings.SplitSeq(list, ",") {
			switch name = strings.TrimSpace(name); {
			case name == "" || name[0] == '-': // -1 ends the list of CUDA
				return gpus
			case ui.AllDigits(name):
				gpus = append(gpus, v.number+name)
			case strings.ContainsAny(name[:1], "0123456789GM"): // 0.1 of ZE, GPU-8a3f..., MIG-...
				gpus = append(gpus, v.other+name)
			}
		}
		return gpus
	}
	if kind == alloc.Hosts {
		return nil
	}
	return []string{}
}

// stay keeps the launcher alive until filch up ends or a signal comes. The agent
// restarts a crashed launcher at once: the launcher's ranks wait for the restart.
func (m *agent) stay(ended <-chan os.Signal) {
	revived, since := 0, time.Now()
	for {
		p := m.launchers.procs[len(m.launchers.procs)-1]
		select {
		case <-m.gone:
			m.clear()
			return
		case <-ended:
			m.clear()
			return
		case <-p.ended:
			if p.cmd.ProcessState.Success() || revived == maxRevives {
				m.clear()
				return
			}
			if time.Since(since) > reviveRest {
				revived, since = 0, time.Now()
			}
			revived++
			if m.launchers.spawn(0, m.launchers.members[0].Seeds) != nil {
				m.clear()
				return
			}
		}
	}
}

// clear ends the launcher with its jobs and removes the launcher's files.
func (m *agent) clear() {
	if m.launchers == nil {
		return
	}
	if c, err := client.DialDir(m.dir, cli.Build); err == nil {
		_ = cli.Ask(c, cli.QueryWait, nil, wire.VerbDown, "", windGrace.String())
		c.Close()
		_ = awaitEnd(m.dir, time.Now().Add(downWait))
	}
	m.launchers.clear()
	if m.made {
		removeInstance(m.dir.Base, m.dir.Instance)
	}
}
