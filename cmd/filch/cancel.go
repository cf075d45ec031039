package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Cancelled is the output of filch cancel --json for each job.
type Cancelled struct {
	ID    filch.JobID `json:"id"`
	Tasks string      `json:"tasks,omitempty"` // like 5,7-9; absent: all of the job
	Ended string      `json:"ended,omitempty"` // the tasks among them that had ended already
	Told  bool        `json:"told"`
	Error string      `json:"error,omitempty"`
}

// maxReason bounds the reason of a cancel, in bytes.
const maxReason = 256

// cancelFlags are the options of filch cancel.
type cancelFlags struct {
	signal string
	state  string
	name   string
	reason string
	yes    bool
	asJSON bool
	chosen bool // the jobs, among all
}

func cancelCommand(g *cli.Global) *cobra.Command {
	var f cancelFlags
	c := &cobra.Command{
		Use:     "cancel [-s SIGNAL] [-m REASON] JOB[.TASKS]...",
		GroupID: "jobs",
		Short:   "end jobs or single tasks, or signal jobs",
		Long: `Ends jobs, or single tasks: of a workflow also by name. The processes get CONT and TERM,
and KILL after the kill-wait of the job, 10 s for tasks. Tasks that wait never start; tasks
of a workflow that depend on a cancelled task are skipped. With -s the ranks get only that
signal, and a job whose ranks survive goes on.

The word all means all jobs that have not ended; --state and --name choose among these.
filch cancel then asks before it ends the jobs, unless --yes is given. filch info and
filch history show the REASON.`,
		Example: "  filch cancel last\n  filch cancel 3-5 -m 'wrong input'\n  filch cancel 7.5 8.5,7,9-12\n" +
			"  filch cancel all --state waiting\n  filch cancel --name 'test*' --yes\n  filch cancel -s USR1 7",
		DisableFlagsInUseLine: true,
		Args:                  cobra.ArbitraryArgs,
		RunE:                  func(_ *cobra.Command, args []string) error { return f.run(g, args) },
	}
	c.Flags().BoolVar(&f.asJSON, "json", false, "print the outcome as JSON")
	c.Flags().StringVarP(&f.signal, "signal", "s", "", "send the signal `SIG` and nothing else")
	c.Flags().StringVar(&f.state, "state", "", "all jobs in this `STATE`: running or waiting")
	c.Flags().StringVar(&f.name, "name", "", "all jobs whose name matches the `PATTERN`, like 'test*'")
	c.Flags().StringVarP(&f.reason, "reason", "m", "", "the `REASON`, for filch info and filch history")
	c.Flags().BoolVar(&f.yes, "yes", false, "do not ask")
	return c
}

// check reads the signal and refuses options that make no sense together.
func (f *cancelFlags) check(args []string) (sig int32, err error) {
	f.reason = strings.Join(strings.Fields(f.reason), " ") // one line
	_, bad := path.Match(f.name, "")
	all := len(args) == 1 && args[0] == "all"
	switch {
	case f.signal != "" && f.reason != "":
		err = filch.Errorf(filch.Invalid, "a signal has no reason: -s and -m exclude each other")
	case len(f.reason) > maxReason:
		err = filch.Errorf(filch.Invalid, "the reason has %d bytes, at most %d", len(f.reason), maxReason)
	case f.state != "" && f.state != "running" && f.state != "waiting":
		err = filch.Errorf(filch.Invalid, "--state %s: jobs that can be cancelled are running or waiting", strconv.Quote(f.state))
	case bad != nil:
		err = filch.Errorf(filch.Invalid, "--name %s is no pattern: * stands for any text, ? for one character, [ab] for a or b", strconv.Quote(f.name))
	case f.chooses() && len(args) > 0 && !all:
		err = filch.Errorf(filch.Invalid, "--state and --name choose among all jobs, and %s names a job", strconv.Quote(args[0])).
			WithHint("leave the job out, or the options")
	case !f.chooses() && len(args) == 0:
		err = filch.Errorf(filch.Invalid, "no job is named").WithHint("filch cancel JOB, filch cancel all; filch ps lists the jobs")
	case f.signal != "":
		sig, err = spec.Signal(f.signal)
		err = cli.OfOption("signal", err)
	}
	if err != nil {
		return 0, ui.Misused(err)
	}
	return sig, nil
}

