package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// The window of a range that may be started without a word: what is in it and
// not recorded when its node dies may have been started.
const (
	frontMin  = 64
	frontMax  = 8192
	frontTime = 50 * time.Millisecond // of work
)

// coolTime is how long a node leaves a task that failed on it to others.
const coolTime = 500 * time.Millisecond

// backlogMax are ends that wait to be recorded: with more nothing is started.
const backlogMax = 1 << 20

// run is a task that has room on this node.
type run struct {
	job     *job
	item    item
	payload []byte
	gen     uint32
	started bool // else its start is being committed
	began   time.Duration
}

// runs are the tasks with room, by slot; a free slot is reused under another
// generation, so that a late end hits nobody else.
type runs struct {
	list []run
	free []int32
	gen  uint32
}

func (r *runs) take(j *job, it item) uint64 {
	r.gen++
	var i int32
	if n := len(r.free); n > 0 {
		i = r.free[n-1]
		r.free = r.free[:n-1]
	} else {
		i = int32(len(r.list))
		r.list = append(r.list, run{})
	}
	r.list[i] = run{job: j, item: it, gen: r.gen}
	return uint64(r.gen)<<32 | uint64(i)
}

func (r *runs) find(id uint64) *run {
	i := uint32(id)
	if uint64(i) >= uint64(len(r.list)) || r.list[i].job == nil || r.list[i].gen != uint32(id>>32) {
		return nil
	}
	return &r.list[i]
}

func (r *runs) drop(id uint64) {
	i := int32(uint32(id))
	r.list[i] = run{}
	r.free = append(r.free, i)
}

// got says what came of looking for a task to start.
type got uint8

const (
	gotOne     got = iota // started, or its start is being committed
	gotNone               // nothing here
	gotBlocked            // something here that waits for an answer or a token
	gotFull               // it does not fit: what is younger must not overtake it
)

// fill starts what fits, oldest job first.
func (c *Core) fill(now time.Duration, out *Out) {
	if c.dirty.unsaid > backlogMax {
		return
	}
	gate := gate{}
	for i := 0; i < len(c.order); {
		j := c.order[i]
		switch c.startOne(now, j, &gate, out) {
		case gotOne:
			continue
		case gotFull:
			i = len(c.order)
		case gotNone:
			c.idle(j)
			if j.queue.listed {
				i++
			}
		case gotBlocked:
			i++
		}
	}
	c.commitStarts(&gate, out)
}

// startOne starts one task of j, if there is room and one may begin.
func (c *Core) startOne(now time.Duration, j *job, g *gate, out *Out) got {
	q := &j.queue
	if !q.startable() {
		if q.empty() {
			return gotNone
		}
		return gotBlocked
	}
	if c.shed.on || j.void != 0 || j.lead != nil && !j.lead.open || j.pace.barren.until > now {
		return gotBlocked
	}
	if !c.mayStart(now, j) {
		c.tooLate(now, j)
		return gotBlocked
	}
	if !c.room.minus(c.used).holds(j.spec.Each) {
		return gotFull
	}
	if j.spec.Cap > 0 && !c.token(now, j, out) {
		return gotBlocked
	}
	it, line := c.next(now, j, out)
	switch line {
	case lineAway:
		return gotBlocked
	case lineGone:
		c.pass(now, j, it, out)
	case lineHere:
		if !c.setAside(now, j, it) {
			c.begin(now, j, it, g, out)
		}
	}
	return gotOne
}

// next takes the first task of j off its queue, unless it waits for its line.
func (c *Core) next(now time.Duration, j *job, out *Out) (it item, line lineIs) {
	q := &j.queue
	h := &q.dedicated
	if len(h.list) == 0 {
		h = &q.shared
	}
	if len(h.list) == 0 {
		return c.fromRange(now, j, out)
	}
	if line = c.payload(now, j, h.list[0].index, out); line != lineAway {
		it = h.pop()
	}
	return it, line
}

