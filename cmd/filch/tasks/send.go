package tasks

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/halt"
	"github.com/filch-hpc/filch/cmd/filch/needs"
	"github.com/filch-hpc/filch/cmd/filch/progress"
	"github.com/filch-hpc/filch/cmd/filch/tasklist"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
)

// Limits of the payloads in a frame to the launcher; further frames follow.
const (
	linesPerFrame = 16 << 10
	bytesPerFrame = 4 << 20
)

// send submits the job and the further payloads, and returns when all of the
// payloads are recorded. An open job stays open.
func send(c *client.Client, s *submit.Job, lines source) (*client.Tasks, error) {
	return sendEvery(c, s, lines, 0)
}

// sendEvery is [send] with a delay before each task but the first; 0 is no delay. Total of s is
// the number of tasks then.
func sendEvery(c *client.Client, s *submit.Job, lines source, delay time.Duration) (*client.Tasks, error) {
	more, open := lines != nil, s.Open
	var err error
	if more {
		s.Lines, more, err = chunk(lines, delay)
		s.Total, s.Open, s.Partial = int32(len(s.Lines)), open || more, more && !open
	}
	if err != nil {
		return nil, err
	}
	if s.Total == 0 && !open {
		return nil, filch.Errorf(filch.Invalid, "there are no tasks: the list is empty")
	}
	t, err := c.SubmitTasks(s)
	if err == nil {
		_, err = awaitTasks(t, launcher.TasksAccepted, 0)
	}
	if err != nil || !more {
		return t, err
	}
	stop := cli.OnInterrupt(func() { cancelIncomplete(t) })
	added, err := appendEvery(t, lines, delay)
	if s.Total += int32(added); err == nil && !open {
		err = t.Grow(wire.TaskGrow{Close: true})
	}
	stop()
	if err != nil {
		cancelIncomplete(t)
	}
	return t, err
}

// cancelIncomplete cancels a job whose last tasks are not added any more.
func cancelIncomplete(t *client.Tasks) {
	c, err := t.Another()
	if err == nil {
		_, err = c.Query(cli.QueryWait, wire.VerbCancel, t.Job.String(), "15")
		c.Close()
	}
	if err != nil { // the launcher cancels the job when the connection ends
		ui.Complain(err)
	}
	ui.Say(fmt.Sprintf("error: job %d is incomplete and is cancelled: not all of its tasks were added", t.Job))
}

// appendTasks adds tasks to an open job, and returns their number when all are recorded.
func appendTasks(t *client.Tasks, lines source) (added int, err error) {
	return appendEvery(t, lines, 0)
}

// appendEvery is [appendTasks] with a delay before each task; 0 is no delay.
func appendEvery(t *client.Tasks, lines source, delay time.Duration) (added int, err error) {
	for more := true; more; {
		// The token is random: other clients may add tasks to the job too.
		g := wire.TaskGrow{Token: rand.Int32N(record.MaxTasks-1) + 1}
		time.Sleep(delay)
		if g.Lines, more, err = chunk(lines, delay); err != nil || len(g.Lines) == 0 {
			return added, err
		}
		if err = t.Grow(g); err == nil {
			_, err = awaitTasks(t, launcher.TasksAdded, g.Token)
		}
		if err != nil {
			return added, err
		}
		added += len(g.Lines)
	}
	return added, nil
}

