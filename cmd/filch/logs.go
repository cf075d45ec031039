package main

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/logs"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// maxShown bounds the jobs that one filch logs shows.
const maxShown = 256

// logsFlags are the options of filch logs.
type logsFlags struct {
	follow, failed bool
	pattern        string
	view           logs.View
}

func (f *logsFlags) declare(p *pflag.FlagSet) {
	p.BoolVarP(&f.follow, "follow", "f", false, "go on until the jobs have ended; output shows while tasks run")
	p.BoolVarP(&f.view.Label, "label", "l", false, "begin every line with the number of its rank, or the number or name of its task")
	p.BoolVar(&f.view.Fold, "fold", false, "print a line of several ranks or tasks once, as in [0-3,5] text")
	p.BoolVarP(&f.view.Times, "timestamps", "t", false, "begin every line with a time: when a rank or a running task printed it, or when its task had ended")
	p.IntVar(&f.view.Tail, "tail", -1, "only the last `N` lines of each stream of a task or rank")
	p.BoolVar(&f.failed, "failed", false, "only the output of tasks that did not end well at last, all attempts, with labels")
	p.StringVar(&f.pattern, "grep", "", "only lines that match `RE`")
}

// spansOf are the runs of tasks or ranks that are named.
func spansOf(named []cli.JobTasks) (spans []cli.JobSpan) {
	for i := range named {
		spans = append(spans, named[i].Spans()...)
	}
	return spans
}

func logsCommand(g *cli.Global) *cobra.Command {
	f := &logsFlags{}
	c := &cobra.Command{
		Use:     "logs [-f] [-l] JOB[.TASKS]...",
		GroupID: "jobs",
		Short:   "show what detached jobs and tasks printed",
		Long: `Shows the output of detached jobs, of some of their ranks, or of tasks, in the order of
the tasks. Output that a job wrote to files of its own (-o, -e) is not shown. With -f,
filch logs also shows output while tasks run, and goes on until the jobs have ended. A
reader who is too slow for a task misses the middle of its output, and filch logs says how
many bytes. A terminal gets control characters, except tabs and line ends, as escapes; a
pipe gets the output unchanged.`,
		Example: `  filch logs last
  filch logs -f 7.3
  filch logs 5.1-9,12 6 --tail 20
  filch logs 8 --failed --grep error
  filch logs -l --fold 9`,
		DisableFlagsInUseLine: true,
		Args:                  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			re, err := readPattern(f.pattern)
			if err != nil {
				return ui.Misused(err)
			}
			if c.Flags().Changed("tail") && f.view.Tail < 0 {
				return ui.Misused(filch.Errorf(filch.Invalid, "--tail %d: the number of lines is 0 or more", f.view.Tail))
			}
			f.view.Grep, f.view.Ordered = re, true
			if f.view.Fold && f.view.Times {
				return ui.Misused(filch.Errorf(filch.Invalid, "--fold joins lines of different times, and goes not with --timestamps"))
			}
			client, named, err := tasklist.Named(g, args)
			if err != nil {
				return err
			}
			defer client.Close()
			if f.follow {
				defer cli.SayOnInterrupt(liveOf(client, named))()
				defer cli.SayWait(client.Another, named[0].Job)()
			}
			return f.show(client, spansOf(named), c.Flags().Changed("label"))
		},
	}
	f.declare(c.Flags())
	return c
}

// liveOf returns a function that names the jobs that have not ended. The answers come from a
// connection of its own, since the other one reads output; without answers, all jobs count.
func liveOf(c *client.Client, named []cli.JobTasks) func() []filch.JobID {
	return func() (left []filch.JobID) {
		another, err := c.Another()
		if err == nil {
			defer another.Close()
		}
		for i := range named {
			var j launcher.JobInfo
			if err == nil && cli.Ask(another, cli.AliveWait, &j, wire.VerbInfo, named[i].Job.String()) == nil && j.Code != nil {
				continue
			}
			left = append(left, named[i].Job)
		}
		return left
	}
}

