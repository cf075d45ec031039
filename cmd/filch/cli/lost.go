package cli

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// lossWait bounds the search for a launcher after the loss of a connection: launchers take
// 25 s at most to go down, and filch up starts a dead launcher in less.
const lossWait = 30 * time.Second

// LossPause is the pause between looks for a launcher.
const LossPause = 50 * time.Millisecond

// lossesMax bounds how often a command goes on with another launcher. Launchers that end more
// often have a fault that waiting does not heal.
const lossesMax = 100

// Losses counts how often a command lost its launcher while it waited for a job.
type Losses struct {
	n     int
	until time.Time
}

// Recent reports whether the last loss is so short ago that the launchers may not know all
// jobs yet.
func (l *Losses) Recent() bool { return time.Now().Before(l.until) }

// Next is the time until which the command looks for another launcher. A loss shortly after
// the last is the same loss.
func (l *Losses) Next(job filch.JobID) (deadline time.Time, err error) {
	if l.Recent() {
		return l.until, nil
	}
	if l.n++; l.n > lossesMax {
		return l.until, filch.Errorf(filch.Unavailable, "the launcher was lost %d times during the wait for job %d", l.n, job).
			WithHint("filch wait %d waits on; filch doctor says why launchers end", job)
	}
	l.until = time.Now().Add(lossWait)
	return l.until, nil
}

// IsLost reports whether a query has failed because the launcher of c is gone or is going.
// A launcher that is going answers until the connection closes.
func IsLost(c *client.Client, err error) bool {
	if ui.KindOf(err) != filch.Unavailable {
		return false
	}
	for deadline := time.Now().Add(AliveWait); !c.Lost(); time.Sleep(LossPause) {
		if _, err := c.Query(AliveWait, wire.VerbNodes); err == nil || time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// Reconnect connects to any launcher of the instance of dir on this machine, after the
// loss of the connection to the launcher of dir. When filch down has removed the instance
// from this machine, Reconnect prints that job did not end here, and returns
// [filch.ExitDown].
func Reconnect(dir place.Dir, job filch.JobID, deadline time.Time) (*client.Client, error) {
	return reconnect(dir, job, deadline, func() {
		ui.Say(fmt.Sprintf("error: %s went down on this machine before job %d had ended", dir.Instance, job))
		ui.Hint(fmt.Sprintf("filch down ends the jobs: filch history --all lists them; while other machines of the instance go on, filch wait %d works there", job))
	})
}

// reconnect is [Reconnect] with the text for an instance that went down.
func reconnect(dir place.Dir, job filch.JobID, deadline time.Time, down func()) (*client.Client, error) {
	speak := time.AfterFunc(SpeakLate, func() {
		ui.Say(fmt.Sprintf("the launcher of %s has ended: looking for another launcher of %s for %s", dir.Node, dir.Instance, filch.ShortTime(time.Until(deadline))))
	})
	defer speak.Stop()
	for ; ; time.Sleep(LossPause) {
		dirs := place.Nodes(dir.Base, dir.Instance)
		for _, d := range dirs {
			c, err := client.DialDir(d, Build)
			if err != nil {
				continue
			}
			if _, err := c.Query(AliveWait, wire.VerbNodes); err == nil {
				return c, nil
			}
			c.Close()
		}
		switch {
		case len(dirs) == 0:
			down()
			return nil, ui.Exit(filch.ExitDown)
		case time.Now().After(deadline):
			return nil, filch.Errorf(filch.Unavailable, "the launcher of %s has ended, and no other launcher of %s answers on this machine", dir.Node, dir.Instance).
				WithHint("filch up starts the launcher again; then filch wait %d", job)
		}
	}
}

// Over calls do with a connection to the launcher of dir, about a job that has ended. When that
// launcher is gone or goes, Over calls do again with any other launcher of the instance on this
// machine. When filch down has removed the instance from this machine, Over prints that undone,
// and returns [filch.ExitDown].
func Over(dir place.Dir, job filch.JobID, undone string, do func(c *client.Client) error) error {
	var losses Losses
	for {
		c, err := client.DialDir(dir, Build)
		lost := err != nil
		if err == nil {
			err = do(c)
			lost = err != nil && (losses.Recent() && IsUnreached(err) || IsLost(c, err))
			c.Close()
		}
		if !lost {
			return err
		}
		deadline, err := losses.Next(job)
		if err != nil {
			return err
		}
		time.Sleep(LossPause)
		c, err = reconnect(dir, job, deadline, func() {
			ui.Say(fmt.Sprintf("error: %s went down on this machine, and %s", dir.Instance, undone))
		})
		if err != nil {
			return err
		}
		dir = c.Dir
		c.Close()
	}
}
