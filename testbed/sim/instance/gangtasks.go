package instance

import (
	"encoding/binary"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// Tasks that are gangs. The world makes the request of a gang as the daemon does, and the
// keepers run the ranks as those of runs.

// gangTask is one start of a task that is a gang.
type gangTask struct {
	bag    *bag
	launch launcher.TaskLaunch
	host   *host // the owner of the task, the origin of the ranks
	job    *job  // what the keepers of the ranks find in their order
	handed bool  // the Node has the request
	began  bool  // a rank was exec'ed
	lost   bool  // the owner's launcher is gone, or was declared dead
	lostAt time.Duration
	over   bool // ended, or lost
}

// gangOrders is the first number of gangs in the orders of keepers: see [order].
const gangOrders = 1 << 20

// Sizes of the gangs of a fault run.
const (
	gangBagsMax  = 2
	gangTasksMax = 16
	gangNodesMax = 3 // nodes' worth of ranks
	heldMax      = 400 * time.Millisecond
)

// drawGangs draws bags whose tasks are gangs.
func (w *World) drawGangs(d *engine.Dice) {
	if d.Chance(0.4) {
		return
	}
	for range 1 + d.N(gangBagsMax) {
		w.drawGangBag(d)
	}
}

func (w *World) drawGangBag(d *engine.Dice) *bag {
	b := &bag{index: len(w.bags), host: int32(d.N(len(w.hosts))), submit: d.Between(time.Millisecond, submitSpan)}
	b.longest = d.Between(10*time.Millisecond, 3*time.Second)
	b.shortest = b.longest / 4
	s := &b.request
	s.Name, s.Follow, s.Total = "gangs", true, int32(1+d.N(gangTasksMax))
	s.Spec = record.Spec{Body: taskBody(b.index), Each: filch.Room{Slots: 1}, Once: d.Chance(0.25), Retries: int32(d.N(3)), CrashLimit: 100}
	if d.Chance(0.5) {
		s.Spec.CrashLimit, s.Spec.Sure = uint8(1+d.N(3)), d.Chance(0.3)
	}
	each, hosts := int(w.opt.Slots), len(w.hosts)
	ranks := 1 + d.N(each)
	switch d.N(4) {
	case 0: // more than a node's
		ranks = 1 + d.N(min(gangNodesMax, hosts)*each)
	case 1: // fat ranks
		s.Spec.Each.Slots = int32(1 + d.N(each))
		ranks = 1 + d.N(each/int(s.Spec.Each.Slots)*min(gangNodesMax, hosts))
	}
	s.Spec.Gang.Ranks = int32(ranks)
	if d.Chance(0.3) {
		s.Spec.Gang.Nodes = int32(1 + d.N(min(gangNodesMax, ranks, hosts)))
	}
	if g := &s.Spec.Gang; b.index%2 == 1 && !s.Spec.Once && hosts > 2 && ranks <= each/int(s.Spec.Each.Slots)*(hosts-1) {
		g.Spare, g.Nodes = 1, min(g.Nodes, int32(hosts-1))
	}
	if d.Chance(0.2) {
		s.Spec.Cap = int32(1 + d.N(4))
	}
	if d.Chance(0.4) {
		b.failEvery = 2 + d.N(6)
	}
	if d.Chance(0.1) {
		b.limit = d.Between(20*time.Millisecond, time.Second)
	}
	b.grow(s.Total)
	w.bags = append(w.bags, b)
	w.At(b.submit, func() { w.submitBag(b) })
	if d.Chance(0.2) {
		w.At(b.submit+d.Between(time.Millisecond, 5*time.Second), func() { w.cancelBag(b) })
	}
	if d.Chance(0.1) {
		w.At(b.submit+d.Between(time.Millisecond, 5*time.Second), func() { w.leaveBag(b) })
	}
	if d.Chance(0.3) {
		w.drawOrders(d, b)
	}
	return b
}

// drawOrders has a client cancel some tasks of a bag, or hold the bag for a while.
func (w *World) drawOrders(d *engine.Dice, b *bag) {
	at := b.submit + d.Between(time.Millisecond, 5*time.Second)
	if d.Chance(0.5) {
		pick := record.Pick{From: int32(d.N(int(b.request.Total)))}
		pick.Count = int32(1 + d.N(int(b.request.Total-pick.From)))
		w.At(at, func() { w.orderBag(b, record.Orders{Cancels: []record.Pick{pick}}) })
		return
	}
	w.At(at, func() { w.orderBag(b, record.Orders{Held: true, By: "the plan"}) })
	w.At(at+d.Between(time.Millisecond, 5*time.Second), func() { w.releaseBag(b) })
}

func (w *World) orderBag(b *bag, o record.Orders) {
	if b.id == 0 || b.finished {
		return
	}
	b.ordered, b.held = b.ordered || len(o.Cancels) > 0, b.held || o.Held
	w.onSomeHost(func(h *host, now time.Duration, out *launcher.Outbox) { h.node.OrderTasks(now, b.id, o, out) })
}

// releaseBag releases a held bag, again and again: the node that was told may die over it.
func (w *World) releaseBag(b *bag) {
	if b.finished || b.refused || w.Now() > closeUntil {
		return
	}
	w.orderBag(b, record.Orders{Serial: 1}) // the hold was the first order
	w.At(w.Now()+closeAgain, func() { w.releaseBag(b) })
}

// startGang makes the request of a gang. Its launcher may hold the request back for a
// while.
func (w *World) startGang(h *host, b *bag, l launcher.TaskLaunch) {
	d, s := w.gangRng, l.Start.Spec
	g := &gangTask{bag: b, launch: l, host: h}
	j := &job{outcome: newOutcome(), host: h.Index, index: gangOrders + len(w.gangs), gang: g}
	j.Slots, j.Runs = int(s.Gang.Ranks*s.Each.Slots), b.length(d)
	j.request = launcher.Request{
		Name: b.request.Name, Order: order(j.index), Shape: launcher.Shape{Ranks: s.Gang.Ranks, PerRank: s.Each, MinNodes: s.Gang.Nodes, Spare: s.Gang.Spare},
		Policy: launcher.Policy{KillOnBad: true, KillWait: d.Between(200*time.Millisecond, 2*time.Second), TimeLimit: b.limit},
	}
	j.plan = plan{checksMin: 50 * time.Microsecond, checksMax: 2 * time.Millisecond, spread: 5 * time.Millisecond, unready: -1, deaf: d.Chance(0.2)}
	if w.opt.Plain {
		j.plan.deaf = false
	} else if e := b.endOf(&l.Start); e.Kind != launcher.CauseNone {
		bad := launcher.RankEnd{Kind: launcher.CauseExit, Code: e.Code}
		j.plan.bad = []badEnd{{rank: filch.Rank(d.N(int(s.Gang.Ranks))), after: d.Between(0, j.Runs), end: bad}}
	} else if d.Chance(0.03) {
		j.plan.unready, j.plan.unreadyCause = int32(d.N(int(min(s.Gang.Ranks, 4)))), launcher.CauseNotFound
	}
	g.job = j
	w.gangs = append(w.gangs, g)
	if h.gangs[l.Serial] != nil {
		w.Fail("double-start", "%s: a second gang %d", h.Name, l.Serial)
		return
	}
	h.gangs[l.Serial] = g
	held := time.Duration(0)
	if !w.opt.Plain && d.Chance(0.1) {
		held = d.Between(0, heldMax)
	}
	h.Input(w.Now()+held, func() { g.begin() })
}

// begin hands the request to the Node.
func (g *gangTask) begin() {
	h := g.host
	if g.over || h.gangs[g.launch.Serial] != g {
		return
	}
	g.handed, g.job.submittedAt = true, h.w.Now()
	h.take(&input{what: "<- gang", body: &g.job.demand, do: func(now time.Duration, out *launcher.Outbox) {
		h.node.Tasks.Gangs.Start(now, g.launch.Serial, g.job.request, out)
	}})
}

// stopGang has a launcher drop a gang whose request it holds back; the Node ends the
// others.
func (w *World) stopGang(g *gangTask) {
	if g.handed || w.gangRng.Chance(0.5) {
		return
	}
	delete(g.host.gangs, g.launch.Serial)
	g.over = true
	g.report(launcher.TaskEnd{Kind: launcher.CauseCancel, Code: filch.ExitCancelled, Told: true})
}

// report has the launcher hear of the end of a gang.
func (g *gangTask) report(e launcher.TaskEnd) {
	h := g.host
	e.Serial = g.launch.Serial
	at := h.w.Now() + h.w.gangRng.Between(keeperWordMin, keeperWordMax)
	h.give(at, &input{what: "<- gang", body: e, do: func(now time.Duration, out *launcher.Outbox) {
		h.node.TaskEnds(now, []launcher.TaskEnd{e}, out)
	}})
}

// endGang takes in that the Node says that a gang is over.
func (w *World) endGang(h *host, e *launcher.TaskEnd) {
	w.trace(h.Name, "ends", *e)
	g := h.gangs[e.Serial]
	if g == nil {
		w.Fail("gang-end", "%s: the end of a gang %d that it does not have: %s", h.Name, e.Serial, show(*e))
		return
	}
	delete(h.gangs, e.Serial)
	w.Mix(e.Serial<<8 | uint64(e.Kind))
	if g.lost { // its task is another node's, which no longer asks this one
		g.report(*e)
		return
	}
	w.checkGangEnd(g, e)
	if e.Kind == launcher.CauseNone {
		g.bag.oks[g.launch.Start.Index]++
	}
	g.job.endedAt = w.Now()
	g.gone()
	g.report(*e)
}

// gone takes a gang off the tasks that run.
func (g *gangTask) gone() {
	if g.began && !g.over {
		g.bag.running--
		g.bag.lastAt = g.host.w.Now()
	}
	g.over = true
}

// loseGangs: nobody will hear of the gangs of a launcher that is gone, or was declared
// dead. Their ranks must be gone in time.
func (w *World) loseGangs(h *host) {
	for _, g := range w.gangs {
		if g.host != h || g.lost || g.over && g.job.endedAt >= 0 {
			continue
		}
		g.lost, g.lostAt, g.job.restarted = true, w.Now(), true
		g.gone()
		w.At(w.Now()+gangBound+w.slack(), func() { w.checkGangGone(g) })
	}
}

// execGang takes in that a rank of a gang begins.
func (w *World) execGang(g *gangTask) {
	if g.began {
		return
	}
	g.began = true
	w.began(g.bag, &g.launch, g.host)
	w.At(w.Now()+halfBound, func() { w.checkGangWhole(g) })
	if g.over { // its owner is gone
		g.bag.running--
	}
}

// bagOf is the bag of a start.
func (w *World) bagOf(h *host, s *mtc.Start) *bag {
	body := s.Spec.Body
	if len(body) != 5 {
		w.Fail("task-body", "%s starts task %d.%d with a body of %d bytes", h.Name, s.Job, s.Index, len(body))
		return nil
	}
	return w.bags[binary.LittleEndian.Uint32(body[1:])]
}
