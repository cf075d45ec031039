// Package inputs is the way of a daemon's parts to the loop, the one goroutine that
// owns the [node.Node]: a part posts an input, a function, and the loop runs the input
// in a turn.
//
// The queue also ends all goroutines of a daemon together.
package inputs

import (
	"context"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/node"
	"github.com/filch-hpc/filch/launcher/watch"
)

const (
	// Max is the number of waiting inputs; a reader that posts another input waits, and
	// so does the stream of the reader.
	Max = 1024
	// LoopWait is how long a query waits for the loop.
	LoopWait = 5 * time.Second
	// IdlePause is the time between two polls of [Queue.Idle].
	IdlePause = 20 * time.Millisecond
)

// Input is one input of the Node; the loop runs the input.
type Input func(t *Turn)

// Turn holds the parts that an input may use.
type Turn struct {
	Node *node.Node
	Now  time.Duration
	Out  *launcher.Outbox
}

// Queue holds the inputs that wait for the loop, and the goroutines of a daemon.
type Queue struct {
	Self  filch.NodeName
	Watch *watch.Watch
	Began time.Time

	waiting chan Input
	work    sync.WaitGroup // every goroutine
	ctx     context.Context
	stop    context.CancelFunc
}

// New makes the queue of the node self.
func New(self filch.NodeName, w *watch.Watch) *Queue {
	q := &Queue{Self: self, Watch: w, Began: time.Now(), waiting: make(chan Input, Max)}
	q.ctx, q.stop = context.WithCancel(context.Background())
	return q
}

// Waiting returns the inputs; only the loop receives from the channel.
func (q *Queue) Waiting() <-chan Input { return q.waiting }

// Context ends with the daemon.
func (q *Queue) Context() context.Context { return q.ctx }

// Stop ends the context.
func (q *Queue) Stop() { q.stop() }

// Go runs f on a goroutine that [Queue.Wait] waits for.
func (q *Queue) Go(f func()) { q.work.Go(f) }

// Wait returns when all goroutines have ended.
func (q *Queue) Wait() { q.work.Wait() }

// Now returns the Node's time.
func (q *Queue) Now() time.Duration { return time.Since(q.Began) }

// Post hands an input to the loop; after the end, Post drops the input.
func (q *Queue) Post(in Input) {
	select {
	case q.waiting <- in:
	case <-q.ctx.Done():
	}
}

// Ask runs f on the loop and waits for the result, at most for wait.
func (q *Queue) Ask(wait time.Duration, f Input) error {
	done := make(chan struct{})
	q.Post(func(t *Turn) { f(t); close(done) })
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-done:
		return nil
	case <-q.ctx.Done():
		return q.GoingDown()
	case <-timer.C:
		return filch.Errorf(filch.Timeout, "the launcher of %s was busy for %v", q.Self, wait)
	}
}

// Await reports whether ch was closed within the time.
func (q *Queue) Await(ch <-chan struct{}, wait time.Duration) bool {
	timer := time.NewTimer(max(wait, 0))
	defer timer.Stop()
	select {
	case <-ch:
		return true
	case <-timer.C:
	case <-q.ctx.Done():
	}
	return false
}

// Pause waits for a while; false means that the deadline has passed.
func (q *Queue) Pause(wait time.Duration, deadline time.Time) bool {
	q.Await(nil, min(wait, time.Until(deadline)))
	return time.Now().Before(deadline) && q.ctx.Err() == nil
}

// Idle polls ok on the loop, at most for wait, until ok holds.
func (q *Queue) Idle(wait time.Duration, ok func(*Turn) bool) bool {
	poll := time.NewTicker(IdlePause)
	defer poll.Stop()
	for end := time.Now().Add(wait); ; {
		is := false
		if q.Ask(LoopWait, func(t *Turn) { is = ok(t) }) != nil || is {
			return is
		}
		if time.Now().After(end) {
			return false
		}
		select {
		case <-poll.C:
		case <-q.ctx.Done():
			return false
		}
	}
}

// GoingDown is the error of a request to a launcher that is going down.
func (q *Queue) GoingDown() error {
	return filch.Errorf(filch.Unavailable, "the launcher of %s is going down", q.Self)
}

// Fault logs an event that should not happen.
func (q *Queue) Fault(what string, err error, args ...any) {
	q.Watch.Fault(what, err, args...)
}
