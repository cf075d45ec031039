package instance

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// bag is a job of tasks: a bag, a workflow or one that stays open. It is what
// its client asked and was told, and what its processes did.
type bag struct {
	index     int
	host      int32 // whose client submits it
	submit    time.Duration
	request   submit.Job
	shortest  time.Duration // of its tasks
	longest   time.Duration
	stubborn  bool          // its tasks end by a kill only
	failEvery int           // of attempts; 0: none fails
	stepEvery int           // of tasks, which have steps; 0: none has
	limit     time.Duration // of a gang; 0: none
	after     []*bag        // it waits for their end
	each      *bag          // its tasks wait one by one for the tasks of this one; nil: they do not
	adds      []addition
	closeAt   time.Duration
	chains    []time.Duration // from each task on; nil: see [bag.chain]
	news
	deeds
}

// addition is what a client adds to an open bag.
type addition struct {
	at    time.Duration
	count int32
	told  bool // its client heard that it is kept
}

// news is what the client of a bag was told.
type news struct {
	id        filch.JobID
	asked     bool
	refused   bool
	finished  bool
	tally     record.Tally
	cancelled bool // by a client
	ordered   bool // a client cancelled some of its tasks
	held      bool // a client held it, for a while
	gone      bool // its client is gone, or its launcher was
}

// deeds is what the processes of a bag did.
type deeds struct {
	starts  []uint16
	nths    []uint64 // by task: which of its starts happened, as bits
	oks     []uint16 // ends that were well, by task
	copies  map[copyOf]int
	recalls []uint16      // starts that were stopped for a gang, by task
	torn    map[int32]int // starts that ended with their launcher, or were stopped, by task
	running int32
	lapsed  bool          // a shard of its records came back with older ones
	lastAt  time.Duration // when one ended last
	moving  int           // for how many looks in a row tasks of it were said to be on their way
}

// taskClients is where the connections of the bags' clients begin.
const taskClients = 1 << 20

func (b *bag) client() launcher.ClientID { return launcher.ClientID(taskClients + b.index) }

func (b *bag) length(d *engine.Dice) time.Duration { return d.Between(b.shortest, b.longest) }

// drawBags draws the jobs of tasks of a run.
func (w *World) drawBags(d *engine.Dice) {
	for range d.N(bagsMax + 1) {
		w.drawBag(d)
	}
}

// Sizes of the bags of a fault run.
const (
	bagsMax  = 4
	tasksMax = 300
)

func (w *World) drawBag(d *engine.Dice) {
	b := &bag{index: len(w.bags), host: int32(d.N(len(w.hosts))), submit: d.Between(time.Millisecond, submitSpan)}
	b.longest = d.Between(2*time.Millisecond, 400*time.Millisecond)
	b.shortest = b.longest / 8
	s := &b.request
	s.Name, s.Follow = fmt.Sprintf("bag%d", b.index), true
	s.Total = int32(1 + d.N(tasksMax))
	s.Spec = record.Spec{Body: taskBody(b.index), Each: filch.Room{Slots: 1}, Once: d.Chance(0.25), Retries: int32(d.N(3)), CrashLimit: 100}
	if d.Chance(0.5) {
		s.Spec.CrashLimit, s.Spec.Sure = uint8(1+d.N(3)), d.Chance(0.3)
	}
	if d.Chance(0.4) {
		b.failEvery = 3 + d.N(20)
	}
	switch d.N(5) {
	case 0:
		s.Spec.Cap = int32(1 + d.N(6))
		s.Total = min(s.Total, 60)
	case 1:
		s.Nodes = graph(d, int(min(s.Total, 120)))
		w.drawData(s.Nodes)
		s.Spec.OnFail = record.FailMode(d.N(3))
		s.Total = int32(len(s.Nodes))
	case 2:
		w.drawOpen(d, b)
	case 3:
		s.Spec.Each.Slots = int32(1 + d.N(int(w.opt.Slots)))
	}
	w.drawLengths(s)
	if len(s.Nodes) == 0 {
		s.Spread, _ = policy.ParseSpreading([]string{"auto", "1", "log", "sqrt", "all"}[w.spreadRng.N(5)])
	}
	b.grow(s.Total)
	w.bags = append(w.bags, b)
	w.At(b.submit, func() { w.submitBag(b) })
	if d.Chance(0.15) {
		w.At(b.submit+d.Between(time.Millisecond, 5*time.Second), func() { w.cancelBag(b) })
	}
	if d.Chance(0.1) {
		w.At(b.submit+d.Between(time.Millisecond, 5*time.Second), func() { w.leaveBag(b) })
	}
}

