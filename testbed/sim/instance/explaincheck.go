package instance

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/origin"
)

// What a launcher says of a job that has not ended is held against the truth now and
// then: it must name what the job waits for, and that must be so.

// Times of the looks at explanations. A fault has been noticed by all after staleSpan.
// Before a job that waits says what it waits for, it asks a lender of each job that it blames,
// so that such a job may have ended staleBlame ago.
const (
	explainEvery = 6 * time.Second
	staleSpan    = 20 * time.Second
	staleBlame   = origin.SayEvery + leaseBound
)

// heldBy finds the jobs that an explanation blames.
var heldBy = regexp.MustCompile(`job (\d+) has (?:\d+ slots? on|most)`)

// causes are what an explanation of a job that waits may name beside the jobs that
// have the slots.
var causes = []string{
	"waits until the record of the job is stored", "waits until no rank of the job can run", "waits for slots of", "did not report yet", "waits for its turn",
	", which holds job", "waits for more nodes", "deadlock: ", "taken away soon", "drained", "is a member again", "waits for its client",
	"waits for job ", "waits until 20", "waits for the job before it",
}

// checkExplained looks at all jobs that have not ended, and again after a while.
func (w *World) checkExplained() {
	w.checkExplanations()
	w.checkBagsExplained()
	if w.Now() < faultSpan+cutLongest+settleSpan {
		w.At(w.Now()+explainEvery, w.checkExplained)
	}
}

func (w *World) checkExplanations() {
	for _, h := range w.hosts {
		if h.node == nil || !h.Speaks() {
			continue
		}
		for _, i := range h.node.Jobs(h.Local()) {
			if i.Code != nil {
				continue
			}
			x, err := h.node.Explain(h.Local(), i.ID)
			if err != nil {
				w.Fail("unexplained", "%s says nothing of job %d, which is %s: %s", h.Name, i.ID, i.State, err.Text)
				return
			}
			w.checkExplanation(h, &x)
		}
	}
}

// checkExplanation holds one against what is known of the job.
func (w *World) checkExplanation(h *host, x *launcher.Explanation) {
	j := w.byID[x.Job]
	switch {
	case x.Text == "":
		w.Fail("unexplained", "%s has no word for what job %d waits for, in phase %s", h.Name, x.Job, x.Phase)
	case j == nil || j.submittedAt > w.Now()-staleSpan || !w.allWell(w.Now()-staleSpan+leaseBound) || w.Net.Links.Loss > 0.02:
		return // what is said may be of before
	case x.Phase == "run" && !j.live() && j.last() != nil && j.last().execAt < w.Now()-j.Runs-j.killWait()-staleSpan:
		w.Fail("wrong-explanation", "%s says that job %d %s; none of its ranks runs", h.Name, x.Job, x.Text)
	case x.Phase == "run" || x.Phase == "end" || x.Phase == "launch":
		return
	}
	blamed := heldBy.FindAllStringSubmatch(x.Text, -1)
	for _, b := range blamed {
		id, _ := strconv.Atoi(b[1])
		if o := w.byID[filch.JobID(id)]; o != nil && o.over() && o.endedAt < w.Now()-staleBlame {
			w.Fail("wrong-explanation", "%s says that job %d waits for job %d, which ended %v ago: %s", h.Name, x.Job, id, w.Now()-o.endedAt, x.Text)
		}
	}
	if len(blamed) > 0 {
		return
	}
	for _, c := range causes {
		if strings.Contains(x.Text, c) {
			w.checkCause(h, j, c, x)
			return
		}
	}
	w.Fail("unexplained", "%s does not say what job %d waits for since %v: %s", h.Name, x.Job, w.Now()-j.submittedAt, x.Text)
}

// checkCause holds the cause that an explanation names against the truth.
func (w *World) checkCause(h *host, j *job, cause string, x *launcher.Explanation) {
	is := true
	switch cause {
	case "waits for more nodes":
		is = !w.couldFit(j)
	case "is a member again":
		is = h.dead
	case "waits until the record of the job is stored", "waits until no rank of the job can run":
		is = w.lostHosts() > 0 // for all else there was time enough
	}
	if !is {
		w.Fail("wrong-explanation", "%s says that job %d waits, which is not so: %s", h.Name, x.Job, x.Text)
	}
}
