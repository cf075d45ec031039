package mtc

import (
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/policy"
)

// This file decides about the tasks of a job that take different amounts of a resource which
// all nodes share, where some tasks take nothing: the others wait apart, so that these start.

// lack keeps the first task of a job apart until the task has its tokens, if tasks behind it
// may take none. Tasks that take tokens start in their order.
func (e *execution) lack(j *job, need int) got {
	if j.least > 0 || len(j.queue.Lacking) >= policy.LackMax {
		return gotBlocked
	}
	it, line := e.next(j)
	if line != lines.Here {
		return gotBlocked
	}
	it.Need = int32(need) + 1
	j.queue.SetLacking(it)
	return gotOne
}

// startLacking starts the first of the tasks that wait apart, once its tokens are here, or
// asks for them. As soon as they are here, the task waits for room before all others.
func (e *execution) startLacking(j *job, g *gate) got {
	q := &j.queue
	if !e.core.caps.More(j, j.Wants()) {
		return gotNext
	}
	switch e.core.lines.Line(j, q.Lacking[0].Index) {
	case lines.Away:
		return gotBlocked
	case lines.Gone:
		e.core.pass(j, q.PopLacking())
		return gotOne
	}
	j.choose(int(q.Lacking[0].Need) - 1)
	at, is := e.place(j)
	if is != gotNext {
		return is
	}
	e.start(j, q.PopLacking(), at, g)
	return gotOne
}
