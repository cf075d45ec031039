package disk

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	stepBytes    = 1 << 20 // read by compaction before each check for something to write
	smallMax     = 4       // small segments kept uncompacted
	garbageShare = 0.5     // of a segment, from which on copying the rest is worth the cost
	pressedShare = 0.1     // the same close to the quota
	pressedFrom  = 0.75    // of the quota
)

// compaction copies the current records of one segment to the end of the log. The
// segment is read twice: first to count the records of each key removed with the
// segment, then to copy.
type compaction struct {
	from   *segment
	file   File
	scan   scanner
	seen   map[string]uint32
	moved  []move
	copies bool  // the second reading, which copies
	done   bool  // all records are copied; once the copies are synced, the segment can go
	err    error // of reading
}

// move is a copied record.
type move struct {
	key string
	at  int64 // in the old segment
	to  place
}

// victim is the segment to compact next, nil if none is worth the cost. Pressed
// means that entries wait for room: then every gain is worth the cost.
func (f *files) victim(pressed bool) *segment {
	if pressed && f.head != nil && f.head.garbage() > 0 && len(f.unsynced) == 0 {
		f.head = nil
		f.settleFiles()
	}
	share := garbageShare
	if float64(f.size) > pressedFrom*float64(f.cfg.QuotaBytes) {
		share = pressedShare
	}
	var best, least *segment
	bestShare, small := 0.0, 0
	for _, s := range f.segs {
		if s == f.head || s.file != nil || s.opaque || s.broken && !f.noted {
			continue
		}
		if s.size == 0 || s.broken && !pressed {
			return s
		}
		if won := float64(s.garbage()) / float64(s.size); won > bestShare {
			best, bestShare = s, won
		}
		if s.size < f.cfg.SegmentBytes/4 {
			if small++; least == nil || s.size < least.size {
				least = s
			}
		}
	}
	if bestShare >= share || pressed && bestShare > 0 {
		return best
	}
	if small > smallMax {
		return least
	}
	return nil
}

// compact continues a compaction, or begins one, for about stepBytes. The copies
// must be synced before [files.finish] is called.
func (f *files) compact(s *segment) error {
	j := f.job
	if j == nil {
		if f.cfg.syncs() && !f.firm {
			if err := f.firmUp(); err != nil {
				return err
			}
		}
		file, err := f.cfg.FS.Open(f.path(s))
		if err != nil {
			// A lack of descriptors or memory says nothing about the segment: once
			// a segment counts as unreadable, every removal is kept from then on.
			if !errors.Is(err, unix.EMFILE) && !errors.Is(err, unix.ENFILE) && !errors.Is(err, unix.ENOMEM) {
				s.opaque, f.index.hold = true, true
			}
			return fmt.Errorf("cannot read a segment of the log: %w", err)
		}
		j = &compaction{from: s, file: file, seen: map[string]uint32{}}
		j.rewind()
		f.job = j
	}
	var err error
	if j.copies {
		err = f.copy(j)
	} else if j.count(); j.copies && j.from.live == 0 && !f.index.hold {
		j.done = true // no record is current
	}
	if err == nil && j.err != nil {
		j.from.opaque, f.index.hold = true, true
		err = fmt.Errorf("cannot read a segment of the log: %w", j.err)
	}
	if err != nil {
		f.abandon()
	}
	return err
}

func (j *compaction) rewind() {
	j.scan = scanner{r: j.file, size: j.from.size, salt: j.from.salt, window: j.scan.window[:0]}
	j.scan.damage = func(_, _ int64, err error) {
		if err != nil {
			j.err = err
		}
	}
}

// count is the first reading: it counts the records of each key.
func (j *compaction) count() {
	for from := j.scan.at; j.scan.at < from+stepBytes; {
		if !j.scan.next() {
			j.copies = true
			j.rewind()
			return
		}
		j.seen[string(j.scan.rec.key)]++
	}
}

// copy is the second reading: it copies the current records.
func (f *files) copy(j *compaction) error {
	f.buf = f.buf[:0]
	first := len(j.moved) // of the records in f.buf
	for from := j.scan.at; j.scan.at < from+stepBytes; {
		if !j.scan.next() {
			j.done = true
			break
		}
		r := &j.scan.rec
		p, ok := f.index.current(r.key, j.from, r.at)
		if !ok || p.remove && p.copies == j.seen[string(r.key)] && !f.index.hold {
			continue // a removal whose key has no record elsewhere hides nothing
		}
		if len(f.buf) >= chunkBytes || f.head == nil || f.head.size+int64(len(f.buf)) >= f.cfg.SegmentBytes {
			if err := f.place(j, first); err != nil {
				return err
			}
			first = len(j.moved)
			if err := f.ready(); err != nil {
				return err
			}
		}
		e := r.entry()
		if f.size+int64(len(f.buf))+r.bytes() > f.room(true) {
			return fmt.Errorf("cannot compact the log: %w", errQuota)
		}
		p.seg, p.at = f.head, int64(len(f.buf))
		j.moved = append(j.moved, move{key: e.Key, at: r.at, to: p})
		f.buf = appendRecord(f.buf, f.head.salt, r.seq, &e)
	}
	return f.place(j, first)
}

// place writes the copies in f.buf.
func (f *files) place(j *compaction, first int) error {
	if len(f.buf) == 0 {
		return nil
	}
	at, err := f.append()
	if err != nil {
		return err
	}
	f.buf = f.buf[:0]
	for i := first; i < len(j.moved); i++ {
		m := &j.moved[i]
		m.to.at += at
		// Counted from now on, even if the compaction does not finish.
		p := f.index.keys[m.key]
		p.copies++
		f.index.keys[m.key] = p
	}
	return nil
}

// finish replaces the records by their copies and removes the segment.
func (f *files) finish() error {
	j := f.job
	f.job = nil
	_ = j.file.Close()
	x := &f.index
	for _, m := range j.moved {
		if p, ok := x.keys[m.key]; ok && p.seg == j.from && p.at == m.at {
			x.drop(&p)
			p.seg, p.at = m.to.seg, m.to.at
			x.put(m.key, p)
		}
	}
	if err := f.cfg.FS.Remove(f.path(j.from)); err != nil {
		j.from.opaque = true
		return fmt.Errorf("cannot remove a segment of the log: %w", err)
	}
	f.size -= j.from.size
	f.segs = slices.DeleteFunc(f.segs, func(s *segment) bool { return s == j.from })
	if f.cfg.syncs() {
		if err := f.cfg.FS.SyncDir(f.cfg.Dir); err != nil {
			// The segment may come back in a crash: removals hiding its records
			// stay.
			if j.from.live > 0 {
				x.forget(j.from)
			}
			return fmt.Errorf("cannot sync the log's directory: %w", err)
		}
	}
	for key, n := range j.seen {
		x.lost(key, n)
	}
	if j.from.live > 0 {
		x.forget(j.from) // the segment was readable once
	}
	return nil
}

// abandon gives up a compaction; some records now exist twice.
func (f *files) abandon() {
	if f.job != nil {
		_ = f.job.file.Close()
		f.job = nil
	}
}
