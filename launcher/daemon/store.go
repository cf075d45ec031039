package daemon

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

// store keeps the brain's records in one file to which they are appended, each
// with its length and checksum; the last one of a key counts, and one without
// a body removes it. It is written by one call per turn and never synced: it
// is to survive the launcher, not the machine, since the jobs that it is about
// do not outlive the machine either. When most of it is out of date it is
// written anew, beside, and renamed.
type store struct {
	path  string
	file  *os.File
	size  int64
	live  map[string]int64 // bytes of the last entry of a key
	alive int64            // their sum
	queue []byte           // removals that wait for the next write
}

// Limits of the store.
const (
	maxRecord    = wire.MaxFrame + 4096
	maxRecords   = 1 << 20
	maxKey       = 200
	compactAbove = 4 << 20 // a file below it is left as it is
	entryHead    = 4 + 4
)

// openStore opens the log of a state directory for writing; load reads it.
func openStore(dir string) (*store, error) {
	s := &store{path: filepath.Join(dir, "records"), live: map[string]int64{}}
	_ = os.Remove(s.path + ".new")
	f, err := os.OpenFile(s.path, os.O_CREATE|os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the records: %w", err)
	}
	s.file = f
	return s, nil
}

// empty reports whether r removes its key.
func empty(r *launcher.Record) bool { return r.Job == nil && r.Part == nil && r.IDs == nil }

// put appends a record. One that removes is only queued: it goes with the next
// write, or with flush.
func (s *store) put(r *launcher.Record) error {
	if r.Key == "" || len(r.Key) > maxKey {
		return fmt.Errorf("record with a key of %d bytes", len(r.Key))
	}
	before, known := s.live[r.Key]
	if empty(r) && !known {
		return nil
	}
	body, err := wire.Marshal(r)
	if err != nil {
		return err
	}
	if len(body) > maxRecord {
		return fmt.Errorf("record of %d bytes, the limit is %d", len(body), maxRecord)
	}
	s.queue = appendEntry(s.queue, body)
	s.alive -= before
	if empty(r) {
		delete(s.live, r.Key)
		return nil
	}
	if !known && len(s.live) >= maxRecords {
		return fmt.Errorf("%d records are kept already", maxRecords)
	}
	s.live[r.Key] = int64(entryHead + len(body))
	s.alive += int64(entryHead + len(body))
	return s.flush()
}

func appendEntry(b, body []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	return append(b, body...)
}

// flush writes what is queued, and the whole file anew when it is worth it.
func (s *store) flush() error {
	if len(s.queue) == 0 {
		return nil
	}
	n, err := s.file.Write(s.queue)
	s.size += int64(n)
	if s.queue = s.queue[:0]; cap(s.queue) > compactAbove {
		s.queue = nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the records: %w", err)
	}
	if s.size > compactAbove && s.alive < s.size/4 {
		return s.compact()
	}
	return nil
}

// load reads all records that count, by the order in which their keys came.
// What is damaged is skipped and told: it never keeps a launcher from starting.
func (s *store) load() ([]launcher.Record, error) {
	last, order, bad := map[string]launcher.Record{}, []string{}, []error(nil)
	err := s.each(func(body []byte) {
		var r launcher.Record
		if err := wire.Unmarshal(body, &r); err != nil {
			bad = append(bad, err)
			return
		}
		s.alive -= s.live[r.Key]
		delete(s.live, r.Key)
		if empty(&r) {
			delete(last, r.Key)
			return
		}
		if _, known := last[r.Key]; !known {
			order = append(order, r.Key)
		}
		last[r.Key] = r
		s.live[r.Key] = int64(entryHead + len(body))
		s.alive += s.live[r.Key]
	})
	if err != nil {
		bad = append(bad, err)
	}
	var all []launcher.Record
	for _, key := range order {
		if r, ok := last[key]; ok {
			all = append(all, r)
			delete(last, key) // a key that was removed and came again is listed once
		}
	}
	if len(bad) > 0 {
		bad = append(bad, s.compact())
	}
	return all, errors.Join(bad...)
}

// each calls f for every entry whose checksum is right. The file ends where a
// launcher died while it wrote.
func (s *store) each(f func(body []byte)) error {
	if _, err := s.file.Seek(0, io.SeekStart); err != nil {
		return err
	}
	r := bufio.NewReader(s.file)
	s.size = 0
	var head [entryHead]byte
	for {
		if _, err := io.ReadFull(r, head[:]); err != nil {
			if err == io.EOF {
				return nil
			}
			return s.cutOff(err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxRecord {
			return s.cutOff(fmt.Errorf("an entry of %d bytes", n))
		}
		body := make([]byte, n)
		if _, err := io.ReadFull(r, body); err != nil {
			return s.cutOff(err)
		}
		s.size += entryHead + int64(n)
		if crc32.ChecksumIEEE(body) == binary.BigEndian.Uint32(head[4:]) {
			f(body)
		}
	}
}

// cutOff drops what follows the last whole entry.
func (s *store) cutOff(why error) error {
	return errors.Join(fmt.Errorf("the records end after %d bytes: %w", s.size, why), s.file.Truncate(s.size))
}

// compact writes a file of what counts and puts it in the old one's place.
func (s *store) compact() error {
	last := map[string][]byte{}
	if err := s.each(func(body []byte) {
		var r launcher.Record
		if wire.Unmarshal(body, &r) != nil {
			return
		}
		delete(last, r.Key)
		if !empty(&r) {
			last[r.Key] = body
		}
	}); err != nil {
		return err
	}
	keys := make([]string, 0, len(last))
	for k := range last {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	var b []byte
	for _, k := range keys {
		b = appendEntry(b, last[k])
	}
	if err := os.WriteFile(s.path+".new", b, 0o600); err != nil {
		return fmt.Errorf("cannot write the records: %w", err)
	}
	if err := os.Rename(s.path+".new", s.path); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path, os.O_RDWR|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return err
	}
	s.file.Close()
	s.file, s.size = f, int64(len(b))
	return nil
}

// close writes what is queued and closes the file.
func (s *store) close() error { return errors.Join(s.flush(), s.file.Close()) }
