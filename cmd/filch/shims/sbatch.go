package shims

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// maxScript bounds a batch script.
const maxScript = 4 << 20

// sbatchMain is sbatch: the script becomes a detached job of the instance. The
// job's ranks hold its slots; rank 0 runs the script, and the script's steps use
// the slots.
func sbatchMain(args []string) int {
	r, err := spec.ParseSbatch(args)
	if err != nil {
		return ui.Fail(err)
	}
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err != nil {
		return handOn(err.Error())
	}
	dir, err := metaDir(c.Dir.Instance)
	c.Close()
	if err != nil {
		return ui.Fail(err)
	}
	p, err := fileScript(dir, r)
	if err != nil {
		return ui.Fail(err)
	}
	if u := r.Client.Batch.Unknown; u != "" {
		return ui.Fail(filch.Errorf(filch.Invalid, "filch does not do %s", u))
	}
	indices := r.Client.Batch.Array
	if len(indices) == 0 {
		indices = []int32{-1}
	}
	var first filch.JobID
	for _, index := range indices {
		id, code := submitBatch(dir, r, &p, index, first)
		if code != 0 {
			return code
		}
		if first == 0 {
			first = id
		}
	}
	if r.Client.Batch.Parsable {
		fmt.Println(first)
	} else {
		fmt.Printf("Submitted batch job %d\n", first)
	}
	if r.Client.Batch.Wait {
		return awaitBatch(first)
	}
	return 0
}

// fileScript writes the script to the book and applies its directives.
func fileScript(dir string, r *spec.Run) (page, error) {
	var p page
	text, command := "", ""
	b := &r.Client.Batch
	switch {
	case b.Wrapped && len(r.Argv) > 0:
		return p, filch.Errorf(filch.Invalid, "Script arguments not permitted with --wrap option")
	case b.Wrapped:
		text, command = "#!/bin/sh\n# This script was created by sbatch --wrap.\n\n"+b.Wrap+"\n", "(null)"
	case len(r.Argv) == 0:
		raw, err := io.ReadAll(io.LimitReader(os.Stdin, maxScript))
		if err != nil {
			return p, err
		}
		text, command = string(raw), "(null)"
	default:
		path := r.Argv[0]
		if _, err := os.Stat(path); err != nil && !strings.Contains(path, "/") {
			if found, err := exec.LookPath(path); err == nil {
				path = found
			}
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return p, filch.Errorf(filch.Invalid, "Unable to open file %s", r.Argv[0])
		}
		text, p.Args = string(raw), r.Argv[1:]
		command, _ = filepath.Abs(path)
	}
	if !strings.HasPrefix(text, "#!") {
		return p, filch.Errorf(filch.Invalid, "This does not look like a batch script.  The first line must start with #! followed by the path to an interpreter.")
	}
	if !b.Wrapped {
		if err := r.Directives(text); err != nil {
			return p, err
		}
	}
	token := make([]byte, 8)
	if _, err := rand.Read(token); err != nil {
		return p, err
	}
	p.Script = filepath.Join(dir, "script."+hex.EncodeToString(token))
	p.Command = strings.TrimSpace(command + " " + strings.Join(p.Args, " "))
	return p, os.WriteFile(p.Script, []byte(text), 0o700)
}

// submitBatch submits the job, or a job of an array.
func submitBatch(dir string, r *spec.Run, p *page, index int32, array filch.JobID) (filch.JobID, int) {
	around, err := cli.Environment()
	if err != nil {
		return 0, ui.Fail(err)
	}
	around.Job, around.Task = 0, 0 // a batch job is never a step
	if array == 0 {
		if err := prepareBatch(r, p, index, around); err != nil {
			return 0, ui.Fail(err)
		}
	}
	id, err := accepted(r)
	if err != nil {
		return 0, ui.Fail(err)
	}
	if err := writePage(dir, pageOf(*p, r, id, index, array)); err != nil {
		return 0, ui.Fail(err)
	}
	return id, 0
}

