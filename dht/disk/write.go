package disk

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
)

const (
	chunkBytes = 512 << 10 // written by one call, unless one record is longer
	keepBytes  = 2 << 20   // of a buffer between writes
)

// numbered is an entry with its number, and with its sequence number once base
// is added.
type numbered struct {
	Entry
	seq uint64
}

// write appends records until all are written or one call fails, and says how
// many are.
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
			return n, fmt.Errorf("cannot keep more: %w of %d MB is used up, %d MB of it by what counts", ErrQuota, f.cfg.QuotaBytes>>20, f.index.live>>20)
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

// room is how large the log may get. Removals and the copies of compaction may
// use a segment more: they make room.
func (f *files) room(makes bool) int64 {
	if makes {
		return f.cfg.QuotaBytes + f.cfg.SegmentBytes
	}
	return f.cfg.QuotaBytes
}

// ready makes sure of a segment with room.
func (f *files) ready() error {
	if f.head != nil && f.head.size < f.cfg.SegmentBytes {
		return nil
	}
	f.head = nil // the old one stays open until it is synced
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

// A log that could fill the disk keeps a file of one segment in reserve: when
// the disk is full, its room is for removals and for compaction, which then make
// more.
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

// spend gives the reserve away.
func (f *files) spend() {
	if f.reserved && f.cfg.FS.Remove(filepath.Join(f.cfg.Dir, reserveName)) == nil {
		f.reserved, f.spent = false, true
	}
}

// writeSpent writes removals first and the rest only once there is a reserve
// again.
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

// append writes f.buf at the end of the head. A torn end is cut off; where that
// fails too, the segment is left as it is and its reader will see it.
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

// sync makes all that was written durable. After an error nothing since the
// last sync is: the caller writes it again.
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

// distrust writes no more to segments whose sync failed.
func (f *files) distrust() {
	for _, s := range f.unsynced {
		s.broken = true
	}
	f.unsynced = f.unsynced[:0]
	f.head, f.shaky = nil, true
	f.abandon()
	f.settleFiles()
}

// settleFiles closes the segments that are written and synced.
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

// firmUp syncs what an earlier process wrote and perhaps did not: compaction
// removes what that makes out of date.
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
