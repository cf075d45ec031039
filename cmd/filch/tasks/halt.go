package tasks

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
)

// halt ends a job early; the zero value never does.
type halt struct {
	limit   int64
	percent bool // limit is a share of the tasks
	good    bool // limit counts tasks that ended well
}

// readHalt reads GNU parallel's --halt: never, or now,fail=N, now,fail=N%, now,success=N.
func readHalt(s string) (halt, error) {
	var h halt
	if s == "" || s == "never" {
		return h, nil
	}
	wrong := filch.Errorf(filch.Invalid, "--halt %q is not now,fail=N or now,success=N", s).WithHint("for example --halt now,fail=1 or --halt now,fail=10%%")
	when, what, _ := strings.Cut(s, ",")
	kind, count, _ := strings.Cut(what, "=")
	if when == "soon" {
		return h, filch.Errorf(filch.Invalid, "cannot do --halt %s: filch also ends the tasks that run", s).WithHint("--halt now,%s", what)
	}
	count, h.percent = strings.CutSuffix(count, "%")
	n, err := strconv.ParseInt(count, 10, 32)
	h.limit, h.good = n, kind == "success"
	if when != "now" || kind != "fail" && !h.good || err != nil || !ui.AllDigits(count) || n < 1 || h.percent && n > 100 {
		return halt{}, wrong
	}
	return h, nil
}

// reached reports whether a job with these ends is to end.
func (h halt) reached(news launcher.TaskNews) bool {
	if h.limit == 0 || news.What != launcher.TasksProgress {
		return false
	}
	count := int64(news.Tally.Bad())
	if h.good {
		count = int64(news.Tally.OK)
	}
	if h.percent {
		return count > 0 && count*100 >= h.limit*int64(news.Total)
	}
	return count >= h.limit
}

// cancel ends the job of t.
func (h halt) cancel(t *client.Tasks, news launcher.TaskNews) {
	ended := fmt.Sprintf("%d ok", news.Tally.OK)
	if bad := news.Tally.BadText(); bad != "" {
		ended += ", " + bad
	}
	ui.Say(fmt.Sprintf("--halt cancels job %d after %d of %d tasks: %s", t.Job, news.Tally.Sum(), news.Total, ended))
	c, err := t.Another()
	if err == nil {
		_, err = c.Query(cli.QueryWait, wire.VerbCancel, t.Job.String(), "15")
		c.Close()
	}
	if err != nil {
		ui.Complain(err)
	}
}