// show prints the output; labelled says that the user has decided about labels.
func (f *logsFlags) show(c *client.Client, spans []cli.JobSpan, labelled bool) error {
	if len(spans) > maxShown {
		return ui.Misused(filch.Errorf(filch.Invalid, "%d jobs or ranges of tasks are named, and filch logs shows %d at most", len(spans), maxShown))
	}
	targets, err := logs.Find(c, spans)
	if err != nil {
		return err
	}
	for i := range targets {
		if f.failed && !cli.IsTasks(&targets[i].Info) {
			return ui.Misused(filch.Errorf(filch.Invalid, "--failed needs a job of tasks, and job %d is a %s", targets[i].Job, targets[i].Info.Kind))
		}
		f.view.Job = f.view.Job || targets[i].Job != targets[0].Job
	}
	many := len(spans) > 1 || !spans[0].One()
	r := &logs.Reader{Targets: targets, Follow: f.follow, Again: func(deadline time.Time) (*client.Client, error) {
		return cli.Reconnect(c.Dir, targets[0].Job, deadline)
	}}
	logs.FindRivals(c, targets)
	logs.SayFiles(c, targets)
	if f.failed {
		r.Show = append(r.Show, logs.Failed)
		logs.FindEnds(c, targets)
		if !labelled {
			f.view.Label = many || targets[0].Retried()
		}
	}
	if f.view.Label && !f.failed {
		logs.FindStarts(c, targets)
	}
	if many || f.view.Label || f.view.Times || f.view.Fold || f.view.Grep != nil {
		r.Show = append(r.Show, logs.Lines)
	}
	if f.view.Label {
		logs.FindNames(c, targets)
	}
	p := logs.NewPrinter(f.view)
	r.Sink = p
	if f.view.Fold {
		r.Beat = logs.FoldBeat
	}
	if err := errors.Join(r.Run(c), p.Close()); err != nil || !f.follow {
		return err
	}
	for i := range targets {
		if j := &targets[i].Info; j.ByDown() {
			ui.Say("error: job " + j.ID.String() + ": " + j.Cause)
			return ui.Exit(endCode(j))
		}
	}
	return nil
}

// readPattern reads a regular expression; "" is none.
func readPattern(s string) (*regexp.Regexp, error) {
	if s == "" {
		return nil, nil
	}
	re, err := regexp.Compile(s)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "--grep %q is no regular expression%s", s, wrongPattern(err)).
			WithHint(`for plain text, put \ before each of . [ ] ( ) * + ? { } | ^ $ and \`)
	}
	return re, nil
}

// wrongPattern says in words why a text is no regular expression; "" for rare reasons.
func wrongPattern(err error) string {
	wrong, ok := errors.AsType[*syntax.Error](err)
	if !ok {
		return ""
	}
	switch wrong.Code {
	case syntax.ErrMissingBracket:
		return ": a [ has no ]"
	case syntax.ErrMissingParen:
		return ": a ( has no )"
	case syntax.ErrUnexpectedParen:
		return ": a ) has no ("
	case syntax.ErrMissingRepeatArgument:
		return ": nothing stands before *, +, ? or {"
	case syntax.ErrInvalidRepeatOp:
		return ": two of *, + and ? follow each other"
	case syntax.ErrTrailingBackslash:
		return ": nothing follows the last \\"
	case syntax.ErrInvalidRepeatSize:
		return ": the numbers in { } are wrong, or above 1000"
	case syntax.ErrInvalidCharRange:
		return ": a range in [ ] is wrong"
	case syntax.ErrInvalidEscape:
		return ": no such letter goes behind \\"
	}
	return ""
}

func attachCommand(g *cli.Global) *cobra.Command {
	label := false
	c := &cobra.Command{
		Use:     "attach [-l] JOB[.TASKS]",
		GroupID: "jobs",
		Short:   "show the output of a job until its end",
		Long: `Shows the output of a detached job or of tasks, from the beginning until the job has
ended, and exits with the exit code of the job. Ctrl-C leaves; the job goes on.`,
		Example:               "  filch run --detach -n 4 ./long\n  filch attach last",
		DisableFlagsInUseLine: true,
		Args:                  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			c, named, err := tasklist.NamedOne(g, args[0])
			if err != nil {
				return err
			}
			defer c.Close()
			ids := []filch.JobID{named.Job}
			stop := cli.SayOnInterrupt(func() []filch.JobID { return ids })
			begun := cli.SayWait(c.Another, named.Job)
			another, err := c.Another()
			if err != nil {
				return err
			}
			f := &logsFlags{follow: true, view: logs.View{Label: label, Tail: -1}}
			err = f.show(another, named.Spans(), true)
			begun()
			stop()
			if err != nil {
				return err
			}
			jobs, err := waitFor(c, ids, 0, false, false)
			if err != nil {
				return err
			}
			return waited(jobs, false)
		},
	}
	c.Flags().BoolVarP(&label, "label", "l", false, "begin every line with the number of its rank or task")
	return c
}