func (f *cancelFlags) chooses() bool { return f.state != "" || f.name != "" }

// none says that no job suits the options.
func (f *cancelFlags) none() string {
	text := "no job waits or runs"
	switch f.state {
	case "running":
		text = "no job runs"
	case "waiting":
		text = "no job waits"
	}
	if f.name != "" {
		text += " whose name matches " + strconv.Quote(f.name)
	}
	return text
}

func (f *cancelFlags) run(g *cli.Global, args []string) error {
	sig, err := f.check(args)
	if err != nil {
		return err
	}
	if f.chooses() || len(args) == 1 && args[0] == "all" {
		c, err := g.Dial()
		if err != nil {
			return err
		}
		defer c.Close()
		f.chosen = true
		jobs, err := f.choose(c)
		if err != nil || len(jobs) == 0 {
			return err
		}
		return f.end(c, jobs, sig)
	}
	c, jobs, err := tasklist.Named(g, args)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, j := range jobs {
		if sig != 0 && len(j.Tasks) > 0 {
			return ui.Misused(filch.Errorf(filch.Invalid, "single tasks and ranks take no signal: give the job, %d", j.Job))
		}
	}
	return f.end(c, jobs, sig)
}

// choose finds the jobs of this instance that have not ended and suit the options, and
// asks the user. Steps end with the job around the step.
func (f *cancelFlags) choose(c *client.Client) (jobs []cli.JobTasks, err error) {
	list, err := cli.QueryJobs(c)
	if err != nil {
		return nil, err
	}
	for _, j := range list {
		if j.Code != nil || j.Parent != 0 || j.Task != nil {
			continue
		}
		if runs := j.State == filch.Running.String(); f.state != "" && runs != (f.state == "running") {
			continue
		}
		if ok, _ := path.Match(f.name, j.Name); f.name != "" && !ok {
			continue
		}
		jobs = append(jobs, cli.JobTasks{Job: j.ID})
	}
	if len(jobs) == 0 {
		ui.Say("nothing to cancel: " + f.none())
		return nil, nil
	}
	if f.yes {
		return jobs, nil
	}
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		return nil, ui.Misused(filch.Errorf(filch.Invalid, "filch cancel would end %s, and asks only on a terminal", filch.Plural(len(jobs), "job")).
			WithHint("add --yes"))
	}
	_, _ = fmt.Fprintf(os.Stderr, "cancel %s? [y/N] ", filch.Plural(len(jobs), "job"))
	answer, _ := bufio.NewReader(os.Stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		ui.Say("no job was cancelled")
		return nil, ui.Exit(1)
	}
	return jobs, nil
}

// end ends or signals each job, and reports each refusal.
func (f *cancelFlags) end(c *client.Client, jobs []cli.JobTasks, sig int32) error {
	code, list := 0, []Cancelled{}
	absent, over := refusals{text: "there are no jobs %s"}, refusals{text: "jobs %s have ended already"}
	for _, j := range jobs {
		if len(j.Tasks) > 0 {
			said, err := f.endTasks(c, &j)
			code, list = worseCode(code, err), append(list, said)
			continue
		}
		said := Cancelled{ID: j.Job}
		var err error
		if sig != 0 {
			err = cli.Ask(c, cli.QueryWait, nil, wire.VerbSignal, j.Job.String(), strconv.Itoa(int(sig)))
		} else {
			err = cli.Ask(c, cli.QueryWait, nil, wire.VerbCancel, cancelArgs(&j, f.reason)...)
		}
		if said.Told = err == nil; err != nil {
			said.Error = err.Error()
			switch ended := strings.HasPrefix(err.Error(), fmt.Sprintf("job %d has ended already", j.Job)); {
			case ui.KindOf(err) == filch.NotFound:
				code = worseCode(code, err)
				absent.add(j.Job, err)
			case ended:
				if over.add(j.Job, err); !f.chosen { // else the job has the end that the user wants
					code = worseCode(code, err)
				}
			default:
				code = worseCode(code, err)
				ui.Complain(err)
			}
		}
		list = append(list, said)
	}
	absent.print()
	if f.chosen && over.first != nil {
		noun := "jobs"
		if over.single() {
			noun = "job"
		}
		ui.Say("ended meanwhile: " + noun + " " + cli.RunsText(over.runs))
	} else {
		over.print()
	}
	if f.asJSON {
		if err := ui.PrintJSON(list); err != nil {
			return err
		}
	}
	return exitOf(code)
}

