package tasks

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
)

// Gangs passes tasks that are gangs to the origin of this node, and their ends back. The
// caller of the node makes the request of a gang, as it makes the start of a task.
type Gangs struct {
	tasks   *Tasks
	records *records.Records
	waiting []gangStart // for ids
	fit     map[record.Need]bool
}

// fitMax bounds the needs for which a node remembers whether they fit.
const fitMax = 1024

// fits reports whether the nodes of today suffice for a gang. The core asks often, and the
// answer changes only with the list of members.
func (g *Gangs) fits(n record.Need) bool {
	is, known := g.fit[n]
	if !known {
		if len(g.fit) >= fitMax {
			clear(g.fit)
		}
		is = g.tasks.LacksNodes(n) == nil
		g.fit[n] = is
	}
	return is
}

// turnText says why none of the ready gangs of a job gathers slots here; "" if that is unknown
// or they are no gangs.
func (g *Gangs) turnText(n record.Need) string {
	if n.Gang.Ranks == 0 {
		return ""
	}
	if err := g.tasks.LacksNodes(n); err != nil {
		return local.LacksText(err)
	}
	var jobs []filch.JobID
	gathers := 0
	for _, r := range g.tasks.runs { // in any order: a sum, and a sorted list
		if r.gang != nil && g.fits(r.gang.need) && (!r.gang.placed || g.tasks.gangs.Gathers(r.gang.run)) {
			gathers++
			jobs = append(jobs, r.job)
		}
	}
	if gathers < policy.GathersMax {
		return ""
	}
	slices.Sort(jobs)
	return fmt.Sprintf("on %s at most %d gangs gather slots at a time, and gangs of %s do", g.tasks.Cfg.Name, policy.GathersMax, launcher.ListJobs(slices.Compact(jobs)))
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
	goes    bool // its start is committed, or need not be
	ending  bool // the run has ended, and ranks may run on lost nodes
	need    record.Need
	began   bool // its ranks may have begun, as people were told
}

// gangRuns is the interface of tasks to the runs of gangs, by the id of the run.
type gangRuns interface {
	// Begin begins the run of the task with a serial. An error says that the gang can never
	// start.
	Begin(t *local.Turn, serial uint64, id filch.JobID, r launcher.Request, unixNS int64) *filch.Error
	Stop(t *local.Turn, id filch.JobID)
	// Go has the ranks of a run begin that waits with its slots.
	Go(t *local.Turn, id filch.JobID)
	// Gathers reports whether the run gathers slots: also again, after a launch given up.
	Gathers(id filch.JobID) bool
	// Lacks says what the run waits for; "" if that is unknown.
	Lacks(id filch.JobID) string
	// Nodes are the nodes of the ranks, the node of rank 0 first; none before the launch.
	Nodes(id filch.JobID) []filch.NodeName
}

