package mtc

import (
	"fmt"

	"github.com/filch-hpc/filch"
)

// Check panics where an invariant does not hold.
func (c *Core) Check() {
	var used filch.Room
	running := map[*job]int32{}
	for i := range c.exec.list {
		if r := &c.exec.list[i]; r.job != nil {
			used = used.Plus(r.job.spec.Each)
			running[r.job]++
		}
	}
	if used != c.exec.used {
		panic(fmt.Sprintf("mtc: tasks hold %v, the sum is %v", c.exec.used, used))
	}
	unsaid := int64(0)
	for _, j := range c.jobs { // any order: sums, and a panic whichever is first
		if j.running != running[j] {
			panic(fmt.Sprintf("mtc: job %d counts %d running tasks of %d", j.id, j.running, running[j]))
		}
		if j.spec != nil && j.spec.Cap > 0 && j.running > j.spec.Cap {
			panic(fmt.Sprintf("mtc: %d tasks of job %d run under a cap of %d", j.running, j.id, j.spec.Cap))
		}
		unsaid += j.records.unsaid
		j.queue.check()
	}
	if unsaid != c.recorder.unsaid {
		panic(fmt.Sprintf("mtc: %d ends wait to be recorded, the sum is %d", c.recorder.unsaid, unsaid))
	}
	for i := 1; i < len(c.order); i++ {
		if c.order[i].ticket.Older(c.order[i-1].ticket) {
			panic(fmt.Sprintf("mtc: job %d stands behind job %d", c.order[i].id, c.order[i-1].id))
		}
	}
}

func (q *readyQueue) check() {
	last := int32(-1)
	for _, s := range q.ranges {
		if s.next >= s.hi || s.next < last {
			panic(fmt.Sprintf("mtc: a range from %d to %d after %d", s.next, s.hi, last))
		}
		last = s.hi
	}
	for _, h := range [...]*heap{&q.shared, &q.dedicated} {
		if !h.Ordered() {
			panic("mtc: a queue of tasks is out of order")
		}
	}
	if q.frozen < 0 {
		panic(fmt.Sprintf("mtc: %d tasks are frozen", q.frozen))
	}
}
