package tasks

import (
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// lastDep stands for the word last until a launcher is asked.
const lastDep = 0

// deps are the jobs for which a job waits, and the end of each; no ends: good ends.
type deps struct {
	jobs []filch.JobID
	when []record.When
}

// readDeps reads afterok:ID,ID and the like, several with commas, as in
// afterok:3:4,afterany:5.
func readDeps(text string) (d deps, err error) {
	if text == "" {
		return d, nil
	}
	when, known, plain := record.WhenOK, false, true
	bad := filch.Errorf(filch.Invalid, "--dep %q is not afterok:ID,ID", text).
		WithHint("the other words are afterany, for any end, and afternotok; afterok:3:4,afterany:5 is a list")
	for word := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' || r == ':' }) {
		switch word {
		case record.WhenOK.String():
			when, known = record.WhenOK, true
			continue
		case record.WhenAny.String():
			when, known = record.WhenAny, true
			continue
		case record.WhenNotOK.String():
			when, known = record.WhenNotOK, true
			continue
		}
		n, err := strconv.ParseInt(word, 10, 32)
		switch {
		case word == "last" && known:
			n = lastDep
		case err != nil || n <= 0 || !known:
			return deps{}, bad
		}
		d.jobs, d.when = append(d.jobs, filch.JobID(n)), append(d.when, when)
		plain = plain && when == record.WhenOK
	}
	if plain {
		d.when = nil
	}
	if len(d.jobs) == 0 {
		return deps{}, bad
	}
	return d, nil
}

// check refuses a job that does not exist, and a step: the launcher would skip the tasks.
func (d *deps) check(c *client.Client) (err error) {
	for i, id := range d.jobs {
		if id == lastDep {
			if id, err = cli.LastJob(c)(); err != nil {
				return err
			}
			d.jobs[i] = id
		}
		var j launcher.JobInfo
		if err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id.String()); err != nil {
			return filch.Errorf(ui.KindOf(err), "cannot wait for job %d: %s", id, err.Error())
		}
		if j.Kind == "step" {
			return filch.Errorf(filch.Invalid, "cannot wait for job %d: the job is a step of job %d", id, j.Parent).
				WithHint("--dep %s:%d waits for the job around the step", (&record.Conditions{After: d.jobs, When: d.when}).WhenOf(id), j.Parent)
		}
	}
	return nil
}
