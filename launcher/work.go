package launcher

import (
	"container/heap"
	"encoding/binary"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/slots"
	"github.com/filch-hpc/filch/stealer"
)

// work is the node's part in many-task computing: the core that decides, what
// of it runs here, and the clients that follow jobs.
type work struct {
	core   *mtc.Core
	out    mtc.Out
	room   mtc.Room // as the core was told last
	drains bool     // likewise
	serial uint64   // never used twice on this node, whatever becomes of the core, or of the launcher
	taskRuns
	watches map[uint64]uint64
	follow  map[filch.JobID][]ClientID
	unsaid  map[filch.JobID]unsaid
	partial map[filch.JobID]partial
	early   []early
	earlyAt time.Duration
	ruling  ruling
	mirror  mirror
	resumes resumes
}

// partial is a job of which more of the submission is to come.
type partial struct {
	client ClientID
	gone   bool
}

// taskRuns are the tasks that the core started here.
type taskRuns struct {
	runs    map[uint64]*taskRun // by serial
	serials map[uint64]uint64   // of those of this life, as the core calls them
	life    int                 // of the core: a node that is declared dead begins anew
	over    bool                // nothing is started any more in this life
	late    []mtc.Start         // that found no room: a gang took it while they were committed
	naps    naps                // built-in tasks that sleep
	burst   int                 // tasks that do nothing, since the last tick
}

// noopBurst bounds them, so that a bag of millions keeps no other input waiting:
// a few milliseconds.
const noopBurst = 4096

// taskRun is a task that runs here.
type taskRun struct {
	run   uint64 // as the core calls it
	life  int
	loan  slots.TaskLoan
	job   filch.JobID
	index int32
	host  *job // nil: it has no steps
}

// early is a submission that waits for a block of ids.
type early struct {
	client ClientID
	sub    TaskSubmission
	unixNS int64
	until  time.Duration
}

// What a body begins with; see [TaskSubmission].
const (
	BodyOrder byte = iota // an encoded TaskOrder follows, which the daemon reads
	BodyNoop              // built in: nothing
	BodySleep             // built in: eight bytes of nanoseconds follow
)

// EarlyWait is how long a submission waits for the first ids of its instance,
// and for the new life of a node that was declared dead.
const EarlyWait = 30 * time.Second

// EarlyMax is how many may wait so; each holds what its client sent.
const EarlyMax = 256

func newWork(cfg *Config) *work {
	w := &work{
		taskRuns: taskRuns{runs: make(map[uint64]*taskRun)}, serial: cfg.Incarnation, watches: make(map[uint64]uint64),
		follow: make(map[filch.JobID][]ClientID), unsaid: make(map[filch.JobID]unsaid), earlyAt: filch.Never,
		partial: make(map[filch.JobID]partial),
	}
	w.mirror.init(cfg.Tasks.Mirror)
	w.begin(cfg)
	return w
}

// TaskConfig is how tasks are balanced.
type TaskConfig struct {
	WallNS  int64 // unix time at now = 0
	Policy  mtc.Policy
	Victims mtc.Victims
	Mirror  bool // what is homed here is put out as lines; see [Outbox.Mirror]
}

// TaskSubmission is a bag of tasks or a workflow, as a client submits it. Lines
// and Nodes of large ones follow by GrowTasks.
type TaskSubmission struct {
	Name   string
	Class  int32
	Spec   mtc.Spec // Body begins with one of the Body bytes
	Total  int32
	Open   bool
	After  []filch.JobID
	Lines  [][]byte
	Nodes  []mtc.GraphNode
	Follow bool // the client hears of the job until it is gone

	// Partial says that the client adds the rest and then closes the job; when
	// it goes before that, the job is cancelled. Only of one that is Open.
	Partial bool
}

// SubmitTasks takes in a bag or workflow of a local client, which hears
// TaskNews of it: accepted when every record is committed, or refused.
func (n *Node) SubmitTasks(now time.Duration, client ClientID, s TaskSubmission, unixNS int64, out *Outbox) {
	never := n.neverFits(&stealer.Need{Ranks: 1, Each: slots.Room(s.Spec.Each), MinNodes: 1})
	switch {
	case never != nil:
		n.refuseTasks(client, 0, never, out)
	case n.noRoom() != nil:
		n.refuseTasks(client, 0, n.noRoom(), out)
	case !n.takesTasks() && len(n.work.early) >= EarlyMax:
		n.refuseTasks(client, 0, filch.Errorf(filch.Busy, "%d submissions wait already until %s can get job ids", EarlyMax, n.cfg.Name), out)
	case !n.takesTasks():
		n.work.early = append(n.work.early, early{client, s, unixNS, now + EarlyWait})
		n.work.earlyAt = now
	default:
		n.submitTasks(now, client, s, unixNS, out)
	}
	n.settle(now, out)
}

