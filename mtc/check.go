package mtc

import (
	"fmt"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/tokens"
)

// Check panics where an invariant does not hold.
func (c *Core) Check() {
	var used, lent filch.Room
	running, successors, licenses, gathers := map[*job]int32{}, map[*job]int32{}, map[*tokens.Set]int32{}, int32(0)
	for _, r := range c.exec.list.All() {
		used = used.Plus(*r.room())
		running[r.job]++
		if r.job.spec.License.Name != "" {
			licenses[r.job.tokens] += r.job.spec.Tokens(int(r.item.Need) - 1)
		}
		if r.stage == gathering {
			gathers++
		}
		if r.stage == succeeds {
			successors[r.job]++
		}
		if next := c.exec.list.Find(r.next); r.next != 0 && (next == nil || next.stage != succeeds || c.exec.list.Find(next.prev) != r) {
			panic(fmt.Sprintf("mtc: a task of job %d has a successor that does not wait for it", r.job.id))
		}
		gang := r.gang().Ranks > 0
		if r.stage == borrows {
			lent = lent.Plus(*r.taskRoom())
		}
		if (r.stage == gathering || r.stage == launched) && !gang || r.stage == borrows && (gang || r.job.spec.Once) {
			panic(fmt.Sprintf("mtc: a task of job %d is in stage %d; a gang: %t", r.job.id, r.stage, gang))
		}
	}
	if gathers != c.exec.gathers {
		panic(fmt.Sprintf("mtc: %d gangs gather, %d are counted", gathers, c.exec.gathers))
	}
	if lent != c.exec.lent {
		panic(fmt.Sprintf("mtc: tasks borrow %v, the sum is %v", c.exec.lent, lent))
	}
	if used != c.exec.used {
		panic(fmt.Sprintf("mtc: tasks hold %v, the sum is %v", c.exec.used, used))
	}
	unsaid := int64(0)
	for _, j := range c.jobs { // any order: sums, and a panic whichever is first
		if j.running != running[j] || j.successors != successors[j] {
			panic(fmt.Sprintf("mtc: job %d counts %d running tasks of %d, %d successors of %d", j.id, j.running, running[j], j.successors, successors[j]))
		}
		if j.spec != nil && j.spec.Cap > 0 && j.running > j.spec.Cap {
			panic(fmt.Sprintf("mtc: %d tasks of job %d run under a cap of %d", j.running, j.id, j.spec.Cap))
		}
		if n := len(j.queue.Lacking); n > 0 && j.least > 0 {
			panic(fmt.Sprintf("mtc: %d tasks of job %d wait apart for a resource of which each task takes", n, j.id))
		}
		unsaid += j.pending.Unsaid()
		j.queue.check()
	}
	c.caps.Check(licenses)
	if unsaid != c.recorder.Unsaid() {
		panic(fmt.Sprintf("mtc: %d ends wait to be recorded, the sum is %d", c.recorder.Unsaid(), unsaid))
	}
	for i := 1; i < len(c.order); i++ {
		if c.order[i].ticket.Older(c.order[i-1].ticket) {
			panic(fmt.Sprintf("mtc: job %d stands behind job %d", c.order[i].id, c.order[i-1].id))
		}
	}
}

func (q *readyQueue) check() {
	q.Check()
	if q.frozen < 0 {
		panic(fmt.Sprintf("mtc: %d tasks are frozen", q.frozen))
	}
}
