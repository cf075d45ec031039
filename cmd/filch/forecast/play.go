package forecast

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/filch-hpc/filch"
)

// job is a job of the queue. A run, and a task that is a gang, takes ranks over several nodes;
// any other task takes its slots of one node.
type job struct {
	id      filch.JobID
	ranks   int32 // of a run or a gang; 0: tasks of one process
	slots   int32 // of a rank or a task
	left    int   // tasks, or 1 run, not started
	atMost  int   // tasks at a time; 0: no bound
	begin   float64
	waited  float64 // seconds since a run began to wait
	gap     float64 // seconds between two tasks on a slot
	never   bool    // held by a person, or a condition is not known
	nodes   []bool  // open to the job; nil: all
	after   []wait
	any     bool // any of after suffices
	firm    bool // its tasks take no slots gathered by a gang
	running []part
	length  length
	// Of a workflow: of each task without an end the tasks before, as indices of this list.
	// The first tasks of the list are those of running.
	graph [][]int32
	kinds []*length // likewise: the length of each task; nil: that of the job
	// Likewise: the time limit of each task in seconds, 0 none; nil: as the lengths say.
	limits []float64
	some   bool // some tasks have a time limit, and others have none
}

// takes is the length of a task of a workflow, or of any task.
func (j *job) takes(task int32) length {
	l := j.length
	if int(task) < len(j.kinds) && j.kinds[task] != nil {
		l = *j.kinds[task]
	}
	if int(task) < len(j.limits) {
		l.limit = j.limits[task]
	}
	return l
}

func (j *job) may(node int) bool { return j.nodes == nil || j.nodes[node] }

// part is a running task, or the run.
type part struct {
	age   float64
	limit float64 // seconds until its time limit; 0: none
	on    []share
}

// share is slots of a node.
type share struct{ node, slots int32 }

// wait is a job before a job.
type wait struct {
	job     int // index
	started bool
	delay   float64
}

// queue is the state of an instance: the jobs in the order in which they get slots, and the
// free slots of each node.
type queue struct {
	jobs []job
	free []int32
}

// times are the start and the end of a job in seconds from now; infinite if not known.
type times struct{ start, end float64 }

// state is the state of a job in a round.
type state struct {
	at            times
	left, running int
	factor        float64
	waits         []int32 // of a task of a workflow: the tasks before that have not ended
	ready         []int32
	behind        [][]int32
}

// event is the end of a part of a job, or a time at which a job may begin: job < 0.
type event struct {
	at   float64
	job  int
	task int32 // of a workflow
	on   []share
	fill int // the number of a part in slots gathered by a gang; 0: in other slots
}

// filling is a part in slots gathered by a gang: the part ends when the gang can start.
type filling struct {
	fill, job, tasks int
	task             int32
	on               []share
}

// Before orders events by time.
func (e *event) Before(o *event) bool {
	return cmp.Or(cmp.Compare(e.at, o.at), cmp.Compare(e.job, o.job), cmp.Compare(e.task, o.task)) < 0
}

// round plays a queue once.
type round struct {
	*queue
	rand   *rand.Rand // nil: every part takes its limit
	now    float64
	free   []int32
	all    int32
	order  []int  // in which jobs are offered slots
	turns  []bool // nodes on which one more task starts while a gang gathers
	states []state
	events filch.Heap[event, *event]
	units  int
	fills  []filling // running
	number int       // of the last of these
}

// play plays the queue until the target has ended, or nothing more happens.
func (q *queue) play(target int, r *rand.Rand) (times, int) {
	p := &round{queue: q, rand: r, free: slices.Clone(q.free), order: q.order(target), turns: q.turns(target), states: make([]state, len(q.jobs))}
	for _, n := range q.free {
		p.all += n
	}
	for i := range q.jobs {
		p.enter(i)
	}
	for {
		p.start()
		if !math.IsInf(p.states[target].at.end, 1) || len(p.events) == 0 {
			return p.states[target].at, p.units
		}
		e := p.events.Pop()
		p.now = e.at
		p.over(&e)
		for len(p.events) > 0 && p.events[0].at == p.now {
			e := p.events.Pop()
			p.over(&e)
		}
	}
}

