package shims

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
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
	faultOfVariable()
	r, err := spec.ParseSbatch(args, os.Getenv)
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
	if u := r.Client.Foreign; u != "" {
		return ui.Fail(filch.Errorf(filch.Invalid, "filch does not do %s", u).WithHint("%s", r.Client.Instead))
	}
	for _, w := range r.Client.Said {
		ui.Warn(w)
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
	switch {
	case r.Client.Batch.Parsable:
		fmt.Println(first)
	case r.Client.Quiet:
	default:
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
	id, err := accepted(dir, r, index)
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
	p.Options, p.Submitter = r.SlurmOptions(), around.Submitter()
	if p.Login = r.Export.None; p.Login {
		p.Shims = shimFolder()
		r.Export.Names = append(r.Export.Names, "FILCH_HOME", "FILCH_LOCAL", "FILCH_FILCHD")
	}
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
	if s.MinNodes == 0 && (s.NodeGPUs > 0 || r.Client.GPUs > 0) {
		s.MinNodes, s.MaxNodes = 1, 1 // GPUs are counted by node
	}
	s.Ranks = max(s.Ranks, 1)
	if s.MinNodes > 0 {
		each := (p.Shape.Tasks + s.MinNodes - 1) / s.MinNodes // tasks of a node, on one rank
		s.Ranks, s.PerRank.Slots, s.PerNode = s.MinNodes, each*p.Shape.CPUs, 1
		s.PerRank.GPUs *= each
	}
	if _, err := r.Finish(around); err != nil {
		return err
	}
	r.Order.Umask, r.Order.Rlimits = cli.ProcessLimits()
	r.Order.Rlimits = r.Client.Limits.Of(r.Order.Rlimits)
	if p.Dir = r.Order.Cwd; p.Out == "" {
		p.Out = "slurm-%j.out"
		if index >= 0 {
			p.Out = "slurm-%A_%a.out"
		}
	}
	b := &r.Client.Batch
	p.Partition, p.Account = or(b.Partition, batchHome), or(b.Account, batchHome)
	p.UserEnv, p.UserEnvWait, p.UserEnvPlain = b.UserEnv, b.UserEnvWait, b.UserEnvPlain
	p.Most, p.NoRequeue = b.ArrayMost, b.NoRequeue
	if err := settleWarning(r, p); err != nil {
		return err
	}
	if b.ArrayMost > 0 {
		r.Request.Array = launcher.Array{Key: filepath.Base(p.Script), Most: b.ArrayMost}
	}
	p.Labels = string(r.Request.Shape.Labels)
	p.QOS, p.WCKey, p.Comment, p.Reservation, p.In = b.QOS, b.WCKey, b.Comment, b.Reservation, b.Input
	r.Request.Order, err = wire.Marshal(&r.Order)
	return err
}

// settleWarning divides --signal: the launcher sends the signal for the script, rank 0 the
// signal for the steps.
func settleWarning(r *spec.Run, p *page) (err error) {
	w := &r.Request.Policy
	switch {
	case w.WarnSig == 0:
	case r.Client.Batch.WarnScript:
		w.WarnSig, err = signalOfScript(w.WarnSig)
	default:
		p.WarnSig, p.WarnTime = w.WarnSig, w.WarnTime
		w.WarnSig, w.WarnTime = 0, 0
	}
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

// accepted submits, and waits for the number.
func accepted(dir string, r *spec.Run, index int32) (filch.JobID, error) {
	c, err := client.Dial(client.Options{Build: cli.Build})
	if err != nil {
		return 0, err
	}
	if r.Client.Hold {
		r.Request.HeldBy = cli.Person()
	}
	if err := depend(c, dir, r, index); err != nil {
		c.Close()
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
		Args:   cobra.MinimumNArgs(1),
		RunE:   func(_ *cobra.Command, args []string) error { return ui.Exit(Batch(args)) },
	}
}

// Batch is filch batch: a rank of a batch job, or the process that becomes the script.
func Batch(args []string) int {
	switch {
	case len(args) == 0:
		return ui.Usage(filch.Errorf(filch.Invalid, "filch batch needs a script"))
	case args[0] == execScript && len(args) > 1:
		return becomeScript(args[1:])
	}
	return batchRank(args[0])
}

func (p *page) open(pattern string) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if p.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	path := os.DevNull
	if pattern != launcher.NoFile {
		path = p.pathOf(pattern)
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot open %s: %s", path, ui.Cause(err))
	}
	return f, nil
}

// pathOf is the path for a pattern of the job.
func (p *page) pathOf(pattern string) string {
	path := p.expand(pattern)
	if !filepath.IsAbs(path) {
		path = filepath.Join(p.Dir, path)
	}
	return path
}

// expand replaces sbatch's conversions: %A and %a are the array's, the others
// have srun's meaning.
func (p *page) expand(pattern string) string {
	array := p.ID
	if p.Array > 0 {
		array = p.Array
	}
	pattern = strings.NewReplacer("%%", "%%", "%A", array.String(), "%a", strconv.Itoa(int(p.Index)), "%J", p.ID.String()).Replace(pattern)
	return output.Expand(pattern, output.Place{Job: p.ID, Name: p.Name, User: cli.UserName(), Node: filch.NodeName(os.Getenv("FILCH_NODE"))})
}
