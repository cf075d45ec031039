// Package onend has the option --on-end: a command that runs once after the end of a job,
// as a task of a job of its own, which waits for any end of the first job. The second job
// is recorded like all jobs, so the command also runs when the client and the node of the
// submission are gone.
package onend

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Help describes the option.
const Help = "run `COMMAND` once with a shell after the end of the job, whatever the end; FILCH_ENDED_JOB, FILCH_ENDED_STATE and FILCH_ENDED_CODE describe the end"

// maxCommand bounds the command, in bytes.
const maxCommand = 16 << 10

// start finds filch on the node of the task: at the path of the submitter, else in PATH.
const start = `filch=$1; [ -x "$filch" ] || filch=filch; exec "$filch" on-end "$2" "$3"`

// Check refuses a command that cannot run.
func Check(command string) error {
	if len(command) > maxCommand || strings.IndexByte(command, 0) >= 0 {
		return filch.Errorf(filch.Invalid, "the command of --on-end has %d bytes, at most %d, without NUL", len(command), maxCommand).
			WithHint("put the commands into a script")
	}
	return nil
}

// Submit submits the job that runs a command after the end of job. A failure is told, with
// the number of the job, which runs in any case.
func Submit(another func() (*client.Client, error), job filch.JobID, command string) {
	if command == "" {
		return
	}
	c, err := another()
	if err == nil {
		err = submitTo(c, job, command)
		c.Close()
	}
	if err != nil {
		ui.Warn(fmt.Sprintf("job %d is submitted, and its --on-end command is not: %s", job, err.Error()))
		ui.Hint(fmt.Sprintf("filch submit --dep afterany:%d -- COMMAND", job))
	}
}

func submitTo(c *client.Client, job filch.JobID, command string) error {
	around, err := cli.Environment()
	if err != nil {
		return err
	}
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	name := fmt.Sprint(cli.OnEndPrefix, job)
	o := launcher.TaskOrder{
		Name: name, Argv: []string{"/bin/sh", "-c", start, "sh", exe, job.String(), command},
		Cwd: around.Cwd, Env: around.Env, KillWait: launcher.TaskGrace,
	}
	o.Umask, o.Rlimits = cli.ProcessLimits()
	s := &submit.Job{Name: name, Total: 1, Conditions: record.Conditions{After: []filch.JobID{job}, When: []record.When{record.WhenAny}}}
	s.Spec.Each, s.Spec.CrashLimit = filch.Room{Slots: 1}, record.CrashLimit
	if s.Spec.Body, err = wire.EncodeOrder(&o, nil); err != nil {
		return err
	}
	t, err := c.SubmitTasks(s)
	for err == nil {
		var news launcher.TaskNews
		news, err = t.Next()
		switch {
		case err != nil:
		case news.What == launcher.TasksRefused:
			return news.Err
		case news.What == launcher.TasksAccepted:
			return nil
		}
	}
	return err
}

// Command is filch on-end, which the task of the second job runs: it asks for the end of
// the first job, and becomes the shell with the user's command.
func Command(g *cli.Global) *cobra.Command {
	return &cobra.Command{
		Use:    "on-end JOB COMMAND",
		Hidden: true,
		Short:  "run the command of --on-end; started by a task",
		Args:   cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := g.Dial()
			if err != nil {
				return err
			}
			var j launcher.JobInfo
			if err := endOf(c, args[0], &j); err != nil {
				return err
			}
			env := append(os.Environ(), "FILCH_ENDED_JOB="+args[0], "FILCH_ENDED_NAME="+j.Name, "FILCH_ENDED_STATE="+j.State)
			if j.Code != nil {
				env = append(env, fmt.Sprint("FILCH_ENDED_CODE=", *j.Code))
			}
			c.Close()
			return syscall.Exec("/bin/sh", []string{"sh", "-c", args[1]}, env)
		},
	}
}

// The end of a job is recorded before a second job that waits for it starts; a node may
// know of the end a moment later.
const (
	endTries = 20
	endPause = 250 * time.Millisecond
)

// endOf asks for the end of a job.
func endOf(c *client.Client, job string, j *launcher.JobInfo) (err error) {
	for range endTries {
		if err = cli.Ask(c, cli.QueryWait, j, wire.VerbInfo, job); err == nil && j.Code != nil {
			return nil
		}
		time.Sleep(endPause)
	}
	if err == nil {
		err = errors.New("its end is not known yet")
	}
	return filch.Errorf(ui.KindOf(err), "cannot run the --on-end command of job %s: asked %d times in %s: %s",
		job, endTries, filch.ShortTime(endTries*endPause), err.Error())
}