// run reports whether a job is a run that waits. A gang that is the last task of a bag counts as
// a run.
func (q *queue) run(i int) bool { return q.jobs[i].ranks > 0 && q.jobs[i].left == 1 }

// order is the order in which jobs are offered slots: the order of their submission. But gangs and
// tasks take turns on a node: if the target is a run, the run and older runs get slots before the
// tasks of older bags, after the tasks of [queue.turns].
func (q *queue) order(target int) []int {
	order := make([]int, 0, len(q.jobs))
	if !q.run(target) {
		target = -1
	}
	for _, runs := range []bool{true, false} {
		for i := range target + 1 {
			if q.run(i) == runs {
				order = append(order, i)
			}
		}
	}
	for i := target + 1; i < len(q.jobs); i++ {
		order = append(order, i)
	}
	return order
}

// turns are the nodes on which one more task starts before the run that is the target has the
// turn: no task started there since the run waits.
func (q *queue) turns(target int) []bool {
	list, last := make([]bool, len(q.free)), make([]float64, len(q.free))
	if !q.run(target) {
		return list
	}
	for i := range q.jobs {
		for _, r := range q.jobs[i].running {
			for _, h := range r.on {
				if q.jobs[i].ranks == 0 && (last[h.node] == 0 || r.age < last[h.node]) {
					last[h.node] = r.age
				}
			}
		}
	}
	for n := range list {
		list[n] = last[n] > q.jobs[target].waited
	}
	return list
}

// enter takes in a job, with its running parts.
func (p *round) enter(i int) {
	j, s := &p.jobs[i], &p.states[i]
	s.at, s.left, s.factor = times{math.Inf(1), math.Inf(1)}, j.left, 1
	if p.rand != nil {
		s.factor = j.length.factor(p.rand)
	}
	if j.begin > 0 {
		p.events.Push(event{at: j.begin, job: -1})
	}
	if j.graph != nil {
		s.waits, s.behind = make([]int32, len(j.graph)), make([][]int32, len(j.graph))
		for t, before := range j.graph {
			s.waits[t] = int32(len(before))
			for _, b := range before {
				s.behind[b] = append(s.behind[b], int32(t))
			}
			if t >= len(j.running) && len(before) == 0 {
				s.ready = append(s.ready, int32(t))
			}
		}
	}
	for k := range j.running {
		r := &j.running[k]
		s.at.start, s.running = 0, s.running+1
		took, l := math.Inf(1), j.takes(int32(k))
		if p.rand != nil {
			took = l.left(p.rand, s.factor, r.age)
		} else if l.limit > 0 {
			took = max(l.limit-r.age, 0)
		}
		if r.limit > 0 && (p.rand == nil || l.known()) {
			took = min(took, r.limit)
		}
		for _, h := range r.on {
			p.all += h.slots
		}
		p.goes(&event{at: took, job: i, task: int32(k), on: r.on})
	}
}

// goes waits for the end of a part of a job.
func (p *round) goes(e *event) {
	if !math.IsInf(e.at, 1) {
		p.events.Push(*e)
	}
}

// over ends a part of a job.
func (p *round) over(e *event) {
	if e.job < 0 {
		return
	}
	if e.fill > 0 {
		at := slices.IndexFunc(p.fills, func(f filling) bool { return f.fill == e.fill })
		if at < 0 {
			return // stopped before
		}
		p.fills = slices.Delete(p.fills, at, at+1)
	}
	for _, h := range e.on {
		p.free[h.node] += h.slots
	}
	s := &p.states[e.job]
	s.running--
	if s.behind != nil {
		for _, t := range s.behind[e.task] {
			if s.waits[t]--; s.waits[t] == 0 {
				s.ready = append(s.ready, t)
			}
		}
	}
	if s.left == 0 && s.running == 0 {
		s.at.end = p.now
		for k := range p.jobs { // jobs waiting for this job, with a delay
			for _, w := range p.jobs[k].after {
				if w.job == e.job && w.delay > 0 {
					p.events.Push(event{at: p.now + w.delay, job: -1})
				}
			}
		}
	}
}

