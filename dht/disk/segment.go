package disk

import (
	"cmp"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const suffix = ".log"

// tornMax is how many of the newest segments a crash may have torn.
const tornMax = 2

// segment is one file of records. Only the newest is written to.
type segment struct {
	number uint64
	name   string // in the log's directory
	salt   uint32
	file   File  // open while the segment is the newest, or not yet synced
	size   int64 // of the whole records
	live   int64 // bytes of the needed records
	broken bool  // damage was found, or a sync failed: rewrite the segment
	opaque bool  // the disk gives errors on reads or removal: the segment stays
}

// garbage is the number of bytes won by compaction.
func (s *segment) garbage() int64 { return s.size - s.live }

// segmentName consists of the number, which orders the segments, and a random part,
// from which the salt of the records follows.
func segmentName(number uint64, random uint64) string {
	return fmt.Sprintf("%016x-%016x%s", number, random, suffix)
}

// parseName reads the name of a segment; ok is false for other files.
func parseName(name string) (number uint64, ok bool) {
	base, isLog := strings.CutSuffix(name, suffix)
	a, b, two := strings.Cut(base, "-")
	if !isLog || !two || len(a) != 16 || len(b) != 16 {
		return 0, false
	}
	number, err := strconv.ParseUint(a, 16, 64)
	_, err2 := strconv.ParseUint(b, 16, 64)
	return number, err == nil && err2 == nil
}

func saltOf(name string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name))
	return h.Sum32()
}

// place is the location of a key's current record.
type place struct {
	seq    uint64
	seg    *segment
	at     int64
	bytes  int64
	copies uint32 // records of this key in all segments, including this record
	remove bool
	idle   bool // a removal hiding nothing any more: garbage
}

// index knows every key with a record.
type index struct {
	keys map[string]place
	live int64 // bytes of the records with a value
	n    int   // keys with a value
	hold bool  // some records may not have been seen: removals stay
}

// saw counts a record of a key, and makes the record current if it is the newest.
func (x *index) saw(key string, p place) {
	old, known := x.keys[key]
	p.copies = old.copies + 1
	if known && old.seq >= p.seq && !(old.seq == p.seq && old.seg.broken) {
		old.copies++
		x.keys[key] = old
		return
	}
	if known {
		x.drop(&old)
	}
	x.put(key, p)
}

// drop subtracts an entry from the sums.
func (x *index) drop(p *place) {
	if !p.idle {
		p.seg.live -= p.bytes
	}
	if !p.remove {
		x.live -= p.bytes
		x.n--
	}
}

func (x *index) put(key string, p place) {
	p.idle = p.remove && p.copies == 1 && !x.hold
	if !p.idle {
		p.seg.live += p.bytes
	}
	if !p.remove {
		x.live += p.bytes
		x.n++
	}
	x.keys[key] = p
}

// lost forgets n removed records of a key.
func (x *index) lost(key string, n uint32) {
	p, known := x.keys[key]
	if !known {
		return
	}
	x.drop(&p)
	p.copies -= n
	if p.copies == 0 {
		delete(x.keys, key)
		return
	}
	x.put(key, p)
}

// release declares that all records were seen.
func (x *index) release() {
	x.hold = false
	for key, p := range x.keys {
		if p.remove && p.copies == 1 {
			x.drop(&p)
			x.put(key, p)
		}
	}
}

// forget drops the keys whose current record in s could not be read again.
func (x *index) forget(s *segment) {
	for key, p := range x.keys {
		if p.seg == s {
			x.drop(&p)
			delete(x.keys, key)
		}
	}
	x.hold = true // older records of these keys may lie elsewhere
}

// current reports whether a record is the current record of its key.
func (x *index) current(key []byte, s *segment, at int64) (place, bool) {
	p, known := x.keys[string(key)]
	return p, known && p.seg == s && p.at == at
}

// files is the log's state on the disk. Only the goroutine holding the files,
// received from Log.own, may touch them.
type files struct {
	cfg      *Config
	segs     []*segment // by number
	head     *segment   // nil: the next write makes a segment
	unsynced []*segment // with writes since their last sync
	written  []numbered // since the last sync
	newNames bool       // files were made since the last sync of the directory
	trust
	index    index
	size     int64 // of all segments
	next     uint64
	reserved bool // the reserve file exists
	spent    bool // the reserve was given up because the disk is full
	buf      []byte
	job      *compaction
	tidyAt   time.Time // not before, since a compaction failed
}

