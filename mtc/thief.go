package mtc

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/message"
	"github.com/filch-hpc/filch/mtc/record"
)

// Parameters of stealing (MATRIX v2, III.A).
const (
	PollMin = time.Millisecond // first wait after a failure, doubled with each
	PollMax = time.Second      // default bound of the wait; the papers' thieves stop there
	askWait = 20 * time.Millisecond
	widenAt = 3 // failures in a row after which two more neighbors are asked, each time

	// A thief that has asked enough nodes, and found nothing, looks again after PollRest:
	// an idle instance is silent. A node with new work sends news; the look is for lost
	// messages. Enough is sqrt(N) nodes, and 2N nodes after news of work. A new node
	// rests first: otherwise all nodes of a starting instance would ask, and dial, each
	// other.
	PollRest = 30 * time.Second
	restAt   = 2
	// In an instance of at most tellAll nodes, each node with work to steal sends news to
	// a new node.
	tellAll = 16
)

// thief is a node that looks for work.
type thief struct {
	*turn
	core     *Core
	phase    thiefPhase
	survey   survey
	ask      uint64 // number of the last steal
	poll     time.Duration
	at       time.Duration // when the phase ends
	failures int
	vain     int  // nodes asked since the last success, or since news
	told     bool // news of work came since the last look that found none
	begun    bool // the node has looked for work, or had work
	moving   map[xferKey]*moving
	past     []xferKey // finished transfers, so that each counts once
	tries    int64
	stopped  bool
}

// survey asks some nodes for the number of stealable tasks at each. Answers to an earlier
// round, and from other nodes, count for nothing.
type survey struct {
	round   uint32
	asked   []filch.NodeName
	answers int
	best    filch.NodeName // the most loaded of the answering nodes
	load    int64          // of best
}

func (s *survey) begin(asked []filch.NodeName) {
	*s = survey{round: s.round + 1, asked: asked}
}

// answer takes in an answer and returns false if the answer does not count.
func (s *survey) answer(from filch.NodeName, m *message.LoadSay) bool {
	if m.Round != s.round || !slices.Contains(s.asked, from) {
		return false
	}
	s.answers++
	if m.Load > s.load {
		s.load, s.best = m.Load, from
	}
	return true
}

func (s *survey) complete() bool { return s.answers >= len(s.asked) }

type thiefPhase uint8

const (
	resting  thiefPhase = iota // until at
	asking                     // for loads
	stealing                   // from the most loaded
)

// xferKey names a transfer, with the victim's number for the transfer.
type xferKey struct {
	victim record.Owner
	xfer   uint64
}

// moving is an offer whose moves are being committed.
type moving struct {
	left int  // answers to come
	all  bool // all moves so far succeeded
	some bool // at least one move succeeded
}

func (t *thief) init(c *Core) {
	t.core, t.turn = c, &c.turn
	t.poll = PollMin
	t.moving = make(map[xferKey]*moving)
}

// deadline is when the thief must act next. A resting thief that is not hungry has no
// deadline: the input that makes the thief hungry wakes the thief.
func (t *thief) deadline() time.Duration {
	if t.phase == resting && t.at == 0 {
		return filch.Never
	}
	return t.at
}

// hurry makes the thief look at once: there may be tasks to steal.
func (t *thief) hurry(now time.Duration) {
	if t.phase == resting && t.at > now {
		t.at = now
		t.poll = PollMin
		t.failures = 0
	}
}

// enough is how many of n other nodes a thief asks in vain before a rest.
func (t *thief) enough(n int) int {
	if t.told {
		return restAt * n
	}
	return filch.Root(n + 1)
}

// onArrival takes in a new node. The new node has no tasks yet and is no reason to look
// for work. A node with work to steal may send news to the new node, which does not look
// at once; of many nodes, a few send news.
func (t *thief) onArrival(name filch.NodeName) {
	n := t.core.cfg.Members.Others(t.core.cfg.Self)
	if mutantStorm {
		t.hurry(t.now)
	}
	if t.core.Load() > 0 && (n <= tellAll || t.core.rng.IntN(n) < 4*filch.Root(n)) {
		t.core.victim.remember(t.now, name)
		t.core.victim.fresh = true
	}
}

// hungry reports whether there is free room and no task for the room.
func (t *thief) hungry() bool {
	if t.core.drain.on || t.core.exec.room.Slots <= t.core.exec.used.Slots || len(t.moving) > 0 {
		return false
	}
	for _, j := range t.core.order {
		if !j.queue.starved(j) {
			return false
		}
	}
	return true
}

// starved reports whether a job has no task that could start here soon: a cooling task,
// or a task without a token, does not count.
func (q *readyQueue) starved(j *job) bool {
	if !q.startable() || j.held() {
		return true
	}
	return j.spec.Cap > 0 && j.running >= j.tokens.held && !j.tokens.asking && j.tokens.seq > 0
}

