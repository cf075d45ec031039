package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/filch-hpc/filch/dht/disk"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// recordLog keeps the Node's records in a log. The last record of a key counts, and a
// record without a body removes its key. A record is written before put returns, but
// never synced: records must survive the launcher, not the machine, since the jobs do
// not outlive the machine either. Records that cannot be written stay in memory until a
// retry succeeds.
type recordLog struct {
	log    journal
	last   uint64 // the number of the last entry
	keys   map[string]struct{}
	bad    []error // faults that the log reported while openRecords ran
	opens  bool
	listen func(disk.Report)
}

// journal is the part of a log that the records need: see [disk.Log].
type journal interface {
	Append(last uint64, entries ...disk.Entry) error
	Each(yield func(key string, value []byte) error) error
	Flush() error
	Close() error
}

// Limits of the records.
const (
	maxRecord    = wire.MaxFrame + 4096
	maxRecords   = 1 << 20
	maxKey       = 200
	recordsChunk = 2 << 20 // of the log: the log compacts such pieces
)

// oldIDs is the key of a record written by earlier builds: job ids come from the shared
// store now.
const oldIDs = "ids"

// openRecords opens the log of a state directory; load reads the log. The log reports
// failed writes to listen.
func openRecords(dir string, hear func(disk.Report)) (*recordLog, error) {
	s := &recordLog{keys: map[string]struct{}{}, listen: hear, opens: true}
	log, err := disk.Open(disk.Config{Dir: dir, SegmentBytes: recordsChunk, SyncEvery: -1, Report: s.onReport})
	if err != nil {
		return nil, fmt.Errorf("cannot open the records: %w", err)
	}
	s.log, s.opens = log, false
	return s, nil
}

// onReport collects the log's reports during openRecords, for load to return.
func (s *recordLog) onReport(r disk.Report) {
	if s.opens {
		s.bad = append(s.bad, errors.New(r.String()))
		return
	}
	s.listen(r)
}

// empty reports whether r removes its key.
func empty(r *launcher.Record) bool { return r.Job == nil && r.Participant == nil }

// put appends a record. A removal is only queued: it goes with the next write, or with
// flush.
func (s *recordLog) put(r *launcher.Record) error {
	if r.Key == "" || len(r.Key) > maxKey {
		return fmt.Errorf("record with a key of %d bytes", len(r.Key))
	}
	_, known := s.keys[r.Key]
	if empty(r) {
		if !known {
			return nil
		}
		delete(s.keys, r.Key)
		return s.append(disk.Entry{Key: r.Key})
	}
	body, err := wire.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > maxRecord {
		return fmt.Errorf("record of %d bytes, the limit is %d", len(body), maxRecord)
	}
	if !known && len(s.keys) >= maxRecords {
		return fmt.Errorf("%d records are kept already", maxRecords)
	}
	if err := s.append(disk.Entry{Key: r.Key, Value: body}); err != nil {
		return err
	}
	s.keys[r.Key] = struct{}{}
	s.flush()
	return nil
}

// append numbers an entry and appends the entry to the log.
func (s *recordLog) append(e disk.Entry) error {
	if err := s.log.Append(s.last+1, e); err != nil {
		return err
	}
	s.last++
	return nil
}

// flush writes the queue. The log reports a failure, once.
func (s *recordLog) flush() { _ = s.log.Flush() }

// load reads all valid records, by their keys. Damaged records are skipped and
// reported: damage never keeps a launcher from starting.
func (s *recordLog) load() ([]launcher.Record, error) {
	bad := s.bad
	s.bad = nil
	var all []launcher.Record
	err := s.log.Each(func(key string, body []byte) error {
		if key == oldIDs {
			s.keys[key] = struct{}{}
			return s.put(&launcher.Record{Key: key})
		}
		var r launcher.Record
		err := wire.Unmarshal(body, &r)
		if err == nil && (r.Key != key || empty(&r)) {
			err = fmt.Errorf("a record of %q under %q", r.Key, key)
		}
		s.keys[key] = struct{}{}
		if err != nil {
			bad = append(bad, err, s.put(&launcher.Record{Key: key}))
			return nil
		}
		all = append(all, r)
		return nil
	})
	slices.SortFunc(all, func(a, b launcher.Record) int { return strings.Compare(a.Key, b.Key) })
	return all, errors.Join(append(bad, err)...)
}

// close writes the queue and closes the log.
func (s *recordLog) close() error { return s.log.Close() }
