package before

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

const (
	// againMin and againMax are the pauses between two looks; the pause is a share of the
	// time waited so far, so a wait of hours costs little.
	againMin   = 200 * time.Millisecond
	againMax   = 2 * time.Second
	againShare = 64
	// absentWait is how long the record of a job may be missing: a run begins before its
	// record is written.
	absentWait = 5 * time.Second
)

// Wait holds the conditions of a job that are not met yet.
type Wait struct {
	job   filch.JobID
	name  string
	any   bool
	begin int64
	late  bool // the time to begin had come at the last verdict
	chain bool // the job before this one in the chain of its name is not known yet
	deps  []dep

	since, at time.Duration // of the first look, of the next look
	looking   int           // looks without an answer
	counted   int           // for a planted fault
}

// dep is a job waited for.
type dep struct {
	job     filch.JobID
	when    record.When
	part    record.Part
	chained bool // known by the chain: a record that is gone is an end
	met     bool
	never   string
	absent  time.Duration // since when the record is missing; 0: not missing
	event   time.Duration // when a start was seen; 0 not yet
	// The answers about the job and its zones that tell of ends which no block has: the blocks
	// are looked up once more, since they may have been read before the end of the job.
	told []record.Answer
}

// Look is a question about one condition: lookups, or a merge, all to be answered together.
type Look struct {
	Proposals []record.Proposal
	dep       int // -1: the chain
}

// New makes the wait of a job with a name; nil for a job without conditions. The waits of
// single tasks are not part of it: see [Each].
func New(job filch.JobID, name string, c *record.Conditions) *Wait {
	if c.None() || mutantIgnored {
		return nil
	}
	w := &Wait{job: job, name: name, any: c.Any, begin: c.Begin, late: c.Begin == 0, chain: c.Alone}
	for i := range c.After {
		if id, when, part := c.At(i); when != record.WhenEach {
			w.deps = append(w.deps, dep{job: id, when: when, part: part})
		}
	}
	return w
}

// Looks returns the lookups due now; none while earlier looks have no answer. The caller
// asks for Looks before each [Wait.Verdict].
func (w *Wait) Looks(now time.Duration) (list []Look) {
	for i := range w.deps {
		if d := &w.deps[i]; d.event > 0 && now >= d.event+d.part.Delay {
			d.met = true
		}
	}
	if w.looking > 0 || now < w.at {
		return nil
	}
	if w.since == 0 {
		w.since = now
	}
	w.at = now + min(max((now-w.since)/againShare, againMin), againMax)
	// A job enters the chain when nothing else holds the job. In the chain before, a job that waits
	// for a job of the same name behind it would wait for ever.
	if w.chain && w.late && !w.open() {
		list = append(list, Look{dep: -1, Proposals: []record.Proposal{{Op: record.OpMerge, Key: record.KeyChain(w.name), Kind: record.RecordChain, Delta: record.EncodeChainOp(w.job)}}})
	}
	for i := range w.deps {
		if d := &w.deps[i]; !d.met && d.never == "" && d.event == 0 || mutantTwice {
			list = append(list, Look{dep: i, Proposals: d.lookups()})
		}
	}
	w.looking = len(list)
	return list
}

// Answered takes in the answers to the proposals of a look, in their order.
func (w *Wait) Answered(now time.Duration, l *Look, as []record.Answer) {
	w.looking--
	if l.dep < 0 {
		before, err := record.DecodeChained(as[0].Value)
		if as[0].Status != record.AnswerDone || err != nil {
			return
		}
		if w.chain = false; before != 0 {
			w.deps = append(w.deps, dep{job: before, when: record.WhenAny, chained: true})
			w.at = now
		}
		return
	}
	d := &w.deps[l.dep]
	if d.answered(now, as); d.met {
		w.counted++
	}
	if len(d.told) > 0 || d.met && w.chain {
		w.at = now
	}
}

// Verdict reports whether the job may begin, or why the job never may. Wall is the time of
// day.
func (w *Wait) Verdict(wall int64) (met bool, never string) {
	open, vain := 0, 0
	w.late = wall >= w.begin
	for i := range w.deps {
		d := &w.deps[i]
		switch {
		case d.met && w.any:
			return w.late, ""
		case d.never != "" && !w.any:
			return false, d.never
		case d.never != "":
			if vain++; never == "" {
				never = d.never
			}
		case !d.met:
			open++
		}
	}
	switch {
	case w.any && vain == len(w.deps):
		if vain > 1 {
			never += fmt.Sprintf("; nor can the other %d conditions be met", vain-1)
		}
		return false, never
	case mutantTwice && w.counted >= len(w.deps):
		open = 0
	}
	return open == 0 && !w.chain && !w.any && w.late, ""
}

// Next is when the next look is due, or the time to begin has come.
func (w *Wait) Next(now time.Duration, wall int64) time.Duration {
	next := filch.Never
	if w.chain || w.open() {
		if w.looking == 0 {
			next = w.at
		}
		for i := range w.deps {
			if d := &w.deps[i]; !d.met && d.event > 0 {
				next = min(next, d.event+d.part.Delay)
			}
		}
	}
	if wall < w.begin {
		next = min(next, now+time.Duration(w.begin-wall))
	}
	return next
}

// open reports whether a condition on another job is not decided.
func (w *Wait) open() bool {
	for i := range w.deps {
		if d := &w.deps[i]; !d.met && d.never == "" {
			return true
		}
	}
	return false
}

// answered judges a job by its records.
func (d *dep) answered(now time.Duration, as []record.Answer) {
	for i := range as {
		if s := as[i].Status; s != record.AnswerDone && s != record.AnswerAbsent {
			return // the store is away: the next look may tell
		}
	}
	again := len(d.told) > 0
	as, d.told = append(d.told, as...), nil
	j, err := record.DecodeJob(as[0].Value)
	switch {
	case d.met || d.never != "":
		return
	case as[0].Status == record.AnswerAbsent || err != nil:
		d.missing(now)
		return
	}
	d.absent = 0
	end, ended, started, bare := d.state(j, as[1:])
	switch {
	case bare && !again && !mutantTorn:
		d.told = as[:len(as)-d.blocks()]
	case d.when == record.WhenStarted:
		if started {
			d.event = max(now, 1)
		}
		d.met = started && d.part.Delay == 0
	case end != 0 && !ended && d.when == record.WhenOK:
		d.never = d.vain(end) // some of the tasks go on, but one has ended badly
	case !ended:
	case d.when.Met(end):
		d.met = true
	default:
		d.never = d.vain(end)
	}
}

// missing handles a job without a record.
func (d *dep) missing(now time.Duration) {
	switch {
	case d.absent == 0:
		d.absent = max(now, 1)
	case now-d.absent < absentWait:
	case d.chained:
		d.met = true
	default:
		d.never = fmt.Sprintf("there is no job %d to wait for", d.job)
	}
}

func (d *dep) vain(end filch.State) string {
	return fmt.Sprintf("%s ended with the state %s, and this job waits for it with %s", d.what(), end, d.when)
}

// what names the job or the tasks.
func (d *dep) what() string {
	if d.part.Tasks.Count == 0 {
		return "job " + d.job.String()
	}
	if d.part.Name != "" {
		return "task " + d.part.Name
	}
	return fmt.Sprintf("task %d.%d", d.job, d.part.Tasks.From)
}
