package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/runclient"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// followWait is how long the launcher may hold a query for more output.
const followWait = 2 * time.Second

func logsCommand(g *cli.Global) *cobra.Command {
	follow, label, pattern := false, false, ""
	want := choice{}
	c := &cobra.Command{
		Use:     "logs [-f] [-l] JOB[.RANK]",
		GroupID: "jobs",
		Short:   "show what a detached job printed",
		Long: `Shows the output of a detached job, of one rank, or of tasks. Output that a job wrote
to files of its own (-o, -e) is not shown. With -f, filch logs goes on until the job
has ended. A terminal gets control characters, except tabs and line ends, as escapes;
a pipe gets the output unchanged.`,
		Example:               "  filch logs last\n  filch logs -f 7.3\n  filch logs 8 --failed --grep error",
		DisableFlagsInUseLine: true,
		Args:                  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, id, err := g.Job(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			if want.grep, err = readPattern(pattern); err != nil {
				return ui.Misused(err)
			}
			var j launcher.JobInfo
			if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
				return err
			}
			if cli.IsTasks(&j) {
				return showPrinted(c, id, want, follow, label)
			}
			if want != (choice{}) {
				return ui.Misused(filch.Errorf(filch.Invalid, "--failed and --grep need a job of tasks, and job %d is a %s", id.Job, j.Kind))
			}
			s := &runclient.ClientOutput{Out: ui.Sanitized(os.Stdout), Err: ui.Sanitized(os.Stderr), Label: label}
			return errors.Join(showLog(c, id, s, follow), ui.Flush(s.Out), ui.Flush(s.Err))
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on until the job has ended")
	c.Flags().BoolVarP(&label, "label", "l", false, "begin every line with the number of its rank or task")
	c.Flags().BoolVar(&want.failed, "failed", false, "only the output of tasks that did not end well")
	c.Flags().StringVar(&pattern, "grep", "", "only lines that match `RE`")
	return c
}

// readPattern reads a regular expression; "" is none.
func readPattern(s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "--grep %q: %s", s, err.Error())
	}
	return re, nil
}

// showLog prints the kept output of a job.
func showLog(c *client.Client, id cli.JobRank, s *runclient.ClientOutput, follow bool) error {
	if s.Label {
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.Job.String()); err != nil {
			return err
		}
		s.Width = output.Width(j.Ranks)
	}
	rank := ""
	if id.Rank >= 0 {
		rank = strconv.Itoa(int(id.Rank))
	}
	missing := map[filch.NodeName]bool{}
	for next := ""; ; {
		args := []string{id.Job.String(), rank, next}
		if follow {
			args = append(args, followWait.String())
		}
		var chunk wire.LogChunk
		if err := cli.Ask(c, followWait+cli.QueryWait, &chunk, wire.VerbLogs, args...); err != nil {
			return err
		}
		if chunk.Lost > 0 {
			ui.Warn(fmt.Sprintf("%d bytes of earlier output were dropped: the log is limited", chunk.Lost))
		}
		for _, n := range chunk.Missing {
			if !missing[n] {
				missing[n] = true
				ui.Warn(fmt.Sprintf("cannot read the output of job %d on node %s: the node is gone, or has dropped the output", id.Job, n))
			}
		}
		for _, p := range chunk.Pieces {
			if err := s.Write(wire.Output{Rank: p.Rank, Stream: p.Stream, Data: p.Data}); err != nil {
				if ui.IsBrokenPipe(err) {
					return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
				}
				return err
			}
		}
		if chunk.End || !follow && chunk.Next == next {
			return nil
		}
		if follow && readerGone(os.Stdout) {
			return ui.Exit(filch.ExitSignalBase + int(ui.SIGPIPE))
		}
		next = chunk.Next
	}
}

// readerGone reports whether no process reads f any more; a program with nothing
// to write would never notice.
func readerGone(f *os.File) bool {
	fds := []unix.PollFd{{Fd: int32(f.Fd())}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1 && fds[0].Revents&unix.POLLERR != 0
}

func attachCommand(g *cli.Global) *cobra.Command {
	label := false
	c := &cobra.Command{
		Use:     "attach [-l] JOB",
		GroupID: "jobs",
		Short:   "show the output of a detached job until its end",
		Long: `Shows the output of a detached job, from its beginning until the job has ended, and
exits with the exit code of the job. Ctrl-C leaves; the job goes on.`,
		Example:               "  filch run --detach -n 4 ./long\n  filch attach last",
		DisableFlagsInUseLine: true,
		Args:                  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, id, err := g.Job(args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			heard := make(chan os.Signal, 1)
			signal.Notify(heard, os.Interrupt)
			go func() {
				<-heard
				ui.Say(fmt.Sprintf("job %d goes on; filch cancel %d ends it", id.Job, id.Job))
				os.Exit(filch.ExitInterrupt)
			}()
			if err := showLog(c, id, &runclient.ClientOutput{Out: os.Stdout, Err: os.Stderr, Label: label}, true); err != nil {
				return err
			}
			jobs, err := waitFor(c, []cli.JobRank{id}, 0)
			if err != nil {
				return err
			}
			return waited(jobs, false)
		},
	}
	c.Flags().BoolVarP(&label, "label", "l", false, "begin every line with the number of its rank")
	return c
}
