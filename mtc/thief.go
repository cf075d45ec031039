package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
)

// Parameters of stealing (MATRIX v2, III.A).
const (
	PollMin = time.Millisecond // first wait after a failure, doubled with each
	PollMax = time.Second      // its default bound; the papers' is where stealing ends for good
	askWait = 20 * time.Millisecond
	widenAt = 3 // failures in a row after which two more neighbors are asked, each time

	// A thief that has asked enough, and found nothing, looks again after
	// PollRest: an idle instance is silent. Who gets work tells; the look is for
	// words that are lost. Enough is sqrt(N), and twice as many as there are once
	// there was word of work. A node that has just begun rests first: the nodes of
	// an instance that starts would all ask, and dial, each other.
	PollRest = 30 * time.Second
	restAt   = 2
	// Of tellAll nodes or fewer each that has work to steal tells one that comes.
	tellAll = 16
)

// thief is a node that looks for work.
type thief struct {
	phase    thiefPhase
	round    uint32
	asked    []filch.NodeName
	answers  int
	best     filch.NodeName
	load     int64
	ask      uint64 // number of the last steal
	poll     time.Duration
	at       time.Duration // when the phase ends
	failures int
	search
	moving  map[xferKey]*moving
	past    []xferKey // transfers that were taken in, so that one counts once
	tries   int64
	stopped bool
}

// search is what a thief knows of its chances.
type search struct {
	vain  int  // asked since the last success, or since news
	told  bool // there was word of work since it looked and found none
	begun bool // it has looked, or had work
}

type thiefPhase uint8

const (
	resting  thiefPhase = iota // until at
	asking                     // for loads
	stealing                   // from the most loaded
)

// xferKey names a transfer: the victim numbers them.
type xferKey struct {
	victim Owner
	xfer   uint64
}

// moving is an offer that is being committed.
type moving struct {
	left int  // answers to come
	all  bool // everything so far is ours
	some bool // or a part of it
}

func (t *thief) init() {
	t.poll = PollMin
	t.moving = make(map[xferKey]*moving)
}

// deadline is when the thief has something to do; a resting one that is not
// hungry is woken by what makes it so.
func (t *thief) deadline() time.Duration {
	if t.phase == resting && t.at == 0 {
		return filch.Never
	}
	return t.at
}

// hurry has the thief look at once: there may be something to steal.
func (t *thief) hurry(now time.Duration) {
	if t.phase == resting && t.at > now {
		t.at = now
		t.poll = PollMin
		t.failures = 0
	}
}

// enough is how many are asked in vain, of n others, before a rest.
func (t *thief) enough(n int) int {
	if t.told {
		return restAt * n
	}
	return root(n + 1)
}

// arrived is that a node came: no reason to look here, as it has none yet. Those
// who have work to steal may tell the node, which does not look at once; of
// many, a few do.
func (c *Core) arrived(now time.Duration, name filch.NodeName) {
	n := c.members.others(c.cfg.Self)
	if mutantStorm {
		c.thief.hurry(now)
	}
	if c.Load() > 0 && (n <= tellAll || c.rng.below(n) < 4*root(n)) {
		c.victim.remember(now, name)
		c.victim.fresh = true
	}
}

// hungry reports whether there is room and nothing to fill it with.
func (c *Core) hungry() bool {
	if c.shed.on || c.room.Slots <= c.used.Slots || len(c.thief.moving) > 0 {
		return false
	}
	for _, j := range c.order {
		if !j.queue.starved(j) {
			return false
		}
	}
	return true
}

// starved reports whether a job has nothing that could start here soon: a task
// that only cools off, or one without a token, does not count.
func (q *queue) starved(j *job) bool {
	if !q.startable() {
		return true
	}
	return j.spec.Cap > 0 && j.running >= j.tokens.held && !j.tokens.asking && j.tokens.seq > 0
}

// seek looks for work if there is none here.
func (c *Core) seek(now time.Duration, out *Out) {
	t := &c.thief
	if t.phase != resting || t.at > now || t.stopped {
		return
	}
	if c.pace.late > now {
		t.at = c.pace.late
		return
	}
	if !c.hungry() {
		t.at, t.begun = 0, t.begun || len(c.order) > 0
		return
	}
	n := c.members.lenders(c.cfg.Self)
	if n <= 0 {
		t.at = 0
		return
	}
	if !t.begun {
		t.begun = true
		if !t.told && !mutantStorm {
			t.at = now + c.upTo(PollRest)
			return
		}
	}
	k := root(n + 1)
	if t.vain < t.enough(n) {
		k += 2 * (t.failures / widenAt)
	}
	t.asked = c.members.choose(c.cfg.Victims, c.cfg.Self, min(max(k, 1), n, neighborsMax), t.failures, &c.rng)
	if len(t.asked) == 0 {
		c.failed(now)
		return
	}
	t.round++
	t.phase, t.answers, t.best, t.load = asking, 0, "", 0
	t.at = now + askWait
	t.tries++
	t.vain += len(t.asked)
	means := c.means(now)
	for _, name := range t.asked {
		c.send(name, &LoadAsk{t.round, means}, out)
	}
}

