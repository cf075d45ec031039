package tasks

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/node/local"
	"github.com/filch-hpc/filch/launcher/node/records"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/slots"
)

// Tasks is the node's part in many-task computing: the deciding core, the tasks running
// here, and the clients following jobs. Each running task has its room of the ledger.
type Tasks struct {
	*local.Self
	*mirror
	*explainer
	*shared
	Gangs   *Gangs
	Fills   *Fills
	records *records.Records
	ranks   taskSteps
	origin  taskParents
	gangs   gangRuns
	remains gangRemains

	core   *mtc.Core
	out    mtc.Out
	room   filch.Room // as last told to the core
	drains bool       // likewise
	// Never used twice on this node, not even by another core or launcher.
	serial uint64
	runs   map[uint64]*Running // the tasks started here by the core, by serial
	// serials of this life's tasks, by the core's run number
	serials map[uint64]uint64
	life    int  // of the core: a node declared dead begins a new life
	over    bool // nothing more is started in this life
	starts  starts
	watches map[uint64]uint64
	follow  map[filch.JobID][]launcher.ClientID
	pending map[filch.JobID]pendingReports
	partial map[filch.JobID]partial
	early   []early
	earlyAt time.Duration
	policy  policyState
	resumes resumes
}

// taskSteps is the interface of tasks to the ranks of their steps here.
type taskSteps interface {
	HasSteps(serial uint64) bool
	StopTaskSteps(t *local.Turn, serial uint64, why string)
}

// taskParents is the interface of tasks to the origin of their steps.
type taskParents interface {
	OnTaskEnd(t *local.Turn, serial uint64) bool
	TiedTasks(id filch.JobID) (tied, waiting int64)
	// OnReserved tells that a run has what it takes of a shared resource.
	OnReserved(t *local.Turn, id filch.JobID)
}

// partial is a job with more of its submission to come.
type partial struct {
	client launcher.ClientID
	gone   bool
}

// Running is a task running here.
type Running struct {
	run   uint64 // the core's run number
	life  int
	Loan  slots.TaskLoan
	job   filch.JobID
	Index int32
	try   filch.Attempt
	over  *taskOver  // the task has ended, and its steps are being ended
	gang  *gang      // nil: the task is one process
	next  uint64     // the successor: it takes this one's room; 0: none
	prev  uint64     // the task whose room this one takes at its end; 0: this one has room
	held  *mtc.Start // of a built-in successor, which begins with the room
}

// early is a submission waiting for a block of ids.
type early struct {
	client launcher.ClientID
	sub    submit.Job
	unixNS int64
	until  time.Duration
}

// EarlyWait is how long a submission waits for the first ids of its instance, and for the
// new life of a node declared dead.
const EarlyWait = 30 * time.Second

// earlyMax bounds the submissions waiting for ids; each holds its client's whole input.
const earlyMax = 256

// New makes the part of a node that runs tasks; [Tasks.Serve] completes the part.
func New(s *local.Self, m *records.Records) *Tasks {
	w := &Tasks{
		Self: s, records: m, runs: make(map[uint64]*Running), serial: s.Cfg.Incarnation, watches: make(map[uint64]uint64),
		follow: make(map[filch.JobID][]launcher.ClientID), pending: make(map[filch.JobID]pendingReports), earlyAt: filch.Never,
		partial: make(map[filch.JobID]partial),
	}
	w.mirror = newMirror(s, m)
	w.explainer = &explainer{Self: s, records: m}
	w.shared = &shared{tasks: w}
	w.Gangs = &Gangs{tasks: w, records: m, fit: make(map[record.Need]bool)}
	w.Fills = &Fills{tasks: w}
	w.starts.tasks = w
	w.begin()
	return w
}

// SubmitTasks handles a bag or workflow of a local client. The client receives TaskNews:
// accepted when every record is committed, or refused.
func (w *Tasks) SubmitTasks(now time.Duration, client launcher.ClientID, s submit.Job, unixNS int64, out *launcher.Outbox) {
	t := w.Turn(now, out)
	number, never := w.NeverFitsTask(&s.Spec)
	switch {
	case never != nil && !w.ListPartial && !w.Grows:
		t.Reply(client, launcher.TaskNews{What: launcher.TasksRefused, Base: 1 + number, Err: never})
	case w.records.NoRoom() != nil:
		w.refuseTasks(t, client, 0, w.records.NoRoom())
	case !w.takesTasks() && len(w.early) >= earlyMax:
		w.refuseTasks(t, client, 0, filch.Errorf(filch.Busy, "%d submissions wait already until %s can get job ids", earlyMax, w.Cfg.Name))
	case !w.takesTasks():
		w.early = append(w.early, early{client, s, unixNS, now + EarlyWait})
		w.earlyAt = now
	default:
		w.submitTasks(t, client, s, unixNS)
	}
	t.End()
}

