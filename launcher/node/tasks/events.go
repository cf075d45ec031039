package tasks

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/report"
	"github.com/filch-hpc/filch/mtc/submit"
)

// reportStart reports the start of a task, in slots that a gang holds if the task borrows. A
// gang has to get its slots first: see [Gangs.begins].
func reportStart(t *local.Turn, r *Running, borrows bool) {
	if r.gang != nil && !r.gang.began {
		return
	}
	kind := events.TaskStarted
	if borrows {
		kind = events.TaskBackfilled
	}
	t.Event(events.Event{Kind: kind, Job: r.job, Task: r.Index, Tasks: 1, Try: r.try})
}

// reportEnd reports the end of an attempt of a task. A gang that was stopped before its ranks
// began has had no attempt.
func reportEnd(t *local.Turn, r *Running, e *mtc.End) {
	if r.gang != nil && !r.gang.began && e.State == filch.Killed || r.prev != 0 && e.Unstarted {
		return
	}
	if r.prev != 0 { // the end of the task before is told later
		reportStart(t, r, false)
	}
	if e.Recalled {
		t.Event(events.Event{Kind: events.TaskRecalled, Job: r.job, Task: r.Index, Tasks: 1, Try: r.try})
	}
	state := e.State
	if e.Gone {
		state = filch.Lost
	}
	t.Event(events.Event{Kind: events.TaskEnded, Job: r.job, Task: r.Index, Tasks: 1, Try: r.try, State: state, Code: e.Code})
}

// reportHappened reports the search of the core for work, and the ends of the jobs that
// this node leads.
func reportHappened(t *local.Turn, o *mtc.Out) {
	for i := range o.Events {
		h := &o.Events[i]
		e := events.Event{Job: h.Job, Peer: h.Peer, Count: int64(h.Count)}
		switch h.Kind {
		case report.Tried:
			e.Kind = events.StealTried
		case report.Won:
			e.Kind = events.StealWon
		case report.Given:
			e.Kind = events.StealGiven
		case report.Moved:
			e.Kind, e.Count, e.Task, e.Tasks = events.TaskMoved, 0, h.Task, h.Count
		}
		t.Event(e)
	}
	for i := range o.Over {
		t.Past(records.TaskJobInfo(o.Over[i].Job, o.Over[i].Record, 0), false)
	}
}

// kindOf returns the kind of a job of tasks.
func kindOf(s *submit.Job) string {
	if len(s.Nodes) > 0 {
		return "workflow"
	}
	return "bag"
}
