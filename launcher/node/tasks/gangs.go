package tasks

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
)

// Gangs passes tasks that are gangs to the origin of this node, and their ends back. The
// caller of the node makes the request of a gang, as it makes the start of a task.
type Gangs struct {
	tasks   *Tasks
	records *records.Records
	waiting []gangStart // for ids
}

// gangStart is a gang whose request is made.
type gangStart struct {
	serial  uint64
	request launcher.Request
}

// gang is the part of a running task that a gang has: the id of its run, 0 before the
// request came, and whether the task was stopped before.
type gang struct {
	run     filch.JobID
	ticket  filch.Ticket // of the task's job
	stopped bool
	placed  bool // has its slots
	astray  bool // the run has ended, and ranks may run on lost nodes
}

// Start begins the gang of a [launcher.TaskLaunch] whose job has a [record.Gang].
func (g *Gangs) Start(now time.Duration, serial uint64, r launcher.Request, out *launcher.Outbox) {
	t := g.tasks.Turn(now, out)
	g.begin(t, gangStart{serial, r})
	t.End()
}

func (g *Gangs) begin(t *local.Turn, s gangStart) {
	r := g.tasks.runs[s.serial]
	if r == nil || r.gang == nil {
		return
	}
	if r.gang.stopped {
		g.end(t, s.serial, launcher.TaskEnd{Kind: launcher.CauseCancel, Code: filch.ExitCancelled, Told: true, Text: "not started: the task was stopped"})
		return
	}
	id, ok := g.records.GangID(t)
	if !ok {
		g.waiting = append(g.waiting, s)
		return
	}
	s.request.Class, s.request.Of = r.gang.ticket.Class, launcher.TaskID{Job: r.job, Index: launcher.TaskIndex(r.Index)}
	r.gang.run = id
	if err := g.tasks.gangs.Begin(t, s.serial, id, s.request, r.gang.ticket.UnixNS); err != nil {
		r.gang.run = 0
		g.end(t, s.serial, launcher.TaskEnd{Kind: launcher.CauseOurs, Code: filch.ExitOurs, Final: true, Text: err.Text})
	} else if g.tasks.runs[s.serial] == r && r.life == g.tasks.life && !r.gang.placed {
		g.tasks.ready(t).Gangs.Gathering(t.Now, r.run, &g.tasks.out)
	}
}

// OnIDs starts the gangs that waited for ids.
func (g *Gangs) OnIDs(t *local.Turn) {
	waiting := g.waiting
	g.waiting = nil
	for _, s := range waiting {
		g.begin(t, s)
	}
}

// stop ends a gang.
func (g *Gangs) stop(t *local.Turn, serial uint64, r *Running) {
	if r.gang.run != 0 {
		if !mutantGangGoesOn {
			g.tasks.gangs.Stop(t, r.gang.run)
		}
		return
	}
	r.gang.stopped = true
	if i := slices.IndexFunc(g.waiting, func(s gangStart) bool { return s.serial == serial }); i >= 0 {
		s := g.waiting[i]
		g.waiting = slices.Delete(g.waiting, i, i+1)
		g.begin(t, s)
		return
	}
	// The caller may hold the launch back.
	t.Out.TaskStops = append(t.Out.TaskStops, launcher.TaskStop{Serial: serial, Signal: launcher.SigTerm, Grace: launcher.TaskGrace})
}

// OnLaunched tells the core that a gang has its slots.
func (g *Gangs) OnLaunched(t *local.Turn, serial uint64) {
	r := g.tasks.runs[serial]
	if r == nil {
		return
	}
	if r.gang.placed = true; r.life == g.tasks.life && !mutantGangUntold {
		g.tasks.ready(t).Gangs.Launched(t.Now, r.run, &g.tasks.out)
	}
}

// OnEnd passes the end of a gang to the caller, who has the output of the gang, and
// passes the end on by [Tasks.TaskEnds].
func (g *Gangs) OnEnd(t *local.Turn, serial uint64, id filch.JobID, nodes []filch.NodeName, e launcher.EndRecord, astray bool) {
	if r := g.tasks.runs[serial]; r != nil {
		r.gang.astray = astray
	}
	end := launcher.TaskEnd{Kind: e.Cause.Kind, Code: e.Code, Usage: e.Usage, Text: e.Cause.Text}
	switch e.Cause.Kind {
	case launcher.CauseSignal, launcher.CauseOOM:
		end.Code -= filch.ExitSignalBase
	case launcher.CauseCancel, launcher.CauseClientGone:
		end.Told = true
	}
	if e.State == filch.OK {
		end.Kind = launcher.CauseNone
	}
	end.Run, end.Nodes = id, nodes
	if g.end(t, serial, end); mutantGangEndsTwo {
		g.end(t, serial, end)
	}
}

func (g *Gangs) end(t *local.Turn, serial uint64, e launcher.TaskEnd) {
	e.Serial = serial
	t.Out.GangEnds = append(t.Out.GangEnds, e)
}

// runs reports whether a task has its slots: a gang gathers them first.
func (r *Running) runs() bool { return r.gang == nil || r.gang.placed }

// of is the gang's part of a task to be started; nil for a task of one process.
func (g *Gangs) of(s *mtc.Start) *gang {
	if s.Gang().Ranks == 0 {
		return nil
	}
	made := &gang{}
	if j, ok := g.tasks.core.Job(s.Job); ok && j.Record != nil {
		made.ticket = j.Record.Ticket
	}
	return made
}

// Check panics if an invariant of the core or of the gangs is broken.
func (g *Gangs) Check() {
	w := g.tasks
	w.core.Check()
	for serial, r := range w.runs { // in any order: nothing comes out
		if r.gang == nil {
			continue
		}
		if len(r.Loan.Slots()) > 0 || r.Loan.Room() != (filch.Room{}) {
			panic(fmt.Sprintf("launcher: the gang %d of task %d.%d has a loan of a task", serial, r.job, r.Index))
		}
		if now, ok := w.serials[r.run]; r.life == w.life && (!ok || now != serial) {
			panic(fmt.Sprintf("launcher: the gang %d is run %d of the core, which is the serial %d", serial, r.run, now))
		}
		if r.gang.run == 0 || r.life != w.life {
			continue
		}
		if has, gathers := w.core.Look().HasSlots(r.run); has != r.gang.placed || gathers == r.gang.placed {
			panic(fmt.Sprintf("launcher: the run of gang %d has slots: %t; in the core: %t, and gathers: %t", serial, r.gang.placed, has, gathers))
		}
	}
	for _, s := range g.waiting {
		if r := w.runs[s.serial]; r == nil || r.gang == nil || r.gang.run != 0 {
			panic(fmt.Sprintf("launcher: the gang %d waits for an id, and is over or has one", s.serial))
		}
	}
}