// takesTasks reports whether a submission can begin now.
func (w *Tasks) takesTasks() bool { return w.records.HaveID() && !w.over }

func (w *Tasks) submitTasks(t *local.Turn, client launcher.ClientID, s submit.Job, unixNS int64) {
	id := w.records.NextID()
	core := w.ready(t)
	w.addFollower(id, client)
	s.Job, s.Ticket.Job, s.Ticket.UnixNS = id, id, unixNS
	if err := core.Submit(t.Now, s, &w.out); err != nil {
		w.refuseTasks(t, client, id, filch.Errorf(filch.Invalid, "cannot submit: %s", err.Error()))
		return
	}
	total := int64(s.Total)
	if total == 0 {
		total = int64(len(s.Nodes))
	}
	t.Event(events.Event{Kind: events.JobSubmitted, Job: id, Count: total, Reason: kindOf(&s)})
	w.pending[id] = pendingReports{accept: true}
	if s.Partial && s.Open {
		w.partial[id] = partial{client: client}
	}
}

func (w *Tasks) refuseTasks(t *local.Turn, client launcher.ClientID, id filch.JobID, err *filch.Error) {
	t.Reply(client, launcher.TaskNews{Job: id, What: launcher.TasksRefused, Err: err})
}

// refuseAdded tells a client the refusal of an addition. The message names the token,
// since the job itself may go on, or have ended.
func (w *Tasks) refuseAdded(t *local.Turn, client launcher.ClientID, id filch.JobID, token int32, err *filch.Error) {
	t.Reply(client, launcher.TaskNews{Job: id, What: launcher.TasksRefused, Token: token, Err: err})
}

// GrowTasks adds tasks to an open job of this node: count tasks, or a task for each line.
// The same token again adds nothing.
func (w *Tasks) GrowTasks(now time.Duration, client launcher.ClientID, id filch.JobID, token, count int32, lines [][]byte, out *launcher.Outbox) {
	t := w.Turn(now, out)
	if len(lines) > 0 {
		count = int32(len(lines))
	}
	if full := w.records.NoRoom(); full != nil {
		w.refuseAdded(t, client, id, token, full)
		return
	}
	w.addFollower(id, client)
	if err := w.ready(t).Add(now, id, token, count, lines, &w.out); err != nil {
		w.refuseAdded(t, client, id, token, filch.Errorf(filch.Invalid, "cannot add to job %d: %s", id, err.Error()))
	} else {
		w.addPending(id, adding{token, client})
	}
	t.End()
}

// CloseTasks says that nothing more is added to a job.
func (w *Tasks) CloseTasks(now time.Duration, id filch.JobID, out *launcher.Outbox) {
	t := w.Turn(now, out)
	delete(w.partial, id)
	w.ready(t).Close(now, id, &w.out)
	t.End()
}

// CancelTasks cancels the rest of a job, from any node, for a reason; "" is none.
func (w *Tasks) CancelTasks(now time.Duration, id filch.JobID, reason string, out *launcher.Outbox) {
	t := w.Turn(now, out)
	t.Event(events.Event{Kind: events.JobCancelled, Job: id, Reason: reason})
	w.ready(t).Cancel(now, id, reason, &w.out)
	t.End()
}

// OrderTasks cancels single tasks of a bag, or holds or releases a job of tasks, from any
// node.
func (w *Tasks) OrderTasks(now time.Duration, id filch.JobID, o record.Orders, out *launcher.Outbox) {
	t := w.Turn(now, out)
	w.ready(t).Order(now, id, o, &w.out)
	t.End()
}

// FollowTasks subscribes a client to news of a job, from any node.
func (w *Tasks) FollowTasks(now time.Duration, client launcher.ClientID, id filch.JobID, out *launcher.Outbox) {
	t := w.Turn(now, out)
	w.addFollower(id, client)
	w.ready(t).Follow(now, id, &w.out)
	t.End()
}

func (w *Tasks) addFollower(id filch.JobID, client launcher.ClientID) {
	if !slices.Contains(w.follow[id], client) {
		w.follow[id] = append(w.follow[id], client)
	}
}

// ready returns the core, after telling it how much room tasks may use, and whether the
// node drains.
func (w *Tasks) ready(t *local.Turn) *mtc.Core {
	room := w.Ledger.TaskRoom()
	if w.over {
		room = filch.Room{}
	}
	if room != w.room {
		w.room = room
		w.core.SetRoom(t.Now, room, &w.out)
	}
	w.Fills.tell(t)
	if drains := w.DrainOrder != nil && !w.over; drains != w.drains {
		w.drains = drains
		w.core.Drain(t.Now, drains, &w.out)
	}
	return w.core
}

