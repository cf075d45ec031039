package instance

import (
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

// outcome is what the client of a job was told, and what was done to it.
type outcome struct {
	id          filch.JobID
	submittedAt time.Duration // -1 before
	startedAt   time.Duration // -1 when never
	endedAt     time.Duration // -1 before
	refused     bool
	end         launcher.Ended
	code        int32
	ending      bool // told that it is being stopped
	apart       bool // its end was told by a node that was cut off
	cancelled   bool
	clientGone  bool
	orphaned    bool // its origin is gone for good: nobody will hear of it
	vanished    bool // a keeper of it was killed
	restarted   bool // its origin's launcher began anew
}

func newOutcome() outcome { return outcome{submittedAt: -1, startedAt: -1, endedAt: -1} }

func (o *outcome) over() bool { return o.endedAt >= 0 }

func (j *job) killWait() time.Duration { return j.request.Policy.KillWait }

// live reports whether ranks of it run.
func (j *job) live() bool { return j.last() != nil && j.last().live > 0 }

// last returns the newest attempt, nil when none was made.
func (j *job) last() *attempt {
	if len(j.attempts) == 0 {
		return nil
	}
	return j.attempts[len(j.attempts)-1]
}

// reply is an event on its way to a client.
func (w *World) reply(h *host, r launcher.Reply) {
	if i := int(r.Client) - taskClients; i >= 0 && i < len(w.bags) {
		w.taskReply(h, r)
		return
	}
	if int(r.Client) < 1 || int(r.Client) > len(w.jobs) {
		w.Fail("unknown-client", "%s replies to client %d", h.Name, r.Client)
		return
	}
	j := w.jobs[r.Client-1]
	if j.host != h.Index {
		w.Fail("wrong-client", "%s replies to a client of %s", h.Name, w.hosts[j.host].Name)
		return
	}
	if j.over() {
		if _, note := r.Event.(launcher.StillWaiting); note || j.clientGone {
			return
		}
		w.Fail("after-end", "job %d: %s after its end", j.id, show(r.Event))
		return
	}
	switch e := r.Event.(type) {
	case launcher.Accepted:
		if j.id != 0 && j.id != e.Job {
			w.Fail("two-ids", "job %d was accepted as %d before", e.Job, j.id)
		}
		w.numbered(e.Job, j.client())
		j.id = e.Job
		if w.byID != nil {
			w.byID[j.id] = j
		}
		w.accepted(j)
	case launcher.Started:
		j.startedAt = w.Now()
		w.checkStarted(j, &e)
		w.begin(j, e.Nodes)
		w.signal(j)
	case launcher.Ending:
		j.ending = true
	case launcher.Refused:
		if j.request.Detach && strings.Contains(e.Err.Text, "another node decides") {
			j.clientGone = true // another node decides about it now: this is no end
			w.leave(j)
			return
		}
		j.endedAt, j.refused, j.code = w.Now(), true, e.Code
		w.checkRefused(j, &e)
		w.over(j)
	case launcher.Ended:
		j.endedAt, j.end, j.code, j.apart = w.Now(), e, e.Code, w.apart(h)
		w.checkEnd(j, &e)
		w.over(j)
	}
}

// numbered: no two jobs have one id.
func (w *World) numbered(id filch.JobID, c launcher.ClientID) {
	if old, ok := w.ids[id]; ok && old != c {
		w.Fail("same-id", "the jobs of clients %d and %d are both job %d", old, c, id)
	}
	w.ids[id] = c
}

// leave has the client of a job disconnect soon.
func (w *World) leave(j *job) {
	h, life := w.hosts[j.host], w.hosts[j.host].Life()
	w.At(w.Now()+time.Millisecond, func() {
		if h.Life() == life && h.node != nil {
			h.call(func(now time.Duration, out *launcher.Outbox) { h.node.ClientGone(now, j.client(), out) })
		}
	})
}

// over is called when the client of a job heard its end; it disconnects.
func (w *World) over(j *job) {
	w.leave(j)
	w.stats.Ended++
	w.Mix(uint64(j.index)<<32 | uint64(uint32(j.code)))
	w.At(w.Now()+goneBound+j.killWait()+w.slack(), func() { w.checkGone(j, false) })
}

// slack is the time that repeats of lost messages may take.
func (w *World) slack() time.Duration {
	if l := &w.Net.Links; l.Loss > 0 || l.LateDup > 0 {
		return saidAgain
	}
	return 10 * time.Millisecond
}

func (w *World) checkStarted(j *job, e *launcher.Started) {
	a := j.last()
	if j.restarted || a == nil && j.ending || a != nil && (j.ending || j.hostCloses()) {
		return // it is stopped while it starts
	}
	if a == nil || !a.allRan() && !a.unready && !j.vanished && !w.touched(j, a) {
		w.Fail("not-all-ran", "job %d is said to have started, but not every rank was exec'ed", j.id)
		return
	}
	if e.Size != a.launch.Size {
		w.Fail("wrong-size", "job %d started with %d ranks of %d", j.id, e.Size, a.launch.Size)
	}
}

// touched reports whether a fault touched the origin of a job or a node of the
// attempt since the job was submitted, or not long before.
func (w *World) touched(j *job, a *attempt) bool {
	since := j.submittedAt - leaseBound
	if j.restarted || w.hosts[j.host].trouble > since {
		return true
	}
	for _, n := range a.launch.Nodes {
		if w.byName[n.Node].trouble > since {
			return true
		}
	}
	return false
}

func (w *World) checkRefused(j *job, e *launcher.Refused) {
	switch {
	case e.Err.Kind == filch.NoFit && (j.Slots > w.fits(j) || w.opt.Roles != nil && !w.couldFit(j)):
	case j.request.Shape.Only != nil && e.Err.Kind == filch.NoFit && w.fits(j) == 0:
	case j.request.Patient > 0 && w.Now()-j.submittedAt >= j.request.Patient:
	case j.cancelled || j.clientGone || j.restarted:
	case w.skipped(j, e) || w.spawnRefused(j, e):
	case w.hosts[j.host].noRoom && j.request.Detach:
	case j.hostCloses():
	default:
		w.Fail("wrong-refusal", "job %d (index %d, %d slots) refused: %s", j.id, j.index, j.Slots, e.Err.Text)
	}
	if e.Code == 0 {
		w.Fail("wrong-code", "job %d refused with code 0", j.id)
	}
}

// fits returns the slots of hosts that the submitter may know of; while faults
// are about that is a matter of opinion, so nothing fits for certain.
func (w *World) fits(j *job) int {
	total := 0
	for _, h := range w.hosts {
		if h.trouble > j.submittedAt-leaseBound {
			return 0
		}
		total += len(h.cores)
	}
	return total
}

// checkEnd holds the end that a client was told against what really happened.
func (w *World) checkEnd(j *job, e *launcher.Ended) {
	if want, ok := codeOf(e); ok && e.Code != want && !j.request.Policy.HighestRC {
		w.Fail("wrong-code", "job %d ended with %d for %s", j.id, e.Code, show(e.Cause))
	}
	a := j.last()
	if !w.causeIsTrue(j, a, e) {
		text := "never started"
		if a != nil {
			text = w.describe(a)
		}
		w.Fail("wrong-cause", "job %d (index %d) ended as %s, code %d, cause %s; in truth %s", j.id, j.index, e.State, e.Code, show(e.Cause), text)
	}
}

func (w *World) describe(a *attempt) string {
	if b := a.firstBad(); b != nil {
		return "rank " + itoa(int(b.Rank)) + " ended first, at " + b.at.String() + ": " + show(b.RankEnd)
	}
	if !a.allRan() {
		return "not every rank ran"
	}
	return itoa(len(a.ends)) + " of " + itoa(int(a.launch.Size)) + " ranks ended, none badly"
}

// causeIsTrue reports whether the cause of an end is one that happened.
func (w *World) causeIsTrue(j *job, a *attempt, e *launcher.Ended) bool {
	switch e.Cause.Kind {
	case launcher.CauseNone:
		return a != nil && a.allRan() && len(a.ends) == int(a.launch.Size) && (a.firstBad() == nil || j.tolerant()) &&
			e.State == filch.OK && e.Code == 0
	case launcher.CauseCancel:
		return (j.cancelled || j.hostCloses()) && e.State == filch.Cancelled
	case launcher.CauseClientGone, launcher.CauseInterrupt:
		return j.clientGone
	case launcher.CauseTimeLimit:
		return a != nil && j.request.Policy.TimeLimit > 0 && w.Now()-a.firstAt+w.slack() >= j.request.Policy.TimeLimit
	case launcher.CauseNodeLost:
		if a == nil {
			at := w.byName[e.Cause.Node]
			return w.hosts[j.host].trouble > j.submittedAt-leaseBound || at != nil && at.trouble > j.submittedAt-leaseBound
		}
		return w.touched(j, a)
	case launcher.CauseWaitFirst:
		return a != nil && len(a.ends) > 0 && j.request.Policy.WaitFirst > 0 && w.Now()-a.ends[0].at+w.slack() >= j.request.Policy.WaitFirst
	case launcher.CauseOurs:
		if a == nil && j.restarted && (j.request.Patient > 0 || len(j.awaited) > 0) {
			return true // refused, as the client heard when it was back
		}
		return j.vanished || j.hostCloses() || a != nil && (a.unready || w.touched(j, a))
	}
	if a == nil {
		return false
	}
	if j.hostCloses() && e.Cause.Kind == launcher.CauseSignal {
		return true // stopped with the job that it is a step of
	}
	if a.unready && e.Cause.Kind == j.plan.unreadyCause {
		return true
	}
	truth := a.endOf(e.Cause.Rank)
	if truth == nil || truth.Told || truth.Kind != e.Cause.Kind {
		return false
	}
	first := a.firstBad()
	return truth.at-first.at <= w.slack() || w.touched(j, a)
}

// closing reports whether a job is over, or some of its ranks are: its steps
// may be refused and are stopped.
func (j *job) closing() bool {
	a := j.last()
	return a != nil && a.w.touched(j, a) || j.over() || j.ending || j.orphaned || j.restarted || a != nil && len(a.ends) > 0
}

// tolerant: bad ends do not decide this job's end.
func (j *job) tolerant() bool { return false }

// codeOf returns the exit code that a cause stands for; ok is false where the
// cause alone does not say.
func codeOf(e *launcher.Ended) (code int32, ok bool) {
	switch e.Cause.Kind {
	case launcher.CauseNone:
		return 0, true
	case launcher.CauseOOM:
		return 137, true
	case launcher.CauseNoFinalize, launcher.CauseProtocol:
		return 1, true
	case launcher.CauseNotExec:
		return filch.ExitNotExec, true
	case launcher.CauseNotFound:
		return filch.ExitNotFound, true
	case launcher.CauseNodeLost:
		return filch.ExitNodeLost, true
	case launcher.CauseTimeLimit:
		return filch.ExitTimeLimit, true
	case launcher.CauseCancel, launcher.CauseClientGone:
		return filch.ExitCancelled, true
	case launcher.CauseOurs:
		return filch.ExitOurs, true
	}
	for _, r := range e.Ranks {
		if r.Rank != e.Cause.Rank {
			continue
		}
		if e.Cause.Kind == launcher.CauseSignal {
			return filch.ExitSignalBase + r.Code, true
		}
		return r.Code, true
	}
	return 0, false
}
