package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// printedWait is longer than the launcher waits for another node, so that the
// launcher can name a silent node.
const printedWait = cli.QueryWait + 2*time.Second

// choice selects from the kept output of tasks.
type choice struct {
	failed bool
	grep   *regexp.Regexp
}

// eachPrinted calls f with the output of the tasks of a job, node by node; with
// follow until the job has ended.
func eachPrinted(c *client.Client, id cli.JobRank, want choice, follow bool, f func(wire.PrintedPiece) error) error {
	task, failed := "", ""
	if id.Rank >= 0 {
		task = strconv.Itoa(int(id.Rank))
	}
	if want.failed {
		failed = "failed"
	}
	cursors := map[filch.NodeName]string{}
	silent := map[filch.NodeName]bool{}
	for {
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
			return err
		}
		var nodes []wire.NodeInfo // each time: nodes may have joined
		if err := cli.Ask(c, cli.QueryWait, &nodes, wire.VerbNodes); err != nil {
			return err
		}
		if int32(id.Rank) >= j.Tasks.Total && (j.Code != nil || !follow) {
			return filch.Errorf(filch.NotFound, "there is no task %d.%d: the job has %s", id.Job, id.Rank, ui.Plural(int(j.Tasks.Total), "task"))
		}
		for _, n := range nodes {
			for more := true; more; {
				var chunk wire.PrintedChunk
				if err := cli.Ask(c, printedWait, &chunk, wire.VerbPrinted, string(n.Node), id.Job.String(), task, failed, cursors[n.Node]); err != nil {
					if !silent[n.Node] {
						silent[n.Node] = true
						ui.Warn(fmt.Sprintf("cannot read the output of tasks of job %d on %s: %s", id.Job, n.Node, err.Error()))
					}
					break
				}
				if chunk.Gone > 0 {
					ui.Warn(fmt.Sprintf("%d bytes of output of job %d on %s were dropped: a node keeps only the latest output", chunk.Gone, id.Job, n.Node))
				}
				if chunk.Cut > 0 {
					ui.Warn(fmt.Sprintf("the output of %s of job %d is cut: the disk of %s was full; filch doctor shows the free space", ui.Plural(chunk.Cut, "task"), id.Job, n.Node))
				}
				if chunk.Bad > 0 {
					ui.Warn(fmt.Sprintf("%s of output on %s could not be read and were left out", ui.Plural(chunk.Bad, "block"), n.Node))
				}
				cursors[n.Node], more = chunk.Next, !chunk.End
				for _, p := range chunk.Pieces {
					if err := f(p); err != nil {
						return err
					}
				}
			}
		}
		if !follow || j.Code != nil {
			return nil
		}
		var done launcher.JobInfo
		if err := cli.Ask(c, followWait+cli.QueryWait, &done, wire.VerbWait, id.Job.String(), followWait.String()); err != nil {
			return err
		}
	}
}

// showPrinted prints the output of the tasks of a job.
func showPrinted(c *client.Client, id cli.JobRank, want choice, follow, label bool) error {
	stdout, stderr := ui.Sanitized(os.Stdout), ui.Sanitized(os.Stderr)
	err := eachPrinted(c, id, want, follow, func(p wire.PrintedPiece) error {
		if p.Lost > 0 {
			ui.Warn(fmt.Sprintf("%d bytes in the middle of what task %d.%d printed were dropped", p.Lost, id.Job, p.Task))
		}
		data := p.Data
		if want.grep != nil || label {
			data = chosen(data, want.grep, label, fmt.Sprintf("%d.%d: ", id.Job, p.Task))
		}
		out := stdout
		if p.Stream == 2 {
			out = stderr
		}
		_, err := out.Write(data)
		return err
	})
	if err == nil {
		err = errors.Join(ui.Flush(stdout), ui.Flush(stderr))
	}
	if err != nil && ui.IsBrokenPipe(err) {
		return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
	}
	return err
}

// chosen keeps the matching lines, each with prefix if label is set.
func chosen(data []byte, grep *regexp.Regexp, label bool, prefix string) []byte {
	var out []byte
	for line := range bytes.Lines(data) {
		if grep != nil && !grep.Match(bytes.TrimSuffix(line, []byte("\n"))) {
			continue
		}
		if label {
			out = append(out, prefix...)
		}
		out = append(out, line...)
		if line[len(line)-1] != '\n' {
			out = append(out, '\n')
		}
	}
	return out
}

