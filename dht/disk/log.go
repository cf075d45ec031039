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
	SyncDefault    = 40 * time.Millisecond // each costs 100 us of CPU and more; what waits for one hurries
	QuotaDefault   = 512 << 20
	SegmentDefault = 8 << 20
	quotaMin       = 8 * segmentMin
	segmentMin     = 4 << 10
	syncShare      = 4                     // a slow disk syncs a fourth of the time at most
	syncMax        = 50 * time.Millisecond // and that often at least
)

// Config is what a log is opened with. Dir must be set.
type Config struct {
	Dir          string
	SegmentBytes int64         // from which on a new segment is begun
	QuotaBytes   int64         // of all segments together
	SyncEvery    time.Duration // below 0: never
	// Synced is told how far all entries are durable, by the goroutine that
	// writes, and soon returns.
	Synced func(upto uint64)
	// Report is told of damage while the log is opened, and of failures later.
	Report func(Report)
	FS     FS // nil: the machine's; then the directory is checked and locked
}

func (c *Config) syncs() bool { return c.SyncEvery > 0 }

// Log is an open log. Its methods may be called by several goroutines.
type Log struct {
	cfg  Config
	lock *os.File
	own  chan *files // who took the files out of it may touch them
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

// openIdle opens a log that nobody writes for.
func openIdle(cfg Config) (*Log, error) {
	if cfg.SyncEvery == 0 {
		cfg.SyncEvery = SyncDefault
	}
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = QuotaDefault
	}
	cfg.QuotaBytes = max(cfg.QuotaBytes, quotaMin)
	if cfg.SegmentBytes == 0 {
		cfg.SegmentBytes = SegmentDefault
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

// Each yields what counts, a key once, in no particular order, and ends at the
// first error of yield, which it returns. A value is valid until yield returns.
// What was appended and not yet written is left out.
func (l *Log) Each(yield func(key string, value []byte) error) error {
	f := <-l.own
	defer func() { l.own <- f }()
	return f.each(yield)
}

// Append takes entries to be written, in this order, and returns the number of
// the last. It takes all or, where one is too large or the log is closed, none.
func (l *Log) Append(entries ...Entry) (uint64, error) {
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return 0, err
		}
	}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return 0, ErrClosed
	}
	first := len(l.waiting) == 0 && len(entries) > 0
	for _, e := range entries {
		l.number++
		l.waiting = append(l.waiting, numbered{Entry: e, seq: l.base + l.number})
	}
	n := l.number
	if first {
		l.since = time.Now()
	}
	if l.failed != nil {
		l.shrink()
	}
	l.mu.Unlock()
	if first && l.cfg.syncs() {
		l.rouse()
	}
	return n, nil
}

// Hurry has the entries up to a number synced now rather than soon.
func (l *Log) Hurry(upto uint64) {
	l.mu.Lock()
	more := upto > l.wanted && upto > l.synced
	l.wanted = max(l.wanted, min(upto, l.number))
	l.mu.Unlock()
	if more {
		l.rouse()
	}
}

// Flush writes what was appended, so that it survives this process. While the
// disk fails it says why without trying, until it is time to try again.
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
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}

// Stats says how the log stands.
func (l *Log) Stats() Stats {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.stats
	s.QuotaBytes, s.Number, s.Synced, s.Waiting, s.Failed = l.cfg.QuotaBytes, l.number, l.synced, len(l.waiting), l.failed
	return s
}

// Close writes and syncs what was appended, says what it could not, and gives
// the directory back.
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
		err = fmt.Errorf("%d entries of the log are not on the disk: %w", n, err)
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

// rouse has the writer look what there is to do.
func (l *Log) rouse() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}
