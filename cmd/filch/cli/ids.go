package cli

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
)

// maxIDs bounds the jobs that a command line names by ranges.
const maxIDs = 10_000

// TaskHint tells how tasks are named.
const TaskHint = "tasks are named as JOB.5, JOB.5-9 or JOB.5,7,9-12; filch tasks JOB lists them"

// JobTasks names a job, or some tasks or ranks of the job.
type JobTasks struct {
	Job   filch.JobID
	Tasks [][2]int32 // runs, each by the first and the last; none: all of the job
	Names string     // of tasks of a workflow, with commas between names; Tasks are none then
}

// Spans are the runs of tasks or ranks that j names.
func (j *JobTasks) Spans() []JobSpan {
	if len(j.Tasks) == 0 {
		return []JobSpan{{j.Job, 0, math.MaxInt32}}
	}
	list := make([]JobSpan, len(j.Tasks))
	for i, r := range j.Tasks {
		list[i] = JobSpan{j.Job, r[0], r[1]}
	}
	return list
}

// readJobs reads the user's names of jobs: 7, 3-5, last, and lists of these with commas.
// readJobs calls last only for the word last.
func readJobs(words []string, last func() (filch.JobID, error)) (ids []filch.JobID, err error) {
	list, err := readJobTasks(words, last)
	for i := range list {
		j := &list[i]
		if len(j.Tasks) > 0 || j.Names != "" {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "tasks of job %d are named, and this command takes whole jobs", j.Job).WithHint("name the job: %d", j.Job))
		}
		ids = append(ids, j.Job)
	}
	return ids, err
}

// readJobTasks reads jobs as readJobs does, and words of a job's tasks: 7.5, 7.5-9,
// 7.5,8,10-12, and 7.NAME. After a task, a number is a task of the same job.
func readJobTasks(words []string, last func() (filch.JobID, error)) (list []JobTasks, err error) {
	for _, word := range words {
		more, err := readWord(word, last)
		if err != nil {
			return nil, err
		}
		if list = append(list, more...); len(list) > maxIDs {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "more than %d jobs are named", maxIDs))
		}
	}
	return list, nil
}

func readWord(word string, last func() (filch.JobID, error)) (list []JobTasks, err error) {
	var of *JobTasks // the job whose tasks are read
	tasks := ""      // the word from the first task of the job
	for rest, more := word, true; more; {
		whole, part := rest, ""
		part, rest, more = strings.Cut(rest, ",")
		job, task, dotted := strings.Cut(part, ".")
		switch {
		case dotted && isJob(job):
			ids, err := readRange(part, job, last)
			if err != nil {
				return nil, err
			}
			list = append(list, JobTasks{Job: ids[0]})
			of, tasks = &list[len(list)-1], whole[len(job)+1:]
		case of != nil:
			task = part
		default:
			ids, err := readRange(part, part, last)
			if err != nil {
				return nil, err
			}
			for _, id := range ids {
				list = append(list, JobTasks{Job: id})
			}
			continue
		}
		r, ok := ReadRun(task)
		switch {
		case task == "" || ok && r[1] > record.MaxTasks:
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "%s names no tasks: %s is no number and no range", strconv.Quote(word), strconv.Quote(task)).WithHint(TaskHint))
		case !ok: // names may have commas
			of.Tasks, of.Names = nil, tasks
			return list, nil
		}
		if of.Tasks = append(of.Tasks, r); len(of.Tasks) > maxTaskRuns {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "more than %d runs of tasks are named", maxTaskRuns))
		}
	}
	return list, nil
}

// isJob reports whether s names a single job.
func isJob(s string) bool { return s == "last" || s != "" && ui.AllDigits(s) }

// readRange reads the jobs of s, a part of the user's text.
func readRange(text, s string, last func() (filch.JobID, error)) ([]filch.JobID, error) {
	if s == "last" {
		job, err := last()
		return []filch.JobID{job}, err
	}
	r, ok := ReadRun(s)
	if !ok || r[0] < 1 {
		return nil, ui.Misused(filch.Errorf(filch.Invalid, "%s names no job", strconv.Quote(text)).
			WithHint("a job is a number, last, or a range 3-5; a task is JOB.TASK; filch ps lists jobs"))
	}
	if r[1]-r[0] >= maxIDs {
		return nil, ui.Misused(filch.Errorf(filch.Invalid, "%s names more than %d jobs", text, maxIDs))
	}
	var ids []filch.JobID
	for n := int64(r[0]); n <= int64(r[1]); n++ {
		ids = append(ids, filch.JobID(n))
	}
	return ids, nil
}

// maxTaskRuns bounds the runs of tasks in a word.
const maxTaskRuns = 10_000

// ReadRun reads a number, or a range with a dash.
func ReadRun(s string) (r [2]int32, ok bool) {
	low, high, ranged := strings.Cut(s, "-")
	if !ranged {
		high = low
	}
	first, err1 := strconv.ParseInt(low, 10, 32)
	final, err2 := strconv.ParseInt(high, 10, 32)
	ok = err1 == nil && err2 == nil && ui.AllDigits(low) && ui.AllDigits(high) && first <= final
	return [2]int32{int32(first), int32(final)}, ok
}

// OneJob reads a single job.
func OneJob(word string, last func() (filch.JobID, error)) (filch.JobID, error) {
	ids, err := readJobs([]string{word}, last)
	if err != nil {
		return 0, err
	}
	if len(ids) != 1 {
		return 0, TooMany(word, len(ids))
	}
	return ids[0], nil
}

// TooMany refuses a word that names more than one job.
func TooMany(word string, jobs int) error {
	return ui.Misused(filch.Errorf(filch.Invalid, "%s names %d jobs, and this command takes one", strconv.Quote(word), jobs))
}

// RunsText is the text of runs of tasks, as a user writes them: 5,7-9.
func RunsText(runs [][2]int32) string {
	var parts []string
	for _, r := range runs {
		if r[0] == r[1] {
			parts = append(parts, strconv.Itoa(int(r[0])))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", r[0], r[1]))
		}
	}
	return strings.Join(parts, ",")
}

// NoRank is the error for a rank that a run does not have.
func NoRank(j *launcher.JobInfo, rank int32) error {
	return filch.Errorf(filch.NotFound, "there is no rank %d.%d: the job has %s", j.ID, rank, filch.Plural(int(j.Ranks), "rank"))
}
