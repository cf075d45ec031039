package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
)

const (
	chunkBytes = 512 << 10 // written by one call, unless a record is longer
	keepBytes  = 2 << 20   // size of a buffer kept between writes
)

// numbered is an entry with its sequence number: the sum of base and the entry's
// number.
type numbered struct {
	Entry
	seq uint64
}

// write appends records until all are written or a call fails, and returns the
// number of records written.
func (f *files) write(batch []numbered) (n int, err error) {
	for n < len(batch) {
		if err := f.ready(); err != nil {
			return n, err
		}
		f.buf = f.buf[:0]
		end := n
		for end < len(batch) && len(f.buf) < chunkBytes && f.head.size+int64(len(f.buf)) < f.cfg.SegmentBytes {
			e := &batch[end]
			if grown := f.size + int64(len(f.buf)) + recordBytes(&e.Entry); grown > f.room(e.Value == nil) {
				break
			}
			f.buf = appendRecord(f.buf, f.head.salt, e.seq, &e.Entry)
			end++
		}
		if end == n {
			return n, fmt.Errorf("cannot keep more: %w of %d MB is used up, %d MB of it by what counts", errQuota, f.cfg.QuotaBytes>>20, f.index.live>>20)
		}
		at, err := f.append()
		if err != nil {
			return n, err
		}
		for ; n < end; n++ {
			e := &batch[n]
			bytes := recordBytes(&e.Entry)
			f.index.saw(e.Key, place{seq: e.seq, seg: f.head, at: at, bytes: bytes, remove: e.Value == nil})
			at += bytes
		}
	}
	if cap(f.buf) > keepBytes {
		f.buf = nil
	}
	return n, nil
}

// room is the allowed size of the log. Removals and the copies of compaction may
// use a segment more: both make room.
func (f *files) room(makes bool) int64 {
	if makes {
		return f.cfg.QuotaBytes + f.cfg.SegmentBytes
	}
	return f.cfg.QuotaBytes
}

// ready provides a segment with room.
func (f *files) ready() error {
	if f.head != nil && f.head.size < f.cfg.SegmentBytes {
		return nil
	}
	f.head = nil // the old segment stays open until synced
	name := segmentName(f.next, rand.Uint64())
	file, err := f.cfg.FS.Create(filepath.Join(f.cfg.Dir, name))
	if err != nil {
		return fmt.Errorf("cannot make a segment of the log: %w", err)
	}
	f.head = &segment{number: f.next, name: name, salt: saltOf(name), file: file}
	f.next++
	f.newNames = true
	f.segs = append(f.segs, f.head)
	f.settleFiles()
	if !f.reserved && !f.spent && f.size >= reserveFrom*f.cfg.SegmentBytes {
		_ = f.reserve() // the next segment tries again
	}
	return nil
}

// A log large enough to fill the disk keeps a file of one segment in reserve. When
// the disk is full, the reserve's room serves removals and compaction, which then
// make more room.
const (
	reserveName = "reserve"
	reserveFrom = 4 // segments
)

func (f *files) reserve() error {
	name := filepath.Join(f.cfg.Dir, reserveName)
	if err := f.cfg.FS.Reserve(name, f.cfg.SegmentBytes); err != nil {
		_ = f.cfg.FS.Remove(name)
		return fmt.Errorf("cannot write the log: %w", err)
	}
	f.reserved, f.spent = true, false
	return nil
}

// spend gives up the reserve.
func (f *files) spend() {
	if f.reserved && f.cfg.FS.Remove(filepath.Join(f.cfg.Dir, reserveName)) == nil {
		f.reserved, f.spent = false, true
	}
}

// writeSpent writes removals first, and the rest only once the reserve is restored.
func (f *files) writeSpent(batch []numbered) (n int, err error) {
	if f.spent {
		removals := 0
		for removals < len(batch) && batch[removals].Value == nil {
			removals++
		}
		if n, err = f.write(batch[:removals]); err == nil {
			err = f.reserve()
		}
		if err != nil {
			return n, err
		}
	}
	rest, err := f.write(batch[n:])
	return n + rest, err
}

// append writes f.buf at the end of the head. After an error the torn end is cut
// off; if this fails too, the segment stays unchanged and its reader will see the
// damage.
func (f *files) append() (at int64, err error) {
	s := f.head
	at = s.size
	n, err := s.file.WriteAt(f.buf, at)
	if err == nil && n < len(f.buf) {
		err = fmt.Errorf("%d of %d bytes were written", n, len(f.buf))
	}
	if err != nil {
		err = fmt.Errorf("cannot write the log: %w", err)
		if cut := s.file.Truncate(at); cut != nil {
			s.broken, f.head = true, nil
			return 0, errors.Join(err, cut)
		}
		return 0, err
	}
	s.size += int64(len(f.buf))
	f.size += int64(len(f.buf))
	if f.cfg.syncs() && (len(f.unsynced) == 0 || f.unsynced[len(f.unsynced)-1] != s) {
		f.unsynced = append(f.unsynced, s)
	}
	return at, nil
}

// sync makes all writes durable. After an error no write since the last sync counts
// as durable: the caller writes the entries again.
func (f *files) sync() error {
	for _, s := range f.unsynced {
		if err := s.file.Sync(); err != nil {
			f.distrust()
			return fmt.Errorf("cannot sync the log: %w", err)
		}
	}
	if f.newNames {
		if err := f.cfg.FS.SyncDir(f.cfg.Dir); err != nil {
			f.distrust()
			return fmt.Errorf("cannot sync the log's directory: %w", err)
		}
	}
	f.newNames = false
	f.unsynced = f.unsynced[:0]
	f.settleFiles()
	return nil
}

// distrust stops writing to segments after a failed sync.
func (f *files) distrust() {
	for _, s := range f.unsynced {
		s.broken = true
	}
	f.unsynced = f.unsynced[:0]
	f.head, f.shaky = nil, true
	f.abandon()
	f.settleFiles()
}

// settleFiles closes the segments already written and synced.
func (f *files) settleFiles() {
	for _, s := range f.segs {
		if s.file == nil || s == f.head {
			continue
		}
		waits := false
		for _, u := range f.unsynced {
			waits = waits || u == s
		}
		if !waits {
			_ = s.file.Close() // synced, or not trusted
			s.file = nil
		}
	}
}

// firmUp syncs the writes of an earlier process, which perhaps did not sync:
// compaction removes the records made out of date by these writes.
func (f *files) firmUp() error {
	for _, s := range f.segs {
		if s.file != nil || s.opaque {
			continue
		}
		file, err := f.cfg.FS.Open(f.path(s))
		if err == nil {
			err = errors.Join(file.Sync(), file.Close())
		}
		if err != nil {
			return fmt.Errorf("cannot sync what an earlier process wrote: %w", err)
		}
	}
	if err := f.cfg.FS.SyncDir(f.cfg.Dir); err != nil {
		return fmt.Errorf("cannot sync the log's directory: %w", err)
	}
	f.firm = true
	return nil
}