// seek looks for work if this node has none.
func (t *thief) seek() {
	if t.phase != resting || t.at > t.now || t.stopped {
		return
	}
	if t.core.pace.late > t.now {
		t.at = t.core.pace.late
		return
	}
	if !t.hungry() {
		t.at, t.begun = 0, t.begun || len(t.core.order) > 0
		return
	}
	n := t.core.cfg.Members.Lenders(t.core.cfg.Self)
	if n <= 0 {
		t.at = 0
		return
	}
	if !t.begun {
		t.begun = true
		if !t.told && !mutantStorm {
			t.at = t.now + t.upTo(PollRest)
			return
		}
	}
	k := filch.Root(n + 1)
	if t.vain < t.enough(n) {
		k += 2 * (t.failures / widenAt)
	}
	asked := t.core.cfg.Members.Choose(t.core.cfg.Victims, t.core.cfg.Self, min(max(k, 1), n, neighborsMax), t.failures, &t.core.rng)
	if len(asked) == 0 {
		t.failed()
		return
	}
	t.survey.begin(asked)
	t.phase = asking
	t.at = t.now + askWait
	t.tries++
	t.vain += len(asked)
	means := t.core.means()
	for _, name := range asked {
		t.send(name, &message.LoadAsk{Round: t.survey.round, Means: means})
	}
}

// capWords lists the capped jobs of this node, each with its idle tokens.
func (c *Core) capWords() (list []message.CapWord) {
	for _, j := range c.sortedCapped() {
		if len(list) < message.CapWordsMax {
			list = append(list, message.CapWord{Job: j.id, Idle: max(j.tokens.held-j.running, 0)})
		}
	}
	return list
}

// neighborsMax bounds how many nodes a thief asks at once.
const neighborsMax = 128

func (v *victim) onLoadAsk(from filch.NodeName, m *message.LoadAsk) {
	load := v.loadFor(&m.Means)
	if load == 0 {
		v.remember(v.now, from)
	}
	v.send(from, &message.LoadSay{Round: m.Round, Load: load})
}

func (t *thief) onLoad(from filch.NodeName, m *message.LoadSay) {
	if t.phase == asking && t.survey.answer(from, m) && t.survey.complete() {
		t.choose()
	}
}

// choose steals from the most loaded of the answering nodes.
func (t *thief) choose() {
	if t.survey.load == 0 || !t.hungry() {
		t.failed()
		return
	}
	t.phase = stealing
	t.ask++
	t.at = t.now + stealWait
	t.send(t.survey.best, &message.Steal{Ask: t.ask, Means: t.core.means()})
}

// stealWait is how long a thief waits for an offer before it asks others.
const stealWait = 100 * time.Millisecond

// failed ends a try without work: the next try comes after twice the wait.
func (t *thief) failed() {
	t.phase = resting
	t.failures++
	wait := t.poll
	if n := t.core.cfg.Members.Lenders(t.core.cfg.Self); t.vain >= t.enough(n) && (!t.told || t.poll == t.core.cfg.PollMax) {
		wait = max(wait, PollRest)
		if t.told {
			t.told, t.vain = false, t.enough(n)
		}
	}
	t.at = t.now + t.upTo(wait)
	t.poll = min(2*t.poll, t.core.cfg.PollMax)
	if mutantStealStops && (wait >= PollRest || t.poll == t.core.cfg.PollMax) {
		t.stopped = true
	}
	t.core.mover.stealFailed()
}

// upTo draws a wait between half of wait and all of wait, so that thieves that failed
// together do not come back together.
func (t *thief) upTo(wait time.Duration) time.Duration {
	return wait/2 + time.Duration(t.core.rng.Uint64()%uint64(wait/2+1))
}

func (t *thief) succeeded() {
	t.failures, t.vain, t.poll, t.told = 0, 0, PollMin, true
	t.phase, t.at = resting, 0
}

func (t *thief) tick() {
	if t.at > t.now {
		return
	}
	switch t.phase {
	case asking:
		if t.survey.answers > 0 {
			t.choose()
		} else {
			t.failed()
		}
	case stealing:
		t.failed()
	}
}

// onNews wakes a thief that rests.
func (t *thief) onNews() {
	if !mutantDeaf {
		t.told, t.vain = true, 0
		t.hurry(t.now)
	}
}

// onOffer commits the moves of a victim's offer. The thief queues the tasks whose move
// the records accept; then the victim may forget the offer.
func (t *thief) onOffer(from filch.NodeName, m *message.Offer) {
	key := xferKey{record.Owner{Node: from, Incarnation: m.Life}, m.Xfer}
	if m.Ask != 0 && m.Ask == t.ask && t.phase == stealing {
		if len(m.Ranges)+len(m.Tasks) == 0 {
			t.failed()
			return
		}
		t.phase, t.at = resting, 0
	}
	if len(m.Ranges)+len(m.Tasks) == 0 || t.moving[key] != nil {
		return
	}
	if t.core.drain.on || slices.Contains(t.past, key) {
		// This node takes no work any more, or the offer was answered before, and the
		// answer was lost: then the victim checks whether all moves were committed.
		t.send(from, &message.Done{Life: m.Life, Xfer: m.Xfer, All: false})
		return
	}
	mv := &moving{left: 1, all: true}
	t.moving[key] = mv
	for _, r := range m.Ranges {
		t.moveRange(key, mv, r)
	}
	t.moveTasks(key, mv, m.Tasks)
	t.moved(key, mv)
}

