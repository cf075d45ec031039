package inputs

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/watch"
)

func kindOf(err error) filch.Kind {
	if e, ok := errors.AsType[*filch.Error](err); ok {
		return e.Kind
	}
	return filch.Internal
}

// A launcher whose loop does not run answers after the wait; an ending launcher answers
// at once and drops inputs.
func TestAskWithoutALoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("n1", watch.Discard())
		began := time.Now()
		if err := q.Ask(time.Second, func(*Turn) {}); kindOf(err) != filch.Timeout || time.Since(began) != time.Second {
			t.Errorf("got %v after %v, want a timeout after 1s", err, time.Since(began))
		}
		for len(q.waiting) < Max {
			q.Post(func(*Turn) {})
		}
		ended := make(chan error, 1)
		q.Go(func() { ended <- q.Ask(time.Hour, func(*Turn) {}) })
		synctest.Wait() // the queue is full
		q.Stop()
		if err := <-ended; kindOf(err) != filch.Unavailable {
			t.Errorf("got %v, want that the launcher is going down", err)
		}
		q.Post(func(*Turn) { t.Error("an input ran after the end") })
		q.Wait()
		if len(q.waiting) != Max {
			t.Errorf("%d inputs wait, want %d", len(q.waiting), Max)
		}
	})
}

func TestIdlePollsTheLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New("n1", watch.Discard())
		q.Go(func() {
			for {
				select {
				case in := <-q.Waiting():
					in(&Turn{Now: q.Now()})
				case <-q.Context().Done():
					return
				}
			}
		})
		after := func(d time.Duration) func(*Turn) bool {
			end := q.Now() + d
			return func(turn *Turn) bool { return turn.Now >= end }
		}
		if !q.Idle(time.Second, after(3*IdlePause)) {
			t.Error("a condition that holds after three polls did not hold in a second")
		}
		if q.Idle(time.Second, after(time.Minute)) {
			t.Error("a condition that holds after a minute held in a second")
		}
		if q.Await(nil, time.Second) || !q.Pause(time.Second, time.Now().Add(time.Minute)) || q.Pause(time.Second, time.Now().Add(time.Millisecond)) {
			t.Error("a wait without an event was answered, or a pause missed its deadline")
		}
		q.Stop()
		q.Wait()
		if q.Idle(time.Hour, func(*Turn) bool { return true }) {
			t.Error("a condition held after the end")
		}
	})
}