// prepareBatch makes the request: ranks that hold the slots, of which rank 0 runs
// the script.
func prepareBatch(r *spec.Run, p *page, index int32, around spec.Context) (err error) {
	s := &r.Request.Shape
	p.Shape = batchSize(r)
	if p.Name = r.Request.Name; p.Name == "" {
		p.Name = "sbatch"
		if r.Client.Batch.Wrapped {
			p.Name = "wrap"
		} else if len(r.Argv) > 0 {
			p.Name = filepath.Base(r.Argv[0])
		}
	}
	r.Request.Name = p.Name
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	r.Argv = []string{exe, "batch", p.Script}
	p.Out, p.Err, p.Append = r.Client.Stdout, r.Client.Stderr, r.Order.IO.Append
	r.Client.Stdout, r.Client.Stderr, r.Client.Stdin = launcher.NoFile, launcher.NoFile, launcher.NoFile
	s.Ranks = max(s.Ranks, 1)
	if s.MinNodes > 0 {
		s.Ranks, s.PerRank.Slots, s.PerNode = s.MinNodes, (p.Shape.Tasks+s.MinNodes-1)/s.MinNodes*p.Shape.CPUs, 1
	}
	if _, err := r.Finish(around); err != nil {
		return err
	}
	r.Order.Umask, r.Order.Rlimits = cli.ProcessLimits()
	if p.Dir = r.Order.Cwd; p.Out == "" {
		p.Out = "slurm-%j.out"
		if index >= 0 {
			p.Out = "slurm-%A_%a.out"
		}
	}
	b := &r.Client.Batch
	p.Partition, p.Account = or(b.Partition, batchHome), or(b.Account, batchHome)
	r.Request.Order, err = wire.Marshal(&r.Order)
	return err
}

func or(s, otherwise string) string {
	if s != "" {
		return s
	}
	return otherwise
}

// pageOf completes the page of an accepted job.
func pageOf(p page, r *spec.Run, id filch.JobID, index int32, array filch.JobID) page {
	p.ID, p.Name, p.Dir = id, r.Request.Name, r.Order.Cwd
	b := &r.Client.Batch
	if index >= 0 {
		if p.Array, p.Index, p.Indices = array, index, b.Array; array == 0 {
			p.Array = id
		}
	}
	return p
}

// batchSize is the size asked for, in tasks.
func batchSize(r *spec.Run) batchShape {
	s := r.Request.Shape
	b := batchShape{Tasks: max(s.Ranks, 1), Nodes: max(s.MinNodes, 1), CPUs: max(s.PerRank.Slots, 1), Mem: r.Client.Mem, Limit: r.Request.Policy.TimeLimit}
	if s.Ranks == 0 && s.MinNodes > 0 {
		b.Tasks = s.MinNodes * max(s.PerNode, 1)
	}
	return b
}

// accepted submits and waits for the number.
func accepted(r *spec.Run) (filch.JobID, error) {
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err != nil {
		return 0, err
	}
	run, err := c.Submit(&r.Request)
	if err != nil {
		return 0, err
	}
	defer run.Close()
	for {
		event, err := run.Next()
		if err != nil {
			return 0, err
		}
		switch e := event.(type) {
		case launcher.Accepted:
			return e.Job, nil
		case launcher.Refused:
			return 0, &e.Err
		}
	}
}

// awaitBatch is sbatch --wait.
func awaitBatch(id filch.JobID) int {
	jobs, c, err := batchJobs([]string{id.String()})
	if err != nil {
		return ui.Fail(err)
	}
	defer c.Close()
	worst := 0
	for _, j := range jobs {
		var info launcher.JobInfo
		if err := cli.Ask(c, 0, &info, wire.VerbWait, j.ID.String()); err != nil {
			return ui.Fail(err)
		}
		if info.Code != nil {
			worst = max(worst, int(*info.Code))
		}
	}
	if worst > filch.ExitSignalBase {
		return 1
	}
	return worst
}

func BatchCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "batch SCRIPT",
		Hidden: true,
		Short:  "run the script of a batch job; started by the sbatch shim",
		Args:   cobra.ExactArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return ui.Exit(BatchMain(args[0])) },
	}
}

