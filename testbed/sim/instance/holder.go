package instance

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/glance"
	"github.com/filch-hpc/filch/launcher/pools"
	"github.com/filch-hpc/filch/launcher/wire"
	"github.com/filch-hpc/filch/pool"
)

// holder is the process of a node that holds the pool, or waits for its turn: filch pool keep.
// It has the decider that ships, and stops with its machine.
type holder struct {
	e       *elastic
	h       *host
	life    int32
	m       *pool.Manager
	decides bool // in its last look
	dead    bool
}

const (
	// holdFirst is the time from the start of a launcher to that of its holder, and from the
	// death of a holder to the next.
	holdFirst = time.Second
	holdAgain = 5 * time.Second
	// glanceMost is the longest that a node takes to tell what it has.
	glanceMost = 700 * time.Millisecond
)

// hold starts the holder of a launcher.
func (e *elastic) hold(h *host) {
	if old := e.holds[h]; old != nil {
		old.dead = true
	}
	k := &holder{e: e, h: h, life: h.Life(), m: pool.NewManager(h.Name, "sim")}
	e.holds[h] = k
	k.again(holdFirst)
}

// kill ends the process; its launcher starts another.
func (k *holder) kill() {
	e, h := k.e, k.h
	e.w.trace(h.Name, "dies", "holder")
	k.dead = true
	e.trouble()
	e.w.At(e.w.Now()+holdAgain, func() {
		if e.holds[h] == k && h.node != nil && h.Life() == k.life {
			e.hold(h)
		}
	})
}

func (k *holder) up() bool { return !k.dead && k.h.node != nil && k.h.Life() == k.life }

// now is the time of day on the machine.
func (k *holder) now() time.Time { return time.Unix(0, wallClock+int64(k.e.w.Now())+k.h.skew) }

// after goes on later, unless the process has ended; a machine that stands still goes on with
// it late.
func (k *holder) after(d time.Duration, f func()) {
	e := k.e
	e.w.At(e.w.Now()+d, func() {
		switch {
		case !k.up():
		case k.h.Paused():
			k.after(k.h.PausedUntil()-e.w.Now(), f)
		default:
			f()
		}
	})
}

func (k *holder) again(d time.Duration) { k.after(d, k.look) }

// look is one look at the pool.
func (k *holder) look() {
	if !k.h.joined || k.h.dead {
		k.again(pool.LookEvery)
		return
	}
	k.e.readPool(k.h, func(p *pool.Pool, v dht.Version) {
		switch {
		case !k.up():
		case p == nil:
			k.again(pool.LookEvery)
		case !k.m.Holds(k.now(), p):
			k.decides = false
			k.again(2 * pool.LookEvery)
		default:
			k.gather(p, v)
		}
	})
}

// gather asks all nodes, and the batch system.
func (k *holder) gather(p *pool.Pool, v dht.Version) {
	k.decides = true
	e := k.e
	takes := e.dice.Between(time.Millisecond, glanceMost)
	k.after(takes, func() {
		view := e.view(k.h)
		if !k.m.AsksBatch(k.now(), p) {
			k.decide(p, v, view)
			return
		}
		k.after(e.dice.Between(10*time.Millisecond, time.Second), func() {
			view.Batch = e.batch.look()
			k.decide(p, v, view)
		})
	})
}

// decide lets the pool decide, stores the record, and carries out the orders.
func (k *holder) decide(p *pool.Pool, v dht.Version, view *pool.View) {
	if !k.m.Look(k.now(), p, view) {
		k.again(pool.LookEvery)
		return
	}
	k.e.writePool(k.h, p, v, func(ok bool) {
		if !k.up() {
			return
		}
		orders := k.m.Stored(ok)
		k.e.checkNeed(p, orders)
		k.carryOut(orders)
	})
}

