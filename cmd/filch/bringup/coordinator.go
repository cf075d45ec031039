package bringup

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/alloc"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/spec"
)

// A coordinator keeps the launchers of an instance over the nodes of an
// allocation. The coordinator starts agents through links: one srun step over all
// nodes, or an ssh to each host. At the far end of a link is `filch member`, the
// agent, which starts the launcher of its node, reports the launcher on standard
// output, and ends the launcher when standard input ends. So nothing is left when
// this process or the link dies, the secret is on no command line, and no file
// system has to be shared.

// assignment is the first line that an agent reads.
type assignment struct {
	Instance string       `json:"instance"`
	UUID     string       `json:"uuid"`
	Secret   string       `json:"secret"` // hexadecimal
	Wire     int          `json:"wire"`
	Kind     string       `json:"kind"` // of the allocation
	Nodes    []alloc.Node `json:"nodes"`
	Slots    int          `json:"slots"`
	Threads  bool         `json:"threads"` // slots are hardware threads
	Address  string       `json:"address"`
	Iface    string       `json:"iface"`
	Port     int          `json:"port"`
	Kinds    kindFlags    `json:"kinds"`
	ending
	Env   map[string]string `json:"env"`
	Joins bool              `json:"joins"` // to an instance that is up elsewhere
	Group string            `json:"group"` // name of the allocation
	Queue bool              `json:"queue"` // mirrored in the home
	After int32             `json:"after"` // job ids up to After are taken
}

// ending is the known end of the nodes, in the units of place.Node.
type ending struct {
	Ends  int64 `json:"ends"`  // unix seconds; 0 unknown
	Drain int64 `json:"drain"` // ms
	Blind bool  `json:"blind"`
}

// seedList is the second line for an agent: the addresses of the first launcher.
type seedList struct {
	Seeds []string `json:"seeds"`
}

// report is a line that an agent writes.
type report struct {
	Node  string   `json:"node"`
	State string   `json:"state"` // up, kept; "" with an error
	Addrs []string `json:"addrs,omitempty"`
	Slots int      `json:"slots,omitempty"`
	Apart bool     `json:"apart,omitempty"` // the node lacks the folder of the queue
	Err   string   `json:"error,omitempty"`
	Hint  string   `json:"hint,omitempty"`
}

const (
	memberUp   = "up"
	memberKept = "kept" // a launcher of this instance ran there already
)

// carried are the variables that an agent receives from the coordinator.
var carried = []string{"FILCH_LOCAL", "FILCH_HOME", "FILCH_FILCHD", "TMPDIR"}

// coordinator is the state of filch up over the nodes of an allocation.
type coordinator struct {
	*upOptions
	given    *alloc.Allocation
	instance string
	secret   []byte
	home     place.Home
	base     string // the directory of launchers on this machine
	local    string // the node of this process, "" for none
	links    []*link
	reports  chan report
	up       map[string]report
	progress func(joined, of int)
	went     string   // the result for the old queue
	made     bool     // this process made the home and removes the home
	invited  []string // addresses of the instance to join
}

// newNest prepares the instance of an allocation.
func (o *upOptions) newNest(given *alloc.Allocation) (*coordinator, error) {
	if err := o.findQueue(o.pool != ""); err != nil {
		return nil, err
	}
	n := &coordinator{upOptions: o, given: given, reports: make(chan report, 64), up: map[string]report{}, progress: func(int, int) {}}
	n.secret = make([]byte, place.SecretBytes)
	if _, err := rand.Read(n.secret); err != nil {
		return nil, filch.Errorf(filch.Internal, "cannot make a secret: %s", ui.Cause(err))
	}
	var err error
	if n.base, err = place.Base(); err != nil {
		return nil, err
	}
	if n.local, err = ownIn(given); err != nil {
		return nil, err
	}
	if o.pool != "" {
		if err := n.accept(o.pool); err != nil {
			return nil, err
		}
	} else {
		n.instance = n.name()
	}
	if err := place.CheckInstance(n.instance); err != nil {
		return nil, ui.Misused(err)
	}
	if slices.ContainsFunc(place.Nodes(n.base, n.instance), answers) {
		return nil, alreadyUp(n.instance, 1, nil)
	}
	if given.Kind == alloc.Hosts && n.invited == nil {
		if err := refuseForeign(n.instance); err != nil {
			return nil, err
		}
	}
	if err := o.clearOld(n.base, n.instance); err != nil {
		return nil, err
	}
	if o.old.from != "" && n.local == "" {
		return nil, ui.Misused(filch.Errorf(filch.Invalid, "--resume needs a launcher on this machine").WithHint("name this host in --hosts"))
	}
	leaveStale(n.base, n.instance)
	n.home, err = place.HomeOf(n.instance)
	return n, err
}

