package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/logs"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/tasks"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

func exportCommand(g *cli.Global) *cobra.Command {
	failed, remove := false, false
	c := &cobra.Command{
		Use:     "export JOB[.TASKS] FOLDER",
		GroupID: "jobs",
		Short:   "write the output of tasks into files",
		Long: `Writes the kept output of tasks, or of the ranks of a detached job, into the files
TASK.stdout and TASK.stderr of a folder, which must be new or empty. TASK is the number; of
a task of a workflow the name, if the name has only letters, digits and ._+-, does not begin
with a dot or a dash, and is no number. A task that is named in the command has a file
TASK.stdout even if the task printed nothing. The files that tasks of
filch submit --stage-out left are in TASK/. With --remove, all nodes then remove these
files.`,
		Example: "  filch export last output\n  filch export 7.3 one\n  filch export 7.fit,plot two\n  filch export 7 bad --failed\n  filch export 7 results --remove",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, named, err := tasklist.NamedOne(g, args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			spans := named.Spans()
			if whole := len(spans) == 1 && spans[0].First == 0 && spans[0].Last == math.MaxInt32; remove && (failed || !whole) {
				return ui.Misused(filch.Errorf(filch.Invalid, "--remove removes the files of all tasks, and goes with a whole job alone"))
			}
			return export(g, c, spans, args[1], failed, remove)
		},
	}
	c.Flags().BoolVar(&failed, "failed", false, "only tasks that did not end well")
	c.Flags().BoolVar(&remove, "remove", false, "then remove the files of --stage-out from the nodes")
	return c
}

func export(g *cli.Global, c *client.Client, spans []cli.JobSpan, dir string, failed, remove bool) error {
	targets, err := logs.Find(c, spans)
	if err != nil {
		return err
	}
	t, r := &targets[0], &logs.Reader{Targets: targets}
	if !cli.IsTasks(&t.Info) {
		if failed {
			return ui.Misused(filch.Errorf(filch.Invalid, "--failed needs a job of tasks, and job %d is a %s", t.Job, t.Info.Kind))
		}
		if !t.Info.Detached {
			return filch.Errorf(filch.NotFound, "cannot export job %d: no output of the job is kept, as the job was not detached", t.Job).
				WithHint("its output went to its client; filch run --detach keeps the output on the nodes")
		}
	}
	if remove && t.Info.Code == nil {
		return filch.Errorf(filch.Busy, "job %d has not ended: its files cannot be removed", t.Job).WithHint("filch wait %d", t.Job)
	}
	if failed {
		r.Show = []string{logs.Failed}
	} else {
		r.Show = []string{logs.Ended}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return filch.Errorf(filch.Invalid, "cannot make the folder %s: %s", ui.Clean(dir), ui.Cause(err))
	}
	switch old, err := os.ReadDir(dir); {
	case err != nil:
		return filch.Errorf(filch.Invalid, "cannot read the folder %s: %s", ui.Clean(dir), ui.Cause(err))
	case len(old) > 0:
		return filch.Errorf(filch.Invalid, "cannot export to %s: the folder has %s already, as %s", dir, filch.Plural(len(old), "file"), ui.Clean(old[0].Name())).
			WithHint("name a folder that does not exist, or empty the folder")
	}
	logs.FindNames(c, targets)
	x := &exporter{dir: dir, attempts: map[string]int32{}}
	r.Sink = x
	err = r.Run(c)
	for i := range targets {
		if t := &targets[i]; err == nil && t.Last != math.MaxInt32 && !failed {
			err = x.complete(t, min(t.Last, max(t.Info.Tasks.Total, t.Info.Ranks)-1))
		}
	}
	if err != nil {
		return filch.Errorf(ui.KindOf(err), "cannot export all of job %d to %s: %s", t.Job, dir, err.Error())
	}
	staged := 0
	if cli.IsTasks(&t.Info) && !failed {
		if staged, err = tasks.ExportStaged(g, spans, dir, remove); err != nil {
			return err
		}
	}
	ui.Say(fmt.Sprintf("%s written to %s", filch.Plural(len(x.attempts)+staged, "file"), dir))
	return nil
}

// exporter is a [logs.Sink] of files.
type exporter struct {
	dir      string
	attempts map[string]int32 // of the output in each file
}

