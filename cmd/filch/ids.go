package main

import (
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
)

// maxIDs bounds the jobs that one command line names by ranges.
const maxIDs = 10_000

// jobRank names a job, or with Rank not -1 one rank of it.
type jobRank struct {
	Job  filch.JobID
	Rank filch.Rank
}

// readIDs reads what the user names jobs by: 7, 3-5, last, 7.2 for a rank,
// and lists of these with commas. last is asked for when it is needed.
func readIDs(words []string, last func() (filch.JobID, error)) ([]jobRank, error) {
	var ids []jobRank
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			more, err := readID(part, last)
			if err != nil {
				return nil, err
			}
			if len(ids)+len(more) > maxIDs {
				return nil, misuse{filch.Errorf(filch.Invalid, "more than %d jobs are named", maxIDs)}
			}
			ids = append(ids, more...)
		}
	}
	return ids, nil
}

func readID(s string, last func() (filch.JobID, error)) ([]jobRank, error) {
	wrong := misuse{filch.Errorf(filch.Invalid, "%s names no job", strconv.Quote(s)).
		WithHint("a job is a number, last, a range 3-5, or JOB.RANK; filch ps lists them")}
	name, rank, ranked := strings.Cut(s, ".")
	r := filch.Rank(-1)
	if ranked {
		n, err := strconv.ParseInt(rank, 10, 32)
		if err != nil || !allDigits(rank) {
			return nil, wrong
		}
		r = filch.Rank(n)
	}
	if name == "last" {
		job, err := last()
		return []jobRank{{job, r}}, err
	}
	low, high, ranged := strings.Cut(name, "-")
	if !ranged {
		high = low
	}
	first, err1 := strconv.ParseInt(low, 10, 32)
	final, err2 := strconv.ParseInt(high, 10, 32)
	if err1 != nil || err2 != nil || !allDigits(low) || !allDigits(high) || first < 1 || final < first || ranged && ranked {
		return nil, wrong
	}
	if final-first >= maxIDs {
		return nil, misuse{filch.Errorf(filch.Invalid, "%s names more than %d jobs", s, maxIDs)}
	}
	var ids []jobRank
	for n := first; n <= final; n++ {
		ids = append(ids, jobRank{filch.JobID(n), r})
	}
	return ids, nil
}

// oneID reads a single job.
func oneID(word string, last func() (filch.JobID, error)) (jobRank, error) {
	ids, err := readIDs([]string{word}, last)
	if err != nil {
		return jobRank{}, err
	}
	if len(ids) != 1 {
		return jobRank{}, misuse{filch.Errorf(filch.Invalid, "%s names %d jobs, one is wanted", strconv.Quote(word), len(ids))}
	}
	return ids[0], nil
}