// accept reads the invitation to the instance of --join.
func (n *coordinator) accept(path string) error {
	inv, err := (&joinOptions{}).invited(path)
	if err != nil {
		return err
	}
	n.secret, err = place.ParseSecret([]byte(inv.Secret), path)
	n.instance, n.invited = inv.Instance, inv.Addrs
	return err
}

// name is the name asked for, else the name of the allocation, else a new name.
func (n *coordinator) name() string {
	for _, name := range []string{n.upOptions.Instance, os.Getenv("FILCH_INSTANCE")} {
		if name != "" {
			return name
		}
	}
	if n.given.Kind != alloc.Hosts {
		return n.given.Kind + "-" + n.given.ID
	}
	return twoWords(n.secret)
}

// group distinguishes the nodes of this allocation from the other nodes of the
// instance.
func (n *coordinator) group() string {
	if n.given.Kind == alloc.Hosts {
		return n.given.Kind + "-" + n.given.Nodes[0].Name
	}
	return n.given.Kind + "-" + n.given.ID
}

// ownIn is the name that this machine has in an allocation, "" in a list of hosts
// without this machine. In a Slurm job this machine must be a node of the job:
// commands find the launcher of the machine they run on.
func ownIn(a *alloc.Allocation) (string, error) {
	host, _ := os.Hostname()
	name := host
	if a.Kind == alloc.Slurm {
		if name = os.Getenv("SLURMD_NODENAME"); name == "" {
			name = host
		}
	}
	for _, node := range a.Nodes {
		if node.Name == name || a.Kind != alloc.Slurm && sameHost(node.Name, host) {
			return node.Name, nil
		}
	}
	if a.Kind == alloc.Slurm {
		return "", filch.Errorf(filch.Invalid, "%s is not a node of Slurm job %s, which has %s", ui.Clean(name), a.ID, spec.FormatHosts(a.Names())).
			WithHint("run filch up on the first node: in an sbatch script, or in srun --overlap -N1 -n1 --pty bash")
	}
	return "", nil
}

// sameHost reports whether a name in a host file means the machine with the host
// name host.
func sameHost(name, host string) bool {
	short, _, _ := strings.Cut(name, ".")
	own, _, _ := strings.Cut(host, ".")
	return short == own || name == "localhost"
}

// start brings up a launcher on every node; after an error, start ends the
// launchers started so far.
func (n *coordinator) start() error {
	if err := n.home.Make(); err != nil {
		return err
	}
	var err error
	if own, e := place.ReadSecret(n.home.Secret()); n.invited == nil || e != nil || !bytes.Equal(own, n.secret) {
		err, n.made = place.WriteSecret(n.home.Secret(), n.secret), true
	}
	if err == nil && n.mirrors() {
		err = makeQueue(n.home, uuidOf(n.secret))
	}
	if err == nil {
		err = n.connect()
	}
	if err == nil {
		err = n.gather()
	}
	if err == nil {
		n.warnApart()
		err = n.resumeQueue()
	}
	if err != nil {
		n.end()
	}
	return err
}

// connect opens the links and sends the first line to the agents.
func (n *coordinator) connect() error {
	w := assignment{
		Instance: n.instance, UUID: uuidOf(n.secret), Secret: fmt.Sprintf("%x", n.secret), Wire: cli.WireVersion,
		Kind: n.given.Kind, Nodes: n.given.Nodes, Slots: n.slots, Threads: n.hint == hintThreads, Address: n.address, Iface: n.iface, Port: n.port, Kinds: n.kinds, Env: map[string]string{},
		Joins: n.invited != nil, After: n.old.last, Group: n.group(),
		Queue: queueHere(n.home, uuidOf(n.secret)) != "", ending: n.ending(n.given.End),
	}
	for _, name := range carried {
		if v := os.Getenv(name); v != "" {
			w.Env[name] = v
		}
	}
	err := n.kinds.known(n.given.Names())
	if err != nil {
		return err
	}
	if n.given.Kind == alloc.Slurm {
		err = n.openStep()
	} else {
		err = n.openHosts()
	}
	if err != nil {
		return err
	}
	if err := n.tell(w); err != nil || n.invited == nil {
		return err
	}
	return n.tell(seedList{Seeds: n.invited})
}

// tell writes a line to every agent. The reader of a link notices when an agent
// is gone.
func (n *coordinator) tell(v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	for _, l := range n.links {
		_, _ = l.in.Write(append(b, '\n'))
	}
	return nil
}

