package launcher

import (
	"fmt"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/stealer"
)

// walltime is what the node knows of its end, and of how long runs take that
// its clients submit.
type walltime struct {
	drainAt time.Duration // when it lends nothing more
	runs    mtc.Habits    // by kind
}

func newWalltime(w mtc.Walltime) walltime {
	t := walltime{drainAt: filch.Never}
	if w.End > 0 && w.Drain > 0 {
		t.drainAt = max(w.End-w.Drain, 0)
	}
	return t
}

// kindOf is what runs have in common that may be expected to take equally long:
// the name or the command line, and the number of ranks; "" of a step, and of
// what has a limit of its own.
func kindOf(r *Request, ranks int32) string {
	if r.Like == "" || r.Parent != 0 || r.Policy.TimeLimit > 0 {
		return ""
	}
	return strconv.Itoa(int(ranks)) + ":" + r.Like
}

// expectedRun is how long a run may take, as far as others of its kind show; 0
// if nobody knows.
func (n *Node) expectedRun(r *Request, ranks int32) time.Duration {
	if n.cfg.Walltime.Blind || n.cfg.Walltime.End == 0 {
		return 0
	}
	return n.walltime.runs.Limit(kindOf(r, ranks))
}

// takes is how long a job may take, by its limit or by others of its kind; 0 if
// nobody knows.
func (n *Node) takes(j *job) time.Duration {
	if j.req.Policy.TimeLimit > 0 {
		return j.req.Policy.TimeLimit
	}
	return n.expectedRun(&j.req, j.need.Ranks)
}

// fitWalltime refuses a run that cannot finish before the end of the node, if it
// takes as long as others of its kind, and bounds how long it may wait.
func (n *Node) fitWalltime(now time.Duration, r *Request, d *stealer.Need) *filch.Error {
	ranks := d.Ranks
	need := n.expectedRun(r, ranks)
	if need == 0 {
		return n.unknownLate(now, r, d)
	}
	wait := n.cfg.Walltime.End - mtc.EndMargin - need - now
	if wait < 0 {
		return filch.Errorf(filch.Busy, "cannot finish: %s, and the nodes are taken away in %s", habitText(r, ranks, need),
			clockText(max(n.cfg.Walltime.End-now, 0).Round(time.Second))).
			WithHint("nothing was started; -t LIMIT says how long this one may take, filch up --learn=false looks at limits alone")
	}
	if wait = max(wait, time.Millisecond); r.Patient == 0 || wait < r.Patient {
		r.Patient = wait
	}
	return nil
}

// unknownLate refuses a run of which nobody knows how long it takes, when no node
// starts such any more; nodes of other allocations may be there for longer.
func (n *Node) unknownLate(now time.Duration, r *Request, d *stealer.Need) *filch.Error {
	if r.Parent != 0 || r.Policy.TimeLimit > 0 || n.expectedRun(r, d.Ranks) > 0 || n.cfg.Walltime.Fits(now, 0) {
		return nil
	}
	for i := range n.members.Len() {
		p := n.members.At(int32(i))
		if p.Group != n.cfg.Group && p.Standing < stealer.Dead && d.Allows(p.Name) {
			return nil
		}
	}
	what := r.Like
	if what == "" {
		what = "it"
	}
	return filch.Errorf(filch.Busy, "cannot start: nobody knows how long %s takes, and the nodes are taken away in %s", what,
		clockText(max(n.cfg.Walltime.End-now, 0).Round(time.Second))).
		WithHint("nothing was started; -t LIMIT says how long this one may take")
}

// giveUpLate ends a run that waits and that no node will start; it reports whether
// it did.
func (n *Node) giveUpLate(now time.Duration, j *job, out *Outbox) bool {
	if n.jobs[j.id] != j || j.run != nil {
		return false
	}
	err := n.unknownLate(now, &j.req, &j.need)
	if err != nil {
		n.letGo(now, j, nil, out)
		n.refuse(now, j, err, out)
	}
	return err != nil
}

// habitText says how long others took.
func habitText(r *Request, ranks int32, took time.Duration) string {
	on := "1 rank"
	if ranks != 1 {
		on = fmt.Sprintf("%d ranks", ranks)
	}
	return fmt.Sprintf("%s took up to %s on %s before", r.Like, shortly(took), on)
}

// shortly is a time to a tenth of it or better.
func shortly(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return d.Round(time.Second).String()
	case d >= time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Millisecond).String()
}

// learnRun takes in how long a run took, and has the mirror tell of it.
func (n *Node) learnRun(now time.Duration, j *job, i *JobInfo, e *EndRecord, out *Outbox) {
	kind := kindOf(&j.req, j.need.Ranks)
	if kind == "" || e.State != filch.OK || j.run == nil || !j.run.going {
		return
	}
	t := mtc.RunTook{Kind: kind, Ended: n.cfg.Tasks.WallNS + int64(now), Took: time.Duration(i.Elapsed * float64(time.Second))}
	n.walltime.runs.Add(kind, t.Took)
	if n.work.mirror.lines != nil {
		out.Mirror = mtc.MirrorRun(out.Mirror, t)
	}
}

// Learn takes in how long runs took in instances that are no more.
func (n *Node) Learn(runs []mtc.RunTook) {
	for i := range runs {
		n.walltime.runs.Add(runs[i].Kind, runs[i].Took)
	}
}

// tickWalltime lends only to what is known to finish when the end is near. Where other allocations are in the instance,
// they get what this node keeps for all.
func (n *Node) tickWalltime(now time.Duration, out *Outbox) {
	if n.walltime.drainAt > now {
		return
	}
	n.walltime.drainAt = filch.Never
	n.ledger.NearsEnd(now)
	note(out, noteInfo, 0, n.cfg.Name, "%s is taken away in %s: only what is known to finish is started", n.cfg.Name,
		shortly(max(n.cfg.Walltime.End-now, 0)))
	for _, j := range n.sortedJobs() {
		n.giveUpLate(now, j, out)
	}
	for i := range n.members.Len() {
		if p := n.members.At(int32(i)); p.Group != "" && p.Group != n.cfg.Group && p.Standing == stealer.Up {
			n.StoreLeave(now, out)
			return
		}
	}
}

// paceText says how long a task of a job is taken to take, and why; "" if nobody
// knows.
func (h *TasksHere) paceText() string {
	if h.Expected <= 0 {
		return ""
	}
	text := "a task is taken to take " + shortly(time.Duration(h.Expected*float64(time.Second)))
	switch {
	case h.Limited:
		return text + ", its limit"
	case h.Of > 0:
		return text + " at most, as most of those that ended here did"
	}
	return text + " at most, as most of its kind did before"
}

// Explain adds to what is said of a job of tasks what comes of the end of nodes.
func (h *TasksHere) Explain(text string) string {
	pace := h.paceText()
	if pace != "" && text != "" {
		pace = "; " + pace
	}
	switch text += pace; {
	case h.Late == 1:
		text += "; 1 is not started, as its node is taken away before it could end"
	case h.Late > 0:
		text += fmt.Sprintf("; %d are not started, as their nodes are taken away before they could end", h.Late)
	}
	return text
}
