package children

import (
	"errors"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/daemon/inputs"
	"github.com/filch-hpc/filch/launcher/daemon/staging"
	"github.com/filch-hpc/filch/launcher/events"
	"github.com/filch-hpc/filch/launcher/watch"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of the runners.
const (
	// maxRunners bounds the runners of a node. Where slots are processors, a node with fewer
	// slots has a runner for each slot: the runner's thread then forks every task on the CPU
	// where it stands.
	maxRunners = 16
	// slotsPerRunner is how many slots one runner serves where slots are not processors: a
	// runner forks some thousand tasks a second, one at a time.
	slotsPerRunner = 16
	// startsPerFrame bounds the starts in one frame.
	startsPerFrame = 256
	// runnerTries in a row may fail before tasks are refused.
	runnerTries = 3
)

// Runners holds this node's runners. The first task starts the runners. The loop owns
// everything except the readers of links.
type Runners struct {
	in       *inputs.Queue
	keepers  *Keepers
	files    *staging.Files
	longs    map[uint64]*awaited // launches whose text is being read, by serial
	slots    int32               // of the node
	holdBack func(e launcher.TaskEnd) bool
	all      []*runnerProcess
	byCPU    map[int32]*runnerProcess // the runner that forks on a CPU
	temps    *temps
	orders   map[filch.JobID]*order
	bySerial map[uint64]*runnerProcess // of the started tasks, by serial
	unsent   []launcher.TaskEnd        // of tasks without a runner
	wants    chan *runnerProcess
	begun    bool
	failed   int
	looked   time.Time // for idle orders
	looks    *looks
	gangs    *gangs
	ready    []readyGang
	Cuts     Cuts
}

// runnerProcess is one runner. Until a process of the runner has said hello, the
// runner's tasks wait.
type runnerProcess struct {
	conn     *wire.Conn
	early    *wire.Conn                    // of a process that has not said hello
	tasks    map[uint64]launcher.TaskStart // not ended
	ordered  map[filch.JobID]bool          // jobs whose order was sent
	queue    []launcher.TaskStart          // not sent yet
	starting bool
}

// NewRunners makes the runners of a node with so many slots. Doubt reports whether the
// end of a task is held back.
func NewRunners(in *inputs.Queue, keepers *Keepers, slots int32, doubt func(e launcher.TaskEnd) bool) *Runners {
	return &Runners{
		in: in, keepers: keepers, slots: slots, holdBack: doubt, orders: map[filch.JobID]*order{}, bySerial: map[uint64]*runnerProcess{},
		byCPU: map[int32]*runnerProcess{}, looks: newLooks(), wants: make(chan *runnerProcess, maxRunners),
	}
}

// SetFiles sets the files of workflows' tasks, and the state directory of the node, which
// has the temporary folders of tasks. The folders of earlier launchers are removed in the
// background.
func (rs *Runners) SetFiles(files *staging.Files, state string) {
	rs.files, rs.temps, rs.gangs = files, newTemps(rs.in, state), newGangs(rs.in, state)
}

// Discard moves a folder of the state directory away at once, and removes the folder in
// the background. The loop calls Discard.
func (rs *Runners) Discard(dir string) error { return rs.temps.discard(dir) }

// QueueEnd adds the end of a task that never reached a runner; the next turn hands the end
// to the Node.
func (rs *Runners) QueueEnd(e launcher.TaskEnd) { rs.unsent = append(rs.unsent, e) }

// HasWork reports whether an end or a gang waits for the next turn.
func (rs *Runners) HasWork() bool { return len(rs.unsent)+len(rs.ready) > 0 }

// Start queues a task for its runner, until the end of the turn.
func (rs *Runners) Start(s launcher.TaskStart) {
	if !rs.begun {
		rs.begun = true
		rs.in.Go(rs.spawner)
		for range min(max(rs.slots, 1), maxRunners) {
			rs.all = append(rs.all, &runnerProcess{tasks: map[uint64]launcher.TaskStart{}, ordered: map[filch.JobID]bool{}})
		}
	}
	r := rs.choose(&s)
	r.tasks[s.Serial] = s
	r.queue = append(r.queue, s)
	rs.bySerial[s.Serial] = r
	if o := rs.orders[s.Job]; o != nil {
		o.tasks++
	}
}

// choose returns the runner for a task: that of the task before it, else that of its first
// CPU, else of the runners for slots without a CPU the one with the fewest tasks. CPUs are
// shared out among the runners as they come into use.
func (rs *Runners) choose(s *launcher.TaskStart) *runnerProcess {
	if r := rs.bySerial[s.After]; r != nil {
		return r
	}
	if len(s.CPUs) == 0 {
		few := min((int(rs.slots)+slotsPerRunner-1)/slotsPerRunner, len(rs.all))
		return slices.MinFunc(rs.all[:max(few, 1)], func(a, b *runnerProcess) int { return len(a.tasks) - len(b.tasks) })
	}
	r := rs.byCPU[s.CPUs[0]]
	if r == nil {
		r = rs.all[len(rs.byCPU)%len(rs.all)]
		rs.byCPU[s.CPUs[0]] = r
	}
	return r
}

// Stop ends a task; a task still waiting for its runner never begins.
func (rs *Runners) Stop(s launcher.TaskStop) {
	r := rs.bySerial[s.Serial]
	if r == nil && s.Unrun {
		return
	}
	if r == nil {
		if a := rs.longs[s.Serial]; a != nil {
			a.stopped = true
		}
		rs.files.Cancel(s.Serial)
		return
	}
	if r.conn == nil {
		r.queue = slices.DeleteFunc(r.queue, func(q launcher.TaskStart) bool { return q.Serial == s.Serial })
		rs.drop(r, s.Serial)
		e := launcher.TaskEnd{
			Serial: s.Serial, Kind: launcher.CauseCancel, Code: filch.ExitCancelled, Told: true,
			Ended: time.Now().UnixNano(), Text: "not started: the task was stopped",
		}
		if !rs.files.OnUnstarted(e) {
			rs.QueueEnd(e)
		}
		return
	}
	rs.send(r)
	_ = r.conn.Write(wire.KindTaskStop, 0, &s)
	rs.keepers.links.Touch(r.conn)
}

// Forget drops the order of a job that will start no more tasks here.
func (rs *Runners) Forget(job filch.JobID) {
	rs.looks.forget(job)
	rs.gangs.forget(job)
	if o := rs.orders[job]; o != nil && o.extra.Stage != nil {
		rs.files.ForgetInputs(job)
	}
	delete(rs.orders, job)
	for _, r := range rs.all {
		if r.conn != nil && r.ordered[job] {
			_ = r.conn.Write(wire.KindTaskForget, 0, &launcher.TaskForget{Job: job})
			rs.keepers.links.Touch(r.conn)
		}
		delete(r.ordered, job)
	}
}

// drop forgets a task that has ended.
func (rs *Runners) drop(r *runnerProcess, serial uint64) {
	if o := rs.orders[r.tasks[serial].Job]; o != nil {
		o.tasks--
		o.since = time.Now()
		if i := slices.Index(o.places, serial); i >= 0 {
			o.places[i] = 0
			if after := r.tasks[serial].After; rs.bySerial[after] != nil { // the task never began
				o.places[i] = after
			}
		}
	}
	if tmp := r.tasks[serial].Tmp; tmp != "" {
		rs.temps.remove(tmp)
	}
	delete(r.tasks, serial)
	delete(rs.bySerial, serial)
}

// Endless reports whether a task runs here without a time limit.
func (rs *Runners) Endless(serial uint64) bool {
	r := rs.bySerial[serial]
	return r != nil && r.tasks[serial].Limit <= 0
}

// Busy reports whether any task is here.
func (rs *Runners) Busy() bool { return len(rs.bySerial) > 0 }

// DeliverEnds hands the Node the ends in unsent. These ends arise while the loop acts on the
// Node's Outbox: a post by the loop to itself would wait forever once the inputs are
// full.
func (rs *Runners) DeliverEnds(t *inputs.Turn) {
	if len(rs.unsent) == 0 {
		return
	}
	owed := rs.unsent
	rs.unsent = nil
	t.Node.TaskEnds(t.Now, owed, t.Out)
}

// Flush sends the tasks started in this turn.
func (rs *Runners) Flush() {
	if len(rs.orders) > 0 && time.Since(rs.looked) > orderLook {
		rs.forgetIdle(orderIdle, len(rs.orders))
	}
	for _, r := range rs.all {
		if len(r.queue) > 0 {
			rs.send(r)
		}
	}
	rs.temps.next()
}

// send hands a runner its queue, and starts the runner if no process is running.
func (rs *Runners) send(r *runnerProcess) {
	if r.conn == nil {
		if !r.starting && len(r.queue) > 0 {
			r.starting = true
			rs.wants <- r // one for each runner at a time
		}
		return
	}
	for i := range r.queue {
		job := r.queue[i].Job
		if o := rs.orders[job]; o != nil && !r.ordered[job] {
			r.ordered[job] = true
			_ = r.conn.Write(wire.KindTaskOrder, 0, o.TaskOrder)
			rs.looks.ordered(job, r.conn)
		}
	}
	for len(r.queue) > 0 {
		n := min(len(r.queue), startsPerFrame)
		if err := r.conn.Write(wire.KindTaskStarts, 0, r.queue[:n]); err != nil {
			rs.in.Fault("cannot hand tasks to a runner", err)
			_ = r.conn.Close() // the reader reports the runner, and so its tasks, gone
		}
		r.queue = r.queue[n:]
	}
	r.queue = nil
	rs.keepers.links.Touch(r.conn)
}

// spawner starts runners, on a thread with the keepers' priority.
func (rs *Runners) spawner() {
	release := plainThread(rs.keepers.cfg.Nice)
	defer release()
	for {
		var r *runnerProcess
		select {
		case r = <-rs.wants:
		case <-rs.in.Context().Done():
			return
		}
		p, err := rs.keepers.own.start(rs.keepers.Port.Runner)
		if err != nil {
			rs.in.Post(func(t *inputs.Turn) { rs.onSpawnFailed(t, r, err) })
			continue
		}
		conn := wire.NewConn(p.Link)
		rs.in.Post(func(*inputs.Turn) { rs.onSpawned(r, p, conn) })
		if rs.in.Context().Err() != nil { // the loop will not run came any more
			_ = conn.Close()
			_ = p.Wait()
			rs.keepers.own.ended(p.PID)
			return
		}
	}
}

// onSpawned begins to read from a new runner.
func (rs *Runners) onSpawned(r *runnerProcess, p *Process, conn *wire.Conn) {
	r.early = conn
	rs.in.Go(func() { rs.serve(r, p, conn) })
}

// onHello hands the waiting tasks to a runner that said hello.
func (rs *Runners) onHello(r *runnerProcess, conn *wire.Conn) {
	if r.early != conn {
		return
	}
	r.conn, r.early, r.starting = conn, nil, false
	rs.failed = 0
	clear(r.ordered)
	rs.send(r)
}

// onSpawnFailed ends the tasks of a runner that cannot be started.
func (rs *Runners) onSpawnFailed(t *inputs.Turn, r *runnerProcess, err error) {
	r.starting = false
	rs.failed++
	rs.in.Fault("cannot start a runner", err, "binary", rs.keepers.cfg.Program)
	if rs.failed < runnerTries {
		rs.send(r)
		return
	}
	rs.failed = 0
	rs.loseTasks(t, r, "no runner could be started on "+string(rs.in.Self)+": "+err.Error())
}

// loseTasks reports to the Node that the tasks of a runner have ended in an unknown way.
func (rs *Runners) loseTasks(t *inputs.Turn, r *runnerProcess, why string) {
	now := time.Now().UnixNano()
	ends := make([]launcher.TaskEnd, 0, len(r.tasks))
	for serial := range r.tasks {
		ends = append(ends, launcher.TaskEnd{Serial: serial, Kind: launcher.CauseNodeLost, Code: filch.ExitNodeLost, Ended: now, Text: why})
	}
	r.queue = nil
	rs.onEnds(t, r, ends)
}

var errNoHello = errors.New("the runner ended before it was ready")

// serve reads the link of one runner until the runner ends.
func (rs *Runners) serve(r *runnerProcess, p *Process, conn *wire.Conn) {
	for {
		f, err := conn.ReadShared()
		if err != nil {
			break
		}
		if err := rs.onFrame(r, conn, f); err != nil {
			rs.in.Watch.Refused(watch.FramesBad, "runner", err, rs.in.Self)
			break
		}
	}
	_ = conn.Close()
	_ = p.Wait()
	rs.keepers.own.ended(p.PID)
	rs.in.Post(func(t *inputs.Turn) {
		if r.early == conn { // the process has no tasks: another process may take them
			r.early = nil
			rs.onSpawnFailed(t, r, errNoHello)
		}
		if r.conn != conn {
			return
		}
		r.conn = nil
		rs.looks.lost(conn)
		if len(r.tasks) > 0 {
			rs.in.Watch.Log().Warn("a runner vanished", "pid", p.PID, "tasks", len(r.tasks))
			rs.in.Go(rs.keepers.endOrphans)
			rs.loseTasks(t, r, "the runner of the task on "+string(rs.in.Self)+" vanished")
		}
	})
}

// onFrame handles one frame of a runner.
func (rs *Runners) onFrame(r *runnerProcess, conn *wire.Conn, f wire.Frame) error {
	switch {
	case !f.Kind.On(wire.FromRunner):
		return filch.Errorf(filch.Invalid, "a runner does not send %s", f.Kind)
	case f.Kind == wire.KindTaskEnds:
		var ends []launcher.TaskEnd
		if err := wire.Unmarshal(f.Body, &ends); err != nil {
			return err
		}
		rs.in.Post(func(t *inputs.Turn) { rs.onEnds(t, r, ends) })
	case f.Kind == wire.KindTaskSeen:
		var seen launcher.TaskSeen
		if err := wire.Unmarshal(f.Body, &seen); err != nil {
			return err
		}
		rs.looks.onSeen(seen)
	case f.Kind == wire.KindTaskStir:
		var span launcher.TaskSpan
		if err := wire.Unmarshal(f.Body, &span); err != nil {
			return err
		}
		rs.looks.onStir(span)
	case f.Kind == wire.KindHello:
		rs.in.Post(func(*inputs.Turn) { rs.onHello(r, conn) })
	}
	return nil
}

// onEnds hands ends to the Node, each task once.
func (rs *Runners) onEnds(t *inputs.Turn, r *runnerProcess, ends []launcher.TaskEnd) {
	fresh := ends[:0]
	for _, e := range ends {
		if _, ok := r.tasks[e.Serial]; ok {
			if e.Cut || e.Full {
				rs.Cuts.note(r.tasks[e.Serial], e.Text, e.Full)
				if s := r.tasks[e.Serial]; e.Full {
					rs.in.Watch.Event(events.Event{Kind: events.DiskFull, Job: s.Job, Reason: e.Text})
				}
			}
			rs.drop(r, e.Serial)
			if !rs.holdBack(e) {
				fresh = append(fresh, e)
			}
		}
	}
	rs.Report(t, fresh)
}

// Report hands ends of tasks to the Node. The end of a workflow's task first goes to the
// files, which take the outputs.
func (rs *Runners) Report(t *inputs.Turn, ends []launcher.TaskEnd) {
	fresh := ends[:0]
	for _, e := range ends {
		if !rs.files.OnEnd(e) {
			fresh = append(fresh, e)
		}
	}
	t.Node.TaskEnds(t.Now, fresh, t.Out)
}

// Release closes the links of all runners: the runners end their tasks and exit.
func (rs *Runners) Release() {
	for _, r := range rs.all {
		for _, c := range []*wire.Conn{r.conn, r.early} {
			if c != nil {
				_ = c.Close()
			}
		}
	}
}