// gather waits until all nodes have joined, or the deadline.
func (n *coordinator) gather() error {
	deadline := time.NewTimer(n.patience)
	defer deadline.Stop()
	first, want := n.given.Nodes[0].Name, len(n.given.Nodes)
	for len(n.up) < want {
		select {
		case r := <-n.reports:
			if r.State == "" {
				return n.failed(r)
			}
			n.up[r.Node] = r
			n.progress(len(n.up), want)
			if r.Node == first && n.invited == nil {
				if err := n.tell(seedList{Seeds: r.Addrs}); err != nil {
					return err
				}
			}
		case <-deadline.C:
			return n.tooLate()
		}
	}
	if n.invited != nil {
		return nil
	}
	if n.local != "" {
		if err := replicated(place.Dir{Base: n.base, Instance: n.instance, Node: n.local}, want, nil); err != nil {
			return err
		}
	}
	return n.home.WriteContact(place.Contact{Instance: n.instance, UUID: uuidOf(n.secret), Wire: cli.WireVersion, Addrs: n.addrs()})
}

// addrs are the addresses of the launchers, in the order of the nodes.
func (n *coordinator) addrs() []string {
	var all []string
	for _, node := range n.given.Nodes[:min(len(n.given.Nodes), place.MaxPeers)] {
		all = append(all, n.up[node.Name].Addrs...)
	}
	return all
}

// failed makes an error of the report of an agent or of a failed link.
func (n *coordinator) failed(r report) error {
	text, where := r.Err, r.Node
	if where == "" {
		where = spec.FormatHosts(n.missing())
	}
	e := filch.Errorf(filch.Unavailable, "cannot start the launcher of %s: %s", where, text)
	if r.Hint != "" {
		e = e.WithHint("%s", r.Hint)
	}
	return e
}

func (n *coordinator) missing() []filch.NodeName {
	return slices.DeleteFunc(n.given.Names(), func(name filch.NodeName) bool {
		_, up := n.up[string(name)]
		return up
	})
}

// tooLate names the nodes that did not join.
func (n *coordinator) tooLate() error {
	e := filch.Errorf(filch.Timeout, "%d of %d nodes have joined %s after %s; missing: %s", len(n.up), len(n.given.Nodes), n.instance,
		filch.ShortTime(n.patience), spec.FormatHosts(n.missing()))
	for _, l := range n.links {
		if said := l.said.last(); said != "" {
			return e.WithHint("%s said: %s", l.what, said)
		}
	}
	return e.WithHint("another step may be using the nodes; --deadline TIME waits longer")
}

// leftFile is in the home of an instance whose first allocation has ended while others go on.
const leftFile = "left"

// end takes the launchers down: agents end with their standard input.
func (n *coordinator) end() {
	for _, l := range n.links {
		_ = l.in.Close()
	}
	patience, soon := time.After(downWait), time.After(linkGrace)
	for _, l := range n.links {
		if n.joined(l) {
			l.await(patience)
		} else {
			l.await(soon) // no launcher runs behind this link
		}
	}
	leaveStale(n.base, n.instance)
	n.leaveHome(goesOn)
}

// leaveHome removes the home of the instance, unless others go on. Allocations that end at the
// same time agree: each leaves the home to the others before it looks for others, and its own
// launchers have ended by then. So the one that looks last finds nobody, and finds the home
// left.
func (n *coordinator) leaveHome(goesOn func(place.Home) bool) {
	if n.keepsHome() {
		_ = os.WriteFile(filepath.Join(string(n.home), leftFile), nil, 0o600)
	}
	last := !goesOn(n.home)
	keeps := last && n.keepsHome()
	if keeps {
		_ = n.home.Remove()
	}
	if keeps || n.invited != nil {
		leaveQueues(n.home)
	}
}

// keepsHome reports whether this allocation made the home of the instance, or the one that made
// the home has left it to the others.
func (n *coordinator) keepsHome() bool {
	own, err := place.ReadSecret(n.home.Secret())
	if err != nil || !bytes.Equal(own, n.secret) {
		return false
	}
	_, err = os.Stat(filepath.Join(string(n.home), leftFile))
	return n.made || err == nil
}

// joined reports whether any node of a link has joined.
func (n *coordinator) joined(l *link) bool {
	return slices.ContainsFunc(l.nodes, func(name string) bool { _, up := n.up[name]; return up })
}

// announcement is the line about the nodes that came up.
func (n *coordinator) announcement(took time.Duration) string {
	slots := 0
	for _, r := range n.up {
		slots += r.Slots
	}
	what := "is up"
	if n.invited != nil {
		what = "has grown"
	}
	text := fmt.Sprintf("%s %s: %s %s, %s, in %s", n.instance, what, filch.Plural(len(n.up), "node"), spec.FormatHosts(n.given.Names()), filch.Plural(slots, "slot"), filch.ShortTime(took))
	if !n.given.End.IsZero() {
		text += ", " + filch.ShortTime(time.Until(n.given.End).Round(time.Second)) + " left"
	}
	return text
}

// asReport turns an error into a report.
func asReport(node string, err error) report {
	r := report{Node: node, Err: err.Error()}
	var e *filch.Error
	if errors.As(err, &e) {
		r.Hint = e.Hint
	}
	return r
}
