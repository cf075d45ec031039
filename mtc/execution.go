package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/replica"
)

// run is a task that has room on this node.
type run struct {
	job     *job
	item    queue.Item
	payload []byte
	started bool // else the commit of the start is under way
	opening bool // a gang that has its slots: the commit of the start is under way
	may     bool // the process, or ranks, may run
	stage   stage
	began   time.Duration
	rivals
	next   uint64 // the successor: it takes this run's room; 0: none
	prev   uint64 // the run whose room this one takes, in stage succeeds
	waited bool   // this run was a successor
}

// execution is the tasks that have room on this node, and the room that the tasks share.
// The used room is the sum over the tasks. A task is in a slot of the list; a free slot
// is reused under another generation, so that a late end hits no other task.
type execution struct {
	*turn
	core       *Core
	room, used filch.Room
	list       filch.Table[run]
	gathers    int32 // gangs that gather slots of several nodes
	stuck      stuck
	gap        policy.Gap
	lent       filch.Room // of the tasks that run in the gap
	succeeded  uint64     // a task is sought that begins at the end of this run; 0: for free room
	filling    bool       // tasks are sought for the gap, not for the room of tasks
	health     policy.Health
}

// room is what the task takes of the room of tasks.
func (r *run) room() *filch.Room {
	if r.stage != planned {
		return &filch.Room{}
	}
	return r.taskRoom()
}

// gang is the size of a task that is a gang.
func (r *run) gang() record.Gang { return r.job.spec.Need(int(r.item.Need) - 1).Gang }

func (e *execution) init(c *Core) { e.core, e.turn = c, &c.turn }

// got is the result of a search for a task to start.
type got uint8

const (
	gotOne     got = iota // started, or the commit of the start is under way
	gotNone               // no task here
	gotBlocked            // a task waits for an answer or a token
	gotFull               // the task does not fit: younger tasks must not overtake
	gotNext               // the first task may start, if there is room
	gotWaits              // the free slots are for tasks whose last parent's end is being recorded
)

// fill starts the tasks that fit, oldest job first.
func (e *execution) fill() {
	if e.core.recorder.Unsaid() > policy.BacklogMax {
		return
	}
	gate := gate{}
	e.stuck.job = nil
	for i := 0; i < len(e.core.order); {
		j := e.core.order[i]
		switch e.startOne(j, &gate) {
		case gotOne:
			continue
		case gotFull:
			e.stuck.job = j
			i = len(e.core.order)
		case gotWaits:
			i = len(e.core.order)
		case gotNone:
			e.core.idle(j)
			if j.queue.listed {
				i++
			}
		case gotBlocked:
			i++
		}
	}
	e.onFilled()
	e.fillGap(&gate)
	e.fillNext(&gate)
	e.commitStarts(&gate)
}

// window is how far ahead of the next index to start the front is committed.
func (e *execution) window() int32 {
	return policy.Window(e.room.Slots, e.core.mover.length())
}

func (e *execution) wantFront(j *job, s *policy.Range) {
	lo, front, end, ok := s.Lacks(e.window(), record.ZoneSize)
	if !ok {
		return
	}
	s.Asking, s.Ask = true, lo
	op := record.ZoneOp{Kind: record.ZoneFront, Lo: lo, Hi: end, Front: front, Hop: s.Hop, Owner: e.core.self}
	e.core.commits.merge(record.KeyZone(j.id, lo/record.ZoneSize), record.RecordZone, record.EncodeZoneOps([]record.ZoneOp{op}, false), func(a record.Answer) {
		e.onFront(j, op, a)
	})
}

// onFront raises the front of a range. A refusal means that the range is not ours: other
// nodes took this node for dead, and own the range now.
func (e *execution) onFront(j *job, op record.ZoneOp, a record.Answer) {
	p, err := record.DecodeZoneReply(a.Value)
	refused := a.Status != record.AnswerDone || err != nil || len(p.Verdicts) != 1 || p.Verdicts[0] != record.VerdictDone
	if s, lost := j.queue.Ranges.Fronted(op.Lo, op.Front, op.Hop, refused); lost {
		e.note(noteWarn, j.id, "tasks %d to %d of job %d belong to another node now", s.Next, s.Hi-1, j.id)
		e.core.forget(j)
	}
}

// gate collects the starts to be committed, by block.
type gate struct{ blocks []gateBlock }

type gateBlock struct {
	job  *job
	num  int32
	ops  []record.BlockOp
	runs []uint64
}