// BatchMain is a rank of a batch job. Rank 0 runs the script; the other ranks
// hold their slots for the script's steps until the script has ended.
func BatchMain(script string) int {
	id := cli.OuterJob()
	over := filepath.Join(filepath.Dir(script), id.String()+".over")
	if os.Getenv("FILCH_RANK") != "0" {
		for {
			if _, err := os.Stat(over); !errors.Is(err, fs.ErrNotExist) {
				return 0
			}
			time.Sleep(batchPoll)
		}
	}
	defer func() { _ = os.WriteFile(over, nil, 0o600) }()
	var p page
	var err error
	// sbatch writes the page on receiving the job's number.
	for deadline := time.Now().Add(cli.AnswerWait); ; time.Sleep(cli.PollPause) {
		if p, err = readPage(pageFile(filepath.Dir(script), id)); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil {
		return ui.Fail(err)
	}
	return p.run(script)
}

// batchPoll is the interval at which the other ranks look for the script's end.
const batchPoll = 200 * time.Millisecond

// run runs the script and returns the script's exit code.
func (p *page) run(script string) int {
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
	cmd := exec.Command(script, p.Args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = p.Dir, out, errs
	cmd.Env = p.environ()
	heard := make(chan os.Signal, 8)
	signal.Notify(heard, syscall.SIGTERM, syscall.SIGINT, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGHUP, syscall.SIGALRM)
	go func() {
		for range heard { // the launcher signals the script as well
		}
	}()
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		_, _ = fmt.Fprintf(errs, "slurmstepd: error: execve(): %s: %s\n", script, ui.Cause(err))
		return filch.ExitNotExec
	}
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		signal.Reset()
		_ = syscall.Kill(os.Getpid(), w.Signal()) // end by the same signal
	}
	return ui.CodeOf(cmd.ProcessState)
}

func (p *page) open(pattern string) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if p.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	path := p.expand(pattern)
	switch {
	case pattern == launcher.NoFile:
		path = os.DevNull
	case !filepath.IsAbs(path):
		path = filepath.Join(p.Dir, path)
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot open %s: %s", path, ui.Cause(err))
	}
	return f, nil
}

// expand replaces sbatch's conversions: %A and %a are the array's, the others
// have srun's meaning.
func (p *page) expand(pattern string) string {
	array := p.ID
	if p.Array > 0 {
		array = p.Array
	}
	pattern = strings.NewReplacer("%%", "%%", "%A", array.String(), "%a", strconv.Itoa(int(p.Index)), "%J", p.ID.String()).Replace(pattern)
	return output.Expand(pattern, output.Place{Job: p.ID, Name: p.Name, User: runclient.UserName(), Node: filch.NodeName(os.Getenv("FILCH_NODE"))})
}

// environ is the environment of the script: sbatch's variables, on top of the
// variables that describe the job's slots.
func (p *page) environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(kv string) bool {
		for _, drop := range []string{"SLURM_PROCID=", "SLURM_LOCALID=", "SLURM_STEP", "SLURM_GTIDS="} {
			if strings.HasPrefix(kv, drop) {
				return true
			}
		}
		return false
	})
	tasks := strconv.Itoa(int(p.Shape.Tasks))
	env = append(env, "SLURM_NTASKS="+tasks, "SLURM_NPROCS="+tasks, "SLURM_JOB_NAME="+p.Name, "SLURM_SUBMIT_DIR="+p.Dir,
		"SLURM_JOB_PARTITION="+p.Partition, "SLURM_JOB_ACCOUNT="+p.Account, "SLURM_CPUS_PER_TASK="+strconv.Itoa(int(p.Shape.CPUs)),
		"SLURM_PROCID=0", "SLURM_LOCALID=0", "SLURM_TASK_PID="+strconv.Itoa(os.Getpid()), "SLURM_CLUSTER_NAME=filch")
	if p.Array > 0 {
		low, high := slices.Min(p.Indices), slices.Max(p.Indices)
		env = append(env, "SLURM_ARRAY_JOB_ID="+p.Array.String(), "SLURM_ARRAY_TASK_ID="+strconv.Itoa(int(p.Index)),
			"SLURM_ARRAY_TASK_COUNT="+strconv.Itoa(len(p.Indices)), "SLURM_ARRAY_TASK_MIN="+strconv.Itoa(int(low)), "SLURM_ARRAY_TASK_MAX="+strconv.Itoa(int(high)))
	}
	return env
}
