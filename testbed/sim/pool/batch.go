package pool

import (
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch/pool"
)

// stayEvery is the time between two looks of an allocation at the record.
const stayEvery = time.Second

// perilsEnd is when batch jobs stop to end by themselves: later a job that nobody cancels stays.
const perilsEnd = 8 * time.Minute

// submit is what sbatch does.
func (w *World) submit(name string) (id, err string) {
	if w.Refuses || w.Perils && w.rnd.IntN(8) == 0 {
		w.submits[name] += 0
		return "", "Requested node configuration is not available"
	}
	w.submits[name]++
	j := &job{id: strconv.Itoa(1000 + len(w.jobs)), name: name, state: pool.JobQueued, asked: w.now, start: w.now + w.Delay}
	if w.Jitter > 0 {
		j.start += time.Duration(w.rnd.Int64N(int64(w.Jitter)))
	}
	if w.Perils && w.rnd.IntN(10) == 0 {
		j.start += time.Hour // long after the others
	}
	w.jobs = append(w.jobs, j)
	live := 0
	for _, o := range w.jobs {
		if o.state != pool.JobOver && !w.leaves(o) {
			live++
		}
	}
	if w.Rule == nil && live > w.Spec.Max {
		w.breaks("%d batch jobs, --max is %d", live, w.Spec.Max)
	}
	for i, at := range w.Result.FirstAsk {
		if at < 0 {
			w.Result.FirstAsk[i] = w.now + at + 1
		}
	}
	return j.id, ""
}

// leaves tells whether a batch job may have a successor beside it: it runs, and is in the
// second half of its time.
func (w *World) leaves(j *job) bool {
	return j.state == pool.JobRunning && j.start+w.Wall-w.now <= w.Wall/2
}

// batch advances the batch jobs.
func (w *World) batch() {
	if w.Perils && w.rnd.IntN(2000) == 0 {
		w.outage = w.now + time.Duration(w.rnd.IntN(30))*time.Second
	}
	for _, j := range w.jobs {
		switch {
		case j.state == pool.JobOver || j.id == "":
		case j.cancelBy != 0 && w.now >= j.cancelBy:
			w.finish(j, "CANCELLED")
		case j.state == pool.JobQueued && w.now >= j.start:
			j.state, j.start = pool.JobRunning, w.now
			j.node = &node{job: j, up: w.now + w.Join, idle: w.now + w.Join, busy: make([]time.Duration, w.Slots), of: make([]int, w.Slots)}
		case j.state == pool.JobRunning && w.now >= j.start+w.Wall:
			w.finish(j, "TIMEOUT")
		case j.state == pool.JobRunning && w.now >= j.node.up && (w.now-j.node.up)%stayEvery == 0 && w.released(j):
			w.finish(j, "COMPLETED")
		}
		if w.Perils && w.now < perilsEnd && j.id != "" && j.state != pool.JobOver {
			switch r := w.rnd.IntN(8000); {
			case r == 0:
				w.finish(j, "NODE_FAIL")
			case r == 1 && j.state == pool.JobQueued: // the batch system loses it
				w.finish(j, "")
			case r == 2:
				j.cancelled = true
				w.finish(j, "CANCELLED by 0")
			}
		}
	}
}

// cancelled checks that a batch job which the pool does not want is not in the queue for long.
func (w *World) cancelled() {
	if w.now%time.Minute != 0 || w.Rule != nil || w.Fixed > 0 {
		return
	}
	p := w.read()
	for i := range p.Allocs {
		a := &p.Allocs[i]
		for _, j := range w.jobs {
			if a.State == pool.Ending && j.id == a.Job && j.state == pool.JobQueued && w.epoch.Add(w.now).Sub(time.Unix(0, a.Ending)) > 3*time.Minute {
				w.breaks("job %s waits in the queue, and was cancelled three minutes ago", j.id)
			}
		}
	}
}

func (w *World) finish(j *job, said string) {
	j.state, j.said, j.over = pool.JobOver, said, w.now
	if j.node != nil {
		w.lose(j.node)
	}
}

// released is what filch pool stay finds in the record: the allocation is to end, and
// nothing runs; or the record does not know the job.
func (w *World) released(j *job) bool {
	if w.Rule != nil || w.Fixed > 0 {
		return false
	}
	if w.seen == nil || w.seenAt != w.ver {
		w.seen, w.seenAt = w.read(), w.ver
	}
	p := w.seen
	for i := range p.Allocs {
		a := &p.Allocs[i]
		if pool.JobName("sim", p.Name, a.N) == j.name {
			return a.State == pool.Ending && j.node.runs() == 0 && j.node.draining
		}
	}
	return true
}

func (n *node) runs() (k int32) {
	for _, end := range n.busy {
		if end != 0 {
			k++
		}
	}
	return k
}

func (w *World) read() *pool.Pool {
	p, err := pool.Decode(w.rec)
	if err != nil {
		panic(err)
	}
	return p
}

