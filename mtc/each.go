package mtc

import (
	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/before"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// This file lets the tasks of a bag begin one by one, each after a task of another bag, or in the
// order of their lengths: see [before.Each]. The leader queues the ready tasks as single tasks with committed starts, and at
// most a window of them, so that a waiting task is in no queue and no record.

// step does what is due for a bag whose tasks wait one by one.
func (c *Core) step(j *job) {
	l := j.leader
	if l == nil || l.each == nil || !l.open && j.void == 0 || j.spec == nil {
		return
	}
	space := l.each.Space(int(j.queue.Shareable()+j.queue.frozen+j.pending.Unsaid()), j.queue.pending)
	if l.each.Grow(j.rec.Total); j.void != 0 {
		c.due(j, l.each.Drop(c.now, []record.Pick{{Count: j.rec.Total}}, space))
		if l.each.Waiting() > 0 {
			c.waits.at = min(c.waits.at, l.each.Drops())
		}
		return
	}
	if picks := j.rec.Within(0, j.rec.Total); len(picks) > 0 { // cancelled by a person
		c.due(j, l.each.Drop(c.now, picks, before.Window))
	}
	looks, due := l.each.Step(c.now, space)
	c.due(j, due)
	c.lookUp(looks, func(k *before.Look, answers []record.Answer) {
		if l.each.Answered(c.now, k, answers); j.leader == l {
			c.step(j)
		}
	})
	c.waits.at = min(c.waits.at, l.each.Next(c.now))
}

// due queues the tasks that wait no longer, or ends them as skipped. After another leader,
// another node may have a ready task: the record decides.
func (c *Core) due(j *job, list []before.Due) {
	l := j.leader
	for _, d := range list {
		if d.Never != "" {
			c.note(noteInfo, j.id, "%d tasks of job %d are skipped, from %d on: %s, and they wait with %s", d.Hi-d.Lo, j.id, d.Lo, d.Never, record.WhenEach)
		}
		if d.Never == "" && l.orphan {
			c.failover.takePart(j, d.Lo, d.Hi, l.from, true)
			continue
		}
		for i := d.Lo; i < d.Hi; i++ {
			it, tried := l.tried[i]
			if !tried {
				it = queue.Item{Index: i, Attempt: record.FirstAttempt, Tracked: true}
			}
			it.Level = l.each.Level(i)
			if d.Never != "" {
				c.record(j, it, record.Task{State: filch.Skipped})
				continue
			}
			j.queue.Hold(&it)
			j.queue.Shared.Push(it)
		}
	}
	if len(list) > 0 {
		c.active(j)
		c.orders.obey(j)
	}
}
