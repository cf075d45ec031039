package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc"
)

// Limits of what goes to the launcher in one frame; what is more follows.
const (
	linesPerFrame = 16 << 10
	bytesPerFrame = 4 << 20
)

// send submits the job and what follows, and returns when all of it is kept.
// One that is open stays so.
func send(c *client.Client, s *launcher.TaskSubmission, lines source) (*client.Tasks, error) {
	more, open := lines != nil, s.Open
	var err error
	if more {
		s.Lines, more, err = chunk(lines)
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
	if _, err = grow(t, lines); err == nil && !open {
		err = t.Grow(wire.TaskGrow{Close: true})
	}
	if err != nil {
		complain(filch.Errorf(filch.Invalid, "job %d is incomplete and is cancelled", t.Job))
		_, _ = c.Query(queryWait, wire.VerbCancel, t.Job.String(), "15")
	}
	return t, err
}

// grow adds tasks to an open job, and returns how many when all of them are kept.
func grow(t *client.Tasks, lines source) (added int, err error) {
	for more := true; more; {
		g := wire.TaskGrow{Token: rand.Int32N(mtc.MaxTasks-1) + 1} // of nobody else who adds to it
		if g.Lines, more, err = chunk(lines); err != nil || len(g.Lines) == 0 {
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

// chunk reads payloads for one frame.
func chunk(lines source) (list [][]byte, more bool, err error) {
	size := 0
	for len(list) < linesPerFrame && size < bytesPerFrame {
		l, err := lines()
		if errors.Is(err, io.EOF) {
			return list, false, nil
		}
		if err != nil {
			return nil, false, err
		}
		if len(l) > mtc.MaxPayload {
			return nil, false, filch.Errorf(filch.Invalid, "task %d has %d bytes of command, %d at most", len(list), len(l), mtc.MaxPayload).
				WithHint("put long values into a file and pass its name")
		}
		list = append(list, l)
		size += len(l)
	}
	return list, true, nil
}

// keptWithin is how long a submission usually takes at most until it is recorded.
const keptWithin = 5 * time.Second

// awaitTasks waits for one kind of news, or the refusal.
func awaitTasks(t *client.Tasks, what launcher.TaskNewsKind, token int32) (launcher.TaskNews, error) {
	slow := time.AfterFunc(keptWithin, func() {
		say(fmt.Sprintf("still waiting: after %v the submission is not recorded yet", keptWithin))
		hint("filch doctor says what is wrong with the records; Ctrl-C ends the waiting alone")
	})
	defer slow.Stop()
	for {
		news, err := t.Next()
		if err != nil {
			return news, err
		}
		switch {
		case news.What == launcher.TasksRefused:
			return news, news.Err
		case news.What == what && news.Token == token:
			return news, nil
		case news.What == launcher.TasksFinished:
			return news, filch.Errorf(filch.Busy, "job %d has ended: nothing can be added to it", t.Job)
		}
	}
}

// followTasks waits for the end of a job, showing how far it is.
func followTasks(t *client.Tasks, show bool) error {
	bar := newProgress(t.Job, show)
	defer bar.close()
	if show {
		go bar.watch(t)
	}
	stop := watchStuck(t.Another, t.Job)
	defer stop()
	for {
		news, err := t.Next()
		if err != nil {
			return err
		}
		switch news.What {
		case launcher.TasksRefused:
			return news.Err
		case launcher.TasksProgress, launcher.TasksFinished:
			bar.update(news)
		}
		if news.What != launcher.TasksFinished {
			continue
		}
		bar.close()
		if bad := news.Tally.Bad(); bad > 0 {
			say(fmt.Sprintf("error: %s of job %d did not end well: %s", plural(int(bad), "task"), t.Job, news.Tally.BadText()))
			hint(fmt.Sprintf("filch logs %d --failed shows their output, filch info %d the counts", t.Job, t.Job))
			return exit{1}
		}
		return nil
	}
}
