package tasks

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

// halt ends a job early; the zero value never does.
type halt struct {
	text    string // as given
	limit   int64
	percent bool // limit is a share of the tasks
	counts  haltCount
	soon    bool // the tasks that run may end
}

// haltCount says which ended tasks count.
type haltCount uint8

const (
	haltFail    haltCount = iota // tasks that did not end well
	haltSuccess                  // tasks that ended well
	haltDone                     // all
)

// haltCounts are the words of --halt.
var haltCounts = map[string]haltCount{"fail": haltFail, "success": haltSuccess, "done": haltDone}

// readHalt reads GNU parallel's --halt: never, or WHEN,WHAT=N or WHEN,WHAT=N%, where WHEN is
// now or soon, and WHAT is fail, success or done.
func readHalt(s string) (halt, error) {
	h := halt{text: s}
	if s == "" || s == "never" {
		return h, nil
	}
	when, what, _ := strings.Cut(s, ",")
	kind, count, _ := strings.Cut(what, "=")
	count, h.percent = strings.CutSuffix(count, "%")
	n, err := strconv.ParseInt(count, 10, 32)
	counts, known := haltCounts[kind]
	h.limit, h.counts, h.soon = n, counts, when == "soon"
	if !known || when != "now" && !h.soon || err != nil || !ui.AllDigits(count) || n < 1 || h.percent && n > 100 {
		return halt{}, filch.Errorf(filch.Invalid, "--halt %q is not WHEN,WHAT=N or WHEN,WHAT=N%%, where WHEN is now or soon, and WHAT is fail, success or done", s).
			WithHint("for example --halt now,fail=1 or --halt soon,fail=10%%")
	}
	return h, nil
}

// reached reports whether a job with these ends is to end.
func (h *halt) reached(news launcher.TaskNews) bool {
	if h.limit == 0 || news.What != launcher.TasksProgress {
		return false
	}
	count := int64(news.Tally.Bad())
	switch h.counts {
	case haltSuccess:
		count = int64(news.Tally.OK)
	case haltDone:
		count = int64(news.Tally.Sum())
	}
	if h.percent {
		return count > 0 && count*100 >= h.limit*int64(news.Total)
	}
	return count >= h.limit
}

// well reports whether a halted job did what the user wanted: the cancelled tasks do not
// count.
func (h *halt) well(news launcher.TaskNews) bool {
	return h.counts == haltSuccess || h.counts == haltDone && news.Tally.Bad() == news.Tally.Cancelled
}

// Times of a halt that lets tasks end.
const (
	haltLook = 500 * time.Millisecond // between two looks at the running tasks
	haltSure = 2                      // looks without a running task: a node may learn late of the hold
)

// halter ends the job of t, once.
type halter struct {
	*halt
	t    *client.Tasks
	say  func() // called before a message
	done bool   // the halt began
	over chan struct{}
	wait sync.WaitGroup
}

// news begins the halt when the job has reached the limit.
func (h *halter) news(news launcher.TaskNews) {
	if h.done || !h.reached(news) {
		return
	}
	h.done = true
	ended := fmt.Sprintf("%d ok", news.Tally.OK)
	if bad := news.Tally.BadText(); bad != "" {
		ended += ", " + bad
	}
	verb := "cancels job %d"
	if h.soon {
		verb = "starts no more tasks of job %d"
	}
	h.say()
	ui.Say(fmt.Sprintf("--halt "+verb+" after %d of %d tasks: %s", h.t.Job, news.Tally.Sum(), news.Total, ended))
	h.wait.Go(func() {
		c, err := h.t.Another()
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
func (h *halter) end(c *client.Client) error {
	job, by := h.t.Job.String(), "--halt "+h.text
	if h.soon {
		if _, err := c.Query(cli.QueryWait, wire.VerbHold, job, by); err != nil {
			return err
		}
	}
	for still := 0; h.soon && still < haltSure; {
		select {
		case <-h.over:
			return nil
		case <-time.After(haltLook):
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

// close ends the halt of a job that has ended.
func (h *halter) close() {
	close(h.over)
	h.wait.Wait()
}
