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

// reportStart reports the start of a task.
func reportStart(t *local.Turn, s *mtc.Start) {
	kind := events.TaskStarted
	if s.Borrows {
		kind = events.TaskBackfilled
	}
	t.Event(events.Event{Kind: kind, Job: s.Job, Task: s.Name, Tasks: 1, Try: s.Attempt})
}

// reportEnd reports the end of an attempt of a task.
func reportEnd(t *local.Turn, r *Running, e *mtc.End) {
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
