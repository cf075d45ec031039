package cli

import (
	"math"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/client"
)

// JobSpan is the tasks or ranks of a job from First to Last; Last is math.MaxInt32 for
// all.
type JobSpan struct {
	Job         filch.JobID
	First, Last int32
}

// One reports whether the span is one task or rank.
func (s JobSpan) One() bool { return s.First == s.Last }

// readSpans reads JOB, JOB-JOB, JOB.TASK and JOB.TASK-TASK, several with commas.
func readSpans(words []string, last func() (filch.JobID, error)) ([]JobSpan, error) {
	var spans []JobSpan
	for _, word := range words {
		for part := range strings.SplitSeq(word, ",") {
			name, ranks, _ := strings.Cut(part, ".")
			low, high, ranged := strings.Cut(ranks, "-")
			if !ranged {
				more, err := readIDs([]string{part}, last, false)
				if err != nil {
					return nil, err
				}
				for _, id := range more {
					s := JobSpan{id.Job, 0, math.MaxInt32}
					if id.Rank >= 0 {
						s.First, s.Last = int32(id.Rank), int32(id.Rank)
					}
					spans = append(spans, s)
				}
				continue
			}
			id, err := OneID(name, last)
			first, err1 := strconv.ParseInt(low, 10, 32)
			final, err2 := strconv.ParseInt(high, 10, 32)
			if err == nil && (err1 != nil || err2 != nil || !ui.AllDigits(low) || !ui.AllDigits(high) || final < first) {
				err = ui.Misused(filch.Errorf(filch.Invalid, "%s names no tasks", strconv.Quote(part)).WithHint("a range of tasks or ranks is JOB.FIRST-LAST, as in 5.1-9"))
			}
			if err != nil {
				return nil, err
			}
			spans = append(spans, JobSpan{id.Job, int32(first), int32(final)})
		}
		if len(spans) > maxIDs {
			return nil, ui.Misused(filch.Errorf(filch.Invalid, "more than %d jobs are named", maxIDs))
		}
	}
	return spans, nil
}

// Spans connects to the launcher, and reads the names of jobs, tasks and ranks.
func (g *Global) Spans(words []string) (*client.Client, []JobSpan, error) {
	c, err := g.Dial()
	if err != nil {
		return nil, nil, err
	}
	spans, err := readSpans(words, LastJob(c))
	if err != nil {
		c.Close()
		return nil, nil, err
	}
	return c, spans, nil
}
