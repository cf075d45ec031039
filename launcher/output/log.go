package output

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// Limits of a [Log]: a job's output on the disk of its origin.
const (
	SegmentBytes = 16 << 20
	MaxSegments  = 16
	maxPiece     = 1 << 20
)

// Piece is a piece of output in a Log: whole lines, or with Partial the beginning of a
// line.
type Piece struct {
	Index   int32  // of the node of the rank
	Offset  uint64 // of Data in the node's output
	Rank    filch.Rank
	Stream  uint8 // 1 stdout, 2 stderr
	Partial bool
	Attempt filch.Attempt // 0 or 1: the first
	Idle    int32         // attempts before without a launch, as in [launcher.Launch]
	Time    int64         // of writing, Unix milliseconds; 0 unknown
	Data    []byte
}

// A piece on the disk is a header, with flagTime 8 bytes of time, with flagAttempt 4 bytes of
// the attempt, with flagIdle 4 bytes of the idle attempts, and the data.
const (
	pieceHeader  = 4 + 4 + 8 + 4 + 1 + 1
	timeBytes    = 8
	attemptBytes = 4
	flagPartial  = 1
	flagTime     = 2
	flagAttempt  = 4
	flagIdle     = 8
)

// Log keeps the output of a detached job, in segments PATH.0, PATH.1 and so on. Beyond
// MaxSegments the oldest segment except the first is removed: the first and last output
// of a program is worth most. A Log has one writer; readers use [ReadLog].
type Log struct {
	path    string
	file    *os.File
	size    int64
	segment int
	attempt filch.Attempt // the latest
	marks   map[int32]uint64
}

// OpenLog makes a log, or continues a log of an earlier launcher.
func OpenLog(path string) (*Log, error) {
	l := &Log{path: path, marks: map[int32]uint64{}}
	all, err := segments(path)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		_, err := readSegment(segmentName(path, s), 0, func(p Piece, _ int64) bool {
			l.mark(&p)
			return true
		})
		if err != nil {
			return nil, err
		}
		l.segment = s + 1 // the last one may end within a piece
	}
	return l, l.next()
}

// Marks returns how far the output of each node has come in an attempt, by the node's index.
func (l *Log) Marks(attempt filch.Attempt) map[int32]uint64 {
	if max(attempt, 1) != max(l.attempt, 1) {
		return nil
	}
	return l.marks
}

// mark takes in a piece: each attempt has offsets of its own.
func (l *Log) mark(p *Piece) {
	if p.Attempt > max(l.attempt, 1) {
		l.attempt = p.Attempt
		clear(l.marks)
	}
	if max(p.Attempt, 1) == max(l.attempt, 1) {
		l.marks[p.Index] = max(l.marks[p.Index], p.Offset+uint64(len(p.Data)))
	}
}

// next begins the segment l.segment.
func (l *Log) next() error {
	f, err := os.OpenFile(segmentName(l.path, l.segment), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("cannot keep output: %w", err)
	}
	if l.file != nil {
		l.file.Close()
	}
	l.file, l.size = f, 0
	if old := l.segment - MaxSegments + 1; old > 0 {
		_ = os.Remove(segmentName(l.path, old))
	}
	return nil
}

// Append appends a piece to the log.
func (l *Log) Append(p Piece) error {
	if l.size >= SegmentBytes {
		l.segment++
		if err := l.next(); err != nil {
			return err
		}
	}
	flags := byte(0)
	if p.Partial {
		flags = flagPartial
	}
	if p.Time != 0 {
		flags |= flagTime
	}
	if p.Attempt > 1 {
		flags |= flagAttempt
	}
	if p.Idle > 0 {
		flags |= flagIdle
	}
	b := make([]byte, 0, pieceHeader+timeBytes+2*attemptBytes+len(p.Data))
	b = binary.BigEndian.AppendUint32(b, uint32(len(p.Data)))
	b = binary.BigEndian.AppendUint32(b, uint32(p.Index))
	b = binary.BigEndian.AppendUint64(b, p.Offset)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Rank))
	b = append(b, p.Stream, flags)
	if p.Time != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64(p.Time))
	}
	if p.Attempt > 1 {
		b = binary.BigEndian.AppendUint32(b, uint32(p.Attempt))
	}
	if p.Idle > 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(p.Idle))
	}
	n, err := l.file.Write(append(b, p.Data...))
	if err != nil {
		// A reader would take later pieces for the rest of a torn piece.
		if n > 0 && l.file.Truncate(l.size) != nil {
			l.size = SegmentBytes // continue in another segment
		}
		return fmt.Errorf("cannot keep output: %w", err)
	}
	l.size += int64(n)
	l.mark(&p)
	return nil
}