// worseCode is the exit code of a command for several jobs after one more refusal, nil for
// none: a job or a task that is not there counts more than a refusal of one that is.
func worseCode(code int, err error) int {
	switch {
	case err == nil:
		return code
	case ui.KindOf(err) == filch.NotFound:
		return filch.ExitOurs
	}
	return max(code, 1)
}

// exitOf ends the command with a code after the messages were printed.
func exitOf(code int) error {
	if code == 0 {
		return nil
	}
	return ui.Exit(code)
}

// endTasks cancels single tasks of a job, and reports the tasks that had ended already.
func (f *cancelFlags) endTasks(c *client.Client, j *cli.JobTasks) (said Cancelled, err error) {
	said = Cancelled{ID: j.Job, Tasks: cli.RunsText(j.Tasks)}
	ended, err := tasklist.FindEnded(c, j)
	if err != nil || !ended.All { // the launcher says what is wrong with the list
		err = cli.Ask(c, cli.QueryWait, nil, wire.VerbCancel, cancelArgs(j, f.reason)...)
		if said.Told = err == nil; ui.KindOf(err) == filch.Busy { // the rest has ended meanwhile
			if now, bad := tasklist.FindEnded(c, j); bad == nil && now.All {
				ended = now
			}
		}
	}
	if ended != nil && len(ended.Runs) > 0 && (said.Told || ended.All) {
		said.Ended, err = cli.RunsText(ended.Runs), ended.Err()
	}
	if err != nil {
		said.Error = err.Error()
		ui.Complain(err)
	}
	return said, err
}

// refusals are jobs that were refused for the same reason: a range of many jobs has one line.
type refusals struct {
	text  string // of several jobs
	first error
	runs  [][2]int32
}

func (r *refusals) add(id filch.JobID, err error) {
	if r.first == nil {
		r.first = err
	}
	if n := len(r.runs); n > 0 && r.runs[n-1][1]+1 == int32(id) {
		r.runs[n-1][1]++
		return
	}
	r.runs = append(r.runs, [2]int32{int32(id), int32(id)})
}

func (r *refusals) single() bool { return len(r.runs) == 1 && r.runs[0][0] == r.runs[0][1] }

// print prints the refusal of one job as the launcher said it.
func (r *refusals) print() {
	var told *filch.Error
	switch {
	case r.first == nil:
	case r.single():
		ui.Complain(r.first)
	default:
		e := filch.Errorf(ui.KindOf(r.first), r.text, cli.RunsText(r.runs))
		if errors.As(r.first, &told) {
			e.Hint = told.Hint
		}
		ui.Complain(e)
	}
}

// cancelArgs are the arguments of the query that cancels a job or its tasks.
func cancelArgs(j *cli.JobTasks, reason string) []string {
	args := []string{j.Job.String(), strconv.Itoa(int(ui.SIGTERM)), reason}
	if len(j.Tasks) > 0 {
		runs, _ := json.Marshal(j.Tasks) // numbers
		args = append(args, string(runs))
	}
	return args
}