// start starts parts of jobs. A gang without enough free slots gathers all of them, and tasks of
// younger jobs run there meanwhile.
func (p *round) start() {
	gathers := false
	for _, i := range p.order {
		j, s := &p.jobs[i], &p.states[i]
		if j.never || p.now < j.begin || gathers && (j.ranks > 0 || j.firm) || s.left > 0 && !p.met(j) {
			continue
		}
		for s.left > 0 && (j.atMost == 0 || s.running < j.atMost) && (s.behind == nil || len(s.ready) > 0) {
			on := p.place(j)
			if on == nil && j.ranks > 0 && len(p.fills) > 0 {
				on = p.recall(j)
			}
			if on == nil {
				gathers = gathers || j.ranks > 0
				break
			}
			p.begin(i, on, gathers)
		}
	}
}

// begin starts a part of a job.
func (p *round) begin(i int, on []share, fills bool) {
	j, s := &p.jobs[i], &p.states[i]
	n, task := p.unit(j, s), int32(0)
	if s.behind != nil {
		n, task, s.ready = 1, s.ready[0], s.ready[1:]
	}
	if s.at.start > p.now {
		s.at.start = p.now
		p.begun(i)
	}
	if at := on[0].node; fills && j.ranks == 0 && p.turns[at] {
		fills, n, p.turns[at] = false, 1, false
	}
	l := j.takes(task)
	took := float64(n) * l.most()
	if p.rand != nil {
		took = l.drawMany(p.rand, s.factor, n)
	}
	s.left, s.running, p.units = s.left-n, s.running+1, p.units+1
	e := &event{at: p.now + took + float64(n)*j.gap, job: i, task: task, on: on}
	if fills {
		p.number++
		e.fill = p.number
		p.fills = append(p.fills, filling{e.fill, i, n, task, on})
	}
	p.goes(e)
}

// recall stops the tasks in gathered slots, if the gang can start then, and returns the slots of
// the gang.
func (p *round) recall(j *job) (on []share) {
	free := slices.Clone(p.free)
	for _, f := range p.fills {
		for _, h := range f.on {
			p.free[h.node] += h.slots
		}
	}
	if on = p.place(j); on == nil {
		p.free = free
		return nil
	}
	for _, f := range p.fills {
		s := &p.states[f.job]
		s.left, s.running = s.left+f.tasks, s.running-1
		if s.behind != nil {
			s.ready = append(s.ready, f.task)
		}
	}
	p.fills = p.fills[:0]
	return on
}

// begun notes for which times later jobs wait after the start of a job.
func (p *round) begun(i int) {
	for k := range p.jobs {
		for _, w := range p.jobs[k].after {
			if w.job == i && w.started {
				p.events.Push(event{at: p.now + w.delay, job: -1})
			}
		}
	}
}

// unit is the number of tasks for a slot at once: few events for many tasks, and single tasks
// at the end.
func (p *round) unit(j *job, s *state) int {
	wide := int(p.all / max(j.slots*max(j.ranks, 1), 1))
	if j.atMost > 0 {
		wide = min(wide, j.atMost)
	}
	return max(s.left/(unitPart*max(wide, 1)), 1)
}

const unitPart = 8

// met reports whether the jobs before a job let the job begin.
func (p *round) met(j *job) bool {
	for _, w := range j.after {
		at := p.states[w.job].at.end
		if w.started {
			at = p.states[w.job].at.start
		}
		switch ok := p.now >= at+w.delay; {
		case ok && j.any:
			return true
		case !ok && !j.any:
			return false
		}
	}
	return !j.any || len(j.after) == 0
}

// place takes the slots of a part of a job; nil if they are not free.
func (p *round) place(j *job) (on []share) {
	slots := max(j.slots, 1)
	if j.ranks == 0 {
		for i := range p.free {
			if p.free[i] >= slots && j.may(i) {
				p.free[i] -= slots
				return []share{{int32(i), slots}}
			}
		}
		return nil
	}
	left := j.ranks
	for i := range p.free {
		if n := min(p.free[i]/slots, left); n > 0 && j.may(i) {
			on, left = append(on, share{int32(i), n * slots}), left-n
		}
	}
	if left > 0 {
		return nil
	}
	for _, h := range on {
		p.free[h.node] -= h.slots
	}
	return on
}