// gangRemains wait for ranks that must end before a gang starts again, or counts as lost.
type gangRemains interface {
	AwaitOwner(t *local.Turn, owner filch.NodeName, incarnation uint64, over func(t *local.Turn))
	AwaitRun(t *local.Turn, id filch.JobID, last filch.Attempt, nodes []filch.NodeName, over func(t *local.Turn))
	// OwnerText and RunText name the nodes in question; "" if there is no such wait.
	OwnerText(owner filch.NodeName, incarnation uint64) string
	RunText(id filch.JobID) string
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

// OnLaunched tells the core that a gang has its slots, and reports whether its ranks may begin:
// else they may when [gangRuns.Go] says so.
func (g *Gangs) OnLaunched(t *local.Turn, serial uint64) (goes bool) {
	r := g.tasks.runs[serial]
	if r == nil {
		return true
	}
	r.gang.placed, r.gang.goes = true, true
	if r.life == g.tasks.life && !mutantGangUntold {
		r.gang.goes = g.tasks.ready(t).Gangs.Launched(t.Now, r.run, &g.tasks.out)
	}
	if r.gang.goes {
		g.begins(t, r)
	}
	return r.gang.goes
}

// begins tells people that the ranks of a gang begin. After a launch given up they begin again.
func (g *Gangs) begins(t *local.Turn, r *Running) {
	if !r.gang.began {
		r.gang.began = true
		reportStart(t, r, false)
	}
}

// start has the ranks of a gang begin whose start is committed.
func (g *Gangs) start(t *local.Turn, run uint64) {
	if r := g.tasks.runs[g.tasks.serials[run]]; r != nil && r.gang != nil {
		r.gang.goes = true
		g.begins(t, r)
		g.tasks.gangs.Go(t, r.gang.run)
	}
}

// OnEnd passes the end of a gang to the caller, who has the output of the gang, and
// passes the end on by [Tasks.TaskEnds]. While ranks may run on lost nodes the gang has not
// ended: neither the next attempt nor a job that waits for the task may begin beside them.
func (g *Gangs) OnEnd(t *local.Turn, serial uint64, last filch.Ident, nodes, lost, silent []filch.NodeName, e launcher.EndRecord) {
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
	end.Run, end.Nodes, end.Silent = last.Job, nodes, silent
	if r := g.tasks.runs[serial]; len(lost) > 0 && r != nil {
		r.gang.ending = true
		g.tasks.remains.AwaitRun(t, last.Job, last.Attempt, lost, func(t *local.Turn) { g.end(t, serial, end) })
		return
	}
	if g.end(t, serial, end); mutantGangEndsTwo {
		g.end(t, serial, end)
	}
}

// await has the core hear when no rank of the gangs of a dead owner is left.
func (g *Gangs) await(t *local.Turn, owner record.Owner) {
	life := g.tasks.life
	g.tasks.remains.AwaitOwner(t, owner.Node, owner.Incarnation, func(t *local.Turn) {
		if g.tasks.life == life {
			g.tasks.ready(t).Gangs.RanksGone(t.Now, owner, &g.tasks.out)
		}
	})
}

func (g *Gangs) end(t *local.Turn, serial uint64, e launcher.TaskEnd) {
	e.Serial = serial
	t.Out.GangEnds = append(t.Out.GangEnds, e)
}

// remaining adds to the tasks of a job here those that wait for ranks of an earlier attempt.
func (g *Gangs) remaining(id filch.JobID, h launcher.TasksHere) launcher.TasksHere {
	astray, resting, owners := g.tasks.core.Look().Remaining(id)
	h.Running += astray
	h.Astray, h.Remaining, h.Resting = astray, resting, h.Resting-resting
	for _, o := range owners {
		if h.Ranks == "" {
			h.Ranks = g.tasks.remains.OwnerText(o.Node, o.Incarnation)
		}
	}
	for _, serial := range slices.Sorted(maps.Keys(g.tasks.runs)) {
		if r := g.tasks.runs[serial]; r.job == id && r.gang != nil && r.gang.ending {
			if h.Astray++; h.Ranks == "" {
				h.Ranks = g.tasks.remains.RunText(r.gang.run)
			}
		}
	}
	return h
}

// isRunning reports whether a task has its slots: a gang gathers them first, and again after a
// launch given up. A successor waits for the end of another task.
func (g *Gangs) isRunning(r *Running) bool {
	return r.gang == nil && r.prev == 0 || r.gang != nil && r.gang.goes && !g.tasks.gangs.Gathers(r.gang.run)
}

// nodes are the nodes of the ranks of a task that is a gang; none for a task of one process.
func (g *Gangs) nodes(r *Running) []filch.NodeName {
	if r.gang == nil {
		return nil
	}
	return g.tasks.gangs.Nodes(r.gang.run)
}

// of is the gang's part of a task to be started; nil for a task of one process.
func (g *Gangs) of(s *mtc.Start) *gang {
	if s.Gang().Ranks == 0 {
		return nil
	}
	made := &gang{need: s.Spec.Need(int(s.Need))}
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
		if _, known := w.core.Look().Started(r.run); r.gang.run == 0 || r.life != w.life || !known {
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
