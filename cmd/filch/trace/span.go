// Package trace writes the life of a job as a file for Perfetto or for chrome://tracing:
// filch trace.
//
// The spans of tasks come from the records of ended tasks, which have all tasks of a job
// however many there are. The records are in the order of the tasks, and spans are needed
// in the order of time: a sorter keeps a bounded part in memory and the rest in a file. So
// a trace takes constant memory.
package trace

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/filch-hpc/filch"
)

// span is an attempt of a task, or one rank, in a slot of a node. The times are by the reference
// clock, in Unix nanoseconds.
type span struct {
	Begin, End int64
	Queued     int64 // ns on the queue of the node before Begin
	In, Out    int64 // ns of the stages of the files, at the begin and at the end
	Launch     int64 // ns of the launch of a rank, from Begin
	Wire       int64 // ns of the wire-up of a rank, behind the launch
	Task       int32 // by its number for people; eventlog.OfRun: of a run
	Try        int32
	Code       int32
	Node       int32 // index
	Slot       int32 // anySlot: not known
	Rank       int32 // noRank: the task is one process, or its ranks are not known
	Slots      int32 // how many slots the task or rank has
	State      filch.State
	Further    bool // another slot of the task or rank has the same span
}

const (
	anySlot = -1
	noRank  = -1
)

const spanBytes = 7*8 + 7*4 + 2

func (s *span) appendTo(b []byte) []byte {
	for _, v := range [...]int64{s.Begin, s.End, s.Queued, s.In, s.Out, s.Launch, s.Wire} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range [...]int32{s.Task, s.Try, s.Code, s.Node, s.Slot, s.Rank, s.Slots} {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	further := uint8(0)
	if s.Further {
		further = 1
	}
	return append(b, uint8(s.State), further)
}

func (s *span) read(b []byte) {
	for i, p := range [...]*int64{&s.Begin, &s.End, &s.Queued, &s.In, &s.Out, &s.Launch, &s.Wire} {
		*p = int64(binary.LittleEndian.Uint64(b[8*i:]))
	}
	for i, p := range [...]*int32{&s.Task, &s.Try, &s.Code, &s.Node, &s.Slot, &s.Rank, &s.Slots} {
		*p = int32(binary.LittleEndian.Uint32(b[56+4*i:]))
	}
	s.State, s.Further = filch.State(b[84]), b[85] != 0
}

// in hands out the span once for each slot: a picture has a row for each slot. Without slots,
// the span is handed out once.
func (s *span) in(slots *filch.Slots, take func(*span) error) error {
	all := *s
	all.Slot, all.Further = anySlot, false
	if all.Slots = slots.Len(); all.Slots == 0 {
		return take(&all)
	}
	for r := range slots.Runs() {
		for n := range r.Count {
			all.Slot = r.First + n
			if err := take(&all); err != nil {
				return err
			}
			all.Further = true
		}
	}
	return nil
}

// order is the order of spans in a trace.
func order(a, b *span) int {
	return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.Slot, b.Slot))
}

// Limits of a sorter.
const (
	sortMemory = 1 << 16 // spans in memory: 6 MiB
	sortParts  = 4096    // parts of the file: 268 million spans
	partBuffer = 8 << 10 // bytes to read a part
)

// sorter sorts spans in constant memory.
type sorter struct {
	memory int
	list   []span
	file   *os.File // without a name; nil: all spans are in memory
	parts  []*part
	size   int64
}

// part is a sorted part of the file.
type part struct {
	in   *bufio.Reader
	head span
	left int64 // spans behind the head
}

func newSorter() *sorter { return &sorter{memory: sortMemory} }

func (s *sorter) add(p *span) error {
	if len(s.list) == s.memory {
		if err := s.spill(); err != nil {
			return fmt.Errorf("cannot sort the spans in %s: %w", os.TempDir(), err)
		}
	}
	s.list = append(s.list, *p)
	return nil
}

// spill writes the spans in memory to the file.
func (s *sorter) spill() (err error) {
	if s.file == nil {
		if s.file, err = os.CreateTemp("", "filch-trace-"); err != nil {
			return err
		}
		if err := os.Remove(s.file.Name()); err != nil {
			return err
		}
	}
	if len(s.parts) == sortParts {
		return fmt.Errorf("more than %d parts", sortParts)
	}
	s.sort()
	from := s.size
	w := bufio.NewWriterSize(io.NewOffsetWriter(s.file, from), 1<<18)
	for i := range s.list {
		_, _ = w.Write(s.list[i].appendTo(w.AvailableBuffer())) // the writer remembers the error until Flush
	}
	if err := w.Flush(); err != nil {
		return err
	}
	n := int64(len(s.list))
	s.size += n * spanBytes
	s.parts = append(s.parts, &part{in: bufio.NewReaderSize(io.NewSectionReader(s.file, from, n*spanBytes), partBuffer), left: n})
	s.list = s.list[:0]
	return nil
}

func (s *sorter) sort() { slices.SortFunc(s.list, func(a, b span) int { return order(&a, &b) }) }

// advance reads the next span of a part; false at the end.
func (p *part) advance() (bool, error) {
	if p.left == 0 {
		return false, nil
	}
	p.left--
	var b [spanBytes]byte
	if _, err := io.ReadFull(p.in, b[:]); err != nil {
		return false, err
	}
	p.head.read(b[:])
	return true, nil
}

// each hands out all spans in order.
func (s *sorter) each(take func(*span) error) error {
	s.sort()
	heads := s.parts[:0:0]
	for _, p := range s.parts {
		if more, err := p.advance(); err != nil {
			return err
		} else if more {
			heads = append(heads, p)
		}
	}
	list := s.list
	for len(heads) > 0 || len(list) > 0 {
		first := -1
		for i, p := range heads {
			if first < 0 || order(&p.head, &heads[first].head) < 0 {
				first = i
			}
		}
		if first < 0 || len(list) > 0 && order(&list[0], &heads[first].head) < 0 {
			if err := take(&list[0]); err != nil {
				return err
			}
			list = list[1:]
			continue
		}
		p := heads[first]
		if err := take(&p.head); err != nil {
			return err
		}
		more, err := p.advance()
		if err != nil {
			return err
		}
		if !more {
			heads = slices.Delete(heads, first, first+1)
		}
	}
	return nil
}

func (s *sorter) close() error {
	if s.file == nil {
		return nil
	}
	return s.file.Close()
}
