package baseline

import "time"

// SlurmPP is SLURM++, as its code is: a controller for each partition, and in a store one value
// for each partition, its free nodes. A job takes what is free of its own partition, then of
// random ones, each with a compare-and-swap, and keeps what it has. After some tries in a row
// without a node the job releases all and begins again.
type SlurmPP struct {
	Partition int           // nodes of a controller
	Jobs      int           // that a controller allocates at a time
	Job, Node time.Duration // of a controller to launch a job, and more for each node of the job
	Manage    time.Duration // more for each node of the partition
	Store     time.Duration // of the store for a request
	Tries     int           // without a node, before the release of all
	Sleep     time.Duration // after the release
	Cached    time.Duration // the age of the copies of free counts that choose a partition (v2); 0: random (v1)
}

// The versions. The costs of a launch are fitted to 50 jobs a second of a node and 20.8 of 1-50
// nodes, with 900 nodes and nine controllers, and to 22 jobs a second with one controller of a
// node; the jobs at a time to the messages (DJL and SLURM++).
var (
	SlurmPP1 = SlurmPP{Partition: 100, Jobs: 4, Job: 30 * time.Millisecond, Node: 10 * time.Millisecond, Manage: 1350 * time.Microsecond, Store: 100 * time.Microsecond, Tries: 3, Sleep: 100 * time.Millisecond}
	SlurmPP2 = SlurmPP1.second()
)

// second is version 2 with the costs of version 1.
func (s SlurmPP) second() SlurmPP {
	s.Tries, s.Sleep, s.Cached = 10, 10*time.Millisecond, 10*time.Millisecond
	return s
}

// slurmPP is a run. Of the hosts, the first n are the threads of controllers that allocate, the
// next n the store by partition, the last n the controllers that launch.
type slurmPP struct {
	*world
	s     SlurmPP
	g     *Gangs
	free  []int // nodes by partition: the value in the store
	stamp []int // the version of the value
	seen  []int // the copies of free
	queue [][]*allocation
	// launches are the messages between controllers and nodes.
	launches uint64
}

// allocation is a job that gathers nodes.
type allocation struct {
	home  int // controller
	need  int
	held  []int // nodes by partition
	has   int
	tries int
}

// Run runs gangs. The jobs go to the controllers in turn.
func (s SlurmPP) Run(g *Gangs) (Launched, error) {
	n := (g.Nodes + s.Partition - 1) / s.Partition
	r := &slurmPP{world: newGangs(g, 3*n), s: s, g: g, stamp: make([]int, n), queue: make([][]*allocation, n)}
	for p := range n {
		r.free = append(r.free, min(s.Partition, g.Nodes-p*s.Partition))
		r.seen = append(r.seen, r.free[p])
	}
	for i, need := range g.Sizes {
		r.queue[i%n] = append(r.queue[i%n], &allocation{home: i % n, need: need, held: make([]int, n)})
	}
	if s.Cached > 0 {
		r.refresh()
	}
	for c := range n {
		for range s.Jobs {
			r.next(c)
		}
	}
	l, err := r.launched(g, untilMax)
	l.Store = l.Messages
	l.Messages += float64(r.launches) / float64(len(g.Sizes))
	return l, err
}

// refresh copies the free counts of all partitions (the monitor of v2).
func (r *slurmPP) refresh() {
	if r.left > 0 {
		copy(r.seen, r.free)
		r.After(r.s.Cached, r.refresh)
	}
}

// next begins with the next job of a controller.
func (r *slurmPP) next(c int) {
	if len(r.queue[c]) > 0 {
		a := r.queue[c][0]
		r.queue[c] = r.queue[c][1:]
		r.messages += 2 // the record of the job
		r.look(a, a.home)
	}
}

