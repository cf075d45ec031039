package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
)

// Bounds of the window of a range whose tasks may start without a commit. Tasks in the
// window without a recorded end may have been started when their node dies.
const (
	frontMin  = 64
	frontMax  = 8192
	frontTime = 50 * time.Millisecond // of work
)

// coolTime is how long a node leaves a failed task to other nodes before its own next
// try.
const coolTime = 500 * time.Millisecond

// backlogMax bounds the ends that wait to be recorded: above the bound the node starts
// nothing.
const backlogMax = 1 << 20

// run is a task that has room on this node.
type run struct {
	job     *job
	item    item
	payload []byte
	gen     uint32
	started bool // else the commit of the start is under way
	began   time.Duration
}

// execution is the tasks that have room on this node, and the room that the tasks share.
// The used room is the sum over the tasks. A task is in a slot of the list; a free slot
// is reused under another generation, so that a late end hits no other task.
type execution struct {
	*turn
	core       *Core
	room, used filch.Room
	list       []run
	free       []int32
	gen        uint32
}

func (e *execution) init(c *Core) { e.core, e.turn = c, &c.turn }

func (e *execution) take(j *job, it item) uint64 {
	e.gen++
	var i int32
	if n := len(e.free); n > 0 {
		i = e.free[n-1]
		e.free = e.free[:n-1]
	} else {
		i = int32(len(e.list))
		e.list = append(e.list, run{})
	}
	e.list[i] = run{job: j, item: it, gen: e.gen}
	return uint64(e.gen)<<32 | uint64(i)
}

func (e *execution) find(id uint64) *run {
	i := uint32(id)
	if uint64(i) >= uint64(len(e.list)) || e.list[i].job == nil || e.list[i].gen != uint32(id>>32) {
		return nil
	}
	return &e.list[i]
}

func (e *execution) drop(id uint64) {
	i := int32(uint32(id))
	e.list[i] = run{}
	e.free = append(e.free, i)
}

// got is the result of a search for a task to start.
type got uint8

const (
	gotOne     got = iota // started, or the commit of the start is under way
	gotNone               // no task here
	gotBlocked            // a task waits for an answer or a token
	gotFull               // the task does not fit: younger tasks must not overtake
)

