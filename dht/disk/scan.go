package disk

import (
	"bytes"
	"errors"
	"hash/crc32"
	"io"
)

const (
	windowBytes = 256 << 10 // read by a scanner at a time
	blindBytes  = 4 << 10   // skipped after a read error of the disk
)

// scanner reads the records of one segment in order and resynchronizes after
// damage. It holds a window of the file, and at most the longest record besides.
type scanner struct {
	r      io.ReaderAt
	size   int64
	salt   uint32
	at     int64 // of the next record
	window []byte
	from   int64 // where window begins
	rec    record
	// damage is called for each skipped stretch. A non-nil err is a read error;
	// with a nil err the bytes are wrong.
	damage func(at, bytes int64, err error)
}

// next reads one record; false is the end.
func (s *scanner) next() bool {
	bad := int64(-1) // where a stretch of damage began
	var why error
	for s.at < s.size {
		n, ok, err := s.try()
		if err != nil {
			why = errors.Join(why, err)
		}
		if ok {
			s.tell(bad, s.rec.at, why)
			s.at = s.rec.at + n
			return true
		}
		if bad < 0 {
			bad = s.at
		}
		s.at += n
	}
	s.at = min(s.at, s.size)
	s.tell(bad, s.size, why)
	return false
}

func (s *scanner) tell(from, to int64, err error) {
	if from >= 0 && from < to {
		s.damage(from, to-from, err)
	}
}

// try reads the record at s.at. If there is no record, n is how far the search may
// skip at once.
func (s *scanner) try() (n int64, ok bool, err error) {
	b, err := s.peek(headBytes)
	if err != nil {
		return min(blindBytes, s.size-s.at), false, err
	}
	h, ok := readHead(b, s.salt)
	if !ok {
		return s.toMark(), false, nil
	}
	n = int64(h.bytes())
	if n > s.size-s.at {
		return s.size - s.at, false, nil // torn
	}
	b, err = s.peek(h.bytes())
	if err != nil {
		return min(n, s.size-s.at), false, err
	}
	if crc32.Update(s.salt, castagnoli, b[headBytes:]) != h.body {
		return n, false, nil
	}
	s.rec = record{
		seq: h.seq, at: s.at, remove: h.remove,
		key: b[headBytes : headBytes+h.key], value: b[headBytes+h.key:],
	}
	return n, true, nil
}

// toMark is the distance to a possible next head, within the window.
func (s *scanner) toMark() int64 {
	b := s.window[s.at-s.from:]
	if i := bytes.Index(b[1:], mark); i >= 0 {
		return int64(i + 1)
	}
	// The last bytes may be the beginning of a mark.
	return int64(max(1, len(b)-len(mark)+1))
}

// peek returns n bytes from s.at, or fewer at the end of the file.
func (s *scanner) peek(n int) ([]byte, error) {
	n = int(min(int64(n), s.size-s.at))
	if i := s.at - s.from; i >= 0 && i+int64(n) <= int64(len(s.window)) {
		return s.window[i : i+int64(n)], nil
	}
	want := int(min(int64(max(n, windowBytes)), s.size-s.at))
	if cap(s.window) < want {
		s.window = make([]byte, want)
	}
	s.window, s.from = s.window[:want], s.at
	got, err := s.r.ReadAt(s.window, s.at)
	s.window = s.window[:got]
	if got >= n {
		return s.window[:n], nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // shorter than at the time of opening
	}
	return nil, err
}
