package pool

import (
	"fmt"
	"time"

	"github.com/filch-hpc/filch/pool"
)

// Bill tells where the time of all allocations went. All but Queue is paid: Join, First,
// Worked, Between, Last and Unused are the parts of the node time.
type Bill struct {
	Queue   time.Duration // from the submission to the start, of the allocations that started
	Join    time.Duration // from the start to the node
	First   time.Duration // without work before the first task
	Worked  time.Duration // with work on a slot or more
	Between time.Duration // without work, and work came later
	Last    time.Duration // without work after the last task
	Unused  time.Duration // of allocations that had no task at all, after Join
	Useless int           // the number of these allocations
	Spare   time.Duration // the part of Worked whose slots had no task, in time of whole nodes
}

// Paid is the sum of the parts.
func (b *Bill) Paid() time.Duration {
	return b.Join + b.First + b.Worked + b.Between + b.Last + b.Unused
}

func (b *Bill) String() string {
	h := time.Duration.Hours
	return fmt.Sprintf("join %.2f + first %.2f + worked %.2f (spare %.2f) + between %.2f + last %.2f + unused %.2f of %d; in the queue %.2f",
		h(b.Join), h(b.First), h(b.Worked), h(b.Spare), h(b.Between), h(b.Last), h(b.Unused), b.Useless, h(b.Queue))
}

// bill sums up what the allocations cost.
func (w *World) bill() {
	r := &w.Result
	b := &r.Bill
	for _, j := range w.jobs {
		n := j.node
		if n == nil {
			continue
		}
		end := w.now
		if j.state == pool.JobOver {
			end = j.over
		}
		r.NodeTime += end - j.start
		r.Worked += n.worked
		up := min(n.up, end)
		b.Queue += j.start - j.asked
		b.Join += up - j.start
		if n.worked == 0 {
			b.Unused += end - up
			b.Useless++
			continue
		}
		last := n.idle + tick // the end of the last step with work
		b.First += n.first - up
		b.Worked += n.worked
		b.Spare += n.worked - n.slots/time.Duration(w.Slots)
		b.Between += last - n.first - n.worked
		b.Last += end - last
	}
	if b.Paid() != r.NodeTime {
		w.breaks("the bill is %s, the node time %s", b.Paid(), r.NodeTime)
	}
}

// Response is the mean time from a work to the end of its last task.
func (r *Result) Response() (sum time.Duration) {
	for _, d := range r.Spans {
		sum += d
	}
	return sum / time.Duration(max(len(r.Spans), 1))
}