// trust is the knowledge about the durability of the files.
type trust struct {
	firm  bool // the writes of an earlier process are synced
	shaky bool // a sync failed, and its entries are not yet written again
	noted bool // an entry of this process is durable: the owner noted the damage
}

// durable notes that all writes are synced, up to the entry with a number.
func (t *trust) durable(upto uint64) {
	t.shaky = false
	t.noted = t.noted || upto > 0
}

// load reads every segment. Unreadable parts are reported and skipped.
func (f *files) load() (highest uint64, err error) {
	names, err := f.cfg.FS.List(f.cfg.Dir)
	if err != nil {
		return 0, fmt.Errorf("cannot read the log's directory: %w", err)
	}
	f.index.keys, f.index.hold = map[string]place{}, true
	for _, name := range names {
		if name == reserveName {
			f.reserved = true
		}
		if number, ok := parseName(name); ok {
			f.segs = append(f.segs, &segment{number: number, name: name, salt: saltOf(name)})
			f.next = max(f.next, number+1)
		}
	}
	slices.SortFunc(f.segs, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	blind := false
	for _, s := range f.segs {
		highest = max(highest, f.read(s))
		f.size += s.size
		blind = blind || s.opaque
	}
	if blind {
		highest += 1 << 40 // beyond the numbers of records possibly readable later
	} else {
		f.index.release()
	}
	return highest, nil
}

// read fills the index from one segment.
func (f *files) read(s *segment) (highest uint64) {
	file, err := f.cfg.FS.Open(f.path(s))
	if err == nil {
		defer file.Close()
		s.size, err = file.Size()
	}
	if err != nil {
		s.opaque = true
		f.cfg.Report(Report{Kind: Unreadable, Segment: s.name, Bytes: s.size, Err: err})
		return 0
	}
	end, whole := s.size, s.size
	scan := scanner{r: file, size: end, salt: s.salt, damage: func(at, n int64, err error) {
		switch {
		case err != nil:
			s.opaque = true
			f.cfg.Report(Report{Kind: Unreadable, Segment: s.name, Offset: at, Bytes: n, Err: err})
		case at+n == end && s.number+tornMax >= f.next:
			whole = at
			f.cfg.Report(Report{Kind: Torn, Segment: s.name, Offset: at, Bytes: n})
		default: // at the end too, if the segment was synced before the next was begun
			s.broken = true
			f.cfg.Report(Report{Kind: Damaged, Segment: s.name, Offset: at, Bytes: n})
		}
	}}
	for scan.next() {
		r := &scan.rec
		highest = max(highest, r.seq)
		f.index.saw(string(r.key), place{seq: r.seq, seg: s, at: r.at, bytes: r.bytes(), remove: r.remove})
	}
	if whole < end && !s.opaque {
		// If the end cannot be cut off now, compaction removes the damage.
		if file.Truncate(whole) == nil {
			s.size = whole
		} else {
			s.broken = true
		}
	}
	return highest
}

func (f *files) path(s *segment) string { return filepath.Join(f.cfg.Dir, s.name) }

// each yields every current record, segment by segment.
func (f *files) each(yield func(key string, value []byte) error) error {
	for _, s := range f.segs {
		if s.live == 0 {
			continue
		}
		if err := f.eachOf(s, yield); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) eachOf(s *segment, yield func(key string, value []byte) error) error {
	file, err := f.cfg.FS.Open(f.path(s))
	if err != nil {
		f.cfg.Report(Report{Kind: Unreadable, Segment: s.name, Bytes: s.size, Err: err})
		return nil
	}
	defer file.Close()
	scan := scanner{r: file, size: s.size, salt: s.salt, damage: func(int64, int64, error) {}} // see load
	for scan.next() {
		r := &scan.rec
		if p, ok := f.index.current(r.key, s, r.at); ok && !p.remove {
			if err := yield(string(r.key), r.value); err != nil {
				return err
			}
		}
	}
	return nil
}

// close closes the open files.
func (f *files) close() error {
	var errs []error
	for _, s := range f.segs {
		if s.file != nil {
			errs = append(errs, s.file.Close())
			s.file = nil
		}
	}
	if f.job != nil {
		f.job.file.Close()
	}
	return errors.Join(errs...)
}
