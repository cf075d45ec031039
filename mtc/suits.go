package mtc

import (
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/lines"
	"github.com/filch-hpc/filch/mtc/mutants"
	"github.com/filch-hpc/filch/mtc/policy"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

// specify takes in the spec of a job.
func (c *Core) specify(j *job, s *record.Spec) {
	j.spec = s
	j.tokens = c.caps.Of(j)
	j.least, j.most = s.TokenBounds()
	j.next, j.gang, j.takes = s.Room(0), s.Gang, j.least
	if len(s.Needs) > 0 {
		j.unknown()
	}
	j.unfit = !policy.Suits(s, c.cfg.Members.Get(c.cfg.Self))
}

// unknown notes that the need of the first task is not known.
func (j *job) unknown() {
	j.next, j.gang, j.takes = &filch.Room{}, record.Gang{}, j.least
}

// choose notes the need of the task that starts next.
func (j *job) choose(number int) {
	j.need, j.gang, j.takes = number, j.spec.Need(number).Gang, j.spec.Tokens(number)
	if j.next = j.spec.Room(number); mutants.OneRoom {
		j.next = &j.spec.Each
	}
}

// barred reports whether no task of j may start here at the moment, whatever the room.
func (j *job) barred() bool {
	return j.core.drain.on || j.unfit || j.void != 0 || j.held() || j.leader != nil && !j.leader.open || j.pace.backoff.Until() > j.core.now
}

// needOf is the number of a task's need, by the task's line, which is here.
func (c *Core) needOf(j *job, index int32) int {
	if c.cfg.Need == nil {
		return 0
	}
	return c.cfg.Need(j.body(j.payloads.Of(index)))
}

// body is the body of a task's line.
func (j *job) body(line []byte) []byte {
	if j.Graph() {
		// The start of the task reports a malformed node.
		n, _ := record.DecodeGraphNode(line)
		return n.Body
	}
	return line
}

// unfitMax bounds the tasks of a job that a node keeps for other nodes. At the bound the
// node starts no more tasks of the job until other nodes have taken some.
const unfitMax = 4096

// suitFirst finds the need of the first task of a job whose tasks differ. A task that may
// run on other nodes only is kept for other nodes.
func (e *execution) suitFirst(j *job) (number int, is got) {
	index, _ := j.queue.First()
	if e.core.lines.Line(j, index) != lines.Here {
		j.unknown()
		return 0, gotNext // next waits for the line, or passes the task by
	}
	number = e.core.needOf(j, index)
	j.choose(number)
	if policy.SuitsNeed(j.spec.Need(number), e.core.cfg.Members.Get(e.core.cfg.Self)) || mutants.TakesAll {
		return number, gotNext
	}
	if len(j.queue.Unfit) >= unfitMax {
		return number, gotBlocked
	}
	it, line := e.next(j)
	if line != lines.Here {
		return number, gotBlocked
	}
	it.Need = int32(number) + 1
	j.queue.SetUnfit(it)
	return number, gotOne
}

// unfitFor reports whether a node may run some of the tasks of j that this node may not
// run.
func (j *job) unfitFor(m *filch.Member) bool {
	suits := j.suits(m)
	return slices.ContainsFunc(j.queue.Unfit, func(it queue.Item) bool { return suits(&it) })
}

// suits returns whether a task of j may run on a node, as far as this node knows the
// task's need; nil if all tasks may. Without a node, all may.
func (j *job) suits(m *filch.Member) queue.Suits {
	if len(j.spec.Needs) == 0 || m == nil {
		return nil
	}
	return func(it *queue.Item) bool {
		return it.Need == 0 || policy.SuitsNeed(j.spec.Need(int(it.Need)-1), m)
	}
}

// gives reports whether this node gives the queued tasks of j away: a node that drains
// does, and so does a node that does not suit the tasks, once the tasks may start.
func (v *victim) gives(j *job) bool {
	return v.core.drain.on || j.unfit && j.void == 0 && !j.held() && (j.leader == nil || j.leader.open)
}