// TaskEnds handles the ends of tasks from this node's runners.
func (w *Tasks) TaskEnds(now time.Duration, ends []launcher.TaskEnd, out *launcher.Outbox) {
	t := w.Turn(now, out)
	for i := range ends {
		e := &ends[i]
		end := mtc.End{State: filch.OK, Code: e.Code, Bytes: e.Bytes, Cut: e.Cut, Moved: e.Moved, Moving: e.Moving, In: e.In, Out: e.Out, Final: e.Final, Ours: e.Kind == launcher.CauseOurs && e.Began == 0, Unstarted: e.Began == 0 && (e.Kind == launcher.CauseSignal || e.Kind == launcher.CauseCancel), Nodes: record.NodeRuns(e.Nodes)}
		if e.Began > 0 {
			end.Ran = time.Duration(e.Ended - e.Began)
		}
		if u := e.Usage; u != (filch.Usage{}) {
			end.Usage = &u
		}
		switch e.Kind {
		case launcher.CauseNone:
		case launcher.CauseSignal, launcher.CauseOOM:
			end.State, end.Code = filch.Killed, filch.ExitSignalBase+e.Code
		case launcher.CauseTimeLimit, launcher.CauseCancel:
			end.State = filch.Killed
		case launcher.CauseNodeLost:
			end.State, end.Gone = filch.Killed, true
		default:
			end.State = filch.Failed
		}
		w.Fills.judge(e, &end)
		if e.Text != "" && e.Kind != launcher.CauseExit {
			out.Notes = append(out.Notes, launcher.Note{Level: local.NoteDebug, Text: "task: " + e.Text, Node: w.Cfg.Name})
		}
		if e.Left {
			t.Note(local.NoteError, 0, w.Cfg.Name, "a task cannot be killed; the slots of the task stay out of service")
		}
		if !w.endTaskSteps(t, e.Serial, end, e.Left) {
			w.taskEnded(t, e.Serial, end, e.Left)
		}
	}
	t.End()
}

func (w *Tasks) taskEnded(t *local.Turn, serial uint64, e mtc.End, left bool) {
	r, ok := w.runs[serial]
	if !ok {
		return
	}
	e.Unstarted = e.Unstarted || e.Gone && r.prev != 0
	if (left || e.Gone) && r.next != 0 { // the runner began no successor, or is gone itself
		w.taskEnded(t, r.next, mtc.End{State: filch.Killed, Code: e.Code, Gone: e.Gone, Unstarted: true}, false)
	}
	delete(w.runs, serial)
	reportEnd(t, r, &e)
	e.Slots = w.starts.slots(r)
	w.origin.OnTaskEnd(t, serial)
	n, next := w.starts.pass(t, r, left)
	if r.life == w.life {
		delete(w.serials, r.run)
		e.Run = r.run
		w.ready(t).Ended(t.Now, e, &w.out)
	}
	if next != nil && next.held != nil {
		w.starts.begin(t, n, next, next.held, next.Loan)
	}
}

// Pump acts on the core's output, and reports whether this led to more.
func (w *Tasks) Pump(t *local.Turn) bool {
	w.startEarly(t)
	recalled := w.Fills.recall(t)
	w.ready(t)
	w.scheduleRead(t)
	w.starts.again(t)
	o := w.out
	w.out = mtc.Out{}
	if w.over { // other nodes have the tasks to be started by this core
		o.Starts = nil
	}
	if o.Sweep {
		w.sweepTasks(t)
	}
	if o.Bad != "" {
		w.DrainBad(t, o.Bad)
	}
	for i := range o.Notes {
		t.Note(o.Notes[i].Level, o.Notes[i].Job, w.Cfg.Name, "%s", o.Notes[i].Text)
	}
	reportHappened(t, &o)
	w.proposeAll(t, o.Proposals)
	for i := range o.Starts {
		w.starts.start(t, &o.Starts[i])
	}
	for _, run := range o.Goes {
		w.Gangs.start(t, run)
	}
	for _, s := range o.Stops {
		w.stopTask(t, s.Run)
	}
	t.Out.TaskLosers = append(t.Out.TaskLosers, o.Losers...)
	for i := range o.Sends {
		t.Send(o.Sends[i].To, &launcher.TaskWord{Body: message.Encode(o.Sends[i].Message)})
	}
	for i := range o.Tells {
		w.tellTasks(t, &o.Tells[i])
	}
	for _, owner := range o.Remains {
		w.Gangs.await(t, owner)
	}
	for _, id := range o.Reserved {
		w.origin.OnReserved(t, id)
	}
	room, short := w.core.Short(t.Now)
	if len(w.starts.late) > 0 {
		room, short = w.starts.late[0].Room(), true
	}
	w.Ledger.TasksWait(t.Now, short, room)
	return recalled || len(o.Proposals)+len(o.Starts)+len(o.Sends) > 0 || o.Sweep || !w.idle() || w.HasMail()
}