func exportCommand(g *cli.Global) *cobra.Command {
	failed := false
	c := &cobra.Command{
		Use:     "export JOB FOLDER",
		GroupID: "jobs",
		Short:   "write the output of tasks into files",
		Long: `Writes the kept output of every task of a job into the files TASK.stdout and
TASK.stderr of a folder, which must be new or empty.`,
		Example: "  filch export last output\n  filch export 7 bad --failed",
		Args:    cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, id, err := g.Job(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			return export(c, id, args[1], choice{failed: failed})
		},
	}
	c.Flags().BoolVar(&failed, "failed", false, "only tasks that did not end well")
	return c
}

func export(c *client.Client, id cli.JobRank, dir string, want choice) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return filch.Errorf(filch.Invalid, "cannot make the folder: %s", err.Error())
	}
	if old, err := os.ReadDir(dir); err != nil || len(old) > 0 {
		return filch.Errorf(filch.Invalid, "cannot export to %s: it is not empty", dir).WithHint("name a folder that does not exist")
	}
	names := map[uint8]string{1: "stdout", 2: "stderr"}
	written := map[string]int32{} // the attempt of each file
	err := eachPrinted(c, id, want, false, func(p wire.PrintedPiece) error {
		if p.Lost > 0 {
			ui.Warn(fmt.Sprintf("%d bytes in the middle of what task %d.%d printed were dropped", p.Lost, id.Job, p.Task))
		}
		name := filepath.Join(dir, fmt.Sprintf("%d.%s", p.Task, names[p.Stream]))
		switch last, ok := written[name]; {
		case ok && p.Attempt < last:
			return nil // a later attempt replaced this one
		case !ok || p.Attempt > last:
			if err := os.WriteFile(name, nil, 0o666); err != nil {
				return err
			}
			written[name] = p.Attempt
		}
		f, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Write(p.Data)
		return err
	})
	if err != nil {
		return filch.Errorf(filch.Invalid, "cannot export all of job %d to %s: %s", id.Job, dir, err.Error())
	}
	ui.Say(fmt.Sprintf("%s written to %s", ui.Plural(len(written), "file"), dir))
	return nil
}

// printTask shows a task.
func printTask(t launcher.Task) {
	ui.Printf("%-10s %d.%d\n", "task", t.Job, t.Index)
	ui.Printf("%-10s %s\n", "state", ui.Clean(t.State))
	if t.Code != nil {
		ui.Printf("%-10s %d\n", "exit code", *t.Code)
	}
	if t.Node != "" {
		ui.Printf("%-10s %s\n", "node", ui.Clean(string(t.Node)))
		more := ""
		if t.Maybe {
			more = ", and perhaps an earlier start that was not recorded"
		}
		ui.Printf("%-10s %d%s\n", "attempts", t.Attempts, more)
	}
	if len(t.Behind) > 0 {
		ui.Printf("%-10s %s\n", "waits for", behindCell(&t))
	}
	if len(t.Silent) > 0 {
		ui.Printf("%-10s %s did not answer: the task may run there\n", "unsure", ui.Clean(launcher.ListNames(t.Silent)))
	}
	if t.Began > 0 {
		ui.Printf("%-10s %s\n", "began", time.UnixMicro(t.Began).Format(time.DateTime))
		ui.Printf("%-10s %s\n", "elapsed", ui.ShortTime(time.Duration(t.Took*float64(time.Second))))
	}
	if t.Left > 0 {
		ui.Printf("%-10s %s, then the time limit ends the task\n", "left", ui.ShortTime(time.Duration(t.Left*float64(time.Second))))
	}
	if t.Began > 0 && t.State != filch.Running.String() {
		cut := ""
		if t.Cut {
			cut = ", cut: the disk of " + ui.Clean(string(t.Node)) + " was full"
		}
		ui.Printf("%-10s %d bytes%s\n", "output", t.Bytes, cut)
	}
	if t.Used != (launcher.Used{}) {
		ui.Printf("%-10s %s\n", "cpu", ui.Modes(&t.Used))
		ui.Printf("%-10s %s\n", "memory", peakOf(&t.Used, false))
	}
}

// behindCell names the tasks that a task waits for.
func behindCell(t *launcher.Task) string {
	words := make([]string, len(t.Behind))
	for i, k := range t.Behind {
		words[i] = fmt.Sprintf("%d.%d", t.Job, k)
	}
	return strings.Join(words, ", ")
}