// takesTasks reports whether a submission can begin now.
func (n *Node) takesTasks() bool { return n.meta.block.have() && !n.work.over }

func (n *Node) submitTasks(now time.Duration, client ClientID, s TaskSubmission, unixNS int64, out *Outbox) {
	id := n.meta.block.id()
	core := n.tasks(now)
	n.follows(id, client)
	err := core.Submit(now, mtc.Submission{
		Job: id, Name: s.Name, Ticket: filch.Ticket{Class: s.Class, UnixNS: unixNS, Job: id}, Spec: s.Spec,
		Total: s.Total, Open: s.Open, Partial: s.Partial, After: s.After, Lines: s.Lines, Nodes: s.Nodes,
	}, &n.work.out)
	if err != nil {
		n.refuseTasks(client, id, filch.Errorf(filch.Invalid, "cannot submit: %s", err.Error()), out)
		return
	}
	n.work.unsaid[id] = unsaid{accept: true, follow: s.Follow}
	if s.Partial && s.Open {
		n.work.partial[id] = partial{client: client}
	}
}

func (n *Node) refuseTasks(client ClientID, id filch.JobID, err *filch.Error, out *Outbox) {
	out.Replies = append(out.Replies, Reply{client, TaskNews{Job: id, What: TasksRefused, Err: err}})
}

// refuseAdded tells a client that an addition of its was refused: it names the
// token, since the job itself may go on, or have ended.
func (n *Node) refuseAdded(client ClientID, id filch.JobID, token int32, err *filch.Error, out *Outbox) {
	out.Replies = append(out.Replies, Reply{client, TaskNews{Job: id, What: TasksRefused, Token: token, Err: err}})
}

// GrowTasks adds tasks to an open job of this node: count of them, or one for
// each line. The same token again adds nothing.
func (n *Node) GrowTasks(now time.Duration, client ClientID, id filch.JobID, token, count int32, lines [][]byte, out *Outbox) {
	if len(lines) > 0 {
		count = int32(len(lines))
	}
	if full := n.noRoom(); full != nil {
		n.refuseAdded(client, id, token, full, out)
		return
	}
	n.follows(id, client)
	if err := n.tasks(now).Add(now, id, token, count, lines, &n.work.out); err != nil {
		n.refuseAdded(client, id, token, filch.Errorf(filch.Invalid, "cannot add to job %d: %s", id, err.Error()), out)
	} else {
		n.work.adds(id, adding{token, client})
	}
	n.settle(now, out)
}

// CloseTasks says that nothing is added to a job any more.
func (n *Node) CloseTasks(now time.Duration, id filch.JobID, out *Outbox) {
	delete(n.work.partial, id)
	n.tasks(now).Close(now, id, &n.work.out)
	n.settle(now, out)
}

// CancelTasks cancels what is left of a job, from whichever node.
func (n *Node) CancelTasks(now time.Duration, id filch.JobID, out *Outbox) {
	n.tasks(now).Cancel(now, id, &n.work.out)
	n.settle(now, out)
}

// FollowTasks has a client hear of a job, from whichever node.
func (n *Node) FollowTasks(now time.Duration, client ClientID, id filch.JobID, out *Outbox) {
	n.follows(id, client)
	n.tasks(now).Follow(now, id, &n.work.out)
	n.settle(now, out)
}

func (n *Node) follows(id filch.JobID, client ClientID) {
	if w := n.work; !slices.Contains(w.follow[id], client) {
		w.follow[id] = append(w.follow[id], client)
	}
}

// tasks is the core, told first how much room tasks may use, and whether any.
func (n *Node) tasks(now time.Duration) *mtc.Core {
	w := n.work
	room := mtc.Room(n.ledger.TaskRoom())
	if w.over {
		room = mtc.Room{}
	}
	if room != w.room {
		w.room = room
		w.core.SetRoom(now, room, &w.out)
	}
	if drains := n.drain != nil && !w.over; drains != w.drains {
		w.drains = drains
		w.core.Drain(now, drains, &w.out)
	}
	return w.core
}

