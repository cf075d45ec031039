package shims

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/slurmenv"
)

// execScript is the first argument of the process that becomes the script of a batch job.
const execScript = "--exec"

// becomeScript replaces this process by a script, whose process id is then known:
// SLURM_TASK_PID.
func becomeScript(argv []string) int {
	env := slurmenv.Merge(os.Environ(), []string{"SLURM_TASK_PID=" + strconv.Itoa(os.Getpid())})
	err := unix.Exec(argv[0], argv, env)
	_, _ = fmt.Fprintf(os.Stderr, "slurmstepd: error: execve(): %s: %s\n", argv[0], ui.Cause(err))
	return filch.ExitNotExec
}

// environ is the environment of the script: sbatch's variables, on top of the variables
// that describe the job's slots.
func (p *page) environ(errs io.Writer) []string {
	now := time.Now()
	f := slurmenv.Facts{
		Job: cli.OuterJob(), Name: p.Name, Partition: p.Partition, Account: p.Account,
		Begun: now.Unix(), Options: p.Options, Submitter: p.Submitter,
		Restarts: p.restarts, Proc: &slurmenv.Proc{Ranks: []int32{0}},
	}
	if gpus := os.Getenv("FILCH_GPUS"); gpus != "" {
		f.GPUs = strings.Split(gpus, ",")
	}
	if p.Shape.Limit > 0 {
		f.Ends = now.Add(p.Shape.Limit).Unix()
	}
	f.Tasks = p.tasksOfNodes(os.Getenv)
	if p.Array > 0 {
		f.Array = slurmenv.Array{Job: p.Array, Index: int64(p.Index)}
		for _, i := range p.Indices {
			f.Array.Indices = append(f.Array.Indices, int64(i))
		}
	}
	env := slurmenv.Merge(slurmenv.ForScript(os.Environ()), slurmenv.Environ(&f, slurmenv.Batch))
	if p.Append {
		env = slurmenv.Merge(env, []string{"SLURM_OPEN_MODE=a"}) // steps append to files, too
	}
	if !p.Login && !p.UserEnv {
		return env
	}
	login, err := loginEnvironment(cmp.Or(p.UserEnvWait, loginWait), p.UserEnvPlain)
	if err != nil {
		_, _ = fmt.Fprintf(errs, "sbatch: error: cannot read the variables of a login: %s\n", err)
	}
	env = slurmenv.Merge(login, env)
	if p.Shims != "" {
		env = slurmenv.Merge(env, []string{"PATH=" + p.Shims + ":" + slurmenv.Lookup(env, "PATH")})
	}
	return env
}

// tasksOfNodes is how many tasks each node of the job has, where a rank of the job holds the
// slots of several tasks; whole nodes without a number of tasks have one for each -c slots.
func (p *page) tasksOfNodes(env func(string) string) []int32 {
	size, _ := strconv.Atoi(env("FILCH_SIZE"))
	nodes, _ := strconv.Atoi(env("FILCH_NODES"))
	switch n := p.Options.Ranks; {
	case nodes < 1:
	case n > 0 && int(n) != size:
		return slurmenv.Spread(n, int32(nodes))
	case n == 0 && p.Options.Exclusive:
		tasks := slurmenv.Counts(env("SLURM_JOB_CPUS_PER_NODE"))
		for i := range tasks {
			tasks[i] = max(tasks[i]/max(p.Shape.CPUs, 1), 1)
		}
		return tasks
	}
	return nil
}

// shimFolder is the folder of PATH whose srun is filch; "" if srun is another program.
func shimFolder() string {
	srun, err := exec.LookPath("srun")
	if err != nil {
		return ""
	}
	real, err := filepath.EvalSymlinks(srun)
	exe, _ := os.Executable()
	if exe, _ = filepath.EvalSymlinks(exe); err != nil || real != exe {
		return ""
	}
	dir, _ := filepath.Abs(filepath.Dir(srun))
	return dir
}

// Limits of the shell that reads the files of a login.
const (
	loginWait = 8 * time.Second
	loginMax  = 1 << 20 // bytes of variables
)

// loginMark separates the variables from words that the files of a login print.
const loginMark = "\x00filch-login\x00"

// loginEnvironment is the environment that a login of the user has, or a plain shell. With an error, the
// environment has the few variables that login(1) sets.
func loginEnvironment(wait time.Duration, plain bool) ([]string, error) {
	name, home, shell := cli.UserName(), "/", "/bin/sh"
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		home = u.HomeDir
	}
	if text, err := os.ReadFile("/etc/passwd"); err == nil {
		for line := range strings.Lines(string(text)) {
			if f := strings.Split(strings.TrimSpace(line), ":"); len(f) == 7 && f[0] == name && f[6] != "" {
				shell = f[6]
			}
		}
	}
	few := []string{"HOME=" + home, "USER=" + name, "LOGNAME=" + name, "SHELL=" + shell, "PATH=/usr/local/bin:/usr/bin:/bin"}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	args := []string{"-l", "-c", `printf '\000filch-login\000'; exec /usr/bin/env -0`}
	if plain {
		args = args[1:]
	}
	cmd := exec.CommandContext(ctx, shell, args...)
	cmd.Env, cmd.Dir, cmd.WaitDelay = few, home, time.Second
	out, err := cmd.Output()
	if ctx.Err() != nil {
		return few, fmt.Errorf("%s -l took longer than %v", shell, wait)
	}
	if err != nil {
		return few, fmt.Errorf("%s -l: %w", shell, err)
	}
	_, text, found := bytes.Cut(out, []byte(loginMark))
	if !found || len(text) > loginMax {
		return few, fmt.Errorf("%s -l printed %d bytes that are no environment, %d at most", shell, len(out), loginMax)
	}
	var env []string
	for kv := range strings.SplitSeq(string(text), "\x00") {
		if kv != "" && !strings.HasPrefix(kv, "_=") {
			env = append(env, kv)
		}
	}
	return env, nil
}
