package tasks

import (
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/testbed/sim/engine"
)

// A bag of a better class is due on all hosts before the tasks of other bags. While all
// hosts are well, and at least behindMin of its tasks wait for behindFor, the other hosts
// may start at most behindMost tasks of a worse class for each of its own.
const (
	behindFor  = time.Second
	behindMin  = 20
	behindMost = 1
)

// urgent plans a long bag of the usual class at each host and, later, one of a better class
// at one host. There are no faults then, and nothing is lost: a lost offer holds half of a
// queue for as long as its victim waits for an answer, longer than behindFor.
func (w *World) urgent(d *engine.Dice) bool {
	if !d.Chance(0.15) {
		return false
	}
	w.Net.Heal()
	w.opt.Store.Lost, w.opt.Store.Silent = 0, 0
	mean := d.Between(20*time.Millisecond, 60*time.Millisecond)
	length := func(r *engine.Dice, _ mtc.Start) time.Duration { return r.Between(mean/2, 2*mean) }
	each := func(id int, class int32, tasks time.Duration) submit.Job {
		job := filch.JobID(id)
		return submit.Job{Job: job, Total: w.opt.Slots * int32(tasks/mean), Ticket: filch.Ticket{Class: class, UnixNS: int64(id), Job: job}}
	}
	for i := range w.hosts {
		w.Submit(i, each(i+1, 0, 6*time.Second), length)
	}
	n := len(w.hosts)
	s, to := each(n+1, -1, time.Duration(n)*2*time.Second), d.N(n)
	w.At(d.Between(time.Second, 2*time.Second), func() {
		w.Submit(to, s, length)
		w.watchClass(s.Job)
	})
	w.truth.submitted(s, length)
	return true
}

// watchClass looks at the starts of a bag beside the starts of worse classes.
func (w *World) watchClass(id filch.JobID) {
	var since time.Duration
	var own, others int
	var look func()
	look = func() {
		j := w.truth.jobs[id]
		waits, begun, rest := 0, 0, 0
		for i := range j.starts {
			if j.starts[i] == 0 {
				waits++
			}
			begun += int(j.starts[i])
		}
		for k, o := range w.truth.jobs { // any order: a sum
			if k != id && o.Ticket.Class > j.Ticket.Class {
				for i := range o.starts {
					rest += int(o.starts[i])
				}
			}
		}
		switch {
		case j.rec == nil || waits < behindMin || begun == 0:
			since = 0
		case since == 0:
			since, own, others = w.Now(), begun, rest
		case w.Now()-since >= behindFor:
			w.Stats.Urgent++
			if rest-others > behindMost*(begun-own) {
				w.truth.breach("in %v %d tasks of a worse class began and %d of job %d, of which %d waited", behindFor, rest-others, begun-own, id, waits)
			}
			since = 0
		}
		if waits > 0 {
			w.At(w.Now()+lookEvery, look)
		}
	}
	w.At(w.Now()+lookEvery, look)
}
