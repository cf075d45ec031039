package mirror

import (
	"context"
	"errors"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Writer appends lines to a file of a queue, from a goroutine of its own: the
// file system may take its time.
type Writer struct {
	queue Queue
	name  string
	cfg   Config
	wake  chan struct{}

	mu     sync.Mutex // guards what follows
	lines  []byte     // not handed to the file system yet
	number uint64     // of calls of Add
	lost   bool       // lines were dropped
	since  time.Time  // the file system is at work; zero: it is not

	file *os.File // the goroutine's
	torn bool     // the last write may have left half a line
}

// Config is how a Writer tells what it does; all must be set. They are called
// by its goroutine, but for Slow: that one hangs in the file system then.
type Config struct {
	SlowAfter time.Duration // what the file system does takes so long
	Slow      func()        // once for each time

	Synced func(upto uint64, closed bool) // calls of Add up to this one are durable; closed: the queue was closed before that was known
	Failed func(err error)                // it is tried again
	Lost   func()                         // lines were dropped meanwhile, and can be written again
}

const (
	maxWaiting = 64 << 20    // bytes of lines that wait
	tryAgain   = time.Second // after what failed
)

// NewWriter makes a Writer of a file of that name; its goroutine is Run.
func NewWriter(q Queue, name string, cfg Config) *Writer {
	return &Writer{queue: q, name: name, cfg: cfg, wake: make(chan struct{}, 1)}
}

// Add takes lines; the number that it returns is told when they are durable.
// Lines that can be written again are dropped while too many wait.
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

// Busy is how long the file system has not answered; 0 when it is asked nothing.
func (w *Writer) Busy() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return 0
	}
	return time.Since(w.since)
}

// begin notes that the file system is at work, and what it returns that it has
// answered. Where it hangs nobody else can tell.
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

// Run writes until ctx ends, and then what is left. It may never return: a file
// system that hangs cannot be interrupted.
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

// write writes what waits; more reports whether something came meanwhile.
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

// open opens the file, and locks it: that says that this launcher lives. Where
// the file system has no locks it goes without.
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
