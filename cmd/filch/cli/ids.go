package cli

import (
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/mtc/record"
)

// maxIDs bounds the jobs that a command line names by ranges.
const maxIDs = 10_000

// JobRank names a job, or with Rank not -1 a rank or task of the job. With a Name, the
// task of a workflow with this name is meant, and Rank is -1.
type JobRank struct {
	Job  filch.JobID
	Rank filch.Rank
	Name string
}

// readIDs reads the user's names of jobs: 7, 3-5, last, 7.2 for a rank, and lists
// of these with commas; with names also 7.NAME. readIDs calls last only for the word last.
func readIDs(words []string, last func() (filch.JobID, error), names bool) ([]JobRank, error) {
	var ids []JobRank
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			more, err := readID(part, last, names)
			if err != nil {
				return nil, err
			}
			if len(ids)+len(more) > maxIDs {
				return nil, ui.Misused(filch.Errorf(filch.Invalid, "more than %d jobs are named", maxIDs))
			}
			ids = append(ids, more...)
		}
	}
	return ids, nil
}

func readID(s string, last func() (filch.JobID, error), names bool) ([]JobRank, error) {
	wrong := ui.Misused(filch.Errorf(filch.Invalid, "%s names no job", strconv.Quote(s)).
		WithHint("a job is a number, last, a range 3-5, or JOB.RANK; filch ps lists them"))
	name, rank, ranked := strings.Cut(s, ".")
	r, task := filch.Rank(-1), ""
	if ranked {
		n, err := strconv.ParseInt(rank, 10, 32)
		switch {
		case err == nil && ui.AllDigits(rank):
			r = filch.Rank(n)
		case names && rank != "":
			task = rank
		default:
			return nil, wrong
		}
	}
	if name == "last" {
		job, err := last()
		return []JobRank{{job, r, task}}, err
	}
	low, high, ranged := strings.Cut(name, "-")
	if !ranged {
		high = low
	}
	first, err1 := strconv.ParseInt(low, 10, 32)
	final, err2 := strconv.ParseInt(high, 10, 32)
	if err1 != nil || err2 != nil || !ui.AllDigits(low) || !ui.AllDigits(high) || first < 1 || final < first || ranged && ranked {
		return nil, wrong
	}
	if final-first >= maxIDs {
		return nil, ui.Misused(filch.Errorf(filch.Invalid, "%s names more than %d jobs", s, maxIDs))
	}
	var ids []JobRank
	for n := first; n <= final; n++ {
		ids = append(ids, JobRank{filch.JobID(n), r, task})
	}
	return ids, nil
}

// JobTasks names a job, or some tasks of the job: runs of tasks, each by the first and the
// last.
type JobTasks struct {
	Job   filch.JobID
	Tasks [][2]int32
}

// readJobTasks reads jobs as readIDs does, and words of a job's tasks: 7.5, 7.5-9 and
// 7.5,8,10-12.
func readJobTasks(words []string, last func() (filch.JobID, error)) (list []JobTasks, err error) {
	for _, word := range words {
		name, tasks, of := strings.Cut(word, ".")
		ids, err := readIDs([]string{name}, last, false)
		if err != nil {
			return nil, err
		}
		if len(list)+len(ids) > maxIDs {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "more than %d jobs are named", maxIDs))
		}
		if of && len(ids) != 1 {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "%s names tasks of more than one job", strconv.Quote(word)).
				WithHint("tasks are named as JOB.5, JOB.5-9 or JOB.5,7,9-12"))
		}
		for _, id := range ids {
			j := JobTasks{Job: id.Job}
			if of {
				if j.Tasks, err = readTasks(word, tasks); err != nil {
					return nil, err
				}
			}
			list = append(list, j)
		}
	}
	return list, nil
}

// maxTaskRuns bounds the runs of tasks in a word.
const maxTaskRuns = 10_000

func readTasks(word, text string) (runs [][2]int32, err error) {
	for part := range strings.SplitSeq(text, ",") {
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		first, err1 := strconv.ParseInt(low, 10, 32)
		final, err2 := strconv.ParseInt(high, 10, 32)
		if err1 != nil || err2 != nil || !ui.AllDigits(low) || !ui.AllDigits(high) || final < first || final > record.MaxTasks {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "%s names no tasks: %s is no number and no range", strconv.Quote(word), strconv.Quote(part)).
				WithHint("tasks are named as JOB.5, JOB.5-9 or JOB.5,7,9-12"))
		}
		if runs = append(runs, [2]int32{int32(first), int32(final)}); len(runs) > maxTaskRuns {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "more than %d runs of tasks are named", maxTaskRuns))
		}
	}
	return runs, nil
}

// OneID reads a single job.
func OneID(word string, last func() (filch.JobID, error)) (JobRank, error) {
	return oneID(word, last, false)
}

func oneID(word string, last func() (filch.JobID, error), names bool) (JobRank, error) {
	ids, err := readIDs([]string{word}, last, names)
	if err != nil {
		return JobRank{}, err
	}
	if len(ids) != 1 {
		return JobRank{}, ui.Misused(filch.Errorf(filch.Invalid, "%s names %d jobs, and this command takes one", strconv.Quote(word), len(ids)))
	}
	return ids[0], nil
}
