package output

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"
)

// Limits of a [Spool].
const (
	spoolHalf   = KeptMax / 2 // of the beginning, and at least of the end
	spoolMemory = 64 << 10    // of each part before the part goes to the disk
	spoolHeader = 9           // of a piece: rank and bytes as 4 bytes each, and the stream
)

// Spool keeps the output of a gang until the gang has ended: only then is known whether
// the gang failed. Of more than [KeptMax] bytes the Spool keeps the first half of the
// limit, and at least the last half. Short output stays in memory, the rest is in files
// without a name. A Spool may be used by several goroutines.
type Spool struct {
	dir string

	mu    sync.Mutex   // guards all below
	parts [3]spoolPart // the beginning; the end, in two parts that take turns
	last  int          // the part that grows
	lost  [2]int64     // bytes of each stream dropped between the beginning and the end
	err   error        // the failures of the disk
}

// spoolPart is a row of pieces.
type spoolPart struct {
	memory []byte
	file   *os.File // nil as long as memory suffices
	onDisk int64    // bytes in file
	data   [2]int64 // bytes of output, by stream
	chunks []spoolChunk
	before [2]int64 // bytes of output on the disk, by stream
}

// spoolChunk is a row of pieces that went to the file together.
type spoolChunk struct {
	at   int64    // place in the file
	data [2]int64 // bytes of output before the chunk, by stream
}

// NewSpool makes an empty Spool whose files are in dir.
func NewSpool(dir string) *Spool { return &Spool{dir: dir} }

// Add adds a piece of the output of a rank. A failure of the disk is told by
// [Spool.Drain].
func (s *Spool) Add(rank int32, stream uint8, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if part := &s.parts[s.last]; part.data[0]+part.data[1] >= spoolHalf {
		s.last = [...]int{1, 2, 1}[s.last]
		for i, n := range s.parts[s.last].data {
			s.lost[i] += n
		}
		s.parts[s.last].reset()
	}
	if err := s.parts[s.last].add(s.dir, rank, stream, data); err != nil {
		s.err = errors.Join(s.err, err)
		s.lost[stream-1] += int64(len(data))
	}
}

// Drain calls f with all output, in the order of its coming, and empties the Spool. Rank
// counts from 1 there, as in [Printed]. An error says that output is missing.
func (s *Spool) Drain(f func(Printed) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := errors.Join(s.err, s.each(f))
	for i := range s.parts {
		s.parts[i].reset()
	}
	s.last, s.lost, s.err = 0, [2]int64{}, nil
	return err
}

// each calls f with all pieces. The first piece of a stream behind dropped bytes has their
// number.
func (s *Spool) each(f func(Printed) error) (err error) {
	lost := s.lost
	for i, k := range s.order() {
		err = errors.Join(err, s.parts[k].each(0, func(p Printed) error {
			if i > 0 {
				p.Lost, lost[p.Stream-1] = lost[p.Stream-1], 0
			}
			return f(p)
		}))
	}
	if n := lost[0] + lost[1]; err == nil && n > 0 {
		err = fmt.Errorf("%d bytes are missing", n)
	}
	return err
}

// Since returns the output that lies behind a place of each stream, at most about limit
// bytes, and the places behind it. Lost of a piece counts the bytes between the place
// and the piece that were dropped.
func (s *Spool) Since(at [2]int64, limit int) (pieces []Printed, next [2]int64, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ends := s.lost
	for i := range s.parts {
		ends[0], ends[1] = ends[0]+s.parts[i].data[0], ends[1]+s.parts[i].data[1]
	}
	next = [2]int64{min(at[0], ends[0]), min(at[1], ends[1])}
	if next == ends {
		return nil, next, false
	}
	var begin [2]int64 // of the part, in the streams
	for i, k := range s.order() {
		if i == 1 {
			begin[0], begin[1] = begin[0]+s.lost[0], begin[1]+s.lost[1]
		}
		part := &s.parts[k]
		place := part.seek([2]int64{next[0] - begin[0], next[1] - begin[1]})
		place.data[0], place.data[1] = place.data[0]+begin[0], place.data[1]+begin[1]
		_ = part.each(place.at, func(p Printed) error {
			k := p.Stream - 1
			first := place.data[k]
			place.data[k] += int64(len(p.Data))
			switch skip := next[k] - first; {
			case place.data[k] <= next[k]:
				return nil
			case limit <= 0:
				more = true
				return errEnough
			case skip >= 0:
				p.Data, p.Lost = p.Data[skip:], 0
			default:
				p.Lost = -skip
			}
			pieces = append(pieces, p)
			limit -= len(p.Data)
			next[k] = place.data[k]
			return nil
		})
		if more {
			break
		}
		begin[0], begin[1] = begin[0]+part.data[0], begin[1]+part.data[1]
	}
	return pieces, next, more
}

