package instance

import (
	"fmt"
	"slices"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/pool"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// An elastic world has a pool. Its first hosts are login nodes without slots; the others are
// machines of a simulated batch system, which come with an allocation of the pool and go with
// the allocation. The record of the pool is in the store of the nodes, each node is a holder
// with the decider that ships, and what the holders see is made of the queues of the nodes.

// elastic is the pool of a world and its batch system.
type elastic struct {
	w        *World
	plan     elasticPlan
	dice     *engine.Dice
	batch    batchSystem
	holds    map[*host]*holder
	jobs     map[*host]*batchJob // whose allocation a host is of
	wants    []int               // slots that there was work for in the last seconds, the newest last
	idle     time.Duration       // when there was work last
	past     map[*host][]pastTask
	quiet    bool          // no fault begins any more
	last     *pool.Pool    // the newest record that was stored
	troubled time.Duration // when a holder died last
}

// elasticPlan is what a seed draws.
type elasticPlan struct {
	spec    pool.Spec
	logins  int
	wall    time.Duration // of an allocation
	delay   time.Duration // the most from a submission to the start
	faults  bool
	dies    dying
	resumes bool // a user resumes the pool when it pauses
	most    time.Duration
}

// dying is how allocations of a plan die all the time.
type dying uint8

const (
	livesOn    dying = iota
	diesEarly        // before a node joins
	diesOfWork       // soon after a task began there
)

// pastTask is a task that ended on a host.
type pastTask struct {
	b     *bag
	index int32
	at    time.Duration
}

const (
	elasticSpan = 4 * time.Minute // work comes and faults begin in it
	elasticMost = 25 * time.Minute
	wantsKept   = 20 // samples, one a second
	// pastSure is the time after which the end of a task is in its record.
	pastSure = 10 * time.Second
)

// ElasticWorld draws a pool, its batch system, the work and the faults from a seed.
func ElasticWorld(seed uint64, trace func(string)) *World {
	d := engine.NewDice(seed, streamElastic)
	p := drawElastic(d, seed)
	machines := p.spec.Max + 2
	w := NewWorld(Options{
		Seed: seed, Hosts: p.logins + machines, Logins: p.logins, Absent: machines, Slots: int32(2 + d.N(3)), Links: drawLinks(d),
		Looks: engine.LooksOf(seed), Words: true, Plain: true, Trace: trace, MaxSteps: 2e7,
	})
	e := &elastic{w: w, plan: p, dice: d, holds: map[*host]*holder{}, jobs: map[*host]*batchJob{}, past: map[*host][]pastTask{}}
	e.batch = batchSystem{e: e, submits: map[string]int{}}
	w.elastic, w.slanted = e, true
	if p.faults && d.Chance(0.5) {
		for _, h := range w.hosts {
			h.skew = int64(d.Between(0, 4*time.Minute) - 2*time.Minute)
		}
	}
	for _, h := range w.hosts[:p.logins] {
		h.node.Grows(true)
		e.hold(h)
	}
	w.At(time.Second, e.define)
	w.At(time.Second, e.sample)
	w.At(checkEvery, e.check)
	e.drawWork()
	if p.faults {
		e.drawFaults()
	}
	w.At(elasticSpan, func() { e.quiet = true })
	return w
}

func drawElastic(d *engine.Dice, seed uint64) elasticPlan {
	p := elasticPlan{logins: 3, most: elasticMost, faults: true, resumes: true}
	p.spec = pool.Spec{
		Name: "p", System: "slurm", Max: 3 + d.N(4), Idle: d.Between(3*time.Second, 10*time.Second),
		Within: d.Between(10*time.Second, time.Minute), Grow: int64(8 + d.N(40)),
	}
	p.wall = d.Between(80*time.Second, 4*time.Minute)
	p.delay = d.Between(time.Second, 30*time.Second)
	switch seed % 8 {
	case 0: // a calm day
		p.faults = false
	case 1:
		p.dies, p.faults, p.resumes = diesEarly, false, false
	case 2:
		p.dies, p.faults, p.resumes = diesOfWork, false, false
	case 3: // one login node
		p.logins = 1
	}
	return p
}

// define is filch pool add.
func (e *elastic) define() {
	p, err := pool.New(e.plan.spec)
	if err != nil {
		panic(err)
	}
	if e.dice.Chance(0.5) {
		p.Each = e.w.opt.Slots
	}
	h := e.w.hosts[0]
	h.call(func(now time.Duration, out *launcher.Outbox) {
		op := dht.Op{Code: dht.OpInsert, Key: dht.Key(pool.Key(p.Name)), Kind: dht.KindRegister, Value: p.Encode(), Durable: true}
		h.node.StoreDo(now, []dht.Op{op}, recordWait, func(rs []dht.Result) {
			if rs[0].Outcome != dht.Done && rs[0].Outcome != dht.Exists {
				e.w.At(e.w.Now()+time.Second, e.define)
			}
		}, out)
	})
}

// configure gives the launcher of an allocation its name of the allocation and the end.
func (e *elastic) configure(h *host, cfg *node.Config, born time.Duration) {
	if j := e.jobs[h]; j != nil {
		cfg.Group = j.group()
		cfg.Walltime = policy.Walltime{End: j.began + e.plan.wall - born, Drain: 30 * time.Second}
	}
}

// drawWork draws bursts of tasks, gangs as tasks, and runs; clients are on login nodes.
func (e *elastic) drawWork() {
	w, d, s := e.w, e.dice, e.w.opt.Slots
	one := record.Spec{Each: filch.Room{Slots: 1}}
	if e.plan.dies != livesOn {
		e.addBag(5*time.Second, one, 10+d.N(120), 4*time.Minute)
		return
	}
	e.addBag(d.Between(3*time.Second, 6*time.Second), one, 1+d.N(3), 3*time.Second) // far less than a burst
	for i := range 3 {
		at := time.Duration(i)*elasticSpan/4 + d.Between(30*time.Second, 40*time.Second)
		e.addBag(at, record.Spec{Each: filch.Room{Slots: 1 + int32(d.N(int(s)))}}, 10+d.N(120), 3*time.Second)
		if d.Chance(0.6) { // of as many nodes as the pool may have, or fewer
			spec := one
			spec.Gang.Ranks = s*int32(1+d.N(min(e.plan.spec.Max, 3))) - int32(d.N(2))
			e.addBag(at+d.Between(0, 20*time.Second), spec, 1+d.N(4), 4*time.Second)
		}
		if d.Chance(0.6) {
			j := &job{outcome: newOutcome(), host: int32(d.N(e.plan.logins))}
			j.Submit, j.Runs = at+d.Between(0, 20*time.Second), d.Between(time.Second, 8*time.Second)
			j.Slots = int(s) * (1 + d.N(min(e.plan.spec.Max, 3)))
			j.request = launcher.Request{
				Shape:  launcher.Shape{Ranks: int32(j.Slots), PerRank: filch.Room{Slots: 1}},
				Policy: launcher.Policy{KillOnBad: true, KillWait: time.Second}, Order: order(len(w.jobs)),
			}
			j.plan = plan{checksMin: 50 * time.Microsecond, checksMax: 2 * time.Millisecond, unready: -1}
			w.add(j)
		}
	}
}

func (e *elastic) addBag(at time.Duration, spec record.Spec, total int, longest time.Duration) {
	w := e.w
	b := &bag{index: len(w.bags), host: int32(e.dice.N(e.plan.logins)), submit: at, longest: longest, shortest: longest / 4}
	spec.Body, spec.CrashLimit = taskBody(b.index), 100
	b.request.Name, b.request.Follow, b.request.Total, b.request.Spec = fmt.Sprintf("bag%d", b.index), true, int32(total), spec
	b.grow(b.request.Total)
	w.bags = append(w.bags, b)
	w.At(at, func() { e.submit(b) })
}

// submit hands a bag in, through the next login node that answers.
func (e *elastic) submit(b *bag) {
	for i := range e.plan.logins {
		h := e.w.hosts[(int(b.host)+i)%e.plan.logins]
		if h.Speaks() && h.node != nil {
			b.host = h.Index
			e.w.submitBag(b)
			return
		}
	}
	e.w.At(e.w.Now()+time.Second, func() { e.submit(b) })
}

// drawFaults draws the faults of the instance; the batch system has its own.
func (e *elastic) drawFaults() {
	w, d := e.w, e.dice
	for range 4 + d.N(5) { // the deciding process
		w.At(d.Between(5*time.Second, elasticSpan), func() {
			for _, h := range w.hosts {
				if k := e.holds[h]; k != nil && k.decides {
					k.kill()
				}
			}
		})
	}
	for range d.N(3) {
		h, lasts := w.hosts[d.N(e.plan.logins)], d.Between(100*time.Millisecond, 8*time.Second)
		stands := d.Chance(0.5)
		w.At(d.Between(5*time.Second, elasticSpan), func() {
			if stands {
				w.pause(h, lasts, true)
				return
			}
			e.disturbed(h)
			e.trouble()
			w.killLauncher(h)
			w.At(w.Now()+lasts, func() { w.restart(h) })
		})
	}
	for range d.N(4) {
		lasts := d.Between(time.Second, 40*time.Second)
		w.At(d.Between(0, elasticSpan), func() { e.batch.silent = max(e.batch.silent, w.Now()+lasts) })
	}
	for range 1 + d.N(6) {
		w.At(d.Between(10*time.Second, elasticSpan), e.batch.hurt)
	}
}

// ended notes a task that ended on a host.
func (e *elastic) ended(p *process) {
	e.past[p.host] = append(e.past[p.host], pastTask{p.bag, p.launch.Start.Index, e.w.Now()})
}

// disturbed lets tasks run again whose ends a host may not have told.
func (e *elastic) disturbed(h *host) {
	for _, t := range e.past[h] {
		if t.at > e.w.Now()-pastSure {
			t.b.tear(t.index)
		}
	}
}

// work is the number of slots that all tasks, gangs and runs without an end can use.
func (e *elastic) work() (n int) {
	for _, b := range e.w.bags {
		if !b.asked || b.finished {
			continue
		}
		each := int(b.need())
		if b.gangs() {
			each = max(each, int(e.w.opt.Slots))
		}
		for _, ok := range b.oks {
			if ok == 0 {
				n += each
			}
		}
	}
	for _, j := range e.w.jobs {
		if j.submittedAt >= 0 && !j.over() {
			n += j.Slots
		}
	}
	return n
}

// sample remembers for how many slots there was work.
func (e *elastic) sample() {
	n := e.work()
	if n > 0 {
		e.idle = e.w.Now()
	}
	e.wants = append(e.wants, n)
	e.wants = e.wants[max(len(e.wants)-wantsKept, 0):]
	e.w.At(e.w.Now()+time.Second, e.sample)
}

// over reports whether all work has ended.
func (e *elastic) over() bool {
	return !slices.ContainsFunc(e.w.bags, func(b *bag) bool { return !b.finished && !(b.gone && e.allOK(b)) }) &&
		!slices.ContainsFunc(e.w.jobs, func(j *job) bool { return !j.over() && !j.orphaned })
}

func (e *elastic) allOK(b *bag) bool { return !slices.Contains(b.oks, 0) }

// ElasticRun runs a seed of an elastic world to the end and checks that all is gone.
func ElasticRun(seed uint64, looks engine.Looks, trace func(string)) *World {
	w := ElasticWorld(seed, trace)
	w.opt.Looks = looks
	e := w.elastic
	for w.Now() < e.plan.most && len(w.Broken()) == 0 {
		w.Run(w.Now() + 5*time.Second)
		if e.plan.dies != livesOn {
			if e.batch.accepted > submitsMost || e.last != nil && e.last.Paused != "" {
				break
			}
		} else if w.Now() > elasticSpan && e.over() && e.batch.live() == 0 {
			break
		}
	}
	if len(w.Broken()) == 0 {
		e.checkEnd()
	}
	return w
}
