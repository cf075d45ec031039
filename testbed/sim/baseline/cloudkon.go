package baseline

import (
	"math"
	"time"
)

// CloudKon is a queue and a store, both services of a cloud that never saturate, from which the
// threads of the instances pull tasks in bundles (CloudKon, II).
type CloudKon struct {
	Bundle  int           // the most tasks of a message
	Receive time.Duration // a call that takes a bundle from the queue
	Write   Service       // the conditional write by which a task runs once (II.B)
	Rest    Service       // all other work of a thread for a task: sends the result
	Once    bool          // tasks run exactly once; false: at least once
}

// Service is the time of a call with a number of instances: Base with one, and More each time
// the number doubles.
type Service struct{ Base, More time.Duration }

// with is the time of a call with n instances.
func (s Service) with(n int) time.Duration {
	return s.Base + time.Duration(math.Log2(float64(n))*float64(s.More))
}

// SQS has the services of the paper; see the comment of the package.
var SQS = CloudKon{
	Bundle: 10, Receive: 10 * time.Millisecond, Once: true,
	Write: Service{3600 * time.Microsecond, 920 * time.Microsecond},
	Rest:  Service{12200 * time.Microsecond, 770 * time.Microsecond},
}

// Run runs a bag. All tasks are in the queue at the begin: the clients of the paper send bundles
// of ten, faster than threads take the tasks.
func (c CloudKon) Run(b *Bag) (Took, error) {
	w := newWorld(b, 0)
	before, after := time.Duration(0), c.Rest.with(b.Nodes)
	calls := uint64(1) // the result of a task
	if c.Once {
		before, calls = c.Write.with(b.Nodes), calls+1
	}
	// A call takes between half and three halves of its time.
	call := func(d time.Duration, f func()) { w.After(w.dice.Between(d/2, d+d/2), f) }
	next := int32(0)
	var pull func(n *node)
	var each func(n *node, task, last int32)
	each = func(n *node, task, last int32) {
		if task == last {
			pull(n)
			return
		}
		w.messages += calls
		call(before, func() {
			n.start(task, func() { call(after, func() { each(n, task+1, last) }) })
		})
	}
	pull = func(n *node) {
		if int(next) == len(b.Lengths) {
			return
		}
		first := next
		next += min(int32(c.Bundle), int32(len(b.Lengths))-next)
		last := next
		w.messages += 3 // the bundle into the queue and out, and the results to the client
		call(c.Receive, func() { each(n, first, last) })
	}
	for _, n := range w.nodes {
		for range b.Slots {
			pull(n)
		}
	}
	return w.took()
}
