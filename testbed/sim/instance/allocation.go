package instance

import (
	"slices"
	"time"

	"github.com/filch-hpc/filch/dht"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/pool"
)

// allocation is the batch script of a job: filch pool begin, and then filch pool stay.
type allocation struct {
	e    *elastic
	j    *batchJob
	h    *host
	life int32
	told bool          // the record has the name of the group
	good time.Duration // when the record named the allocation last
}

// Times of the batch script, as cmd/filch/batch has them.
const (
	beginEvery = 2 * time.Second
	beginMost  = 2 * time.Minute
	joinSoon   = 3 * time.Second
	stayEvery  = time.Second
	drainEvery = 200 * time.Millisecond
	stayLost   = 30 * time.Second
)

// begin joins the instance.
func (a *allocation) begin() {
	w := a.e.w
	w.At(w.Now()+a.e.dice.Between(200*time.Millisecond, joinSoon), func() { a.join(w.Now() + beginMost) })
}

func (a *allocation) join(until time.Duration) {
	w, h := a.e.w, a.h
	if a.j.state != pool.JobRunning || a.j.leaves {
		return
	}
	via := slices.IndexFunc(w.hosts, func(o *host) bool { return o != h && o.Speaks() && o.node != nil && o.joined })
	switch {
	case via < 0 && w.Now() >= until:
		a.e.batch.finish(a.j, "COMPLETED")
		return
	case via < 0:
		w.At(w.Now()+beginEvery, func() { a.join(until) })
		return
	}
	h.lost, h.invited = false, w.hosts[via].Name
	h.incarnation += 1 << 16 // a node that nobody knew
	w.restart(h)
	a.j.came, a.life, a.good = true, h.Life(), w.Now()
	a.again(stayEvery)
}

// again looks at the record after a pause.
func (a *allocation) again(pause time.Duration) {
	a.e.w.At(a.e.w.Now()+pause, func() {
		h := a.h
		switch {
		case a.j.state != pool.JobRunning || a.j.leaves:
		case h.node == nil || !h.joined || h.Paused(): // it begins, or filch up starts it again
			a.again(stayEvery)
		default:
			a.look()
		}
	})
}

// look reads the record, and ends the allocation that the record gives up.
func (a *allocation) look() {
	e := a.e
	e.readPool(a.h, func(p *pool.Pool, v dht.Version) {
		if p == nil {
			a.lost()
			return
		}
		n := e.number(a.j)
		if !a.told {
			if !p.Announce(n, a.j.group()) {
				a.lost()
				return
			}
			p.Beat++
			e.writePool(a.h, p, v, func(ok bool) {
				a.told = ok
				a.again(drainEvery)
			})
			return
		}
		why, ends, known, _ := p.Stay(n, a.j.group(), func() ([]pool.Node, error) { return e.view(a.h).Nodes, nil })
		switch {
		case !known:
			a.lost()
		case why != "":
			e.checkShrink(a.j, why)
			e.depart(a.j, "COMPLETED")
		case ends:
			a.good = e.w.Now()
			a.again(drainEvery)
		default:
			a.good = e.w.Now()
			a.again(stayEvery)
		}
	})
}

// lost ends an allocation that the record has not named for long.
func (a *allocation) lost() {
	if a.e.w.Now()-a.good >= stayLost {
		a.e.depart(a.j, "COMPLETED")
		return
	}
	a.again(stayEvery)
}

// depart has the launcher of an allocation leave; the batch job is over then.
func (e *elastic) depart(j *batchJob, said string) {
	if j.leaves {
		return
	}
	j.leaves = true
	h := j.host
	if h.node == nil {
		e.batch.kill(j, said)
		return
	}
	e.disturbed(h)
	d := &departure{host: h, life: h.Life(), patience: 10, back: func() { e.batch.finish(j, said) }}
	d.begin(0)
	e.w.At(e.w.Now()+2*termWait, func() { e.batch.kill(j, said) }) // it may die over it
}

// readPool reads the record of the pool through a launcher; nil: the record has no answer.
func (e *elastic) readPool(h *host, then func(p *pool.Pool, v dht.Version)) {
	op := dht.Op{Code: dht.OpLookup, Key: dht.Key(pool.Key(e.plan.spec.Name)), Consistent: true}
	e.ask(h, op, func(r *dht.Result) {
		if r == nil || r.Outcome != dht.Done {
			then(nil, dht.Version{})
			return
		}
		p, err := pool.Decode(r.Value)
		if err != nil {
			e.w.Fail("record", "the record of the pool cannot be read: %v", err)
			return
		}
		then(p, r.Version)
	})
}

// writePool stores a changed record by compare-and-swap.
func (e *elastic) writePool(h *host, p *pool.Pool, was dht.Version, then func(ok bool)) {
	op := dht.Op{Code: dht.OpSwap, Key: dht.Key(pool.Key(p.Name)), Kind: dht.KindRegister, Value: p.Encode(), Expect: was, Durable: true}
	e.ask(h, op, func(r *dht.Result) {
		ok := r != nil && r.Outcome == dht.Done
		if ok {
			e.stored(p)
		}
		then(ok)
	})
}

// ask does an operation through a launcher; nil: the launcher ended, or is silent.
func (e *elastic) ask(h *host, op dht.Op, then func(r *dht.Result)) {
	answered := false
	once := func(r *dht.Result) {
		if !answered {
			answered = true
			then(r)
		}
	}
	h.call(func(now time.Duration, out *launcher.Outbox) {
		h.node.StoreDo(now, []dht.Op{op}, recordWait, func(rs []dht.Result) {
			r := rs[0]
			e.w.At(e.w.Now(), func() { once(&r) }) // not inside of the launcher's turn
		}, out)
	})
	e.w.At(e.w.Now()+2*recordWait, func() { once(nil) })
}