// fromRange takes the next index of the first range, if its front was
// committed, and asks for a higher front ahead of need.
func (c *Core) fromRange(now time.Duration, j *job, out *Out) (it item, line lineIs) {
	s := &j.queue.ranges[0]
	c.wantFront(j, s, out)
	if s.next >= s.front && !mutantNoFront {
		return it, lineAway
	}
	if line = c.payload(now, j, s.next, out); line == lineAway {
		return it, line
	}
	// Its hop is its own: that of the range is another count, and its block, which
	// knows nothing of it yet, would refuse to move it on.
	it = item{index: s.next, attempt: firstAttempt, tracked: j.spec.sure()}
	s.next++
	if s.next == s.hi {
		j.queue.ranges = slices.Delete(j.queue.ranges, 0, 1)
	}
	return it, line
}

// window is how far ahead of what is started the front is committed.
func (c *Core) window() int32 {
	e := max(c.policy.length(), time.Microsecond) // built-in tasks take no time at all
	w := float64(c.room.Slots) * (2 + float64(frontTime)/float64(e))
	return int32(min(max(w, frontMin), frontMax))
}

func (c *Core) wantFront(j *job, s *span, out *Out) {
	w := c.window()
	if s.asking || s.front >= s.hi || s.front-s.next > w/2 {
		return
	}
	lo := max(s.front, s.next)
	s.asking, s.ask = true, lo
	zone := lo / ZoneSize
	end := min(s.hi, (zone+1)*ZoneSize)
	front := min(lo+w, end)
	op := zoneOp{kind: zFront, lo: lo, hi: end, front: front, hop: s.hop, who: c.self}
	hop := s.hop
	c.merge(KeyZone(j.id, zone), RecordZone, encodeZoneOps([]zoneOp{op}, false), out, func(now time.Duration, a Answer, out *Out) {
		c.fronted(now, j, lo, front, hop, a, out)
	})
}

// fronted raises the front of the range around lo. A refusal says that the
// range is not ours: we were taken for dead, and others go on with it.
func (c *Core) fronted(now time.Duration, j *job, lo, front int32, hop uint32, a Answer, out *Out) {
	p, err := decodeZoneReply(a.Value)
	refused := a.Status != AnswerDone || err != nil || len(p.verdicts) != 1 || p.verdicts[0] != vDone
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
			note(out, noteWarn, j.id, "tasks %d to %d of job %d belong to another node now", s.next, s.hi-1, j.id)
			j.queue.ranges = slices.Delete(j.queue.ranges, i, i+1)
			c.forget(j, out)
			return
		}
		s.front = min(max(s.front, front), s.hi)
		return
	}
}

// gate gathers the starts that must be committed, by block.
type gate struct {
	blocks []gateBlock
}

type gateBlock struct {
	job  *job
	num  int32
	ops  []blockOp
	runs []uint64
}

// begin gives a task its room. One that is tracked waits for its start to be
// committed, the others begin at once.
func (c *Core) begin(now time.Duration, j *job, it item, g *gate, out *Out) {
	c.used = c.used.plus(j.spec.Each)
	j.running++
	id := c.runs.take(j, it)
	c.runs.find(id).payload = j.payloads.take(it.index)
	if !it.tracked {
		c.launch(now, id, out)
		return
	}
	num := it.index / BlockSize
	i := slices.IndexFunc(g.blocks, func(b gateBlock) bool { return b.job == j && b.num == num })
	if i < 0 {
		i = len(g.blocks)
		g.blocks = append(g.blocks, gateBlock{job: j, num: num})
	}
	b := &g.blocks[i]
	op := blockOp{kind: bStart, off: uint8(it.index % BlockSize), once: j.spec.Once}
	op.Attempt, op.Hop, op.Owner, op.Crashes = it.attempt, it.hop, c.self, it.crashes
	b.ops, b.runs = append(b.ops, op), append(b.runs, id)
}