// begin gives a task its room. A tracked task waits for the commit of its start; the
// others, and copies, begin at once. A gang gathers first: only a gang with slots has a start to commit.
func (e *execution) begin(j *job, of *replica.Task, it queue.Item, at stage, g *gate) {
	j.running++
	e.core.waits.at = min(e.core.waits.at, j.pace.backoff.Start(e.now))
	j.tokens.Used += j.spec.Tokens(int(it.Need) - 1)
	e.core.mover.ends.Begin(e.now)
	id := e.list.Add(run{job: j, item: it, payload: j.payloads.Of(it.Index), stage: at, rivals: rivals{copy: of}})
	r := e.list.Find(id)
	e.used.Add(r.room())
	e.onPlaced(r)
	if at == succeeds {
		r.prev, r.waited, e.list.Find(e.succeeded).next = e.succeeded, true, id
		j.successors++
	}
	if of != nil {
		of.Run = id
		j.copies.run++
	}
	if !it.Tracked || r.gang().Ranks > 0 {
		e.launch(id)
		return
	}
	e.gate(r, id, g)
}

// gate has the start of a task committed.
func (e *execution) gate(r *run, id uint64, g *gate) {
	j, it := r.job, r.item
	num := it.Index / record.BlockSize
	i := slices.IndexFunc(g.blocks, func(b gateBlock) bool { return b.job == j && b.num == num })
	if i < 0 {
		i = len(g.blocks)
		g.blocks = append(g.blocks, gateBlock{job: j, num: num})
	}
	b := &g.blocks[i]
	op := record.BlockOp{Kind: record.BlockStart, Off: uint8(it.Index % record.BlockSize), Once: j.spec.Once}
	op.Attempt, op.Hop, op.Owner, op.Crashes, op.Recalls = it.Attempt, it.Hop, e.core.self, it.Crashes, it.Recalls
	b.ops, b.runs = append(b.ops, op), append(b.runs, id)
}

func (e *execution) commitStarts(g *gate) {
	for i := range g.blocks {
		b := &g.blocks[i]
		j, num, ids := b.job, b.num, b.runs
		p := record.Proposal{
			Op: record.OpMerge, Key: record.KeyBlock(j.id, num), Kind: record.RecordBlock, Delta: record.EncodeBlockOps(b.ops, false),
			// Without Durable, a power loss of all holders of the record loses the start.
			Durable: j.spec.Once || j.spec.Sure,
		}
		e.core.commits.propose(p, func(a record.Answer) {
			p, err := record.DecodeBlockReply(a.Value)
			ok := a.Status == record.AnswerDone && err == nil && len(p.Verdicts) == len(ids)
			e.core.recorder.EndedBefore(j, num, &p)
			for k, id := range ids {
				r := e.list.Find(id)
				switch {
				case r == nil:
				case r.started:
					e.opened(r, id, ok && p.Verdicts[k] == record.VerdictDone)
				case ok && p.Verdicts[k] == record.VerdictDone && r.job.void != 0:
					// Committed, and not begun: the job was cancelled meanwhile.
					e.core.record(r.job, r.item, record.Task{State: r.job.void})
					e.release(id)
				case ok && p.Verdicts[k] == record.VerdictDone && r.job.cancelled(r.item.Index):
					e.core.record(r.job, r.item, record.Task{State: filch.Cancelled})
					e.release(id)
				case ok && p.Verdicts[k] == record.VerdictDone:
					e.launch(id)
				default:
					// The task has ended, or belongs to another node.
					r.job.queue.Unhold(&r.item)
					e.release(id)
				}
			}
		})
	}
}

// launch appends a task to the starts of the Out.
func (e *execution) launch(id uint64) {
	r := e.list.Find(id)
	r.started, r.began, r.may = true, e.now, r.gang().Ranks == 0
	j := r.job
	if r.may {
		j.pending.Begins(e.core.wall(e.now))
	}
	e.out.Starts = append(e.out.Starts, Start{
		Run: id, Job: j.id, Index: r.item.Index, Name: j.spec.Name(r.item.Index), Number: j.spec.Number(r.item.Index), Attempt: r.item.Attempt,
		Nth: record.Starts(r.item.Attempt, r.item.Maybe), Spec: j.spec, Need: max(r.item.Need-1, 0), Payload: r.payload, Inputs: r.item.Inputs,
		Borrows: r.stage == borrows, Succeeds: r.prev, Copy: r.copy != nil,
	})
	if j.spec.Copied() {
		r.kind, r.states = j.kindOf(r.payload)
		e.core.copies.Look()
	}
}