// ask sends a request to the store of a partition: at happens there, and back with the answer.
func (r *slurmPP) ask(a *allocation, p int, at, back func()) {
	home, store := r.nodes[a.home], r.nodes[len(r.free)+p]
	r.send(home, store, 0, func() {
		at()
		store.work(r.s.Store, func() { r.send(store, home, 0, back) })
	})
}

// look reads the free nodes of a partition, then takes nodes.
func (r *slurmPP) look(a *allocation, p int) {
	var free, stamp int
	r.ask(a, p, func() { free, stamp = r.free[p], r.stamp[p] }, func() { r.take(a, p, free, stamp) })
}

// swap changes the value of a partition if its version is stamp. The answer has the new value.
func (r *slurmPP) swap(a *allocation, p, n, stamp int, then func(done bool, free, stamp int)) {
	var done bool
	var free, now int
	r.ask(a, p, func() {
		if done = r.stamp[p] == stamp; done {
			r.free[p] += n
			r.stamp[p]++
		}
		free, now = r.free[p], r.stamp[p]
	}, func() { then(done, free, now) })
}

// take takes the free nodes of a partition that the job needs. If the value has changed, the job
// tries again at once with the new value.
func (r *slurmPP) take(a *allocation, p, free, stamp int) {
	n := min(free, a.need-a.has)
	if n == 0 {
		a.tries++
		r.more(a)
		return
	}
	r.swap(a, p, -n, stamp, func(done bool, free, stamp int) {
		if !done {
			r.take(a, p, free, stamp)
			return
		}
		a.held[p], a.has, a.tries = a.held[p]+n, a.has+n, 0
		r.more(a)
	})
}

// more launches a job that has its nodes; else the job tries another partition, or releases all.
func (r *slurmPP) more(a *allocation) {
	switch {
	case a.has == a.need:
		r.launch(a)
	case a.tries == r.s.Tries:
		a.tries = 0
		r.release(a, 0, func() { r.After(r.s.Sleep, func() { r.look(a, a.home) }) })
	default:
		r.look(a, r.partition(a))
	}
}

// partition is the next partition of a job: in v1 a random one; in v2 the smallest of which the
// copy has enough, else the one with most.
func (r *slurmPP) partition(a *allocation) int {
	if r.s.Cached == 0 {
		return r.dice.N(len(r.free))
	}
	best := -1
	for p, n := range r.seen {
		if n >= a.need-a.has && (best < 0 || n < r.seen[best]) {
			best = p
		}
	}
	if best < 0 {
		for p, n := range r.seen {
			if best < 0 || n > r.seen[best] {
				best = p
			}
		}
	}
	r.seen[best] = 0 // other jobs of the controllers choose other partitions
	return best
}

// release gives back the nodes of a job: a look and a swap for each partition, and the swap again
// as long as the value has changed.
func (r *slurmPP) release(a *allocation, p int, then func()) {
	for p < len(a.held) && a.held[p] == 0 {
		p++
	}
	if p == len(a.held) {
		a.has = 0
		then()
		return
	}
	var try func(stamp int)
	try = func(stamp int) {
		r.swap(a, p, a.held[p], stamp, func(done bool, _, stamp int) {
			if !done {
				try(stamp)
				return
			}
			a.held[p] = 0
			r.release(a, p+1, then)
		})
	}
	stamp := 0
	r.ask(a, p, func() { stamp = r.stamp[p] }, func() { try(stamp) })
}

// launch starts a job on its nodes, and releases these when the job has ended.
func (r *slurmPP) launch(a *allocation) {
	c := r.nodes[2*len(r.free)+a.home]
	r.launches += 2 * uint64(a.need) // launch and end
	c.Do(func() {
		c.work(r.s.Job+time.Duration(a.need)*r.s.Node+time.Duration(r.s.Partition)*r.s.Manage, func() {
			r.After(r.g.Runs, func() {
				r.messages += 4 // the end of the job into the store, and to the controller that waits
				r.release(a, 0, func() {
					r.over()
					r.next(a.home)
				})
			})
		})
	})
}
