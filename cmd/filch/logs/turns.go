package logs

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher/wire"
)

// Limits of the output that waits for its turn.
const (
	turnsMemory = storeMax  // more goes to a file, sorted
	pieceCost   = 96        // bytes of memory that a piece takes beside its data
	turnsBuffer = 16 << 10  // to read a part of the file
	turnsParts  = 4096      // parts of the file: turnsParts * turnsMemory bytes
	turnsHead   = 5*4 + 2*8 // bytes of a piece in the file before the data
)

// turns keeps the output of tasks until all tasks before have ended. When the memory is
// used up, the pieces go to a file without a name, as a sorted part; the parts are merged
// when they are read.
type turns struct {
	memory int
	most   int // for memory
	create func() (*os.File, error)
	pieces []wire.OutputPiece
	parts  []*turnsPart
	file   *os.File
	size   int64 // of the file
	next   int32 // the first task whose turn has not come
	fault  error
}

// turnsPart is a sorted part of the file.
type turnsPart struct {
	in   *bufio.Reader
	head *wire.OutputPiece // the first piece; nil: all pieces were read
}

func newTurns() *turns {
	return &turns{most: turnsMemory, create: func() (*os.File, error) {
		f, err := os.CreateTemp("", "filch-order-")
		if err == nil {
			err = os.Remove(f.Name())
		}
		return f, err
	}}
}

// byTurn orders the pieces of tasks: pieces of an attempt keep the order of their coming.
func byTurn(a, b wire.OutputPiece) int {
	return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Attempt, b.Attempt))
}

// add keeps a piece. After a fault nothing is kept: the nodes have the output.
func (s *turns) add(p *wire.OutputPiece) {
	if s.fault != nil {
		return
	}
	s.pieces = append(s.pieces, *p)
	if s.memory += len(p.Data) + pieceCost; s.memory > s.most {
		if s.fault = s.spill(); s.fault != nil {
			s.pieces, s.parts = nil, nil
			s.close()
		}
	}
}

// spill writes the pieces of the memory to the file.
func (s *turns) spill() (err error) {
	if s.file == nil {
		if s.file, err = s.create(); err != nil {
			return s.full(err)
		}
	}
	if len(s.parts) == turnsParts {
		return s.full(fmt.Errorf("the file has %d parts", turnsParts))
	}
	slices.SortStableFunc(s.pieces, byTurn)
	from := s.size
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, from), 1<<20)
	for i := range s.pieces {
		p := &s.pieces[i]
		b := appendPiece(w.AvailableBuffer(), p)
		_, _ = w.Write(b)
		_, _ = w.Write(p.Data) // the writer remembers the error until Flush
		s.size += int64(len(b) + len(p.Data))
	}
	if err = w.Flush(); err != nil {
		return s.full(err)
	}
	part := &turnsPart{in: bufio.NewReaderSize(io.NewSectionReader(s.file, from, s.size-from), turnsBuffer)}
	s.parts = append(s.parts, part)
	clear(s.pieces)
	s.pieces, s.memory = s.pieces[:0], 0
	return part.advance()
}

// full is the error of a disk that does not take the output that waits.
func (s *turns) full(err error) error {
	return filch.Errorf(filch.Unavailable, "%s that wait for task %d do not fit into %s: %s", ui.ShortSize(s.size+int64(s.memory)), s.next, os.TempDir(), ui.Cause(err))
}

func appendPiece(b []byte, p *wire.OutputPiece) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(p.Index))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Attempt))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Stream))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.Data)))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Rank))
	b = binary.BigEndian.AppendUint64(b, uint64(p.Time))
	return binary.BigEndian.AppendUint64(b, uint64(p.Lost))
}

// advance reads the next piece of a part.
func (t *turnsPart) advance() error {
	t.head = nil
	var b [turnsHead]byte
	if _, err := io.ReadFull(t.in, b[:]); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return err
	}
	word := func(i int) uint32 { return binary.BigEndian.Uint32(b[4*i:]) }
	p := &wire.OutputPiece{
		Index: int32(word(0)), Attempt: int32(word(1)), Stream: uint8(word(2)), Data: make([]byte, word(3)), Rank: int32(word(4)),
		Time: int64(binary.BigEndian.Uint64(b[20:])), Lost: int64(binary.BigEndian.Uint64(b[28:])),
	}
	if _, err := io.ReadFull(t.in, p.Data); err != nil {
		return err
	}
	t.head = p
	return nil
}

// release hands out the pieces of all tasks before upto, in order.
func (s *turns) release(upto int32, print func(*wire.OutputPiece) error) error {
	if s.fault != nil {
		return nil
	}
	s.next = upto
	due := s.due(upto)
	for {
		part, err := s.first(upto), error(nil)
		switch {
		case part != nil && (len(due) == 0 || byTurn(*part.head, due[0]) <= 0):
			// The parts of the file came before the pieces of the memory.
			if err = print(part.head); err == nil {
				if err = part.advance(); err != nil {
					err = filch.Errorf(filch.Internal, "cannot read the output back from %s: %s", os.TempDir(), ui.Cause(err))
				}
			}
		case len(due) > 0:
			err = print(&due[0])
			due = due[1:]
		default:
			s.truncate()
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// due takes the pieces of all tasks before upto out of the memory, in order.
func (s *turns) due(upto int32) (list []wire.OutputPiece) {
	s.pieces = slices.DeleteFunc(s.pieces, func(p wire.OutputPiece) bool {
		if p.Index < upto {
			list = append(list, p)
			s.memory -= len(p.Data) + pieceCost
		}
		return p.Index < upto
	})
	slices.SortStableFunc(list, byTurn)
	return list
}

// first is the part with the first piece before upto; of equal pieces the oldest.
func (s *turns) first(upto int32) (found *turnsPart) {
	for _, t := range s.parts {
		if t.head != nil && t.head.Index < upto && (found == nil || byTurn(*t.head, *found.head) < 0) {
			found = t
		}
	}
	return found
}

// truncate gives the space of the file back once all pieces were read.
func (s *turns) truncate() {
	s.parts = slices.DeleteFunc(s.parts, func(t *turnsPart) bool { return t.head == nil })
	if len(s.parts) == 0 && s.file != nil && s.file.Truncate(0) == nil {
		s.size = 0
	}
}

func (s *turns) close() {
	if s.file != nil {
		s.file.Close()
		s.file = nil
	}
}

// keep keeps a piece until the task has its turn, and tells of a full disk at once.
func (p *Printer) keep(t *Target, o *wire.OutputPiece) {
	p.target = t
	lost := p.turns.fault != nil
	if p.turns.add(o); p.turns.fault != nil && !lost {
		if p.view.Before != nil {
			p.view.Before()
		}
		ui.Complain(filch.Errorf(filch.Unavailable, "cannot print more output of job %d in the order of tasks: %s", t.Job, p.turns.fault.Error()).
			WithHint("the nodes keep the output: filch logs %d prints all of it, in order; TMPDIR names another folder for the output that waits", t.Job))
	}
}

// Passed prints the output of all tasks before upto, which have ended. It is for a
// [View] in turn.
func (p *Printer) Passed(upto int32) error {
	return p.turns.release(upto, func(o *wire.OutputPiece) error { return p.print(p.target, o) })
}

// closeTurns prints the output that is left.
func (p *Printer) closeTurns() error {
	err := p.Passed(math.MaxInt32)
	if err == nil && p.turns.fault != nil {
		err = ui.Exit(1) // keep has told why
	}
	p.turns.close()
	return err
}