// TaskEnds takes in how tasks ended, from this node's runners.
func (n *Node) TaskEnds(now time.Duration, ends []TaskEnd, out *Outbox) {
	for i := range ends {
		e := &ends[i]
		end := mtc.End{State: filch.OK, Code: e.Code, Bytes: e.Bytes, Cut: e.Cut, Final: e.Final}
		switch e.Kind {
		case CauseNone:
		case CauseSignal, CauseOOM:
			end.State, end.Code = filch.Killed, filch.ExitSignalBase+e.Code
		case CauseTimeLimit, CauseCancel:
			end.State = filch.Killed
		case CauseNodeLost:
			end.State, end.Gone = filch.Killed, true
		default:
			end.State = filch.Failed
		}
		if e.Text != "" && e.Kind != CauseExit {
			out.Notes = append(out.Notes, Note{Level: noteDebug, Text: "task: " + e.Text, Node: n.cfg.Name})
		}
		if e.Left {
			note(out, noteError, 0, n.cfg.Name, "a task cannot be killed; its slots stay out of service")
		}
		if !n.endTaskSteps(e.Serial, end, e.Left, out) {
			n.taskEnded(now, e.Serial, end, e.Left)
		}
	}
	n.settle(now, out)
}

func (n *Node) taskEnded(now time.Duration, serial uint64, e mtc.End, left bool) {
	w := n.work
	r, ok := w.runs[serial]
	if !ok {
		return
	}
	delete(w.runs, serial)
	n.ledger.EndTask(now, r.loan, left)
	if r.life == w.life {
		delete(w.serials, r.run)
		e.Run = r.run
		n.tasks(now).Ended(now, e, &w.out)
	}
}

// pumpWork acts on what the core put out, and reports whether that led to more.
func (n *Node) pumpWork(now time.Duration, out *Outbox) bool {
	w := n.work
	n.startEarly(now, out)
	n.tasks(now)
	n.mindPolicy(now)
	n.startLate(now, out)
	o := w.out
	w.out = mtc.Out{}
	if w.over { // the others have what this core would start
		o.Starts = nil
	}
	if o.Sweep {
		n.sweepTasks(now)
	}
	for i := range o.Notes {
		note(out, o.Notes[i].Level, o.Notes[i].Job, n.cfg.Name, "%s", o.Notes[i].Text)
	}
	n.proposeAll(now, o.Proposals)
	for i := range o.Starts {
		n.startTask(now, &o.Starts[i], out)
	}
	for _, s := range o.Stops {
		n.stopTask(now, s.Run, out)
	}
	for i := range o.Sends {
		n.send(o.Sends[i].To, &TaskWord{Body: mtc.EncodeMessage(o.Sends[i].Message)}, out)
	}
	for i := range o.Tells {
		n.tellTasks(now, &o.Tells[i], out)
	}
	room, short := w.core.Short(now)
	if len(w.late) > 0 {
		room, short = w.late[0].Spec.Each, true
	}
	n.ledger.TasksWait(now, short, slots.Room(room))
	return len(o.Proposals)+len(o.Starts)+len(o.Sends) > 0 || o.Sweep || !w.idle() || len(n.loop) > 0
}

// idle reports whether the core has put nothing out.
func (w *work) idle() bool {
	o := &w.out
	return len(o.Notes)+len(o.Proposals)+len(o.Starts)+len(o.Stops)+len(o.Sends)+len(o.Tells) == 0 && !o.Sweep
}

// TaskGrace is how long a cancelled task has between TERM and KILL.
const TaskGrace = 10 * time.Second

// stopTask ends a task that the core calls run.
func (n *Node) stopTask(now time.Duration, run uint64, out *Outbox) {
	w := n.work
	stopped := mtc.End{State: filch.Killed, Code: filch.ExitCancelled}
	serial, ok := w.serials[run]
	if !ok {
		if i := slices.IndexFunc(w.late, func(s mtc.Start) bool { return s.Run == run }); i >= 0 {
			w.late = slices.Delete(w.late, i, i+1)
			stopped.Run = run
			n.tasks(now).Ended(now, stopped, &w.out)
		}
		return
	}
	if i := slices.IndexFunc(w.naps, func(p nap) bool { return p.run == serial }); i >= 0 {
		heap.Remove(&w.naps, i)
		n.taskEnded(now, serial, stopped, false)
		return
	}
	out.TaskStops = append(out.TaskStops, TaskStop{Serial: serial, Signal: sigTerm, Grace: TaskGrace})
}