// Piece implements [logs.Sink].
func (x *exporter) Piece(t *logs.Target, p *wire.OutputPiece) error {
	if p.Lost > 0 {
		ui.Warn(fmt.Sprintf("%d bytes in the middle of what task %d.%d printed were dropped", p.Lost, t.Job, p.Index))
	}
	name := exportName(t, p.Index) + map[uint8]string{1: ".stdout", 2: ".stderr"}[p.Stream]
	switch last, ok := x.attempts[name]; {
	case ok && p.Attempt < last:
		return nil // a later attempt replaced this one
	case !ok || p.Attempt > last:
		if err := x.begin(name, p.Attempt); err != nil {
			return err
		}
	}
	f, err := os.OpenFile(filepath.Join(x.dir, name), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.Write(p.Data)
	return err
}

// safeNameMax is the length of the longest safe name.
const safeNameMax = 200

// safeName reports whether a name is a name of a file everywhere, and no option.
func safeName(name string) bool {
	bad := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._+-", r)
	}
	return name != "" && len(name) <= safeNameMax && name[0] != '.' && name[0] != '-' && !strings.ContainsFunc(name, bad)
}

// exportName is the name of a task's files: the name of the task if the name is safe and no
// number, else the number.
func exportName(t *logs.Target, i int32) string {
	if int(i) < len(t.Names) && safeName(t.Names[i]) && !ui.AllDigits(t.Names[i]) {
		return t.Names[i]
	}
	return strconv.Itoa(int(i))
}

// begin makes an empty file.
func (x *exporter) begin(name string, attempt int32) error {
	x.attempts[name] = attempt
	return os.WriteFile(filepath.Join(x.dir, name), nil, 0o666)
}

// exportRange bounds the files of tasks that printed nothing.
const exportRange = 100_000

