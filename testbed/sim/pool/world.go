// Package pool simulates pools: nodes with the managers that ship, a batch system that
// delays, refuses, loses and ends jobs, and an instance whose tasks and gangs run on the
// nodes that have come. The world advances in steps of a quarter of a second; a seed repeats
// a run.
package pool

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/pool"
)

// tick is the step of the world.
const tick = 250 * time.Millisecond

// Work is tasks, or one gang, that a user submits at a time.
type Work struct {
	At     time.Duration
	Tasks  int
	Length time.Duration
	Gang   int32 // slots of the one gang; 0: tasks
}

// Plan is what happens in a world.
type Plan struct {
	Spec  pool.Spec
	Work  []Work
	Fixed int           // allocations that a person submits at the first moment, without a pool
	Slots int32         // of the one node of an allocation
	Wall  time.Duration // of an allocation
	Hosts int           // nodes without slots that can be holders
	Most  time.Duration // the end of the world
	// The batch system.
	Delay   time.Duration // from a submission to the start, at least
	Jitter  time.Duration // and more than that
	Join    time.Duration // from the start to the node
	Perils  bool          // the faults below, drawn by the seed
	Refuses bool          // all submissions
	Rule    Rule          // nil: the manager that ships
}

// job is one batch job.
type job struct {
	id, name  string
	asked     time.Duration // when it was submitted
	start     time.Duration // when it will start
	state     pool.JobState
	cancelled bool
	said      string
	node      *node
	over      time.Duration
	cancelBy  time.Duration // a cancel under way; 0 none
}

// node is the one node of an allocation.
type node struct {
	job      *job
	up       time.Duration // from then on
	draining bool
	busy     []time.Duration // the ends of what runs on its slots
	of       []int           // the works of what runs there
	worked   time.Duration
	slots    time.Duration // of slots with work
	first    time.Duration // when work began there first
	ended    int64         // tasks and slots of gangs
	idle     time.Duration // since when
}

// host is a node that may hold the pool.
type host struct {
	name filch.NodeName
	m    *pool.Manager
	dead time.Duration // until then
	next time.Duration // the next look
	todo []pending     // orders under way
}

type pending struct {
	at    time.Duration
	order pool.Order
	told  *pool.Told
}

// World is one run.
type World struct {
	Plan
	rnd    *rand.Rand
	now    time.Duration
	epoch  time.Time
	hosts  []*host
	jobs   []*job
	rec    []byte
	ver    int
	seen   *pool.Pool // the record as of version seenAt, for readers
	seenAt int
	ready  []task // that wait, the oldest first
	gangs  []gang
	given  int // works that were submitted
	ended  int

	submits  map[string]int
	outage   time.Duration // until then the batch system does not answer
	Broken   []string
	Result   Result
	ruleNext time.Duration
	unpause  bool // a user resumes a paused pool at once
}

type gang struct {
	slots int32
	task
}

type task struct {
	length time.Duration
	of     int // the index of its work
}

// Result is what a run came to.
type Result struct {
	Ended     int
	Total     int
	Makespan  time.Duration
	NodeTime  time.Duration // granted
	Worked    time.Duration // with a task
	Submitted int
	FirstAsk  []time.Duration // from each burst to the next submission
	Spans     []time.Duration // from each work to the end of its last task
	Bill      Bill
}

// New makes a world.
func New(p Plan, seed uint64) *World {
	w := &World{Plan: p, rnd: rand.New(rand.NewPCG(seed, 1)), epoch: time.Unix(1e9, 0), submits: map[string]int{}}
	for i := range max(p.Hosts, 1) {
		name := filch.NodeName("h" + strconv.Itoa(i))
		w.hosts = append(w.hosts, &host{name: name, m: pool.NewManager(name, "sim")})
	}
	rec, err := pool.New(p.Spec)
	if err != nil {
		panic(err)
	}
	w.rec = rec.Encode()
	for _, x := range p.Work {
		w.Result.Total += max(x.Tasks, 1)
	}
	for range p.Fixed {
		at := p.Work[0].At
		w.jobs = append(w.jobs, &job{id: strconv.Itoa(len(w.jobs)), state: pool.JobQueued, asked: at, start: at + p.Delay})
	}
	return w
}

func (w *World) breaks(form string, args ...any) {
	if len(w.Broken) < 10 {
		w.Broken = append(w.Broken, fmt.Sprintf("%s: ", w.now)+fmt.Sprintf(form, args...))
	}
}