// carryOut does the orders one after the other.
func (k *holder) carryOut(orders []pool.Order) {
	if len(orders) == 0 {
		k.again(pool.LookEvery)
		return
	}
	e, o := k.e, orders[0]
	rest := func() { k.carryOut(orders[1:]) }
	switch o.Kind {
	case pool.Submit:
		k.submit(o, rest)
	case pool.Cancel:
		k.after(e.dice.Between(10*time.Millisecond, time.Second), func() {
			e.batch.cancel(o.Job)
			rest()
		})
	case pool.Drain:
		k.after(e.dice.Between(10*time.Millisecond, 500*time.Millisecond), func() {
			for _, name := range o.Nodes {
				if h := e.w.byName[filch.NodeName(name)]; h != nil && h.Speaks() && h.node != nil {
					h.drain(&launcher.Drain{})
				}
			}
			rest()
		})
	}
}

// submit runs sbatch. The batch system takes the job a while after sbatch began, and its
// answer comes later; sbatch may take too long.
func (k *holder) submit(o pool.Order, rest func()) {
	e, w := k.e, k.e.w
	if !k.now().Before(o.By) {
		rest()
		return
	}
	takes := e.dice.Between(20*time.Millisecond, time.Second)
	if e.plan.faults && e.dice.Chance(0.08) {
		takes = e.dice.Between(time.Second, pool.SubmitWait)
	}
	takes = min(takes, o.By.Sub(k.now()))
	slow := func() { // the holder does not look for so long
		if takes > time.Second {
			e.trouble()
		}
	}
	slow()
	name := pool.JobName("sim", e.plan.spec.Name, o.N)
	var told pool.Told
	w.At(w.Now()+takes, func() { // also when the process that asked has ended
		id, err := e.batch.submit(name)
		told = pool.Told{N: o.N, Job: id, Err: err}
	})
	k.after(takes+time.Duration(e.dice.N(2)), func() {
		slow()
		switch {
		case e.plan.faults && !e.quiet && e.dice.Chance(0.06):
			k.kill() // between the submission and its answer
			return
		case e.plan.faults && !e.quiet && e.dice.Chance(0.05): // the answer is lost
		case told.N != 0:
			k.m.Told(told)
		}
		rest()
	})
}

// view is what a node sees of the instance: the answers of all members, joined as a launcher
// joins them.
func (e *elastic) view(h *host) *pool.View {
	wall := wallClock + int64(e.w.Now()) + h.skew
	var all []*wire.Glance
	nodes := []wire.NodeGlance{}
	names := append(slices.Collect(maps.Keys(h.known)), h.Name)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		o := e.w.byName[name]
		if o != h && (!o.Speaks() || o.node == nil || !h.listens(name) || e.dice.Chance(e.w.Net.Links.Loss)) {
			n := wire.NodeGlance{Node: name, State: "up", Silent: true, Slots: int32(len(o.cores)), Alloc: e.groupOf(o)}
			n.Work.Silent = true
			nodes = append(nodes, n)
			continue
		}
		g := o.glance(wall)
		all = append(all, g)
		nodes = append(nodes, g.Node)
	}
	o := glance.Join(all)
	o.Self, o.Nodes = h.Name, nodes
	return pools.View(o, wall)
}

// glance is what a launcher tells of itself.
func (h *host) glance(wall int64) *wire.Glance {
	now, s := h.Local(), h.node.Slots()
	g := &wire.Glance{Live: glance.Live(h.node, func(filch.JobID) int64 { return 0 })}
	g.Jobs, g.More = glance.Choose(glance.Merge(glance.Jobs(h.node, now, wall)))
	g.Node = wire.NodeGlance{Node: h.Name, State: "up", Slots: s.Slots, Holders: h.node.Holders(now), Alloc: h.w.elastic.groupOf(h), Work: h.node.Work(now)}
	if s.Draining {
		g.Node.State = "draining"
	}
	return g
}

// groupOf is the allocation of a host, "" for a login node.
func (e *elastic) groupOf(h *host) string {
	if j := e.jobs[h]; j != nil {
		return j.group()
	}
	return ""
}

// number is the number of the allocation that a batch job is of.
func (e *elastic) number(j *batchJob) int64 {
	n, err := strconv.ParseInt(j.name[strings.LastIndexByte(j.name, '-')+1:], 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
