package cli

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Bounds of the wait for a launcher with a run.
const (
	// askMost is the longest pause between two questions to a launcher that sends nothing: the
	// pauses grow from SpeakLate, since a run may be silent for days.
	askMost = 20 * time.Second
	// answerMost is the time without an answer after which the run is given up. Keepers end their
	// ranks after a third of that.
	answerMost = 30 * time.Second
)

// Answers watches, for a command that waits for a run, whether the launcher of dir answers.
type Answers struct {
	dir   place.Dir
	job   filch.JobID
	ask   func() error // returns a timeout when no answer comes within QueryWait
	lost  func()
	quiet bool
	began time.Time
	heard atomic.Int64 // when the launcher sent something last, since began
	over  chan struct{}
}

// WatchLauncher begins to watch, and says when the launcher does not answer; lost is called when the
// run is given up. With quiet, only that is said. The caller calls Heard for all that the launcher
// sends, and Stop at the end.
func WatchLauncher(dir place.Dir, job filch.JobID, quiet bool, lost func()) *Answers {
	a := &Answers{dir: dir, job: job, quiet: quiet, lost: lost}
	a.ask = func() error {
		c, err := client.DialDir(dir, Build)
		if err != nil {
			return err // the loss of the connection tells
		}
		defer c.Close()
		_, err = c.Query(QueryWait, wire.VerbVersion)
		return err
	}
	return a.start()
}

func (a *Answers) start() *Answers {
	a.began, a.over = time.Now(), make(chan struct{})
	go a.watch()
	return a
}

// Heard notes that the launcher has sent something.
func (a *Answers) Heard() { a.heard.Store(int64(time.Since(a.began))) }

// Stop ends the watch.
func (a *Answers) Stop() { close(a.over) }

func (a *Answers) watch() {
	at := fmt.Sprintf("job %d: the launcher of %s on %s", a.job, a.dir.Instance, a.dir.Node)
	var since time.Time // of the first question without an answer
	for pause := SpeakLate; ; {
		select {
		case <-a.over:
			return
		case <-time.After(pause):
		}
		if quiet := time.Since(a.began) - time.Duration(a.heard.Load()); quiet < SpeakLate && since.IsZero() {
			pause = SpeakLate - quiet
			continue
		}
		asked := time.Now()
		err := a.ask()
		select {
		case <-a.over:
			return
		default:
		}
		pause = min(2*pause, askMost)
		switch late := ui.KindOf(err) == filch.Timeout; {
		case late && since.IsZero():
			since, pause = asked, 0
			if a.quiet {
				break
			}
			ui.Say(at + " has not answered since " + ui.Clock(asked))
			ui.Hint("its process may be stopped, or its machine overloaded: filch doctor says more. Ranks of a launcher that stays silent are ended")
		case late && time.Since(since) >= answerMost:
			ui.Say(fmt.Sprintf("error: %s has not answered for %s: the job is given up", at, filch.ShortTime(answerMost)))
			a.lost()
			return
		case late:
			pause = 0
		case !since.IsZero():
			since, pause = time.Time{}, SpeakLate
			if !a.quiet {
				ui.Say(at + " answers again")
			}
		}
	}
}
