// Package halt ends jobs early, as GNU parallel's --halt does: once so many tasks ended, well
// or badly.
package halt

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Rule says when a job ends early; the zero Rule never ends a job.
type Rule struct {
	text    string // as given
	limit   int64
	percent bool // limit is a share of the tasks
	counts  count
	soon    bool // the tasks that run may end
}

// count says which ended tasks count.
type count uint8

const (
	fail    count = iota // tasks that did not end well
	success              // tasks that ended well
	done                 // all
)

// counts are the words of --halt.
var counts = map[string]count{"fail": fail, "success": success, "done": done}

// Read reads GNU parallel's --halt: never, or WHEN,WHAT=N or WHEN,WHAT=N%, where WHEN is
// now or soon, and WHAT is fail, success or done.
func Read(s string) (Rule, error) {
	h := Rule{text: s}
	if s == "" || s == "never" {
		return h, nil
	}
	when, what, _ := strings.Cut(s, ",")
	kind, number, _ := strings.Cut(what, "=")
	number, h.percent = strings.CutSuffix(number, "%")
	n, err := strconv.ParseInt(number, 10, 32)
	counted, known := counts[kind]
	h.limit, h.counts, h.soon = n, counted, when == "soon"
	if !known || when != "now" && !h.soon || err != nil || !ui.AllDigits(number) || n < 1 || h.percent && n > 100 {
		return Rule{}, filch.Errorf(filch.Invalid, "--halt %q is not WHEN,WHAT=N or WHEN,WHAT=N%%, where WHEN is now or soon, and WHAT is fail, success or done", s).
			WithHint("for example --halt now,fail=1 or --halt soon,fail=10%%")
	}
	return h, nil
}

// Set reports whether the rule ever ends a job.
func (h *Rule) Set() bool { return h.limit > 0 }

// reached reports whether a job with these ends is to end.
func (h *Rule) reached(news launcher.TaskNews) bool {
	if h.limit == 0 || news.What != launcher.TasksProgress {
		return false
	}
	n := int64(news.Tally.Bad())
	switch h.counts {
	case success:
		n = int64(news.Tally.OK)
	case done:
		n = int64(news.Tally.Sum())
	}
	if h.percent {
		return n > 0 && n*100 >= h.limit*int64(news.Total)
	}
	return n >= h.limit
}

// well reports whether a halted job did what the user wanted: the cancelled tasks do not
// count.
func (h *Rule) well(news launcher.TaskNews) bool {
	return h.counts == success || h.counts == done && news.Tally.Bad() == news.Tally.Cancelled
}

// Times of a halt that lets tasks end.
const (
	look = 500 * time.Millisecond // between two looks at the running tasks
	sure = 2                      // looks without a running task: a node may learn late of the hold
)

// Halter ends a followed job by its rule, once.
type Halter struct {
	rule  Rule
	tasks *client.Tasks
	say   func() // called before a message
	began bool
	over  chan struct{}
	wait  sync.WaitGroup
}

// New makes the Halter of a followed job. Say is called before a message.
func New(r Rule, t *client.Tasks, say func()) *Halter {
	return &Halter{rule: r, tasks: t, say: say, over: make(chan struct{})}
}

// Well reports whether the Halter ended the job, and the job did what the user wanted.
func (h *Halter) Well(news launcher.TaskNews) bool { return h.began && h.rule.well(news) }

// News begins the halt when the job has reached the limit.
func (h *Halter) News(news launcher.TaskNews) {
	if h.began || !h.rule.reached(news) {
		return
	}
	h.began = true
	ended := fmt.Sprintf("%d ok", news.Tally.OK)
	if bad := news.Tally.BadText(); bad != "" {
		ended += ", " + bad
	}
	verb := "cancels job %d"
	if h.rule.soon {
		verb = "starts no more tasks of job %d"
	}
	h.say()
	ui.Say(fmt.Sprintf("--halt "+verb+" after %d of %d tasks: %s", h.tasks.Job, news.Tally.Sum(), news.Total, ended))
	h.wait.Go(func() {
		c, err := h.tasks.Another()
		if err == nil {
			err = h.end(c)
			c.Close()
		}
		if err != nil && ui.KindOf(err) != filch.Busy { // busy: the job has ended
			ui.Complain(err)
		}
	})
}

// end ends the job: with soon, once no task runs. Until then the job is held.
func (h *Halter) end(c *client.Client) error {
	job, by := h.tasks.Job.String(), "--halt "+h.rule.text
	if h.rule.soon {
		if _, err := c.Query(cli.QueryWait, wire.VerbHold, job, by); err != nil {
			return err
		}
	}
	for still := 0; h.rule.soon && still < sure; {
		select {
		case <-h.over:
			return nil
		case <-time.After(look):
		}
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, job); err != nil {
			return err
		}
		if still++; j.Tasks.Running > 0 {
			still = 0
		}
	}
	_, err := c.Query(cli.QueryWait, wire.VerbCancel, job, "15", by)
	return err
}

// Close ends the halt of a job that has ended.
func (h *Halter) Close() {
	close(h.over)
	h.wait.Wait()
}