// Run runs the world until the work has ended and the pool is empty again.
func (w *World) Run() *Result {
	for w.now = 0; w.now < w.Most; w.now += tick {
		w.submitWork()
		w.batch()
		w.work()
		w.cancelled()
		switch {
		case w.Fixed > 0:
		case w.Rule != nil:
			w.rule()
		default:
			for _, h := range w.hosts {
				w.host(h)
			}
		}
		if w.ended == w.Result.Total && w.given == len(w.Work) {
			if w.Result.Makespan == 0 {
				w.Result.Makespan = w.now - w.Work[0].At
			}
			if w.quiet() {
				break
			}
		}
	}
	w.check()
	return &w.Result
}

// quiet tells whether the batch system has no job of the pool, and the record none either.
func (w *World) quiet() bool {
	if w.Fixed > 0 {
		return true
	}
	return !slices.ContainsFunc(w.jobs, func(j *job) bool { return j.state != pool.JobOver }) &&
		(w.Rule != nil || len(w.read().Allocs) == 0)
}

func (w *World) check() {
	w.Result.Ended = w.ended
	if w.ended != w.Result.Total && !w.Refuses {
		w.breaks("%d of %d tasks and gangs ended", w.ended, w.Result.Total)
	}
	for name, n := range w.submits {
		if n > 1 {
			w.breaks("%s was submitted %d times", name, n)
		}
	}
	if !w.quiet() {
		for _, a := range w.read().Allocs {
			w.breaks("allocation %d (%s) is in the record for ever", a.N, a.State)
		}
		for _, j := range w.jobs {
			if j.state != pool.JobOver {
				w.breaks("batch job %s (%s) leaked: state %d", j.id, j.name, j.state)
			}
		}
	}
	w.bill()
	w.Result.Submitted = len(w.jobs)
}

func (w *World) submitWork() {
	for ; w.given < len(w.Work) && w.Work[w.given].At <= w.now; w.given++ {
		x := w.Work[w.given]
		if x.Gang > 0 {
			w.gangs = append(w.gangs, gang{x.Gang, task{x.Length, w.given}})
		} else {
			for range x.Tasks {
				w.ready = append(w.ready, task{x.Length, w.given})
			}
		}
		w.Result.Spans = append(w.Result.Spans, 0)
		w.Result.FirstAsk = append(w.Result.FirstAsk, -w.now-1)
	}
}

// work runs tasks and gangs on the nodes that are up.
func (w *World) work() {
	w.begin()
	for _, j := range w.jobs {
		if n := j.node; n != nil && j.state != pool.JobOver && n.runs() > 0 {
			if n.worked == 0 {
				n.first = w.now
			}
			n.worked += tick
			n.slots += tick * time.Duration(n.runs())
			n.idle = w.now
		}
	}
}

// begin ends what is over and begins what fits.
func (w *World) begin() {
	free := int32(0)
	var nodes []*node
	for _, j := range w.jobs {
		n := j.node
		if n == nil || j.state == pool.JobOver || w.now < n.up {
			continue
		}
		for i, end := range n.busy {
			if end != 0 && end <= w.now {
				n.busy[i], n.ended = 0, n.ended+1
				if end%2 == 0 { // see start: the lead slot of a gang, or a task
					w.ended++
					w.Result.Spans[n.of[i]] = w.now - w.Work[n.of[i]].At
				}
			}
		}
		if n.draining {
			continue
		}
		nodes = append(nodes, n)
		for _, end := range n.busy {
			if end == 0 {
				free++
			}
		}
	}
	for len(w.gangs) > 0 && free >= w.gangs[0].slots {
		g := w.gangs[0]
		w.gangs = w.gangs[1:]
		free -= g.slots
		w.start(nodes, g.slots, g.task)
	}
	if len(w.gangs) > 0 {
		return // the oldest holds what is free
	}
	for free > 0 && len(w.ready) > 0 {
		w.start(nodes, 1, w.ready[0])
		w.ready = w.ready[1:]
		free--
	}
}

// start puts one task or gang on free slots. The end of the first slot is even, the ends of
// the others are odd, in nanoseconds.
func (w *World) start(nodes []*node, slots int32, x task) {
	end := (w.now + x.length) &^ 1
	for _, n := range nodes {
		for i := range n.busy {
			if n.busy[i] == 0 && slots > 0 {
				n.busy[i], n.of[i] = end, x.of
				end |= 1
				slots--
			}
		}
	}
}

// lose puts the work of a node that goes away into the queue again.
func (w *World) lose(n *node) {
	for i, end := range n.busy {
		if end != 0 && end%2 == 0 {
			w.ready = append(w.ready, task{max(end-w.now, time.Second), n.of[i]})
			n.busy[i] = 0
		}
	}
}