func (c *Core) commitStarts(g *gate, out *Out) {
	for i := range g.blocks {
		b := &g.blocks[i]
		j, num, ids := b.job, b.num, b.runs
		p := Proposal{
			Op: OpMerge, Key: KeyBlock(j.id, num), Kind: RecordBlock, Delta: encodeBlockOps(b.ops, false),
			Durable: j.spec.sure(), // else it is forgotten where all who know of it lose their power
		}
		c.propose(p, out, func(now time.Duration, a Answer, out *Out) {
			p, err := decodeBlockReply(a.Value)
			ok := a.Status == AnswerDone && err == nil && len(p.verdicts) == len(ids)
			c.endedBefore(now, j, num, &p)
			for k, id := range ids {
				r := c.runs.find(id)
				switch {
				case r == nil:
				case ok && p.verdicts[k] == vDone && r.job.void == 0:
					c.launch(now, id, out)
				case ok && p.verdicts[k] == vDone:
					// Committed, and not begun: the job was cancelled meanwhile.
					c.record(now, r.job, r.item, Task{State: r.job.void}, out)
					c.free(now, id, out)
				default:
					// Ended, or another node's: it is none of ours any more.
					r.job.queue.unhold(&r.item)
					c.free(now, id, out)
				}
			}
		})
	}
}

// launch hands a task to its spawner.
func (c *Core) launch(now time.Duration, id uint64, out *Out) {
	r := c.runs.find(id)
	r.started, r.began = true, now
	if c.policy.since == 0 {
		c.policy.since = now
	}
	j := r.job
	out.Starts = append(out.Starts, Start{
		Run: id, Job: j.id, Index: r.item.index, Number: j.spec.Number(r.item.index), Attempt: r.item.attempt,
		Nth: starts(r.item.attempt, r.item.maybe), Spec: j.spec, Payload: r.payload, Inputs: r.item.inputs,
	})
}

// free gives a task's room back.
func (c *Core) free(now time.Duration, id uint64, out *Out) {
	r := c.runs.find(id)
	j := r.job
	c.used = c.used.minus(j.spec.Each)
	j.running--
	c.runs.drop(id)
	if j.queue.empty() || j.tokens.held > 0 && c.allLate(now, j) {
		c.lingerTokens(now, j)
		c.forget(j, out)
	}
}

// Ended takes in that a task ended. Several may be given before the Out is
// acted on.
func (c *Core) Ended(now time.Duration, e End, out *Out) {
	r := c.runs.find(e.Run)
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
	c.policy.ended(took)
	if e.State == filch.OK {
		c.learn(now, j, took)
	}
	c.failing(now, j, e.State, out)
	tries := int32(it.attempt) - 1 - int32(it.crashes)
	retried := e.State != filch.OK && j.void == 0 && !j.spec.Once && !e.Final && (tries < j.spec.Retries || mutantForever)
	switch {
	case e.State != filch.OK && j.void == filch.Cancelled:
		e.State = filch.Cancelled
	case e.Gone: // as if its node had
		it.crashes += min(1, 255-it.crashes)
		if retried = j.void == 0 && !j.spec.Once && it.crashes < j.spec.crashes(); !retried {
			e.State, e.Code = filch.Lost, filch.ExitNodeLost
		}
	}
	if retried {
		c.again(now, j, it, out)
		c.free(now, e.Run, out)
		c.settle(now, out)
		return
	}
	c.record(now, j, it, Task{
		State: e.State, Code: e.Code, Bytes: e.Bytes, Cut: e.Cut,
		Began: c.wall(r.began) / 1000, TookUS: took.Microseconds(),
	}, out)
	c.free(now, e.Run, out)
	c.settle(now, out)
}

// again queues a task that failed for another try, which another node may have
// at once and this one after a while.
func (c *Core) again(now time.Duration, j *job, it item, out *Out) {
	it.attempt++
	it.hop, it.tracked = 0, true
	j.queue.held[it.index] = stamp{it.index, it.attempt, 0}
	wait := coolTime
	if c.members.others(c.cfg.Self) == 0 {
		wait = 0
	}
	j.queue.cooling = append(j.queue.cooling, cooling{it, now + wait})
	c.waits.at = min(c.waits.at, now+wait)
	c.active(j)
	if wait == 0 {
		c.warm(now)
	}
}

// warm makes tasks that failed here long enough ago ready again.
func (c *Core) warm(now time.Duration) (next time.Duration) {
	next = filch.Never
	for _, j := range c.order {
		q := &j.queue
		for i := 0; i < len(q.cooling); {
			if q.cooling[i].until > now {
				next = min(next, q.cooling[i].until)
				i++
				continue
			}
			q.shared.push(q.cooling[i].item)
			q.cooling = slices.Delete(q.cooling, i, i+1)
		}
	}
	return next
}
