package disk

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

const (
	retryFirst  = 50 * time.Millisecond // after a failure
	retryMax    = 2 * time.Second
	voiceEvery  = 30 * time.Second // between two reports of a lasting failure
	shrinkFrom  = 4096             // waiting entries: from here on only the last of a key is kept
	tidyPause   = 5 * time.Second  // after a failed compaction
	forever     = time.Hour
	writtenKeep = 1024 // entries for which memory is kept between syncs
)

// queue is the waiting entries and the state of writing; guarded by Log.mu.
type queue struct {
	base    uint64 // of sequence numbers: an entry's is base + number
	number  uint64 // of the last entry
	wanted  uint64 // a caller waits until the entry with this number is durable
	synced  uint64
	waiting []numbered
	spare   []numbered // the other half of a double buffer
	since   time.Time  // when the first of waiting was appended
	took    time.Duration
	failed  error
	retry   time.Duration
	retryAt time.Time
	voiceAt time.Time
	shrunk  int // entries waiting after the last shrink
	changed chan struct{}
	closed  bool
}

// add appends entries, and reports whether none waited before.
func (q *queue) add(entries []Entry) (first bool) {
	first = len(q.waiting) == 0 && len(entries) > 0
	for _, e := range entries {
		q.number++
		q.waiting = append(q.waiting, numbered{Entry: e, seq: q.base + q.number})
	}
	if first {
		q.since = time.Now()
	}
	if q.failed != nil {
		q.shrink()
	}
	return first
}

// run writes and tidies until the log is closed.
func (l *Log) run() {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	wait := time.Duration(0) // the first turn tidies segments found at opening
	for {
		if wait > 0 {
			timer.Reset(wait)
			select {
			case <-l.wake:
			case <-timer.C:
			case <-l.stop:
				return
			}
		}
		select {
		case <-l.stop:
			return
		case f := <-l.own:
			wait = l.turn(f, time.Now())
			l.own <- f
		}
	}
}

// turn does the work due and returns the time until the next turn; 0 is at once.
func (l *Log) turn(f *files, now time.Time) time.Duration {
	wait := l.due(now)
	if wait <= 0 {
		if l.commit(f) != nil {
			wait = l.pause()
		} else {
			wait = l.due(now)
		}
	}
	if tidy := l.tidy(f, now); tidy >= 0 {
		wait = min(wait, tidy)
	}
	l.publish(f)
	return wait
}

// due is how long the waiting entries may still wait.
func (l *Log) due(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.failed != nil:
		return max(0, l.retryAt.Sub(now))
	case len(l.waiting) == 0 || !l.cfg.syncs():
		return forever
	case l.wanted > l.synced:
		return 0
	}
	every := max(l.cfg.SyncEvery, min(syncShare*l.took, syncMax))
	return max(0, l.since.Add(every).Sub(now))
}

func (l *Log) pause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retry
}

// commit writes and syncs all waiting entries.
func (l *Log) commit(f *files) error {
	l.mu.Lock()
	if l.failed != nil {
		l.lastOfEach()
		l.removalsFirst()
	}
	batch, taken := l.waiting, l.number
	l.waiting, l.spare = l.spare[:0], nil
	l.mu.Unlock()

	start := time.Now()
	n, err := f.writeSpent(batch)
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		f.spend()
	}
	if l.cfg.syncs() {
		f.written = append(f.written, batch[:n]...)
	}
	again, bad := l.settle(f)
	if err == nil {
		err = bad
	}
	if err != nil {
		l.fail(f, err, append(again, batch[n:]...), start)
		return err
	}
	l.succeed(f, batch, taken, time.Since(start))
	return nil
}

// settle syncs. On failure it returns all entries written since the last sync, to
// be written again.
func (l *Log) settle(f *files) (again []numbered, err error) {
	if len(f.unsynced) == 0 {
		return nil, nil
	}
	if err := f.sync(); err != nil {
		again, f.written = f.written, nil
		return again, err
	}
	clear(f.written)
	if f.written = f.written[:0]; cap(f.written) > writtenKeep {
		f.written = nil
	}
	return nil, nil
}

