package instance

import (
	"slices"
	"time"
)

// demand is a job as an oracle sees it: slots for a time, all at once.
type demand struct {
	Submit time.Duration
	Slots  int
	Runs   time.Duration
}

// oracle is an ideal central queue: it knows every slot at once, without a
// message, and slots are alike. It returns when each job starts. With easy set,
// a younger job may go first where it cannot delay the oldest waiting one (EASY
// backfill); without, it is strictly first come, first served.
func oracle(total int, jobs []demand, easy bool) []time.Duration {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return int(jobs[a].Submit - jobs[b].Submit) })
	c := &central{jobs: jobs, free: total, starts: make([]time.Duration, len(jobs))}
	next := 0
	for next < len(order) || len(c.running) > 0 {
		now := time.Duration(1<<63 - 1)
		if next < len(order) {
			now = jobs[order[next]].Submit
		}
		if len(c.running) > 0 {
			now = min(now, c.running[0].end)
		}
		for next < len(order) && jobs[order[next]].Submit <= now {
			c.waiting = append(c.waiting, order[next])
			next++
		}
		c.finish(now)
		for len(c.waiting) > 0 && jobs[c.waiting[0]].Slots <= c.free {
			c.start(now, c.waiting[0])
			c.waiting = c.waiting[1:]
		}
		if easy && len(c.waiting) > 0 {
			c.backfill(now)
		}
	}
	return c.starts
}

type central struct {
	jobs    []demand
	starts  []time.Duration
	waiting []int
	running []occupied // by end
	free    int
}

type occupied struct {
	end   time.Duration
	slots int
}

func (c *central) start(now time.Duration, job int) {
	d := c.jobs[job]
	c.starts[job] = now
	c.free -= d.Slots
	o := occupied{now + d.Runs, d.Slots}
	at, _ := slices.BinarySearchFunc(c.running, o, func(a, b occupied) int {
		if a.end <= b.end {
			return -1
		}
		return 1
	})
	c.running = slices.Insert(c.running, at, o)
}

func (c *central) finish(now time.Duration) {
	k := 0
	for k < len(c.running) && c.running[k].end <= now {
		c.free += c.running[k].slots
		k++
	}
	c.running = c.running[k:]
}

// backfill starts what fits beside the reservation of the oldest waiting job:
// it will have its slots at the shadow time, when spare more are left over.
func (c *central) backfill(now time.Duration) {
	head := c.jobs[c.waiting[0]]
	free, spare, shadow := c.free, 0, now
	for _, o := range c.running {
		free += o.slots
		if free >= head.Slots {
			shadow, spare = o.end, free-head.Slots
			break
		}
	}
	kept := c.waiting[:1]
	for _, j := range c.waiting[1:] {
		d := c.jobs[j]
		inTime := now+d.Runs <= shadow
		if d.Slots > c.free || !inTime && d.Slots > spare {
			kept = append(kept, j)
			continue
		}
		if !inTime {
			spare -= d.Slots
		}
		c.start(now, j)
	}
	c.waiting = kept
}
