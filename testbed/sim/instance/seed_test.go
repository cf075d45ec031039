package instance

import (
	"testing"
	"time"
)

// A run waits for a bag of which tasks end, and for no other.
func TestBagsAreWaitedForWhileTasksEnd(t *testing.T) {
	const until = time.Minute
	for _, x := range []struct {
		name  string
		total int32
		takes time.Duration
		over  bool
	}{{"tasks end", 16, 8 * time.Second, true}, {"none does", 1, 2 * time.Minute, false}} {
		t.Run(x.name, func(t *testing.T) {
			s := newScene(t, 1, 1)
			b := s.submitTasks(x.total, x.takes)
			s.Run(until)
			if b.finished {
				t.Error("it was over before: the scene shows nothing")
			}
			if s.settleBags(); b.finished != x.over || s.Now() > until && !x.over {
				t.Errorf("the bag is over: %t at %v, want %t", b.finished, s.Now(), x.over)
			}
		})
	}
}