// complete makes the missing files of tasks that printed nothing.
func (x *exporter) complete(t *logs.Target, last int32) error {
	for i := t.First; i <= last && i-t.First < exportRange; i++ {
		name := exportName(t, i) + ".stdout"
		if _, ok := x.attempts[name]; !ok {
			if err := x.begin(name, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// CaughtUp implements [logs.Sink].
func (x *exporter) CaughtUp() error { return nil }

// Idle implements [logs.Sink].
func (x *exporter) Idle(time.Time) error { return nil }

// fullDisk asks the node of a task for the disk that was full, "" for none.
func fullDisk(c *client.Client, t *launcher.Task) string {
	if t.Node == "" || !t.Cut && (t.Code == nil || *t.Code == 0) {
		return ""
	}
	q := c.Queries()
	span := fmt.Sprintf("%d-%d", t.Index, t.Index)
	req, err := q.Send(wire.VerbOutput, string(t.Node), t.Job.String(), wire.OutputTasks, span, "", "1", "", wire.OutputEnded)
	for err == nil {
		var r client.Reply
		if r, err = q.Next(); err == nil && r.Req == req {
			var chunk wire.OutputChunk
			if r.Decode(&chunk) == nil {
				return chunk.Why
			}
			return ""
		}
	}
	return ""
}

// printTask shows a task; full is the disk that was full.
func printTask(t *tasklist.Row, full string) {
	ui.Printf("%-10s %d.%d\n", "task", t.Job, t.Index)
	if t.Name != "" {
		ui.Printf("%-10s %s\n", "name", ui.Clean(t.Name))
	}
	if t.Command != "" {
		ui.Printf("%-10s %s\n", "command", ui.Clean(t.Command))
	}
	ui.Printf("%-10s %s\n", "state", ui.Clean(t.State))
	if t.Reason != "" {
		ui.Printf("%-10s %s\n", "reason", ui.Clean(t.Reason))
	}
	if t.Code != nil {
		ui.Printf("%-10s %d\n", "exit code", *t.Code)
	}
	if t.Signal != 0 {
		ui.Printf("%-10s %d\n", "signal", t.Signal)
	}
	if t.Node != "" {
		printTaskNodes(t)
		more := ""
		if t.Maybe {
			more = ", and perhaps an earlier start that was not recorded"
		}
		ui.Printf("%-10s %d%s\n", "attempts", t.Attempts, more)
	}
	if t.Again > 0 {
		ui.Printf("%-10s in %s, after the wait of --retry-delay\n", "next try", filch.ShortTime(time.Duration(t.Again*float64(time.Second))))
	}
	printEnds(t)
	printCopies(t)
	if t.Ranks != "" {
		ui.Printf("%-10s when all ranks of the attempt before are gone: %s\n", "next try", ui.Clean(t.Ranks))
	}
	if len(t.Behind) > 0 {
		ui.Printf("%-10s %s\n", "waits for", ui.Clean(behindCell(t)))
	}
	if len(t.Silent) > 0 {
		ui.Printf("%-10s %s did not answer: the task may run there\n", "unsure", ui.Clean(launcher.ListNames(t.Silent)))
	}
	if t.Began > 0 {
		ui.Printf("%-10s %s\n", "began", ui.Clock(time.UnixMicro(t.Began)))
		ui.Printf("%-10s %s\n", "elapsed", filch.ShortTime(time.Duration(t.Took*float64(time.Second))))
	}
	if t.Left > 0 {
		ui.Printf("%-10s %s, then the time limit ends the task\n", "left", filch.ShortTime(time.Duration(t.Left*float64(time.Second))))
	}
	if t.Began > 0 && t.State != filch.Running.String() {
		cut := ""
		if t.Cut {
			cut = ", cut: " + ui.Clean(tasklist.CutWhy(&t.Task))
		}
		ui.Printf("%-10s %d bytes%s\n", "output", t.Bytes, cut)
	}
	if t.Used != (launcher.Used{}) {
		ui.Printf("%-10s %s\n", "cpu", ui.Modes(&t.Used))
		ui.Printf("%-10s %s\n", "memory", peakOf(&t.Used, false))
	}
	printTimes(t.Times)
	if full != "" {
		ui.Printf("%-10s %s\n", "cause", ui.Clean(full))
	}
	switch why, ours := strings.CutPrefix(t.Stderr, "filch: "); {
	case ours && t.Code != nil && *t.Code == filch.ExitOurs:
		ui.Printf("%-10s %s\n", "cause", ui.Clean(why))
	case t.Stderr != "":
		ui.Printf("%-10s %s\n", "stderr", ui.Clean(t.Stderr))
	}
}

// printTaskNodes shows the node of a task; of a gang, the nodes of its ranks and its owner.
func printTaskNodes(t *tasklist.Row) {
	name := "node"
	if t.Gang {
		name = "owner"
	}
	if len(t.Nodes) > 0 {
		ui.Printf("%-10s %s\n", "nodes", ui.Clean(t.GangNodes()))
	}
	ui.Printf("%-10s %s\n", name, ui.Clean(string(t.Node)))
}

// printCopies shows the copies that run, and of an ended task the starts that came second.
func printCopies(t *tasklist.Row) {
	for _, k := range t.Copies {
		ui.Printf("%-10s on %s, since %s (%s)\n", "copy", ui.Clean(string(k.Node)), ui.Clock(time.UnixMicro(k.BeganNS/1e3)), filch.ShortTime(time.Duration(k.Took*1e9)))
	}
	if t.ByCopy {
		ui.Printf("%-10s on %s, ended first\n", "copy", ui.Clean(string(t.Node)))
	}
	for _, r := range t.Rivals {
		start := "copy"
		if t.ByCopy {
			start = "start"
		}
		ui.Printf("%-10s on %s, %s\n", start, ui.Clean(string(r.Node)), ui.Clean(r.Reason))
	}
}

// behindCell names the tasks that a task waits for.
func behindCell(t *tasklist.Row) string {
	words := make([]string, len(t.Behind))
	for i, k := range t.Behind {
		words[i] = fmt.Sprintf("%d.%d", t.Job, k)
		if i < len(t.BehindNames) {
			words[i] += " (" + t.BehindNames[i] + ")"
		}
	}
	return strings.Join(words, ", ")
}

// printTimes shows the stages of a task, a line each.
func printTimes(list []launcher.TaskTime) {
	for i, s := range list {
		head, node := "", ""
		if i == 0 {
			head = "stages"
		}
		if s.Node != "" {
			node = "  " + ui.Clean(string(s.Node))
		}
		if s.From != "" {
			node += " from " + ui.Clean(string(s.From))
		}
		ui.Printf("%-10s %s  %s%s\n", head, time.Unix(0, s.UnixNS).Local().Format("2006-01-02 15:04:05.000"), ui.Clean(s.Stage), node)
	}
}
