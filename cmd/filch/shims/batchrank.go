package shims

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// A signal for a batch job's script alone travels as a signal above scriptSignal: the ranks
// of the job get the signal, and rank 0 passes the signal below on. The script is in a
// process group of its own, so that a signal for the ranks does not reach its children.
const (
	scriptSignal = 34 // Go's runtime keeps the signals up to this number
	signalMost   = 64
)

// signalOfScript is the signal that carries sig to the script.
func signalOfScript(sig int32) (int32, error) {
	if sig <= 0 || sig > signalMost-scriptSignal {
		return 0, filch.Errorf(filch.Invalid, "cannot send signal %d to a batch script: the signals from 1 to %d can be sent", sig, signalMost-scriptSignal)
	}
	return scriptSignal + sig, nil
}

// carriers are the signals above scriptSignal.
func carriers() (all []os.Signal) {
	for n := scriptSignal + 1; n <= signalMost; n++ {
		all = append(all, syscall.Signal(n))
	}
	return all
}

// batchRank is a rank of a batch job. Rank 0 runs the script; the other ranks
// hold their slots for the script's steps until the script has ended.
func batchRank(script string) int {
	id, attempt := cli.OuterJob(), os.Getenv("FILCH_ATTEMPT")
	dir := filepath.Dir(script)
	over := filepath.Join(dir, id.String()+"."+attempt+".over")
	if os.Getenv("FILCH_RANK") != "0" {
		signal.Ignore(append(carriers(), syscall.SIGHUP, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGALRM)...)
		for {
			if _, err := os.Stat(over); !errors.Is(err, fs.ErrNotExist) {
				return 0
			}
			time.Sleep(batchPoll)
		}
	}
	heard := make(chan os.Signal, 64)
	signal.Notify(heard, append(carriers(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGALRM)...)
	defer func() { _ = os.WriteFile(over, nil, 0o600) }()
	var p page
	var err error
	// sbatch writes the page on receiving the job's number.
	for deadline := time.Now().Add(cli.AnswerWait); ; time.Sleep(cli.PollPause) {
		if p, err = readPage(pageFile(dir, id)); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return ui.Fail(err)
	}
	p.restarts = countStart(dir, id)
	return p.run(script, heard)
}

// batchPoll is the interval at which the other ranks look for the script's end.
const batchPoll = 200 * time.Millisecond

// startsFile has a byte for each start of a job.
func startsFile(dir string, id filch.JobID) string {
	return filepath.Join(dir, id.String()+".starts")
}

// countStart notes a start of a job, and returns how often the job had started before.
func countStart(dir string, id filch.JobID) int32 {
	before := restarts(dir, id) + 1
	if f, err := os.OpenFile(startsFile(dir, id), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
		_, _ = f.WriteString("s")
		_ = f.Close()
	}
	return before
}

// restarts is how often a job was started again; -1 for a job that never started.
func restarts(dir string, id filch.JobID) int32 {
	i, err := os.Stat(startsFile(dir, id))
	if err != nil {
		return -1
	}
	return int32(i.Size()) - 1
}

// run runs the script and returns the script's exit code.
func (p *page) run(script string, heard <-chan os.Signal) int {
	out, err := p.open(p.Out)
	if err != nil {
		return ui.Fail(err)
	}
	errs := out
	if p.Err != "" && p.Err != p.Out {
		if errs, err = p.open(p.Err); err != nil {
			return ui.Fail(err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		return ui.Fail(err)
	}
	cmd := exec.Command(exe, append([]string{"batch", execScript, script}, p.Args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, out, errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if p.In != "" && p.In != launcher.NoFile {
		in, err := os.Open(p.pathOf(p.In))
		if err != nil {
			_, _ = fmt.Fprintf(errs, "slurmstepd: error: Could not open stdin file %s: %s\n", p.pathOf(p.In), ui.Cause(err))
			return 1
		}
		cmd.Stdin = in
	}
	cmd.Env = p.environ(errs)
	if err := cmd.Start(); err != nil {
		return ui.Fail(err)
	}
	go passOn(heard, cmd.Process.Pid)
	if p.WarnSig > 0 && p.Shape.Limit > 0 {
		warn := time.AfterFunc(max(p.Shape.Limit-p.WarnTime, 0), func() { warnSteps(p.ID, p.WarnSig) })
		defer warn.Stop()
	}
	if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
		return ui.Fail(err)
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), w.Signal()) // end by the same signal
	}
	return ui.CodeOf(cmd.ProcessState)
}

// passOn passes signals on to the script. The launcher sends a signal that ends the job to
// every process of the job, and so to the script, too.
func passOn(heard <-chan os.Signal, pid int) {
	for sig := range heard {
		switch n := sig.(syscall.Signal); {
		case n > scriptSignal:
			_ = syscall.Kill(pid, n-scriptSignal)
		case n == syscall.SIGTERM, n == syscall.SIGINT:
		default:
			_ = syscall.Kill(pid, n)
		}
	}
}

// warnSteps sends the signal of --signal to the steps of a job.
func warnSteps(id filch.JobID, sig int32) {
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err == nil {
		defer c.Close()
		err = signalSteps(c, id, sig)
	}
	if err != nil {
		ui.Warn(fmt.Sprintf("cannot send signal %d of --signal to the steps of job %d: %s", sig, id, ui.Cause(err)))
	}
}

// signalSteps sends a signal to the steps of a batch job that run.
func signalSteps(c *client.Client, id filch.JobID, sig int32) error {
	list, err := cli.QueryJobs(c)
	if err != nil {
		return err
	}
	for i := range list {
		if s := &list[i]; s.Parent == id && s.Code == nil {
			if err := signalJob(c, s.ID, sig); err != nil {
				return err
			}
		}
	}
	return nil
}

// signalJob sends a signal to the ranks of a job; a job that waits or has ended gets none.
func signalJob(c *client.Client, id filch.JobID, sig int32) error {
	err := cli.Ask(c, cli.QueryWait, nil, wire.VerbSignal, id.String(), strconv.Itoa(int(sig)))
	if k := ui.KindOf(err); k == filch.NotFound || k == filch.Busy {
		return nil
	}
	return err
}

// signalBatch sends scancel's signal: to the steps, with --batch to the script, with --full
// to both.
func signalBatch(c *client.Client, q question, id filch.JobID, sig int32) error {
	if sig == int32(syscall.SIGKILL) {
		return cli.Ask(c, cli.QueryWait, nil, wire.VerbCancel, id.String(), strconv.Itoa(int(sig)))
	}
	if q.has("batch", "full") {
		carrier, err := signalOfScript(sig)
		if err == nil {
			err = signalJob(c, id, carrier)
		}
		if err != nil || !q.has("full") {
			return err
		}
	}
	return signalSteps(c, id, sig)
}

// requeueJobs is scontrol requeue.
func requeueJobs(words []string) int {
	return forJobs(words, func(c *client.Client, jobs []batchJob) (code int) {
		for i := range jobs {
			j := &jobs[i]
			if j.page.NoRequeue {
				code = ui.Fail(filch.Errorf(filch.Invalid, "Requested operation is presently disabled for job %s: it was submitted with --no-requeue", j.id()))
				continue
			}
			if err := cli.Ask(c, cli.QueryWait, nil, wire.VerbRequeue, j.ID.String(), "scontrol"); err != nil {
				code = ui.Fail(err)
			}
		}
		return code
	})
}
