package batch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/pool"
)

// system is a batch system. Each method waits at most for its context.
type system interface {
	// tools are the programs that a node must have.
	tools() []string
	// submit submits a script, and returns the number of the batch job.
	submit(ctx context.Context, name, script string, args []string) (id string, err error)
	// look asks for the jobs of the user.
	look(ctx context.Context) (*pool.Batch, error)
	cancel(ctx context.Context, id string) error
}

// systems are the batch systems by name.
var systems = map[string]func(s *pool.Spec) system{
	"slurm": func(s *pool.Spec) system { return slurm{command{s.Via}} },
	"pbs":   func(s *pool.Spec) system { return pbs{command{s.Via}} },
	"hooks": func(s *pool.Spec) system { return hooks{s.Args} },
}

// Limits on a command of a batch system.
const (
	lookWait   = 20 * time.Second
	cancelWait = 20 * time.Second
	outputMost = 16 << 20 // bytes that a command prints
)

// command runs the commands of a batch system, here or on another host.
type command struct{ via string }

func (c command) run(ctx context.Context, input string, argv ...string) (string, error) {
	out, _, err := c.runAll(ctx, input, argv...)
	return out, err
}

// runBoth returns what a command prints on both streams.
func (c command) runBoth(ctx context.Context, input string, argv ...string) (string, error) {
	out, said, err := c.runAll(ctx, input, argv...)
	return out + said, err
}

func (c command) runAll(ctx context.Context, input string, argv ...string) (printed, complaint string, err error) {
	if c.via != "" {
		quoted := make([]string, len(argv))
		for i, a := range argv {
			quoted[i] = cli.ShellWord(a)
		}
		argv = []string{"ssh", "-oBatchMode=yes", "-oConnectTimeout=10", "--", c.via, strings.Join(quoted, " ")}
	}
	p := exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.Stdin, p.Env = strings.NewReader(input), outside(os.Environ())
	p.WaitDelay = time.Second
	out, said := &limited{most: outputMost}, &limited{most: 4096}
	p.Stdout, p.Stderr = out, said
	err = p.Run()
	switch {
	case ctx.Err() != nil:
		return "", "", filch.Errorf(filch.Timeout, "%s did not end in time", argv[0])
	case out.cut:
		return "", "", filch.Errorf(filch.Internal, "%s printed more than %d bytes", argv[0], outputMost)
	case err != nil:
		text := strings.Join(strings.Fields(said.String()), " ")
		var exit *exec.ExitError
		if text == "" || !errors.As(err, &exit) {
			text = strings.TrimSpace(text + " " + err.Error())
		}
		return "", "", filch.Errorf(filch.Unavailable, "%s", text)
	}
	return out.String(), said.String(), nil
}

// outside is an environment without the variables of the batch job around this process:
// sbatch would hand them to the job that it submits.
func outside(env []string) []string {
	if !slices.ContainsFunc(env, func(kv string) bool { return ui.HasAnyPrefix(kv, "SLURM_JOB_ID=", "PBS_JOBID=") }) {
		return env // what a user has set on a login node counts
	}
	return slices.DeleteFunc(env, func(kv string) bool {
		return ui.HasAnyPrefix(kv, "SLURM", "SRUN_", "PBS_", "PMI") && !ui.HasAnyPrefix(kv, "SLURM_CONF=", "SLURM_CLUSTERS=", "PBS_CONF_FILE=")
	})
}

// limited keeps the first bytes that are written.
type limited struct {
	bytes.Buffer
	most int
	cut  bool
}

func (l *limited) Write(b []byte) (int, error) {
	keep := min(len(b), l.most-l.Len())
	l.cut = l.cut || keep < len(b)
	l.Buffer.Write(b[:keep])
	return len(b), nil
}

func (c command) tools(names ...string) []string {
	if c.via != "" {
		return []string{"ssh"}
	}
	return names
}

// missing returns the programs that this machine does not have.
func missing(s system) (none []string) {
	for _, t := range s.tools() {
		if _, err := exec.LookPath(t); err != nil {
			none = append(none, t)
		}
	}
	return none
}

// slurm is Slurm, from version 20.02 on (squeue --me).
type slurm struct{ command }

func (s slurm) tools() []string { return s.command.tools("sbatch", "squeue", "scancel") }

func (s slurm) submit(ctx context.Context, name, script string, args []string) (string, error) {
	out, err := s.run(ctx, script, slices.Concat([]string{"sbatch", "--parsable", "--job-name=" + name, "--no-requeue"}, args)...)
	if err != nil {
		return "", err
	}
	id, _, _ := strings.Cut(strings.TrimSpace(out), ";") // JOB;CLUSTER
	if id == "" {
		return "", filch.Errorf(filch.Internal, "sbatch printed no job id")
	}
	return id, nil
}

func (s slurm) look(ctx context.Context) (*pool.Batch, error) {
	out, err := s.run(ctx, "", "squeue", "--noheader", "--me", "--states=all", "--format=%i|%T|%j|%D|%l|%r")
	if err != nil {
		return nil, err
	}
	b := &pool.Batch{Jobs: map[string]pool.Job{}, Name: map[string]string{}}
	for line := range strings.Lines(out) {
		f := strings.SplitN(strings.TrimSpace(line), "|", 6)
		if len(f) < 6 {
			continue
		}
		j := slurmJob(f[1], f[5])
		j.Asked = asked(f[3], f[4])
		b.Jobs[f[0]] = j
		if j.State != pool.JobOver || b.Name[f[2]] == "" {
			b.Name[f[2]] = f[0]
		}
	}
	return b, nil
}

// asked is the time of nodes that a batch job asks for; 0 of a job without a time limit.
func asked(nodes, limit string) time.Duration {
	n, err := strconv.Atoi(nodes)
	each, e := spec.Time(limit)
	if err != nil || e != nil || n < 1 {
		return 0
	}
	return time.Duration(n) * each
}

// slurmJob maps the states of Slurm (squeue(1), "JOB STATE CODES").
func slurmJob(state, reason string) pool.Job {
	j := pool.Job{Said: state}
	switch state {
	case "PENDING", "REQUEUED", "REQUEUE_FED":
		j.State, j.Said = pool.JobQueued, reason
		if strings.HasPrefix(reason, "JobHeld") {
			j.State = pool.JobHeld
		}
	case "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD":
		j.State, j.Said = pool.JobHeld, state
	case "CONFIGURING", "RUNNING", "COMPLETING", "STAGE_OUT", "SIGNALING", "STOPPED", "SUSPENDED", "RESIZING":
		j.State = pool.JobRunning
	default: // BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT, and states to come
		j.State, j.Cancelled = pool.JobOver, state == "CANCELLED" || state == "PREEMPTED"
		if reason != "" && reason != "None" {
			j.Said += " (" + reason + ")"
		}
	}
	return j
}

func (s slurm) cancel(ctx context.Context, id string) error {
	_, err := s.run(ctx, "", "scancel", id)
	return err
}