// startTask gives a task its room and hands it on; what is built in ends here.
func (n *Node) startTask(now time.Duration, s *mtc.Start, out *Outbox) {
	w := n.work
	loan, ok := n.ledger.TakeTask(now, slots.Room(s.Spec.Each))
	if !ok {
		w.late = append(w.late, *s)
		return
	}
	w.serial++
	w.runs[w.serial] = &taskRun{run: s.Run, life: w.life, loan: loan, job: s.Job, index: s.Index}
	w.serials[s.Run] = w.serial
	body := s.Spec.Body
	if len(s.Payload) > 0 && s.Payload[0] == PayloadBuiltin {
		body = s.Payload[1:]
	}
	switch {
	case len(body) > 0 && body[0] == BodyNoop && w.burst >= noopBurst:
		heap.Push(&w.naps, nap{now, w.serial})
	case len(body) > 0 && body[0] == BodyNoop:
		w.burst++
		n.taskEnded(now, w.serial, mtc.End{State: filch.OK}, false)
	case len(body) == 9 && body[0] == BodySleep:
		heap.Push(&w.naps, nap{now + time.Duration(binary.BigEndian.Uint64(body[1:])), w.serial})
	default:
		out.Tasks = append(out.Tasks, TaskLaunch{
			Serial: w.serial, Start: *s, Cores: n.ledger.TaskCores(loan), GPUs: n.ledger.TaskGPUs(loan),
		})
	}
}

func (n *Node) startLate(now time.Duration, out *Outbox) {
	w := n.work
	late := w.late
	w.late = nil
	for i := range late {
		n.startTask(now, &late[i], out)
	}
}

func (n *Node) startEarly(now time.Duration, out *Outbox) {
	w := n.work
	early := w.early
	w.early, w.earlyAt = nil, filch.Never
	for _, e := range early {
		switch {
		case n.takesTasks():
			n.submitTasks(now, e.client, e.sub, e.unixNS, out)
		case e.until <= now && w.over:
			n.refuseTasks(e.client, 0, filch.Errorf(filch.Unavailable, "%s takes no tasks: it leaves, or was declared dead", n.cfg.Name), out)
		case e.until <= now:
			n.refuseTasks(e.client, 0, filch.Errorf(filch.Unavailable, "cannot get a job id: no majority of the roster's seats answered in %v", EarlyWait).
				WithHint("filch doctor says what is wrong"), out)
		default:
			w.early = append(w.early, e)
			w.earlyAt = min(w.earlyAt, e.until)
		}
	}
}

// mergeWait is how long a merge may take before the core has to repeat it. The
// store repeats it until it is answered, and knows it again; a second proposal
// would be another operation there, and the first one could come long after its
// answer.
const mergeWait = time.Hour

// proposeAll hands the core's proposals to the store.
func (n *Node) proposeAll(now time.Duration, all []mtc.Proposal) {
	w := n.work
	for i := range all {
		p := &all[i]
		tag := p.Tag
		switch p.Op {
		case mtc.OpWatch:
			w.watches[tag] = n.watch(now, dht.Key(p.Key), dht.Version{}, func(now time.Duration, r dht.Result, _ *Outbox) {
				n.tasks(now).Answered(now, tag, TaskAnswer(&r), &w.out)
			})
		case mtc.OpUnwatch:
			if t, ok := w.watches[tag]; ok {
				delete(w.watches, tag)
				n.unwatch(now, t)
			}
		default:
			wait := StoreWait
			if p.Op == mtc.OpMerge {
				wait = mergeWait
			}
			n.ask(now, []dht.Op{TaskOp(p)}, wait, func(now time.Duration, rs []dht.Result, _ *Outbox) {
				n.tasks(now).Answered(now, tag, TaskAnswer(&rs[0]), &w.out)
			})
		}
	}
}

// sweepTasks hands the core the tasks' records whose home is this node.
func (n *Node) sweepTasks(now time.Duration) {
	var list []mtc.Stored
	for r := range n.meta.store.Homed(mtc.Prefix) {
		list = append(list, mtc.Stored{Key: string(r.Key), Value: r.Value})
	}
	n.tasks(now).Homed(now, list, &n.work.out)
}

// Name is what the message is called that it carries.
func (m *TaskWord) Name() string { return mtc.MessageName(m.Body) }

// taskWord takes in a message of another node's core.
func (n *Node) taskWord(now time.Duration, from filch.NodeName, m *TaskWord, out *Outbox) {
	word, err := mtc.DecodeMessage(m.Body)
	if err != nil {
		note(out, noteWarn, 0, from, "a message about tasks makes no sense: %v", err)
		return
	}
	n.tasks(now).Message(now, from, word, &n.work.out)
}
