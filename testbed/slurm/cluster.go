package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Install is the line that installs what the package runs.
const Install = "apt-get install -y munge slurmctld slurmd slurm-client slurm-wlm-basic-plugins"

// upWithin bounds every wait for the cluster.
const upWithin = 30 * time.Second

// Options describe a cluster.
type Options struct {
	Nodes int // named n1, n2 ...
	CPUs  int // of each; more than the machine has will do
	GPUs  int // of each: devices that do nothing
	Dir   string
	Conf  []string // lines for slurm.conf, on top of ours
}

// Cluster is a Slurm that runs.
type Cluster struct {
	Options
	env     []string
	host    string
	ports   []int
	daemons []*daemon
	hold    *holder
}

// Usable says why no cluster can be made here, and what to do about it.
func Usable() error {
	if os.Geteuid() != 0 {
		return errors.New("slurmd needs root")
	}
	for _, exe := range []string{"munged", "slurmctld", "slurmd", "srun", "sbatch", "unshare"} {
		if _, err := exec.LookPath(exe); err != nil {
			return fmt.Errorf("%s is not installed: %s", exe, Install)
		}
	}
	return nil
}

// New makes a cluster for a test, which fails where that is not possible, and
// takes it down when the test ends.
func New(t testing.TB, o Options) *Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "slurm")
	if err != nil {
		t.Fatal(err)
	}
	o.Dir = dir
	c, err := Open(o)
	if err != nil {
		_ = os.RemoveAll(dir)
		t.Fatalf("make a Slurm cluster of %d nodes: %v", o.Nodes, err)
	}
	t.Cleanup(func() {
		c.Close()
		_ = os.RemoveAll(dir)
	})
	return c
}

// Open makes a cluster in o.Dir, which should be new. It is ready: every node is
// idle.
func Open(o Options) (*Cluster, error) {
	if err := Usable(); err != nil {
		return nil, err
	}
	c := &Cluster{Options: o, hold: newHolder()}
	if err := c.open(); err != nil {
		err = fmt.Errorf("%w%s", err, c.lastWords())
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) open() error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	c.host, _, _ = strings.Cut(host, ".")
	if c.ports, err = freePorts(c.Nodes + 1); err != nil {
		return err
	}
	if err := c.write(); err != nil {
		return err
	}
	c.env = append(Outside(os.Environ()), "SLURM_CONF="+c.conf())
	if err := c.start("munged", "munged", "-F", "--key-file="+c.path("munge.key"), "--socket="+c.path("munge.sock"),
		"--pid-file="+c.path("munged.pid"), "--log-file="+c.path("munged.log"), "--seed-file="+c.path("munge.seed")); err != nil {
		return err
	}
	if err := c.until("munged", func() bool { _, err := os.Stat(c.path("munge.sock")); return err == nil }); err != nil {
		return err
	}
	if err := c.start("slurmctld", "slurmctld", "-D"); err != nil {
		return err
	}
	for i := range c.Nodes {
		name := c.Node(i)
		if err := c.start(name, "unshare", "--uts", "--ipc", "--mount", "--propagation", "private",
			"sh", "-ec", c.furnish(name), "slurmd", "-D", "-N", name); err != nil {
			return err
		}
	}
	return c.until(fmt.Sprintf("%d idle nodes", c.Nodes), func() bool {
		out, err := c.Text("sinfo", "-h", "-t", "idle", "-o", "%D")
		return err == nil && out == strconv.Itoa(c.Nodes)
	})
}

// furnish is what a node's namespaces get before slurmd begins.
func (c *Cluster) furnish(name string) string {
	return "hostname " + name + `
mount -t tmpfs -o mode=1777 shm /dev/shm
mount --bind ` + c.path("node", name) + " " + c.Local() + `
exec "$0" "$@"`
}

// Node is the name of node i, the first being 0.
func (c *Cluster) Node(i int) string { return "n" + strconv.Itoa(i+1) }

// Local is the folder of which each node has its own.
func (c *Cluster) Local() string { return c.path("local") }

func (c *Cluster) path(parts ...string) string {
	return filepath.Join(append([]string{c.Dir}, parts...)...)
}
func (c *Cluster) conf() string { return c.path("slurm.conf") }

// Env is what a user of the cluster has in the environment.
func (c *Cluster) Env() []string { return c.env[:len(c.env):len(c.env)] }

// Outside is an environment without what an allocation that we may be in put
// there.
func Outside(env []string) []string {
	var kept []string
	for _, kv := range env {
		if !strings.HasPrefix(kv, "SLURM") && !strings.HasPrefix(kv, "SRUN") && !strings.HasPrefix(kv, "SBATCH") && !strings.HasPrefix(kv, "PMI") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// Command is a command on the login node.
func (c *Cluster) Command(ctx context.Context, argv ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Env = c.Env()
	return cmd
}

// Text runs a command on the login node and returns what it printed, without
// white space around it.
func (c *Cluster) Text(argv ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), upWithin)
	defer cancel()
	cmd := c.Command(ctx, argv...)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(said.String()))
	}
	return strings.TrimSpace(string(out)), err
}

// RPCs is how many requests of users' commands slurmctld has served since it
// began, by kind. What nodes tell it by themselves is not among them, nor is
// what sdiag itself asks.
func (c *Cluster) RPCs() (map[string]int, error) {
	out, err := c.Text("sdiag")
	return ReadRPCs(out), err
}

// ReadRPCs reads the counts from what sdiag printed.
func ReadRPCs(out string) map[string]int {
	_, out, _ = strings.Cut(out, "statistics by message type")
	out, _, _ = strings.Cut(out, "statistics by user")
	counts := map[string]int{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line) // NAME ( NUMBER) count:N ave_time:M total_time:K
		for i, w := range f {
			if n, ok := strings.CutPrefix(w, "count:"); ok && i > 0 {
				switch f[0] {
				case "REQUEST_STATS_INFO", "MESSAGE_NODE_REGISTRATION_STATUS", "REQUEST_PING", "REQUEST_CONTROL_STATUS":
				default:
					counts[f[0]], _ = strconv.Atoi(n)
				}
			}
		}
	}
	return counts
}

func (c *Cluster) until(what string, ok func() bool) error {
	for deadline := time.Now().Add(upWithin); !ok(); time.Sleep(50 * time.Millisecond) {
		for _, d := range c.daemons {
			if d.ended() {
				return fmt.Errorf("%s ended while waiting for %s", d.name, what)
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("no %s within %v", what, upWithin)
		}
	}
	return nil
}

// lastWords are what each daemon said last.
func (c *Cluster) lastWords() string {
	var words strings.Builder
	for _, d := range c.daemons {
		raw, _ := os.ReadFile(d.log)
		lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
		fmt.Fprintf(&words, "; %s: %s", d.name, lines[len(lines)-1])
	}
	return words.String()
}

// Close ends all jobs and then the daemons, those of the nodes first.
func (c *Cluster) Close() {
	if len(c.daemons) > 2 {
		_, _ = c.Text("scancel", "--signal=KILL", "--full", "--user=root")
		_, _ = c.Text("scancel", "--user=root")
		deadline := time.Now().Add(upWithin / 2)
		for time.Now().Before(deadline) {
			if left, err := c.Text("squeue", "-h", "-t", "R,CG", "-o", "%i"); err != nil || left == "" {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	for i := len(c.daemons) - 1; i >= 0; i-- {
		c.daemons[i].stop()
	}
	c.hold.close()
}
