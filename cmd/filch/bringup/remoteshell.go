package bringup

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/filchd"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
)

// Limits of a link.
const (
	maxReport = 64 << 10              // bytes of an agent's line
	maxTail   = 4 << 10               // last bytes of a link's standard error
	linkGrace = 2 * time.Second       // from TERM to KILL
	sshStart  = 20 * time.Millisecond // between the starts of many ssh
	sshBurst  = 16                    // ssh processes started without a pause
)

// link is a process that starts agents elsewhere and carries their lines.
type link struct {
	what  string // srun, or ssh HOST
	nodes []string
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  *tail
	ended chan struct{}
}

// tail keeps the last bytes of its input.
type tail struct {
	mu  sync.Mutex // guards buf
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b...)
	if k := len(t.buf) - maxTail; k > 0 {
		t.buf = t.buf[k:]
	}
	return len(b), nil
}

// last is the last line.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return filchd.LastLine(t.buf)
}

// stepOptions start a task on each node beside any other step there, with all of
// the node's memory and cores, without PMI. The other tasks go on when a task
// ends.
var stepOptions = []string{
	"--overlap", "--mpi=none", "--cpu-bind=none", "--mem=0", "--ntasks-per-node=1", "--kill-on-bad-exit=0", "--wait=0", "--no-kill",
	"--input=all", "--output=all", "--error=all", "--export=ALL", "--job-name=filch", "--quiet",
}

// openStep starts the agents as a step of the Slurm job.
func (n *coordinator) openStep() error {
	srun, err := cli.RealCommand("srun")
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot find the path of this binary: %s", ui.Cause(err))
	}
	count := strconv.Itoa(len(n.given.Nodes))
	argv := append([]string{srun, "--nodes=" + count, "--ntasks=" + count, "--nodelist=" + spec.FormatHosts(n.given.Names())}, stepOptions...)
	return n.open("srun", append(argv, exe, "member"), stepEnv(), names(n.given.Names()))
}

func names(list []filch.NodeName) []string {
	all := make([]string, len(list))
	for i, n := range list {
		all[i] = string(n)
	}
	return all
}

// stepEnv is our environment without the variables that srun reads as options.
func stepEnv() []string {
	keep := []string{"SLURM_JOB_ID=", "SLURM_JOBID=", "SLURM_CONF=", "SLURM_CLUSTER_NAME=", "SLURM_JOB_NODELIST=", "SLURM_JOB_NUM_NODES=", "SLURM_JOB_CPUS_PER_NODE=", "SLURM_WORKING_CLUSTER="}
	var env []string
	for _, kv := range launcherEnv() {
		kept := !strings.HasPrefix(kv, "SLURM_") && !strings.HasPrefix(kv, "SRUN_")
		for _, k := range keep {
			kept = kept || strings.HasPrefix(kv, k)
		}
		if kept {
			env = append(env, kv)
		}
	}
	if v := os.Getenv("FILCH_FILCHD"); v != "" {
		env = append(env, "FILCH_FILCHD="+v)
	}
	return env
}

// openHosts starts an agent on each host, on this host without ssh.
func (n *coordinator) openHosts() error {
	exe, err := os.Executable()
	if err != nil {
		return filch.Errorf(filch.Internal, "cannot find the path of this binary: %s", ui.Cause(err))
	}
	rsh := strings.Fields(os.Getenv("FILCH_RSH"))
	if len(rsh) == 0 {
		rsh = []string{"ssh", "-x", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15"}
	}
	for i, host := range n.given.Nodes {
		what, argv := "filch", []string{exe, "member", host.Name}
		if host.Name != n.local {
			what = rsh[0] + " " + host.Name
			argv = append(append([]string{}, rsh...), host.Name, "exec "+cli.ShellWord(exe)+" member "+host.Name)
		}
		if err := n.open(what, argv, launcherEnv(), []string{host.Name}); err != nil {
			return err
		}
		if i >= sshBurst {
			time.Sleep(sshStart)
		}
	}
	return nil
}

// open starts a link and reads the reports of its agents.
func (n *coordinator) open(what string, argv, env, nodes []string) error {
	l := &link{what: what, nodes: nodes, said: &tail{}, ended: make(chan struct{})}
	l.cmd = exec.Command(argv[0], argv[1:]...)
	l.cmd.Env, l.cmd.Stderr = env, l.said
	// In its own process group: Ctrl-C is for the command.
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	in, err := l.cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := l.cmd.Start(); err != nil {
		return filch.Errorf(filch.NotFound, "cannot start %s: %s", argv[0], ui.Cause(err))
	}
	l.in = in
	n.links = append(n.links, l)
	go l.read(out, n.reports)
	return nil
}

// read passes on the reports, and an error when the link ends.
func (l *link) read(out io.Reader, to chan<- report) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxReport)
	for lines.Scan() {
		var r report
		if json.Unmarshal(lines.Bytes(), &r) == nil && r.Node != "" {
			to <- r
		}
	}
	_, _ = io.Copy(io.Discard, out)
	err := l.cmd.Wait()
	close(l.ended)
	text := l.what + " ended"
	if err != nil {
		text = fmt.Sprintf("%s: %s", l.what, err.Error())
	}
	if said := l.said.last(); said != "" {
		text += ": " + said
	}
	r := report{Err: text}
	if len(l.nodes) == 1 {
		r.Node = l.nodes[0]
		r.Hint = "filch must have the same path on every host, and ssh must work without a password"
	}
	select {
	case to <- r:
	default: // the coordinator reads no more reports
	}
}

// await waits for the end of the link, and kills the link's process when patience
// is over.
func (l *link) await(patience <-chan time.Time) {
	select {
	case <-l.ended:
		return
	case <-patience:
	}
	_ = l.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-l.ended:
	case <-time.After(linkGrace):
		_ = l.cmd.Process.Kill()
		<-l.ended
	}
}
