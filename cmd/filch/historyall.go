package main

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/launcher/history"
)

// printAll prints the history on disk, of one instance or of all: the jobs that ended since
// a time, at most the last most. No launcher is asked.
func (l *jobListing) printAll(instance string, since int64, bad bool, most int) error {
	dir, err := place.History()
	if err != nil {
		return err
	}
	order := l.sort
	l.sort = "" // -n counts ends
	list, damage, err := history.Read(dir, since, func(e *history.Entry) bool {
		one := [1]launcher.JobInfo{e.Job}
		return (instance == "" || e.Instance == instance) && (!bad || e.Job.Code == nil || *e.Job.Code != 0) && len(l.choose(one[:])) == 1
	})
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot read the history in %s: %s", dir, ui.Cause(err))
	}
	if damage != (history.Damage{}) {
		ui.Warn(fmt.Sprintf("%s and %s of the history in %s cannot be read", filch.Plural(damage.Files, "file"), filch.Plural(damage.Lines, "line"), dir))
	}
	if most > 0 {
		list = list[max(0, len(list)-most):]
	}
	jobs := make([]launcher.JobInfo, len(list))
	of := map[attemptKey][]*history.Entry{}
	for i := range list {
		jobs[i] = list[i].Job
		k := keyOf(&list[i].Job)
		of[k] = append(of[k], &list[i])
	}
	l.sort = order
	jobs = l.choose(jobs)
	sorted := make([]*history.Entry, len(jobs)) // of instances with equal jobs, in their order
	for i := range jobs {
		k := keyOf(&jobs[i])
		sorted[i], of[k] = of[k][0], of[k][1:]
	}
	if l.json {
		past := []PastJob{}
		for i, e := range sorted {
			past = append(past, PastJob{JobInfo: jobs[i], Ended: e.Ended, Instance: e.Instance, UUID: e.UUID, Again: e.Again})
		}
		return ui.PrintJSON(past)
	}
	l.leadHead, l.lead = "INSTANCE", func(k int) string { return ui.Clean(sorted[k].Instance) }
	return l.print(jobs)
}

// attemptKey distinguishes the attempts of a history, but for equal ones of two instances.
type attemptKey struct {
	job     filch.JobID
	attempt filch.Attempt
	submit  int64
}

func keyOf(j *launcher.JobInfo) attemptKey { return attemptKey{j.ID, j.Attempt, j.Submit} }