// errEnough ends [spoolPart.each].
var errEnough = errors.New("enough")

// order lists the parts, the oldest first.
func (s *Spool) order() []int {
	if s.last == 0 {
		return []int{0}
	}
	return []int{0, 3 - s.last, s.last}
}

// Lost returns the number of dropped bytes.
func (s *Spool) Lost() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[0] + s.lost[1]
}

// Close gives the files back.
func (s *Spool) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.parts {
		s.parts[i].reset()
	}
}

func (p *spoolPart) add(dir string, rank int32, stream uint8, data []byte) error {
	p.memory = binary.BigEndian.AppendUint32(p.memory, uint32(rank))
	p.memory = binary.BigEndian.AppendUint32(p.memory, uint32(len(data)))
	p.memory = append(append(p.memory, stream), data...)
	p.data[stream-1] += int64(len(data))
	if len(p.memory) < spoolMemory {
		return nil
	}
	err := p.flush(dir)
	if err != nil {
		p.memory = p.memory[:len(p.memory)-spoolHeader-len(data)]
		p.data[stream-1] -= int64(len(data))
	}
	return err
}

// flush moves the pieces in memory to the file.
func (p *spoolPart) flush(dir string) error {
	if p.file == nil {
		f, err := os.CreateTemp(dir, "gang-")
		if err != nil {
			return err
		}
		p.file = f
		if err := os.Remove(f.Name()); err != nil {
			return err
		}
	}
	if _, err := p.file.WriteAt(p.memory, p.onDisk); err != nil {
		return err
	}
	p.chunks = append(p.chunks, spoolChunk{p.onDisk, p.before})
	p.onDisk, p.before = p.onDisk+int64(len(p.memory)), p.data
	p.memory = p.memory[:0]
	return nil
}

// seek returns the last chunk that begins at a place of both streams or before; the pieces
// in memory are the last chunk.
func (p *spoolPart) seek(place [2]int64) spoolChunk {
	last := spoolChunk{p.onDisk, p.before}
	for i := len(p.chunks) - 1; i >= 0 && (last.data[0] > max(place[0], 0) || last.data[1] > max(place[1], 0)); i-- {
		last = p.chunks[i]
	}
	return last
}

// each calls f with the pieces from the chunk at a place of the file on, until f returns an
// error; pieces of one stream of a rank that follow each other come as one.
func (p *spoolPart) each(at int64, f func(Printed) error) error {
	var next Printed
	add := func(all []byte) error {
		for len(all) >= spoolHeader {
			rank, n, stream := int32(binary.BigEndian.Uint32(all))+1, int(binary.BigEndian.Uint32(all[4:])), all[8]
			data := all[spoolHeader : spoolHeader+n]
			all = all[spoolHeader+n:]
			if next.Rank == rank && next.Stream == stream {
				next.Data = append(next.Data, data...)
				continue
			}
			if next.Rank > 0 {
				if err := f(next); err != nil {
					return err
				}
			}
			next = Printed{Rank: rank, Stream: stream, Data: append([]byte(nil), data...)}
		}
		return nil
	}
	for i, c := range p.chunks {
		if c.at < at {
			continue
		}
		end := p.onDisk
		if i+1 < len(p.chunks) {
			end = p.chunks[i+1].at
		}
		b := make([]byte, end-c.at)
		if _, err := p.file.ReadAt(b, c.at); err != nil {
			return err
		}
		if err := add(b); err != nil {
			return err
		}
	}
	if err := add(p.memory); err != nil || next.Rank == 0 {
		return err
	}
	return f(next)
}

func (p *spoolPart) reset() {
	if p.file != nil {
		p.file.Close()
	}
	*p = spoolPart{}
}