// capWords says which capped jobs more tasks could be run of here.
func (c *Core) capWords() (list []CapWord) {
	for _, j := range c.sortedCapped() {
		if len(list) < capWords {
			list = append(list, CapWord{j.id, max(j.tokens.held-j.running, 0)})
		}
	}
	return list
}

// neighborsMax bounds how many are asked at once.
const neighborsMax = 128

func (c *Core) loadAsked(now time.Duration, from filch.NodeName, m *LoadAsk, out *Out) {
	load := c.loadFor(&m.Means)
	if load == 0 {
		c.victim.remember(now, from)
	}
	c.send(from, &LoadSay{m.Round, load}, out)
}

func (c *Core) loadSaid(now time.Duration, from filch.NodeName, m *LoadSay, out *Out) {
	t := &c.thief
	if t.phase != asking || m.Round != t.round || !slices.Contains(t.asked, from) {
		return
	}
	t.answers++
	if m.Load > t.load {
		t.load, t.best = m.Load, from
	}
	if t.answers >= len(t.asked) {
		c.choose(now, out)
	}
}

// choose steals from the most loaded of those that answered.
func (c *Core) choose(now time.Duration, out *Out) {
	t := &c.thief
	if t.load == 0 || !c.hungry() {
		c.failed(now)
		return
	}
	t.phase = stealing
	t.ask++
	t.at = now + stealWait
	c.send(t.best, &Steal{t.ask, c.means(now)}, out)
}

// stealWait is how long a thief waits for an offer before it asks others.
const stealWait = 100 * time.Millisecond

// failed ends a try without work: the next one comes after twice the wait.
func (c *Core) failed(now time.Duration) {
	t := &c.thief
	t.phase = resting
	t.failures++
	wait := t.poll
	if n := c.members.lenders(c.cfg.Self); t.vain >= t.enough(n) && (!t.told || t.poll == c.cfg.PollMax) {
		wait = max(wait, PollRest)
		if t.told {
			t.told, t.vain = false, t.enough(n)
		}
	}
	t.at = now + c.upTo(wait)
	t.poll = min(2*t.poll, c.cfg.PollMax)
	if mutantStealStops && (wait >= PollRest || t.poll == c.cfg.PollMax) {
		t.stopped = true
	}
	c.policy.stealFailed()
}

// upTo is a wait of which half is drawn, so that thieves that failed together do
// not come together again.
func (c *Core) upTo(wait time.Duration) time.Duration {
	return wait/2 + time.Duration(c.rng.next()%uint64(wait/2+1))
}

func (c *Core) succeeded() {
	t := &c.thief
	t.failures, t.vain, t.poll, t.told = 0, 0, PollMin, true
	t.phase, t.at = resting, 0
}

func (c *Core) tickThief(now time.Duration, out *Out) {
	t := &c.thief
	if t.at > now {
		return
	}
	switch t.phase {
	case asking:
		if t.answers > 0 {
			c.choose(now, out)
		} else {
			c.failed(now)
		}
	case stealing:
		c.failed(now)
	}
}

// heardNews wakes a thief that rests.
func (c *Core) heardNews(now time.Duration, _ *Out) {
	if !mutantDeaf {
		c.thief.told, c.thief.vain = true, 0
		c.thief.hurry(now)
	}
}

// offered commits what a victim offers. Whatever the record says is ours is
// queued; then the victim may forget it.
func (c *Core) offered(now time.Duration, from filch.NodeName, m *Offer, out *Out) {
	t := &c.thief
	key := xferKey{Owner{from, m.Life}, m.Xfer}
	if m.Ask != 0 && m.Ask == t.ask && t.phase == stealing {
		if len(m.Ranges)+len(m.Tasks) == 0 {
			c.failed(now)
			return
		}
		t.phase, t.at = resting, 0
	}
	if len(m.Ranges)+len(m.Tasks) == 0 || t.moving[key] != nil {
		return
	}
	if c.shed.on || slices.Contains(t.past, key) {
		// Nothing comes here any more, or it was said before, and not heard: then
		// whether all of it was committed is the victim's to see.
		c.send(from, &Done{m.Life, m.Xfer, false}, out)
		return
	}
	mv := &moving{left: 1, all: true}
	t.moving[key] = mv
	for _, r := range m.Ranges {
		c.moveRange(key, mv, r, out)
	}
	c.moveTasks(key, mv, m.Tasks, out)
	c.moved(now, key, mv, out)
}