// slotsFor is how many more tasks of j have room here.
func (e *execution) slotsFor(j *job) int32 {
	n := e.room.Slots - e.used.Slots
	if j.next.Slots > 1 {
		n /= j.next.Slots
	}
	return max(n, 0)
}

// stop asks the caller to end running tasks of a job.
func (e *execution) stop(j *job, ends func(r *run) bool) {
	for id, r := range e.list.All() {
		if r.job == j && r.started && ends(r) {
			e.out.Stops = append(e.out.Stops, Stop{Run: id, Job: j.id})
		}
	}
}

// full reports whether no slot is free for a task.
func (e *execution) full() bool { return e.room.Slots <= e.used.Slots }

// release gives a task's room back.
func (e *execution) release(id uint64) {
	r := e.list.Find(id)
	j := r.job
	e.used.Sub(r.room())
	e.core.thief.onRoom(r.room())
	e.leave(r)
	e.pass(r)
	j.running--
	if r.copy != nil {
		j.copies.run--
	}
	e.core.copies.Released(id)
	j.tokens.Used -= j.spec.Tokens(int(r.item.Need) - 1)
	if e.list.Drop(id); e.list.Len() == 0 {
		e.core.mover.ends.Rest(e.now)
	}
	if j.queue.Empty() || j.tokens.Held > 0 && e.core.caps.AllLate(j) {
		e.core.caps.Linger(j)
		e.core.forget(j)
	}
}

// Ended takes in the end of a task. Several ends may be given before the caller acts on
// the Out.
func (c *Core) Ended(now time.Duration, e End, out *Out) {
	c.enter(now, out)
	r := c.exec.list.Find(e.Run)
	if r == nil || !r.started {
		return
	}
	if r.waited && e.Ran > 0 {
		r.began = now - e.Ran
	}
	if c.exec.unlaunched(r, &e) {
		c.settle()
		return
	}
	if mutants.BlindExit {
		e.State = filch.OK
	}
	if c.rivalled(r, &e) {
		c.settle()
		return
	}
	j, it := r.job, r.item
	ended := j.void == filch.Cancelled || j.cancelled(it.Index)
	switch {
	case ended: // also if its handler of TERM ends the task with 0
		e.State = filch.Cancelled
	case !e.State.Final() || e.State > filch.Killed:
		e.State = filch.Failed
	}
	c.pace.estimates.Moved(e.Moved, e.Moving)
	c.learn(r, &e)
	if !e.Recalled {
		c.exec.failing(j, e.State)
		c.exec.judge(j, it.Index, &e)
	}
	tries := int32(it.Attempt) - 1 - int32(it.Crashes) - int32(it.Recalls)
	wait, again := c.exec.retries(j, r.payload, &e, tries)
	retried := again && j.void == 0 && !ended && !j.spec.Once && !e.Final
	switch {
	case ended:
	case e.State != filch.OK && j.void != 0 && !r.may:
		e.State = j.void
	case e.Recalled && !j.spec.Once && !mutants.RecallTries:
		wait, retried = 0, j.void == 0
		it.Recalls += min(1, 255-it.Recalls)
	case e.Gone: // as if the task's node had crashed
		it.Crashes += min(1, 255-it.Crashes)
		if wait, retried = 0, j.void == 0 && !j.spec.Once && it.Crashes < j.spec.Crashes(); !retried {
			e.State, e.Code = filch.Lost, filch.ExitNodeLost
		} else if r.gang().Ranks > 0 {
			c.exec.lost(j, it)
			c.exec.release(e.Run)
			c.settle()
			return
		}
	}
	if retried {
		c.exec.again(j, it, wait)
		c.exec.release(e.Run)
		c.settle()
		return
	}
	if e.State == filch.OK && j.leader != nil && j.leader.plan != nil && !mutants.Hasty {
		j.leader.plan.Ending(now, it.Index, j.leader.tracker)
	}
	c.record(j, it, c.endOf(r, &e))
	c.exec.release(e.Run)
	c.settle()
}

// endOf is the end of a run, for the record.
func (c *Core) endOf(r *run, e *End) record.Task {
	return record.Task{
		State: e.State, Code: e.Code, Bytes: e.Bytes, Cut: e.Cut,
		Began: c.wall(r.began) / 1000, TookUS: r.ran(c.now).Microseconds(), Usage: e.Usage,
		Stages: queue.StagesOf(r.item.Since, r.began, e.In, e.Out), Rivals: c.copies.Rivals(e.Run), Nodes: e.Nodes, Slots: e.Slots,
	}
}
