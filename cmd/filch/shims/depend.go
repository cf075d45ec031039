package shims

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/deps"
	"github.com/filch-hpc/filch/cmd/filch/taskrecords"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/client"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/mtc/record"
)

// depend fills in the jobs that a batch job waits for. The number of an array means all of
// its jobs, 12_3 one of them; with aftercorr, the job with the same index. Of a bag of filch,
// 12_3 and aftercorr mean the task with that FILCH_TASK.
func depend(c *client.Client, dir string, r *spec.Run, index int32) error {
	d := r.Client.Deps
	d.List = slices.Clone(d.List)
	for i := range d.List {
		word, err := jobsOf(c, dir, &d.List[i], index)
		if err != nil {
			return err
		}
		d.List[i].Word, d.List[i].Corr = word, false
	}
	q := &r.Request
	q.Before = record.Conditions{Begin: q.Before.Begin} // of the job before in the array
	return deps.Resolve(c, &d, q.Name, &q.Before)
}

// jobsOf names the jobs of a dependency by their own numbers.
func jobsOf(c *client.Client, dir string, d *spec.Dep, index int32) (string, error) {
	id, at, one := strings.Cut(d.Word, ".")
	if d.Corr && !one {
		at, one = strconv.Itoa(int(index)), index >= 0
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return "", err
	}
	var jobs []string
	for _, f := range files {
		p, err := readPage(f)
		if err != nil || p.Array == 0 || p.Array.String() != id || one && strconv.Itoa(int(p.Index)) != at {
			continue
		}
		jobs = append(jobs, p.ID.String())
	}
	switch {
	case len(jobs) > 0:
		return strings.Join(jobs, ","), nil
	case (one || d.Corr) && at != "":
		if word, err := taskOf(c, id, at); word != "" || err != nil {
			return word, err
		}
		return "", filch.Errorf(filch.Invalid, "Job dependency problem: there is no job %s with the index %s in an array", id, at)
	case d.Corr:
		return "", filch.Errorf(filch.Invalid, "Job dependency problem: there is no job %s with the index %s in an array", id, or(at, "of a job without an array"))
	}
	return d.Word, nil
}

// taskOf names the task of a bag by the submitter's number of the task; "" if the job is no
// bag or has no such task.
func taskOf(c *client.Client, id, number string) (string, error) {
	var j launcher.JobInfo
	err := cli.Ask(c, cli.QueryWait, &j, wire.VerbInfo, id)
	if err != nil || j.Kind != "bag" {
		return "", nil // the caller says that there is no such job
	}
	p, err := taskrecords.Open(c, j.ID)
	if err != nil {
		return "", err
	}
	for i := range p.Rec.Total {
		if strconv.Itoa(int(p.Spec.Number(i))) == number {
			return id + "." + strconv.Itoa(int(p.Spec.Name(i))), nil
		}
	}
	return "", nil
}
