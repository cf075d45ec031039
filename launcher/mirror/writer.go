package mirror

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Writer appends lines to a file of a queue, from a goroutine of its own: the file
// system may be slow.
type Writer struct {
	queue Queue
	name  string
	cfg   Config
	wake  chan struct{}

	mu     sync.Mutex // guards the fields up to since
	lines  []byte     // not handed to the file system yet
	number uint64     // of calls of Add
	lost   bool       // lines were dropped
	since  time.Time  // start of the current file system call; zero: no call

	file *os.File // the goroutine's
	torn bool     // the last write may have left half a line
}

// Config holds the callbacks of a Writer; all must be set. The Writer's goroutine calls
// the callbacks except Slow: that goroutine then hangs in the file system.
type Config struct {
	SlowAfter time.Duration // how long a file system call may take before Slow
	Slow      func()        // once per slow call

	// Synced: calls of Add up to upto are durable; closed: the queue was closed before
	// the Writer knew these lines to be durable.
	Synced func(upto uint64, closed bool)
	Failed func(err error) // the Writer retries
	Lost   func()          // lines were dropped meanwhile, and can be written again
}

const (
	maxWaiting = 64 << 20    // bytes of waiting lines
	tryAgain   = time.Second // after a failure
)

// NewWriter makes a Writer of the file name; Run is its goroutine.
func NewWriter(q Queue, name string, cfg Config) *Writer {
	return &Writer{queue: q, name: name, cfg: cfg, wake: make(chan struct{}, 1)}
}

// Add queues lines and returns a number; Synced reports the number when the lines are
// durable. Lines that can be written again are dropped while too many wait.
func (w *Writer) Add(lines []byte, again bool) uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	if again && len(w.lines)+len(lines) > maxWaiting {
		w.lost = true
		return w.number
	}
	w.lines = append(w.lines, lines...)
	w.number++
	select {
	case w.wake <- struct{}{}:
	default:
	}
	return w.number
}

// Busy returns how long the current file system call has taken; 0 without a call.
func (w *Writer) Busy() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return 0
	}
	return time.Since(w.since)
}

// begin notes the start of a file system call; the returned end notes the answer. While
// the call hangs, only the timer can report the delay.
func (w *Writer) begin() (end func()) {
	set := func(t time.Time) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.since = t
	}
	set(time.Now())
	slow := time.AfterFunc(w.cfg.SlowAfter, w.cfg.Slow)
	return func() {
		slow.Stop()
		set(time.Time{})
	}
}

// Run writes until ctx ends, and then the remaining lines. Run may never return: a
// process cannot interrupt a file system that hangs.
func (w *Writer) Run(ctx context.Context) {
	defer func() {
		if w.file != nil {
			_ = w.file.Close()
		}
	}()
	end := w.begin()
	_ = w.open() // else with the first lines
	end()
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			_, _ = w.write()
			return
		}
		for {
			more, err := w.write()
			if err == nil && !more {
				break
			}
			if err != nil {
				w.cfg.Failed(err)
				select {
				case <-time.After(tryAgain):
				case <-ctx.Done():
				}
			}
			if ctx.Err() != nil {
				break
			}
		}
	}
}

// write writes the waiting lines; more reports whether new lines came meanwhile.
func (w *Writer) write() (more bool, err error) {
	w.mu.Lock()
	lines, upto, lost := w.lines, w.number, w.lost
	w.mu.Unlock()
	if len(lines) == 0 && !lost {
		return false, nil
	}
	defer w.begin()()
	if err := w.append(lines); err != nil {
		w.torn = true
		return true, err
	}
	w.torn = false
	w.mu.Lock()
	w.lines = w.lines[len(lines):]
	if len(w.lines) == 0 {
		w.lines = nil
	}
	w.lost = w.lost && !lost
	more = len(w.lines) > 0
	w.mu.Unlock()
	w.cfg.Synced(upto, w.queue.Closed())
	if lost {
		w.cfg.Lost()
	}
	return more, nil
}

// open opens and locks the file: the lock shows that this launcher is alive. On a file
// system without locks the file stays unlocked.
func (w *Writer) open() error {
	f, err := os.OpenFile(w.queue.file(w.name+suffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err == nil {
		_ = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		w.file = f
	}
	return err
}

func (w *Writer) append(lines []byte) (err error) {
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if w.torn {
		_, err = w.file.Write([]byte{'\n'})
	}
	if err == nil {
		_, err = w.file.Write(lines)
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil { // a file that failed once may hide later errors
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	return err
}