// drawLengths has a bag state the lengths of its tasks, for their order.
func (w *World) drawLengths(s *submit.Job) {
	if len(s.Nodes) > 0 || !w.lengthRng.Chance(0.3) {
		return
	}
	all := make([]time.Duration, s.Total)
	for i := range all {
		all[i] = w.lengthRng.Between(0, time.Second)
	}
	s.Long = record.NewLengths(all)
}

// drawOpen makes a bag one that its client adds to, and closes in the end.
func (w *World) drawOpen(d *engine.Dice, b *bag) {
	b.request.Open = true
	b.request.Total = int32(d.N(20))
	at := b.submit + time.Second
	for range d.N(5) {
		b.adds = append(b.adds, addition{at: at, count: int32(1 + d.N(60))})
		at += d.Between(50*time.Millisecond, 3*time.Second)
	}
	b.closeAt = at
}

// graph draws the tasks of a workflow, each behind up to three of those before.
func graph(d *engine.Dice, n int) (nodes []record.GraphNode) {
	for i := range n {
		g := record.GraphNode{Name: fmt.Sprint("t", i)}
		for range d.N(4) {
			if i > 0 {
				g.Parents = append(g.Parents, int32(max(i-1-d.N(20), 0)))
			}
		}
		nodes = append(nodes, g)
	}
	return nodes
}

// submitBag has the client of a bag hand it to its launcher.
func (w *World) submitBag(b *bag) {
	h := w.hosts[b.host]
	if h.node == nil {
		return // it would not find a launcher
	}
	h.give(w.Now(), &input{what: "<- submit", body: b.request.Name, do: func(now time.Duration, out *launcher.Outbox) {
		b.asked = true
		if w.elastic == nil {
			w.drawAfter(b)
		}
		h.node.SubmitTasks(now, b.client(), b.request, wallClock+int64(b.submit)+h.skew, out)
	}})
	for i := range b.adds {
		w.At(b.adds[i].at, func() { w.addTo(b, int32(i)) })
	}
	if b.request.Open {
		w.At(b.closeAt, func() { w.closeBag(b) })
	}
}

// drawAfter has a bag wait for the end of another one, or its tasks one by one for the tasks of
// another one, as its client asks for it.
func (w *World) drawAfter(b *bag) {
	if each := w.eachRng.Chance(0.4); !w.afterRng.Chance(0.15) {
		if each && len(b.request.Nodes) == 0 {
			w.drawEach(b)
		}
		return
	}
	for _, o := range w.bags {
		if o.id != 0 && o != b {
			b.after, b.request.After = []*bag{o}, []filch.JobID{o.id}
		}
	}
}

func (w *World) drawEach(b *bag) {
	for _, o := range w.bags {
		if o.id != 0 && o != b && len(o.request.Nodes) == 0 {
			b.each, b.request.After, b.request.When = o, []filch.JobID{o.id}, []record.When{record.WhenEach}
		}
	}
}

func (w *World) addTo(b *bag, i int32) {
	h := w.hosts[b.host]
	if h.node == nil || b.id == 0 || b.gone {
		return
	}
	h.call(func(now time.Duration, out *launcher.Outbox) {
		h.node.GrowTasks(now, b.client(), b.id, i+1, b.adds[i].count, nil, out)
	})
}