// succeed announces the durable entries.
func (l *Log) succeed(f *files, batch []numbered, taken uint64, took time.Duration) {
	clear(batch)
	f.durable(taken)
	l.publish(f)
	l.mu.Lock()
	if cap(batch) <= shrinkFrom {
		l.spare = batch[:0]
	}
	back := l.failed != nil
	l.failed, l.retry, l.shrunk, l.took = nil, 0, 0, took
	news := taken > l.synced
	if news {
		l.synced = taken
		l.signal()
	}
	l.mu.Unlock()
	if news && l.cfg.syncs() {
		l.cfg.Synced(taken)
	}
	if back {
		l.cfg.Report(Report{Kind: Back})
	}
}

// fail puts the unwritten entries back into the queue and sets the next try.
func (l *Log) fail(f *files, err error, rest []numbered, now time.Time) {
	l.publish(f)
	l.mu.Lock()
	first := l.failed == nil
	l.waiting = append(rest, l.waiting...)
	l.shrink()
	l.failed = err
	l.retry = min(max(retryFirst, 2*l.retry), retryMax)
	l.retryAt = now.Add(l.retry)
	r := Report{Kind: Failing, Err: err, Entries: len(l.waiting)}
	for i := range l.waiting {
		r.Bytes += recordBytes(&l.waiting[i].Entry)
	}
	if first {
		r.Kind = Failed
	}
	loud := first || now.After(l.voiceAt)
	if loud {
		l.voiceAt = now.Add(voiceEvery)
	}
	l.mu.Unlock()
	if loud {
		l.cfg.Report(r)
	}
}

// shrink keeps only the last waiting entry of each key. So a disk failing for hours
// costs no more memory than the owner's own data.
func (q *queue) shrink() {
	if len(q.waiting) >= max(shrinkFrom, 2*q.shrunk) {
		q.lastOfEach()
	}
}

func (q *queue) lastOfEach() {
	last := make(map[string]int, len(q.waiting))
	for i := range q.waiting {
		last[q.waiting[i].Key] = i
	}
	kept := q.waiting[:0]
	for i := range q.waiting {
		if e := q.waiting[i]; last[e.Key] == i {
			kept = append(kept, e)
		}
	}
	clear(q.waiting[len(kept):])
	q.waiting, q.shrunk = kept, len(kept)
}

// removalsFirst moves removals to the front, as they make room; no key may wait
// twice.
func (q *queue) removalsFirst() {
	kept := make([]numbered, 0, len(q.waiting))
	for _, removal := range []bool{true, false} {
		for _, e := range q.waiting {
			if (e.Value == nil) == removal {
				kept = append(kept, e)
			}
		}
	}
	q.waiting = kept
}

// signal wakes the callers in Sync.
func (q *queue) signal() {
	if q.changed != nil {
		close(q.changed)
		q.changed = nil
	}
}

// publish stores the figures of the files for Stats.
func (l *Log) publish(f *files) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.stats
	s.SizeBytes, s.LiveBytes, s.Keys, s.Segments = f.size, f.index.live, f.index.n, len(f.segs)
}

// tidy continues compaction by a bounded step. It returns the time until the next
// step: 0 is at once, below 0 is once there is a reason.
func (l *Log) tidy(f *files, now time.Time) time.Duration {
	l.mu.Lock()
	pressed := l.failed != nil
	l.mu.Unlock()
	if f.shaky {
		// The records superseded in the index may be the only durable records.
		return -1
	}
	if now.Before(f.tidyAt) {
		return f.tidyAt.Sub(now)
	}
	var err error
	switch {
	case f.job != nil && f.job.done:
		again, bad := l.settle(f)
		if bad != nil {
			l.fail(f, bad, again, now)
			return l.pause()
		}
		err = f.finish()
		l.hope(now)
	case f.job != nil:
		err = f.compact(nil)
	default:
		s := f.victim(pressed)
		if s == nil {
			return -1
		}
		err = f.compact(s)
	}
	if err != nil {
		f.tidyAt = now.Add(tidyPause)
		if !pressed {
			l.cfg.Report(Report{Kind: Untidy, Err: err})
		}
		return tidyPause
	}
	return 0
}

// hope retries a failed write at once: there is more room now.
func (l *Log) hope(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed != nil {
		l.retryAt = now
	}
}
