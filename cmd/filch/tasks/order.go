package tasks

import (
	"cmp"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// orderFlags describe the processes of the tasks, and the files of their streams.
type orderFlags struct {
	title                                            string // the name of the job if the tasks have other names: name with places for columns
	name, cwd, stdin, stdout, stderr, openMode, keep string
	export                                           string
	threads                                          int32 // the value of -c; 0 without -c
	env                                              []string
	worker                                           bool
}

// order is the common description of the tasks of a job, without their files.
func (f *orderFlags) order(around spec.Context, name string, command []string) (o launcher.TaskOrder, err error) {
	for _, e := range f.env {
		if i := strings.IndexByte(e, '='); i < 1 || strings.IndexByte(e, 0) >= 0 {
			return o, filch.Errorf(filch.Invalid, "--env %q is not NAME=VALUE", e)
		}
	}
	rule, err := spec.ReadExport(cmp.Or(f.export, "ALL"))
	if err != nil {
		return o, ofOption("export", err)
	}
	env, sets := append(spec.WithoutGPUs(around.Env), f.env...), f.env
	if f.export != "" {
		env, sets = append(rule.Filter(around.Env), f.env...), append(rule.Sets, f.env...)
	}
	o = launcher.TaskOrder{
		Name: name, Argv: command, Cwd: around.Cwd,
		Env: spec.WithCPUs(env, around.Env, sets, f.threads), KillWait: launcher.TaskGrace, Worker: f.worker,
	}
	if f.cwd != "" && f.cwdPattern() == "" {
		o.Cwd = absolute(around.Cwd, f.cwd)
		switch err := cli.LookFolder(o.Cwd); {
		case ui.KindOf(err) == filch.Timeout:
			ui.Warn("cannot look at the folder " + ui.Clean(o.Cwd) + ": " + err.Error() + ": a task that starts here may hang")
		case err != nil:
			ui.Warn("there is no folder " + ui.Clean(o.Cwd) + " on this machine: a task that starts here will fail")
		}
	}
	keeps := map[string]launcher.Keep{"all": launcher.KeepAll, "failed": launcher.KeepFailed, "none": launcher.KeepNone}
	keep, ok := keeps[f.keep]
	if !ok {
		return o, filch.Errorf(filch.Invalid, "--keep %q is none of all, failed, none", f.keep)
	}
	o.Keep = keep
	o.Umask, o.Rlimits = cli.ProcessLimits()
	return o, nil
}

// cwdPattern is the folder of the tasks if the folder has replacement strings, else "".
func (f *orderFlags) cwdPattern() string {
	if workflow.HasPlaces(f.cwd) {
		return f.cwd
	}
	return ""
}

func absolute(here, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(here, path)
}

// item is the payload of a task.
func item(t launcher.TaskItem) ([]byte, error) { return ruledItem(t, nil, 0) }

// ruledItem is the payload of a task with a rule of its own for retries, nil for none, and
// with the number of its need.
func ruledItem(t launcher.TaskItem, rule *record.Retry, need int) ([]byte, error) {
	b, err := wire.Marshal(&t)
	return launcher.Timed(t.Limit, launcher.Ruled(rule, launcher.Needed(need, append([]byte{launcher.PayloadItem}, b...)))), err
}

// addNode adds the node of a workflow's task to a submission, with the payload, the mark,
// the rule for retries and the number of the need of the task. The text of a task with many files goes in chunks.
func addNode(s *submit.Job, n record.GraphNode, t launcher.TaskItem, mark workflow.Mark, rule *record.Retry, need int) error {
	b, err := wire.Marshal(&t)
	if err != nil {
		return err
	}
	if t.Gang != nil && len(b) > gangTextMax {
		return filch.Errorf(filch.Invalid, "task %q: the command of a gang and the names of its %d files take %d bytes, at most %d: each node of the gang reads them",
			n.Name, len(t.Inputs)+len(t.Outputs), len(b), gangTextMax)
	}
	around := func(text []byte) []byte {
		return launcher.Timed(t.Limit, launcher.Ruled(rule, launcher.Needed(need, launcher.Marked(mark, text))))
	}
	n.Body = around(append([]byte{launcher.PayloadItem}, b...))
	if len(n.Encode()) > record.MaxPayload {
		var l record.Long
		if s.Long, l, err = record.CutLong(s.Long, append([]byte{launcher.PayloadItem}, b...)); err != nil {
			return filch.Errorf(filch.Invalid, "task %q: its command and the names of its %d files take %d bytes, at most %d",
				n.Name, len(t.Inputs)+len(t.Outputs), len(b)+1, record.LongMax)
		}
		n.Body = around(append([]byte{launcher.PayloadLong}, l.Encode()...))
	}
	s.Nodes = append(s.Nodes, n)
	return nil
}
