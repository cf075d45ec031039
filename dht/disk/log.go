package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

// Limits of a log.
const (
	syncDefault    = 40 * time.Millisecond // each costs 100 us of CPU or more; see Hurry
	quotaDefault   = 512 << 20
	segmentDefault = 8 << 20
	quotaMin       = 8 * segmentMin
	segmentMin     = 4 << 10
	syncShare      = 4                     // a slow disk syncs a fourth of the time at most
	syncMax        = 50 * time.Millisecond // the most between syncs on a slow disk
)

// Config configures a log. Dir must be set.
type Config struct {
	Dir          string
	SegmentBytes int64         // the size at which the log begins a new segment
	QuotaBytes   int64         // of all segments together
	SyncEvery    time.Duration // below 0: never
	// Synced receives the number up to which all entries are durable. The writer
	// goroutine calls Synced, so Synced must return soon.
	Synced func(upto uint64)
	// Report receives damage while the log is opened, and failures later.
	Report func(Report)
	FS     FS // nil: the machine's; then the directory is checked and locked
}

func (c *Config) syncs() bool { return c.SyncEvery > 0 }

// Log is an open log. Its methods may be called by several goroutines.
type Log struct {
	cfg  Config
	lock *os.File
	own  chan *files // only the holder of the files may touch them
	wake chan struct{}
	stop chan struct{}
	work sync.WaitGroup

	mu sync.Mutex
	queue
	stats Stats
}

// Open opens a log and reads it.
func Open(cfg Config) (*Log, error) {
	l, err := openIdle(cfg)
	if err != nil {
		return nil, err
	}
	l.work.Go(l.run)
	return l, nil
}

// openIdle opens a log without a writer goroutine.
func openIdle(cfg Config) (*Log, error) {
	if cfg.SyncEvery == 0 {
		cfg.SyncEvery = syncDefault
	}
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = quotaDefault
	}
	cfg.QuotaBytes = max(cfg.QuotaBytes, quotaMin)
	if cfg.SegmentBytes == 0 {
		cfg.SegmentBytes = segmentDefault
	}
	cfg.SegmentBytes = min(max(cfg.SegmentBytes, segmentMin), cfg.QuotaBytes/8)
	if cfg.Synced == nil {
		cfg.Synced = func(uint64) {}
	}
	if cfg.Report == nil {
		cfg.Report = func(Report) {}
	}
	l := &Log{cfg: cfg, own: make(chan *files, 1), wake: make(chan struct{}, 1), stop: make(chan struct{})}
	if cfg.FS == nil {
		var err error
		if l.lock, err = take(cfg.Dir); err != nil {
			return nil, err
		}
		l.cfg.FS = system{}
	}
	tell := l.cfg.Report
	l.cfg.Report = func(r Report) {
		l.mu.Lock()
		if r.Kind == Torn || r.Kind == Damaged || r.Kind == Unreadable {
			l.stats.Skipped += r.Bytes
			l.stats.Damaged = l.stats.Damaged || r.Kind != Torn
		}
		l.mu.Unlock()
		tell(r)
	}
	f := &files{cfg: &l.cfg}
	base, err := f.load()
	if err != nil {
		if l.lock != nil {
			l.lock.Close()
		}
		return nil, err
	}
	l.base = base
	l.publish(f)
	l.own <- f
	return l, nil
}

// Each yields the current entries, each key once, in no particular order. Each
// stops at the first error of yield and returns the error. A value is valid until
// yield returns. Entries not yet written are left out.
func (l *Log) Each(yield func(key string, value []byte) error) error {
	f := <-l.own
	defer func() { l.own <- f }()
	return f.each(yield)
}

// Append accepts entries for writing, in this order. The caller numbers the entries of
// an open log from 1, without gaps; last is the number of the last entry. If an entry is
// too large, last is not the next number or the log is closed, Append accepts none.
func (l *Log) Append(last uint64, entries ...Entry) error {
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return err
		}
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return errClosed
	}
	if next := l.number + uint64(len(entries)); last != next {
		l.mu.Unlock()
		return fmt.Errorf("%w: %d instead of %d", errNumber, last, next)
	}
	first := l.add(entries)
	l.mu.Unlock()
	if first && l.cfg.syncs() {
		l.rouse()
	}
	return nil
}

// Hurry syncs the entries up to a number now rather than soon.
func (l *Log) Hurry(upto uint64) {
	l.mu.Lock()
	more := upto > l.wanted && upto > l.synced
	l.wanted = max(l.wanted, min(upto, l.number))
	l.mu.Unlock()
	if more {
		l.rouse()
	}
}

// Flush writes the appended entries, so they survive this process. While the disk
// fails, Flush returns the failure without trying, until the next try is due.
func (l *Log) Flush() error {
	f := <-l.own
	defer func() { l.own <- f }()
	l.mu.Lock()
	idle, err := len(l.waiting) == 0, l.failed
	due := err == nil || !time.Now().Before(l.retryAt)
	l.mu.Unlock()
	if idle || !due {
		return err
	}
	err = l.commit(f)
	if err != nil || f.job != nil || f.victim(false) != nil {
		l.rouse()
	}
	return err
}

// Sync waits until the entries up to a number are durable.
func (l *Log) Sync(ctx context.Context, upto uint64) error {
	l.Hurry(upto)
	for {
		l.mu.Lock()
		done, closed, err, changed := l.synced >= upto, l.closed, l.failed, l.changed
		if changed == nil {
			changed = make(chan struct{})
			l.changed = changed
		}
		l.mu.Unlock()
		switch {
		case done:
			return nil
		case closed:
			return errClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Stats returns the state of the log.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.QuotaBytes, s.Number, s.Synced, s.Waiting, s.Failed = l.cfg.QuotaBytes, l.number, l.synced, len(l.waiting), l.failed
	return s
}

// Close writes and syncs the appended entries, reports the entries left unwritten,
// and gives the directory back.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.stop)
	l.work.Wait()
	f := <-l.own
	err := l.commit(f)
	l.mu.Lock()
	if n := len(l.waiting); n > 0 {
		err = fmt.Errorf("%d %s of the log %s not on the disk: %w", n, plural(n, "entry", "entries"), plural(n, "is", "are"), err)
	}
	l.signal()
	l.mu.Unlock()
	f.abandon()
	err = errors.Join(err, f.close())
	if l.lock != nil {
		err = errors.Join(err, l.lock.Close())
	}
	return err
}

// rouse wakes the writer.
func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