// moved counts an answer; after the last answer the thief notifies the victim.
func (t *thief) moved(key xferKey, mv *moving) {
	if mv.left--; mv.left > 0 {
		return
	}

	delete(t.moving, key)
	t.past = append(t.past, key)
	if len(t.past) > pastMax {
		t.past = slices.Delete(t.past, 0, pastMax/2)
	}
	t.send(key.victim.Node, &message.Done{Life: key.victim.Incarnation, Xfer: key.xfer, All: mv.all})
	t.core.victim.fresh = true
	switch {
	case t.phase != resting:
	case mv.some || mutantNoMove:
		t.succeeded()
		t.at = t.now
	default:
		t.failed() // the victim would offer the same tasks again at once
	}
}

// pastMax bounds the remembered transfers: more than a victim repeats.
const pastMax = 8192

// moveRange commits the move of a range, zone by zone.
func (t *thief) moveRange(key xferKey, mv *moving, r message.RangeItem) {
	j := t.core.job(r.Job)
	t.core.know(j)
	for lo := r.Lo; lo < r.Hi; {
		num := lo / record.ZoneSize
		hi := min(r.Hi, (num+1)*record.ZoneSize)
		op := record.ZoneOp{Kind: record.ZoneMove, Lo: lo, Hi: hi, Front: lo, Hop: r.Hop, Owner: t.core.self, From: key.victim}
		if lo == r.Lo {
			op.Front = min(hi, lo+t.core.exec.window())
		}
		mv.left++
		j.queue.pending++
		t.core.commits.merge(record.KeyZone(r.Job, num), record.RecordZone, record.EncodeZoneOps([]record.ZoneOp{op}, false), func(a Answer) {
			j.queue.pending--
			p, err := record.DecodeZoneReply(a.Value)
			ok := a.Status == AnswerDone && err == nil && len(p.Verdicts) == 1 && p.Verdicts[0] == record.VerdictDone
			mv.all, mv.some = mv.all && ok, mv.some || ok
			if (ok || mutantNoMove) && !j.over {
				j.queue.addRange(span{next: op.Lo, hi: op.Hi, front: op.Front, hop: op.Hop + 1})
				t.core.gotWork(j)
			}
			t.moved(key, mv)
		})
		lo = hi
	}
}

// gotWork makes received tasks ready, or void.
func (c *Core) gotWork(j *job) {
	c.active(j)
	c.orders.obey(j)
}

// moveTasks commits the moves of single tasks, block by block.
func (t *thief) moveTasks(key xferKey, mv *moving, tasks []message.TaskItem) {
	type at struct {
		job filch.JobID
		num int32
	}
	groups := make(map[at][]message.TaskItem)
	var order []at
	for _, task := range tasks {
		k := at{task.Job, task.Index / record.BlockSize}
		if groups[k] == nil {
			order = append(order, k)
		}
		groups[k] = append(groups[k], task)
	}
	for _, k := range order {
		group := groups[k]
		j := t.core.job(k.job)
		t.core.know(j)
		ops := make([]record.BlockOp, len(group))
		for i, task := range group {
			ops[i] = record.BlockOp{Kind: record.BlockMove, Off: uint8(task.Index % record.BlockSize), From: key.victim}
			ops[i].Attempt, ops[i].Hop, ops[i].Owner = task.Attempt, task.Hop, t.core.self
		}
		mv.left++
		j.queue.pending++
		t.core.commits.merge(record.KeyBlock(k.job, k.num), record.RecordBlock, record.EncodeBlockOps(ops, false), func(a Answer) {
			j.queue.pending--
			p, err := record.DecodeBlockReply(a.Value)
			ok := a.Status == AnswerDone && err == nil && len(p.Verdicts) == len(group)
			t.core.recorder.endedBefore(j, k.num, &p)
			for i := range group {
				mine := ok && p.Verdicts[i] == record.VerdictDone
				mv.all, mv.some = mv.all && mine, mv.some || mine
				if (mine || mutantNoMove) && !j.over {
					t.tookTask(j, &group[i])
				}
			}
			t.core.gotWork(j)
			t.moved(key, mv)
		})
	}
}

// tookTask queues a single task that is ours now.
func (t *thief) tookTask(j *job, task *message.TaskItem) {
	it := item{
		index: task.Index, attempt: task.Attempt, hop: task.Hop + 1, crashes: task.Crashes, tracked: true, maybe: task.Maybe,
		bytes: task.Bytes, inputs: task.Inputs,
	}
	at := stamp{it.index, it.attempt, it.hop}
	if j.queue.held[it.index] == at {
		return
	}
	j.queue.held[it.index] = at
	if j.leader != nil {
		delete(j.leader.away, it.index)
	}
	if task.Dedicated {
		j.queue.dedicated.Push(it)
		t.core.mover.at = min(t.core.mover.at, t.now+moverPeriod)
		return
	}
	j.queue.shared.Push(it)
}
