package logs

import (
	"cmp"
	"os"
	"slices"

	"github.com/filch-hpc/filch/launcher/wire"
)

// storeMax bounds the bytes of a store in memory; more bytes go to a file.
const storeMax = 16 << 20

// store keeps pieces until all have come, to print the pieces in the order of tasks.
type store struct {
	pieces []stored
	memory []byte
	file   *os.File // without a name; nil while memory suffices
	size   int64
}

// stored is a piece without its data.
type stored struct {
	target *Target
	wire.OutputPiece
	at    int64 // of the data in the store
	bytes int
	lines int // the line without an end counts
}

// add keeps a piece. On a full disk, add keeps the piece in memory.
func (s *store) add(t *Target, p *wire.OutputPiece) {
	one := stored{target: t, OutputPiece: *p, at: s.size, bytes: len(p.Data), lines: countLines(p.Data)}
	one.Data = nil
	if s.file == nil && s.size+int64(len(p.Data)) > storeMax {
		if f, err := os.CreateTemp("", "filch-logs-"); err == nil {
			_ = os.Remove(f.Name())
			if _, err := f.WriteAt(s.memory, 0); err == nil {
				s.file, s.memory = f, nil
			} else {
				f.Close()
			}
		}
	}
	switch {
	case s.file == nil:
		s.memory = append(s.memory, p.Data...)
	default:
		if _, err := s.file.WriteAt(p.Data, s.size); err != nil {
			one.Data = p.Data
		}
	}
	s.size += int64(len(p.Data))
	s.pieces = append(s.pieces, one)
}

// data returns the data of a piece, valid until the next call.
func (s *store) data(p *stored) ([]byte, error) {
	switch {
	case p.Data != nil:
		return p.Data, nil
	case s.file == nil:
		return s.memory[p.at : p.at+int64(p.bytes)], nil
	}
	b := make([]byte, p.bytes)
	_, err := s.file.ReadAt(b, p.at)
	return b, err
}

// sort puts the pieces of tasks into the order of the tasks. The pieces of an attempt of a run
// keep the order in which they came.
func (s *store) sort() {
	slices.SortStableFunc(s.pieces, func(a, b stored) int {
		switch {
		case a.target != b.target:
			return cmp.Compare(a.target.order, b.target.order)
		case a.target.ranks():
			return cmp.Compare(max(a.Attempt, 1), max(b.Attempt, 1))
		}
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Attempt, b.Attempt))
	})
}

// tail shortens the pieces to the last n lines of each stream of a task or rank, and
// returns the number of lines to drop from the beginning of each piece.
func (s *store) tail(n int) []int {
	type stream struct {
		target *Target
		index  int32
		stream uint8
	}
	left := map[stream]int{}
	drop := make([]int, len(s.pieces))
	for i := len(s.pieces) - 1; i >= 0; i-- {
		p := &s.pieces[i]
		key := stream{p.target, p.Index, p.Stream}
		have, ok := left[key]
		if !ok {
			have = n
		}
		drop[i] = max(p.lines-have, 0)
		left[key] = have - (p.lines - drop[i])
	}
	return drop
}

func (s *store) close() {
	if s.file != nil {
		s.file.Close()
	}
	*s = store{}
}