// closeAgain is how often a bag is closed that is still open: the node that was
// told may die over it.
const closeAgain = 2 * time.Second

func (w *World) closeBag(b *bag) {
	if b.finished || b.refused || w.Now() > closeUntil {
		return
	}
	w.onSomeHost(func(h *host, now time.Duration, out *launcher.Outbox) {
		if b.id != 0 {
			h.node.CloseTasks(now, b.id, out)
		}
	})
	w.At(w.Now()+closeAgain, func() { w.closeBag(b) })
}

const closeUntil = faultSpan + cutLongest + settleSpan/2

func (w *World) cancelBag(b *bag) {
	if b.id == 0 || b.finished {
		return
	}
	w.onSomeHost(func(h *host, now time.Duration, out *launcher.Outbox) {
		b.cancelled = true
		h.node.CancelTasks(now, b.id, "", out)
	})
	if b.gangs() {
		w.mustStopGangs(b)
	}
}

// leaveBag has the client of a bag go away: the job goes on.
func (w *World) leaveBag(b *bag) {
	h := w.hosts[b.host]
	if h.node == nil || b.gone {
		return
	}
	b.gone = true
	h.call(func(now time.Duration, out *launcher.Outbox) { h.node.ClientGone(now, b.client(), out) })
}

// someHost is a launcher that answers, drawn at random; nil without one.
func (w *World) someHost(d *engine.Dice) *host {
	first := d.N(len(w.hosts))
	for i := range w.hosts {
		if h := w.hosts[(first+i)%len(w.hosts)]; h.Speaks() && h.node != nil {
			return h
		}
	}
	return nil
}

// onSomeHost gives a launcher that answers a call of a client.
func (w *World) onSomeHost(f func(h *host, now time.Duration, out *launcher.Outbox)) {
	for i := range w.hosts {
		h := w.hosts[(int(w.Now())+i)%len(w.hosts)]
		if h.Speaks() && h.node != nil {
			h.call(func(now time.Duration, out *launcher.Outbox) { f(h, now, out) })
			return
		}
	}
}

// tear notes that a start of a task came to nothing, or that its end may be unknown.
func (b *bag) tear(index int32) {
	if b.torn == nil {
		b.torn = make(map[int32]int)
	}
	b.torn[index]++
}

// grow makes room for what is known of a bag's tasks.
func (b *bag) grow(total int32) {
	for int32(len(b.starts)) < total {
		b.starts, b.nths, b.oks, b.recalls = append(b.starts, 0), append(b.nths, 0), append(b.oks, 0), append(b.recalls, 0)
	}
}

// loseBags: the clients of a host whose launcher died hear nothing any more.
func (w *World) loseBags(h *host) {
	for _, b := range w.bags {
		if b.host == h.Index && b.asked {
			b.gone = true
		}
	}
}

// taskReply is news of a bag on its way to its client.
func (w *World) taskReply(h *host, r launcher.Reply) {
	b := w.bags[int(r.Client)-taskClients]
	e, ok := r.Event.(launcher.TaskNews)
	if !ok {
		w.Fail("wrong-event", "the client of bag %d hears %s", b.index, show(r.Event))
		return
	}
	w.Mix(uint64(b.index)<<32 | uint64(e.What))
	switch {
	case b.host != h.Index:
		w.Fail("wrong-client", "%s replies to a client of %s", h.Name, w.hosts[b.host].Name)
	case b.finished && e.What != launcher.TasksFinished && e.Token == 0:
		w.Fail("after-end", "bag %d: %s after its end", b.index, show(e))
	case e.What == launcher.TasksAccepted:
		b.id = e.Job
		w.numbered(b.id, b.client())
		w.byBag[e.Job] = b
	case e.What == launcher.TasksRefused:
		w.checkBagRefused(b, &e)
	case e.What == launcher.TasksAdded:
		b.adds[e.Token-1].told = true
	case e.What == launcher.TasksFinished:
		b.finished, b.tally = true, e.Tally
		w.checkBagTold(b, &e)
	}
}