// fill starts the tasks that fit, oldest job first.
func (e *execution) fill() {
	if e.core.recorder.unsaid > backlogMax {
		return
	}
	gate := gate{}
	for i := 0; i < len(e.core.order); {
		j := e.core.order[i]
		switch e.startOne(j, &gate) {
		case gotOne:
			continue
		case gotFull:
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
	e.commitStarts(&gate)
}

// startOne starts a task of j, if there is room and a task may begin.
func (e *execution) startOne(j *job, g *gate) got {
	q := &j.queue
	if !q.startable() {
		if q.empty() {
			return gotNone
		}
		return gotBlocked
	}
	if e.core.drain.on || j.void != 0 || j.held() || j.leader != nil && !j.leader.open || j.pace.backoff.until > e.now {
		return gotBlocked
	}
	if !e.core.mayStart(j) {
		e.core.tooLate(j)
		return gotBlocked
	}
	if !e.room.Minus(e.used).Holds(j.spec.Each) {
		return gotFull
	}
	if j.spec.Cap > 0 && !e.core.token(j) {
		return gotBlocked
	}
	it, line := e.next(j)
	switch line {
	case lineAway:
		return gotBlocked
	case lineGone:
		e.core.pass(j, it)
	case lineHere:
		switch {
		case j.cancelled(it.index) && !mutantCancelLate:
			e.core.recorder.record(j, it, record.Task{State: filch.Cancelled})
		case !e.core.setAside(j, it):
			e.begin(j, it, g)
		}
	}
	return gotOne
}

// next takes the first task of j off its queue, unless the task waits for its line.
func (e *execution) next(j *job) (it item, line lineIs) {
	q := &j.queue
	h := &q.dedicated
	if len(*h) == 0 {
		h = &q.shared
	}
	if len(*h) == 0 {
		return e.fromRange(j)
	}
	if line = e.core.payload(j, (*h)[0].index); line != lineAway {
		it = h.Pop()
	}
	return it, line
}

// fromRange takes the next index of the first range, if the range's front was committed,
// and proposes a higher front ahead of need.
func (e *execution) fromRange(j *job) (it item, line lineIs) {
	s := &j.queue.ranges[0]
	e.wantFront(j, s)
	if s.next >= s.front && !mutantNoFront {
		return it, lineAway
	}
	if line = e.core.payload(j, s.next); line == lineAway {
		return it, line
	}
	// The task has a hop of its own: the hop of the range is another count, and the
	// task's block, which does not know the task yet, would refuse a move with the
	// range's hop.
	it = item{index: s.next, attempt: record.FirstAttempt, tracked: j.spec.CommitsStarts()}
	s.next++
	if s.next == s.hi {
		j.queue.ranges = slices.Delete(j.queue.ranges, 0, 1)
	}
	return it, line
}

// window is how far ahead of the next index to start the front is committed.
func (e *execution) window() int32 {
	mean := max(e.core.mover.length(), time.Microsecond) // built-in tasks take no time at all
	w := float64(e.room.Slots) * (2 + float64(frontTime)/float64(mean))
	return int32(min(max(w, frontMin), frontMax))
}

func (e *execution) wantFront(j *job, s *span) {
	w := e.window()
	if s.asking || s.front >= s.hi || s.front-s.next > w/2 {
		return
	}
	lo := max(s.front, s.next)
	s.asking, s.ask = true, lo
	zone := lo / record.ZoneSize
	end := min(s.hi, (zone+1)*record.ZoneSize)
	front := min(lo+w, end)
	op := record.ZoneOp{Kind: record.ZoneFront, Lo: lo, Hi: end, Front: front, Hop: s.hop, Owner: e.core.self}
	hop := s.hop
	e.core.commits.merge(record.KeyZone(j.id, zone), record.RecordZone, record.EncodeZoneOps([]record.ZoneOp{op}, false), func(a Answer) {
		e.onFront(j, lo, front, hop, a)
	})
}

// onFront raises the front of the range around lo. A refusal means that the range is not
// ours: other nodes took this node for dead, and own the range now.
func (e *execution) onFront(j *job, lo, front int32, hop uint32, a Answer) {
	p, err := record.DecodeZoneReply(a.Value)
	refused := a.Status != AnswerDone || err != nil || len(p.Verdicts) != 1 || p.Verdicts[0] != record.VerdictDone
	for i := range j.queue.ranges {
		s := &j.queue.ranges[i]
		if s.hop != hop || !s.asking || s.ask != lo {
			continue
		}
		s.asking = false
		if lo >= s.hi {
			return // stolen meanwhile
		}
		if refused {
			e.note(noteWarn, j.id, "tasks %d to %d of job %d belong to another node now", s.next, s.hi-1, j.id)
			j.queue.ranges = slices.Delete(j.queue.ranges, i, i+1)
			e.core.forget(j)
			return
		}
		s.front = min(max(s.front, front), s.hi)
		return
	}
}

// gate collects the starts to be committed, by block.
type gate struct {
	blocks []gateBlock
}

type gateBlock struct {
	job  *job
	num  int32
	ops  []record.BlockOp
	runs []uint64
}

// begin gives a task its room. A tracked task waits for the commit of its start; the
// others begin at once.
func (e *execution) begin(j *job, it item, g *gate) {
	e.used = e.used.Plus(j.spec.Each)
	j.running++
	id := e.take(j, it)
	e.find(id).payload = j.payloads.take(it.index)
	if !it.tracked {
		e.launch(id)
		return
	}
	num := it.index / record.BlockSize
	i := slices.IndexFunc(g.blocks, func(b gateBlock) bool { return b.job == j && b.num == num })
	if i < 0 {
		i = len(g.blocks)
		g.blocks = append(g.blocks, gateBlock{job: j, num: num})
	}
	b := &g.blocks[i]
	op := record.BlockOp{Kind: record.BlockStart, Off: uint8(it.index % record.BlockSize), Once: j.spec.Once}
	op.Attempt, op.Hop, op.Owner, op.Crashes = it.attempt, it.hop, e.core.self, it.crashes
	b.ops, b.runs = append(b.ops, op), append(b.runs, id)
}

func (e *execution) commitStarts(g *gate) {
	for i := range g.blocks {
		b := &g.blocks[i]
		j, num, ids := b.job, b.num, b.runs
		p := Proposal{
			Op: OpMerge, Key: record.KeyBlock(j.id, num), Kind: record.RecordBlock, Delta: record.EncodeBlockOps(b.ops, false),
			// Without Durable, a power loss of all holders of the record loses the start.
			Durable: j.spec.CommitsStarts(),
		}
		e.core.commits.propose(p, func(a Answer) {
			p, err := record.DecodeBlockReply(a.Value)
			ok := a.Status == AnswerDone && err == nil && len(p.Verdicts) == len(ids)
			e.core.recorder.endedBefore(j, num, &p)
			for k, id := range ids {
				r := e.find(id)
				switch {
				case r == nil:
				case ok && p.Verdicts[k] == record.VerdictDone && r.job.void != 0:
					// Committed, and not begun: the job was cancelled meanwhile.
					e.core.recorder.record(r.job, r.item, record.Task{State: r.job.void})
					e.release(id)
				case ok && p.Verdicts[k] == record.VerdictDone && r.job.cancelled(r.item.index):
					e.core.recorder.record(r.job, r.item, record.Task{State: filch.Cancelled})
					e.release(id)
				case ok && p.Verdicts[k] == record.VerdictDone:
					e.launch(id)
				default:
					// The task has ended, or belongs to another node.
					r.job.queue.unhold(&r.item)
					e.release(id)
				}
			}
		})
	}
}

// launch appends a task to the starts of the Out.
func (e *execution) launch(id uint64) {
	r := e.find(id)
	r.started, r.began = true, e.now
	e.core.mover.ends.Begin(e.now)
	j := r.job
	e.out.Starts = append(e.out.Starts, Start{
		Run: id, Job: j.id, Index: r.item.index, Name: j.spec.Name(r.item.index), Number: j.spec.Number(r.item.index), Attempt: r.item.attempt,
		Nth: record.Starts(r.item.attempt, r.item.maybe), Spec: j.spec, Payload: r.payload, Inputs: r.item.inputs,
	})
}

// release gives a task's room back.
func (e *execution) release(id uint64) {
	r := e.find(id)
	j := r.job
	e.used = e.used.Minus(j.spec.Each)
	j.running--
	e.drop(id)
	if j.queue.empty() || j.tokens.held > 0 && e.core.allLate(j) {
		e.core.lingerTokens(j)
		e.core.forget(j)
	}
}

// Ended takes in the end of a task. Several ends may be given before the caller acts on
// the Out.
func (c *Core) Ended(now time.Duration, e End, out *Out) {
	c.enter(now, out)
	r := c.exec.find(e.Run)
	if r == nil || !r.started {
		return
	}
	j, it, took := r.job, r.item, now-r.began
	if mutantBlindExit {
		e.State = filch.OK
	}
	if !e.State.Final() || e.State > filch.Killed {
		e.State = filch.Failed
	}
	c.mover.ends.Ended(took)
	if e.State == filch.OK {
		c.learn(j, took)
	}
	c.failing(j, e.State)
	tries := int32(it.attempt) - 1 - int32(it.crashes)
	ended := j.void == filch.Cancelled || j.cancelled(it.index)
	wait, again := time.Duration(0), false
	if e.State != filch.OK {
		wait, again = c.exec.retries(j, r.payload, &e, tries)
	}
	retried := again && j.void == 0 && !ended && !j.spec.Once && !e.Final
	switch {
	case e.State != filch.OK && ended:
		e.State = filch.Cancelled
	case e.Gone: // as if the task's node had crashed
		it.crashes += min(1, 255-it.crashes)
		if wait, retried = 0, j.void == 0 && !j.spec.Once && it.crashes < j.spec.Crashes(); !retried {
			e.State, e.Code = filch.Lost, filch.ExitNodeLost
		}
	}
	if retried {
		c.exec.again(j, it, wait)
		c.exec.release(e.Run)
		c.settle()
		return
	}
	c.recorder.record(j, it, record.Task{
		State: e.State, Code: e.Code, Bytes: e.Bytes, Cut: e.Cut,
		Began: c.wall(r.began) / 1000, TookUS: took.Microseconds(), Usage: e.Usage,
	})
	c.exec.release(e.Run)
	c.settle()
}

// again queues a failed task for another try. After delay other nodes may have the task,
// and this node coolTime later.
func (e *execution) again(j *job, it item, delay time.Duration) {
	it.attempt++
	it.hop, it.tracked = 0, true
	j.queue.held[it.index] = stamp{it.index, it.attempt, 0}
	if delay > 0 && !e.core.drain.on {
		j.queue.resting = append(j.queue.resting, cooling{it, e.now + delay})
		e.core.waits.at = min(e.core.waits.at, e.now+delay)
		e.core.active(j)
		return
	}
	e.cool(j, it)
}

// cool queues a task for thieves, and after coolTime for this node.
func (e *execution) cool(j *job, it item) {
	wait := coolTime
	if e.core.cfg.Members.Others(e.core.cfg.Self) == 0 {
		wait = 0
	}
	j.queue.cooling = append(j.queue.cooling, cooling{it, e.now + wait})
	e.core.waits.at = min(e.core.waits.at, e.now+wait)
	e.core.active(j)
	if wait == 0 {
		e.warm()
	}
}

// wake lets tasks cool whose delay is over; with all, the other delayed tasks too.
func (e *execution) wake(all bool) (next time.Duration) {
	next = filch.Never
	for _, j := range e.core.order {
		q := &j.queue
		for i := 0; i < len(q.resting); {
			if !all && q.resting[i].until > e.now {
				next = min(next, q.resting[i].until)
				i++
				continue
			}
			it := q.resting[i].item
			q.resting = slices.Delete(q.resting, i, i+1)
			e.cool(j, it)
			e.core.victim.fresh = true
		}
	}
	return next
}

// warm makes tasks ready again whose time in cooling is over.
func (e *execution) warm() (next time.Duration) {
	next = filch.Never
	for _, j := range e.core.order {
		q := &j.queue
		for i := 0; i < len(q.cooling); {
			if q.cooling[i].until > e.now {
				next = min(next, q.cooling[i].until)
				i++
				continue
			}
			q.shared.Push(q.cooling[i].item)
			q.cooling = slices.Delete(q.cooling, i, i+1)
		}
	}
	return next
}
