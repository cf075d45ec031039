package tasklist

import (
	"time"

	"github.com/filch-hpc/filch/launcher/client"
)

// How often the ends of the first tasks are read for --keep-order: less often while the
// first task goes on.
const (
	prefixEvery = 200 * time.Millisecond
	prefixRest  = 2 * time.Second
)

// WatchPrefix sends a number whenever all tasks before that number have ended. The output
// of the last tasks comes without news: the job has ended then.
func WatchPrefix(t *client.Tasks) (passed chan int32, stop func()) {
	passed = make(chan int32)
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		w := prefixWatch{t: t}
		defer w.close()
		last := int32(0)
		for pause := prefixEvery; ; pause = min(2*pause, prefixRest) {
			select {
			case <-over:
				return
			case <-time.After(pause):
			}
			n := w.passed()
			if n <= last {
				continue
			}
			select {
			case passed <- n:
				last, pause = n, prefixEvery/2
			case <-over:
				return
			}
		}
	}()
	return passed, func() {
		close(over)
		<-done
	}
}

// prefixWatch reads the ends of the first tasks on a connection of its own.
type prefixWatch struct {
	t    *client.Tasks
	ends *prefix // nil: not connected
}

// passed is [prefix.Passed], or 0 if the records cannot be read at the moment.
func (w *prefixWatch) passed() int32 {
	if w.ends == nil {
		c, err := w.t.Another()
		if err != nil {
			return 0
		}
		if w.ends, err = openPrefix(c, w.t.Job); err != nil {
			c.Close()
			return 0
		}
	}
	n, err := w.ends.Passed()
	if err != nil {
		w.close()
		return 0
	}
	return n
}

func (w *prefixWatch) close() {
	if w.ends != nil {
		w.ends.Close()
		w.ends = nil
	}
}