// view is what a node sees of the instance.
func (w *World) view() *pool.View {
	v := &pool.View{Ready: int64(len(w.ready))}
	for _, g := range w.gangs {
		v.Gangs = append(v.Gangs, pool.Gang{Slots: g.slots})
	}
	for _, j := range w.jobs {
		if n := j.node; n != nil && j.state != pool.JobOver && w.now >= n.up {
			busy := n.runs()
			for i, end := range n.busy {
				if end != 0 && w.Work[n.of[i]].Gang == 0 {
					v.Running++
				}
			}
			v.Nodes = append(v.Nodes, pool.Node{Group: "slurm-" + j.id, Slots: w.Slots, Busy: busy, Ended: n.ended, Age: w.now - n.up, Draining: n.draining, Left: j.start + w.Wall - w.now})
		}
	}
	if w.ended > 0 {
		v.Length = w.lengths().Seconds()
	}
	return v
}

// lengths is the mean length of the tasks of the bursts so far.
func (w *World) lengths() time.Duration {
	sum, n := time.Duration(0), 0
	for _, x := range w.Work[:w.given] {
		k := max(x.Tasks, 1)
		sum, n = sum+x.Length*time.Duration(k), n+k
	}
	return sum / time.Duration(n)
}

// squeue is what the batch system says of the jobs.
func (w *World) squeue() *pool.Batch {
	if w.now < w.outage {
		return &pool.Batch{Err: "Unable to contact slurm controller"}
	}
	b := &pool.Batch{Jobs: map[string]pool.Job{}, Name: map[string]string{}}
	for _, j := range w.jobs {
		if j.id == "" || j.state == pool.JobOver && (j.said == "" || w.now-j.over > 5*time.Minute) {
			continue
		}
		b.Jobs[j.id] = pool.Job{State: j.state, Said: j.said, Cancelled: j.cancelled}
		b.Name[j.name] = j.id
	}
	return b
}

// host runs one node's part: a look, the change of the record, the orders.
func (w *World) host(h *host) {
	if w.now < h.dead {
		return
	}
	if w.Perils && w.rnd.IntN(1200) == 0 {
		w.kill(h)
		return
	}
	for len(h.todo) > 0 && h.todo[0].at <= w.now {
		p := h.todo[0]
		h.todo = h.todo[1:]
		w.carryOut(h, p)
	}
	if w.now < h.next || len(h.todo) > 0 {
		return
	}
	h.next = w.now + pool.LookEvery
	p, ver := w.read(), w.ver
	now := w.epoch.Add(w.now)
	if w.unpause && p.Paused != "" {
		p.Resume()
		w.rec = p.Encode()
		w.ver++
		return
	}
	if !h.m.Holds(now, p) {
		return
	}
	v := w.view()
	if h.m.AsksBatch(now, p) {
		v.Batch = w.squeue()
	}
	if !h.m.Look(now, p, v) {
		return
	}
	if w.Perils && w.rnd.IntN(50) == 0 { // a user changes the record in between
		w.ver++
	}
	stored := ver == w.ver
	if stored {
		w.rec = p.Encode()
		w.ver++
	}
	orders := h.m.Stored(stored)
	w.needed(p, orders)
	for _, o := range orders {
		at := w.now
		if w.Perils {
			at += time.Duration(w.rnd.IntN(3)) * tick
			if w.rnd.IntN(60) == 0 {
				at += time.Duration(w.rnd.IntN(int(pool.SubmitWait)))
			}
		}
		h.todo = append(h.todo, pending{at: at, order: o})
	}
}

// needed checks that no more allocations are asked for than there is work.
func (w *World) needed(p *pool.Pool, orders []pool.Order) {
	if !slices.ContainsFunc(orders, func(o pool.Order) bool { return o.Kind == pool.Submit }) {
		return
	}
	live := 0
	for i := range p.Allocs {
		if a := &p.Allocs[i]; a.State != pool.Ending && !slices.ContainsFunc(w.jobs, func(j *job) bool { return j.id == a.Job && a.Job != "" && w.leaves(j) }) {
			live++
		}
	}
	if want := w.slotsWanted(); live > want/int(w.Slots)+1+w.Spec.Min {
		w.breaks("%d allocations of %d slots are asked for, and there is work for %d slots", live, w.Slots, want)
	}
}

// carryOut does one order, or hands over its answer.
func (w *World) carryOut(h *host, p pending) {
	if p.told != nil {
		h.m.Told(*p.told)
		return
	}
	switch o := p.order; o.Kind {
	case pool.Submit:
		id, err := w.submit(pool.JobName("sim", w.Spec.Name, o.N))
		if w.Perils && w.rnd.IntN(30) == 0 {
			w.kill(h) // between the submission and its answer
			return
		}
		h.todo = append([]pending{{at: w.now, told: &pool.Told{N: o.N, Job: id, Err: err}}}, h.todo...)
	case pool.Cancel:
		if w.Perils && w.rnd.IntN(5) == 0 {
			w.kill(h)
			return
		}
		for _, j := range w.jobs {
			if j.id == o.Job && o.Job != "" && j.cancelBy == 0 && j.state != pool.JobOver {
				j.cancelBy = w.now + time.Second
			}
		}
	case pool.Drain:
		for _, j := range w.jobs {
			if j.id == o.Job && j.node != nil {
				j.node.draining = true
			}
		}
	}
}

// kill ends a host for a while; it knows nothing when it comes back.
func (w *World) kill(h *host) {
	h.dead, h.todo = w.now+time.Duration(1+w.rnd.IntN(20))*time.Second, nil
	h.m = pool.NewManager(h.name, "sim")
}