// chunk reads payloads for a frame: one payload if there is a delay between tasks.
func chunk(lines source, delay time.Duration) (list [][]byte, more bool, err error) {
	size, most := 0, linesPerFrame
	if delay > 0 {
		most = 1
	}
	for len(list) < most && size < bytesPerFrame {
		l, err := lines()
		if errors.Is(err, io.EOF) {
			return list, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if len(l) > record.MaxPayload {
			return nil, false, filch.Errorf(filch.Invalid, "task %d has %d bytes of command, %d at most", len(list), len(l), record.MaxPayload).
				WithHint("put long values into a file and pass the name of the file")
		}
		list = append(list, l)
		size += len(l)
	}
	return list, true, nil
}

// keptWithin is the usual upper bound of the time until a submission is recorded.
const keptWithin = 5 * time.Second

// awaitTasks waits for a kind of news, or the refusal.
func awaitTasks(t *client.Tasks, what launcher.TaskNewsKind, token int32) (launcher.TaskNews, error) {
	slow := time.AfterFunc(keptWithin, func() {
		text := fmt.Sprintf("still waiting: after %s the submission is not recorded yet", filch.ShortTime(keptWithin))
		if trouble := cli.StoreTrouble(t.Another); trouble != "" {
			text += ": " + trouble
		}
		ui.Say(text)
		ui.Hint("filch doctor names the fault; Ctrl-C ends the waiting, not the job")
	})
	defer slow.Stop()
	news, err := t.Await(what, token)
	if err != nil && news.What == launcher.TasksRefused {
		err = needs.Refused(news.Err, int(news.Base)-1)
	}
	return news, err
}

// followTasks waits for the end of a job, and shows the progress or the output.
func followTasks(t *client.Tasks, show *showFlags) error { return followUntil(t, show, halt.Rule{}) }

// followUntil is [followTasks] for a job that h may end early.
func followUntil(t *client.Tasks, show *showFlags, h halt.Rule) error {
	bar := progress.New(t.Job, show.progress)
	defer bar.Close()
	if show.progress {
		go bar.Watch(t)
	}
	printed := make(chan error, 1)
	over := make(chan struct{})
	if show.prints() {
		go func() { printed <- show.printOutput(t, bar.Hide, over) }()
	} else {
		printed <- nil
	}
	stop := cli.WatchStuck(t.Another, t.Job)
	defer stop()
	say := cli.SayOnLateInterrupt
	if show.progress || show.prints() {
		say = cli.SayOnInterrupt
	}
	defer say(func() []filch.JobID {
		bar.Close()
		return []filch.JobID{t.Job}
	})()
	ends := halt.New(h, t, bar.Hide)
	defer ends.Close()
	var losses cli.Losses
	for {
		news, err := t.Next()
		refused := err == nil && news.What == launcher.TasksRefused
		switch {
		case err != nil && ui.KindOf(err) == filch.Unavailable, refused && losses.Recent(): // the next launcher may not reach the record yet
			bar.Hide()
			time.Sleep(cli.LossPause)
			if err := goOn(t, &losses); err != nil {
				bar.Close()
				close(over)
				return err
			}
			continue
		case err != nil:
			bar.Close()
			return err
		}
		switch news.What {
		case launcher.TasksRefused:
			return news.Err
		case launcher.TasksProgress, launcher.TasksFinished:
			bar.Update(news)
		}
		ends.News(news)
		if news.What != launcher.TasksFinished {
			continue
		}
		well := ends.Well(news) || news.Tally.Bad() == 0 && news.State != filch.Cancelled
		if !well { // the error has the counts
			bar.Drop()
		}
		bar.Close()
		if err := <-printed; err != nil {
			return err
		}
		if news.Tally.Cut {
			warnCut(t)
		}
		if well {
			return nil
		}
		return badEnd(t.Job, news)
	}
}

// badEnd prints how a job ended that did not end well.
func badEnd(id filch.JobID, news launcher.TaskNews) error {
	bad := news.Tally.Bad()
	if bad == 0 {
		ui.Say(fmt.Sprintf("error: job %d was cancelled before the end, and %s ended well", id, filch.Plural(int(news.Tally.OK), "task")))
		return ui.Exit(1)
	}
	ui.Say(fmt.Sprintf("error: %s of job %d did not end well: %s", filch.Plural(int(bad), "task"), id, news.Tally.BadText()))
	ui.Hint(fmt.Sprintf("filch logs %d --failed shows their output, filch info %[1]d the counts", id))
	return ui.Exit(1)
}

// goOn follows a job with any launcher of the instance on this machine.
func goOn(t *client.Tasks, losses *cli.Losses) error {
	deadline, err := losses.Next(t.Job)
	if err != nil {
		return err
	}
	for {
		c, err := cli.Reconnect(t.Dir(), t.Job, deadline)
		if err != nil {
			return err
		}
		if err = t.Move(c); err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// warnCut tells how many tasks of an ended job have lost output.
func warnCut(t *client.Tasks) {
	c, err := t.Another()
	var cut tasklist.Cut
	if err == nil {
		defer c.Close()
		cut, err = tasklist.CountCut(c, t.Job)
	}
	text, hint := cut.Texts(t.Job)
	switch {
	case err != nil:
		ui.Warn(fmt.Sprintf("some output of job %d is cut, of how many tasks is unknown: %s", t.Job, ui.Cause(err)))
		ui.Hint(fmt.Sprintf("filch tasks %d -o task,node,output,cut lists the tasks", t.Job))
	case text != "":
		ui.Warn(text)
		ui.Hint(hint)
	}
}