// moved counts an answer; after the last one the victim is told.
func (c *Core) moved(now time.Duration, key xferKey, mv *moving, out *Out) {
	if mv.left--; mv.left > 0 {
		return
	}
	t := &c.thief
	delete(t.moving, key)
	t.past = append(t.past, key)
	if len(t.past) > pastMax {
		t.past = slices.Delete(t.past, 0, pastMax/2)
	}
	c.send(key.victim.Node, &Done{key.victim.Incarnation, key.xfer, mv.all}, out)
	c.victim.fresh = true
	switch {
	case t.phase != resting:
	case mv.some || mutantNoMove:
		c.succeeded()
		t.at = now
	default:
		c.failed(now) // its victim would offer the same again at once
	}
}

// pastMax transfers are remembered: more than a victim repeats.
const pastMax = 8192

// moveRange commits the move of a range, zone by zone.
func (c *Core) moveRange(key xferKey, mv *moving, r RangeItem, out *Out) {
	j := c.job(r.Job)
	c.know(j, out)
	for lo := r.Lo; lo < r.Hi; {
		num := lo / ZoneSize
		hi := min(r.Hi, (num+1)*ZoneSize)
		op := zoneOp{kind: zMove, lo: lo, hi: hi, front: lo, hop: r.Hop, who: c.self, from: key.victim}
		if lo == r.Lo {
			op.front = min(hi, lo+c.window())
		}
		mv.left++
		j.queue.pending++
		c.merge(KeyZone(r.Job, num), RecordZone, encodeZoneOps([]zoneOp{op}, false), out, func(now time.Duration, a Answer, out *Out) {
			j.queue.pending--
			p, err := decodeZoneReply(a.Value)
			ok := a.Status == AnswerDone && err == nil && len(p.verdicts) == 1 && p.verdicts[0] == vDone
			mv.all, mv.some = mv.all && ok, mv.some || ok
			if (ok || mutantNoMove) && !j.over {
				j.queue.addRange(span{next: op.lo, hi: op.hi, front: op.front, hop: op.hop + 1})
				c.gotWork(now, j, out)
			}
			c.moved(now, key, mv, out)
		})
		lo = hi
	}
}

// gotWork makes what came ready, or void.
func (c *Core) gotWork(now time.Duration, j *job, out *Out) {
	c.active(j)
	if j.void != 0 {
		c.void(now, j, j.void, out)
	}
}

// moveTasks commits the moves of single tasks, block by block.
func (c *Core) moveTasks(key xferKey, mv *moving, tasks []TaskItem, out *Out) {
	type at struct {
		job filch.JobID
		num int32
	}
	groups := make(map[at][]TaskItem)
	var order []at
	for _, t := range tasks {
		k := at{t.Job, t.Index / BlockSize}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], t)
	}
	for _, k := range order {
		group := groups[k]
		j := c.job(k.job)
		c.know(j, out)
		ops := make([]blockOp, len(group))
		for i, t := range group {
			ops[i] = blockOp{kind: bMove, off: uint8(t.Index % BlockSize), from: key.victim}
			ops[i].Attempt, ops[i].Hop, ops[i].Owner = t.Attempt, t.Hop, c.self
		}
		mv.left++
		j.queue.pending++
		c.merge(KeyBlock(k.job, k.num), RecordBlock, encodeBlockOps(ops, false), out, func(now time.Duration, a Answer, out *Out) {
			j.queue.pending--
			p, err := decodeBlockReply(a.Value)
			ok := a.Status == AnswerDone && err == nil && len(p.verdicts) == len(group)
			c.endedBefore(now, j, k.num, &p)
			for i := range group {
				mine := ok && p.verdicts[i] == vDone
				mv.all, mv.some = mv.all && mine, mv.some || mine
				if (mine || mutantNoMove) && !j.over {
					c.tookTask(now, j, &group[i])
				}
			}
			c.gotWork(now, j, out)
			c.moved(now, key, mv, out)
		})
	}
}

// tookTask queues a single task that is ours now.
func (c *Core) tookTask(now time.Duration, j *job, t *TaskItem) {
	it := item{
		index: t.Index, attempt: t.Attempt, hop: t.Hop + 1, crashes: t.Crashes, tracked: true, maybe: t.Maybe,
		bytes: t.Bytes, inputs: t.Inputs,
	}
	at := stamp{it.index, it.attempt, it.hop}
	if j.queue.held[it.index] == at {
		return
	}
	j.queue.held[it.index] = at
	if j.lead != nil {
		delete(j.lead.away, it.index)
	}
	if t.Dedicated {
		j.queue.dedicated.push(it)
		c.policy.at = min(c.policy.at, now+moverPeriod)
		return
	}
	j.queue.shared.push(it)
}