// idle reports whether the core's output is empty.
func (w *Tasks) idle() bool {
	o := &w.out
	return len(o.Notes)+len(o.Events)+len(o.Over)+len(o.Proposals)+len(o.Starts)+len(o.Stops)+len(o.Losers)+len(o.Sends)+len(o.Tells)+len(o.Reserved)+len(o.Remains)+len(o.Goes) == 0 && !o.Sweep
}

// stopTask ends the task with the core's run number run.
func (w *Tasks) stopTask(t *local.Turn, run uint64) {
	stopped := mtc.End{State: filch.Killed, Code: filch.ExitCancelled}
	serial, ok := w.serials[run]
	if !ok {
		if i := slices.IndexFunc(w.starts.late, func(s mtc.Start) bool { return s.Run == run }); i >= 0 {
			w.starts.late = slices.Delete(w.starts.late, i, i+1)
			stopped.Run = run
			w.ready(t).Ended(t.Now, stopped, &w.out)
		}
		return
	}
	if i := slices.IndexFunc(w.starts.sleeps, func(p sleep) bool { return p.run == serial }); i >= 0 {
		w.starts.sleeps.Remove(i)
		w.taskEnded(t, serial, stopped, false)
		return
	}
	r := w.runs[serial]
	switch {
	case r != nil && r.held != nil && r.prev != 0:
		w.starts.askBack(t, serial, r)
		return
	case r == nil: // ended after the end of this life: the core was not told
		return
	case r.gang != nil:
		w.Gangs.stop(t, serial, r)
		return
	}
	t.Out.TaskStops = append(t.Out.TaskStops, launcher.TaskStop{Serial: serial, Signal: launcher.SigTerm, Grace: launcher.TaskGrace})
}

func (w *Tasks) startEarly(t *local.Turn) {
	early := w.early
	w.early, w.earlyAt = nil, filch.Never
	for _, e := range early {
		switch {
		case w.takesTasks():
			w.submitTasks(t, e.client, e.sub, e.unixNS)
		case e.until <= t.Now && w.over:
			w.refuseTasks(t, e.client, 0, filch.Errorf(filch.Unavailable, "%s takes no tasks: the node is leaving, or was declared dead", w.Cfg.Name))
		case e.until <= t.Now:
			w.refuseTasks(t, e.client, 0, filch.Errorf(filch.Unavailable, "cannot get a job id: no majority of the roster's seats answered in %s", filch.ShortTime(EarlyWait)).
				WithHint("filch doctor says what is wrong"))
		default:
			w.early = append(w.early, e)
			w.earlyAt = min(w.earlyAt, e.until)
		}
	}
}

// proposeAll passes the core's proposals to the store.
func (w *Tasks) proposeAll(t *local.Turn, all []record.Proposal) {
	for i := range all {
		p := &all[i]
		tag := p.Tag
		switch p.Op {
		case record.OpWatch:
			w.watches[tag] = w.records.Watch(t, dht.Key(p.Key), dht.Version{}, func(t *local.Turn, r dht.Result) {
				w.ready(t).Answered(t.Now, tag, records.TaskAnswer(&r), &w.out)
			})
		case record.OpUnwatch:
			if watch, ok := w.watches[tag]; ok {
				delete(w.watches, tag)
				w.records.Unwatch(t, watch)
			}
		default:
			wait := records.StoreWait
			if p.Op == record.OpMerge {
				wait = records.MergeWait
			}
			w.records.Ask(t, records.TaskOps(p), wait, func(t *local.Turn, rs []dht.Result) {
				w.ready(t).Answered(t.Now, tag, records.TaskAnswers(rs), &w.out)
			})
		}
	}
}

// OnTaskWord handles a message of another node's core.
func (w *Tasks) OnTaskWord(t *local.Turn, from filch.NodeName, m *launcher.TaskWord) {
	word, err := message.Decode(m.Body)
	if err != nil {
		t.Note(local.NoteWarn, 0, from, "a message about tasks makes no sense: %v", err)
		return
	}
	w.ready(t).Message(t.Now, from, word, &w.out)
}