// Close ends the writing.
func (l *Log) Close() error { return l.file.Close() }

// ReadLog reads pieces of a log from a place on, 0 first, of the ranks from first to
// last, at most limit bytes and one piece. Next is the place for the following call. Lost
// is the approximate number of bytes dropped between from and the pieces.
func ReadLog(path string, from uint64, first, last filch.Rank, limit int) (pieces []Piece, next, lost uint64, err error) {
	all, err := segments(path)
	if err != nil {
		return nil, from, 0, err
	}
	segment, at := int(from>>32), int64(from&(1<<32-1))
	next = from
	for _, s := range all {
		if s < segment {
			continue
		}
		if s > segment {
			for ; segment < s; segment++ {
				if !slices.Contains(all, segment) {
					lost += SegmentBytes
				}
			}
			at = 0
		}
		end, err := readSegment(segmentName(path, s), at, func(p Piece, end int64) bool {
			if first <= p.Rank && p.Rank <= last {
				limit -= len(p.Data)
				pieces = append(pieces, p)
			}
			return limit > 0
		})
		next = uint64(s)<<32 | uint64(end)
		if err != nil || limit <= 0 {
			return pieces, next, lost, err
		}
	}
	return pieces, next, lost, nil
}

// RemoveLog removes a log.
func RemoveLog(path string) error {
	all, err := segments(path)
	for _, s := range all {
		err = errors.Join(err, os.Remove(segmentName(path, s)))
	}
	return err
}

func segmentName(path string, n int) string { return path + "." + strconv.Itoa(n) }

// segments lists the existing segments, in order.
func segments(path string) ([]int, error) {
	names, err := filepath.Glob(path + ".*")
	if err != nil {
		return nil, err
	}
	var all []int
	for _, name := range names {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, path+".")); err == nil && n >= 0 {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// readSegment calls f for the pieces from a place on until f returns false, with the
// place after each piece, and returns the place after the last piece. An incomplete
// piece at the end is left for the next call.
func readSegment(name string, at int64, f func(p Piece, end int64) bool) (int64, error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return at, nil // removed meanwhile
		}
		return at, err
	}
	defer file.Close()
	if _, err := file.Seek(at, io.SeekStart); err != nil {
		return at, err
	}
	r := bufio.NewReaderSize(file, 64<<10)
	var head [pieceHeader + timeBytes]byte
	for {
		if _, err := io.ReadFull(r, head[:pieceHeader]); err != nil {
			return at, unlessEOF(err)
		}
		n := binary.BigEndian.Uint32(head[:])
		if n > maxPiece {
			return at, fmt.Errorf("cannot read %s: a piece of %d bytes", name, n)
		}
		p := Piece{
			Index:   int32(binary.BigEndian.Uint32(head[4:])),
			Offset:  binary.BigEndian.Uint64(head[8:]),
			Rank:    filch.Rank(binary.BigEndian.Uint32(head[16:])),
			Stream:  head[20],
			Partial: head[21]&flagPartial != 0,
			Data:    make([]byte, n),
		}
		size := pieceHeader + int64(n)
		if head[21]&flagTime != 0 {
			if _, err := io.ReadFull(r, head[pieceHeader:]); err != nil {
				return at, unlessEOF(err)
			}
			p.Time = int64(binary.BigEndian.Uint64(head[pieceHeader:]))
			size += timeBytes
		}
		if head[21]&flagAttempt != 0 {
			if _, err := io.ReadFull(r, head[pieceHeader:pieceHeader+attemptBytes]); err != nil {
				return at, unlessEOF(err)
			}
			p.Attempt = filch.Attempt(binary.BigEndian.Uint32(head[pieceHeader:]))
			size += attemptBytes
		}
		if head[21]&flagIdle != 0 {
			if _, err := io.ReadFull(r, head[pieceHeader:pieceHeader+attemptBytes]); err != nil {
				return at, unlessEOF(err)
			}
			p.Idle = int32(binary.BigEndian.Uint32(head[pieceHeader:]))
			size += attemptBytes
		}
		if _, err := io.ReadFull(r, p.Data); err != nil {
			return at, unlessEOF(err)
		}
		at += size
		if !f(p, at) {
			return at, nil
		}
	}
}

func unlessEOF(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return nil
	}
	return err
}
