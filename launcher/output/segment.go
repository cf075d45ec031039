package output

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch/varint"
)

// Limits of [Segments].
const (
	// blockBytes is collected before compression and writing: enough for zstd to find
	// the common parts of similar tasks' output.
	blockBytes = 256 << 10
	// blockEntries bounds the index of a block.
	blockEntries = 4096
	// taskSegmentBytes is the size at which the next file begins.
	taskSegmentBytes = 64 << 20
	// pieceBytes is the size at which a task's output is divided, after a line if
	// possible: a reader receives blocks whole, and must fit the pieces into frames.
	pieceBytes = 1 << 20
	// blockMax bounds a block when reading: blockBytes and a piece, and larger blocks
	// of older writers.
	blockMax = 32 << 20
)

// Printed is the output of one attempt of a task on one of its streams.
type Printed struct {
	Index   int32 // of the task
	Attempt int32 // counts all starts that may have happened
	Stream  uint8 // 1 stdout, 2 stderr
	Failed  bool  // the attempt did not end with 0
	Rank    int32 // of a gang's rank, from 1; 0: the task is one process
	Lost    int64 // bytes dropped from the middle, missing in Data
	Time    int64 // of writing, Unix milliseconds; 0 unknown. Writers set the time themselves.
	Data    []byte
}

// Segments keeps the output of a job's tasks, in a few files rather than a file for
// each task. A file is a row of blocks, each with an index, compressed data and a
// checksum over both:
//
//	magic "fos1", entries, bytes of the data, bytes compressed, bytes of the
//	index, CRC-32C (of all but itself): 6 x 4 bytes, big-endian; then the index,
//	for each entry the index less that of the entry before, attempt, lost, bytes,
//	and rank x 8 + stream x 2 + failed, as varints, the first zigzag, and at the end of the index
//	the time of writing as a varint, missing in blocks of older writers; then the
//	data as one zstd frame.
//
// A folder of segments has one writer for each name; readers use [ReadSegments] at any
// time. ReadSegments skips and counts torn or damaged blocks.
type Segments struct {
	dir     string
	writer  int // of several in one folder
	file    *os.File
	serial  int
	size    int64
	raw     []byte
	entries []Printed // Data is empty; lengths has the size
	lengths []uint32
	out     []byte
}

const (
	blockMagic  = "fos1"
	blockHeader = 24
	entryMax    = 4*binary.MaxVarintLen64 + 2 // bytes of an entry in the index
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// zstdCodec makes the compressor at the first use: most processes never compress, and
// start faster.
var zstdCodec = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
})

var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blockMax))
})

// NewSegments makes the writer of a folder; the first block makes the folder. Several
// writers at the same time need different numbers.
func NewSegments(dir string, writer int) *Segments { return &Segments{dir: dir, writer: writer} }

// Add adds a piece; the writer may write the piece later, with others.
func (s *Segments) Add(p Printed) error {
	for len(p.Data) > pieceBytes {
		part := p
		n := bytes.LastIndexByte(p.Data[:pieceBytes], '\n') + 1
		if n == 0 {
			n = pieceBytes
		}
		part.Data = p.Data[:n]
		if err := s.add(part); err != nil {
			return err
		}
		p.Data, p.Lost = p.Data[n:], 0
	}
	return s.add(p)
}

func (s *Segments) add(p Printed) error {
	if len(s.entries) >= blockEntries || len(s.raw) > 0 && len(s.raw)+len(p.Data) > blockBytes {
		if err := s.Flush(); err != nil {
			return err
		}
	}
	s.raw = append(s.raw, p.Data...)
	s.lengths = append(s.lengths, uint32(len(p.Data)))
	p.Data = nil
	s.entries = append(s.entries, p)
	if len(s.raw) >= blockBytes {
		return s.Flush()
	}
	return nil
}

// Flush writes the collected pieces. Pieces that cannot be written are dropped, and the
// error gives their size.
func (s *Segments) Flush() error {
	if len(s.entries) == 0 {
		return nil
	}
	block, err := s.block()
	if err == nil {
		err = s.write(block)
	}
	if err != nil {
		err = fmt.Errorf("cannot keep %d bytes of output of %d tasks: %w", len(s.raw), len(s.entries), err)
	}
	s.entries, s.lengths = s.entries[:0], s.lengths[:0]
	if s.raw = s.raw[:0]; cap(s.raw) > 4*blockBytes {
		s.raw = nil
	}
	return err
}

func (s *Segments) block() ([]byte, error) {
	codec, err := zstdCodec()
	if err != nil {
		return nil, err
	}
	b := append(s.out[:0], blockMagic...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.entries)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(s.raw)))
	b = append(b, make([]byte, 12)...)
	last := int32(0)
	for i, e := range s.entries {
		b = binary.AppendVarint(b, int64(e.Index)-int64(last))
		b = binary.AppendUvarint(b, uint64(e.Attempt))
		b = binary.AppendUvarint(b, uint64(e.Lost))
		b = binary.AppendUvarint(b, uint64(s.lengths[i]))
		how := uint64(e.Rank)<<3 | uint64(e.Stream)<<1
		if e.Failed {
			how |= 1
		}
		b = binary.AppendUvarint(b, how)
		last = e.Index
	}
	b = binary.AppendUvarint(b, uint64(time.Now().UnixMilli()))
	head := len(b)
	b = codec.EncodeAll(s.raw, b)
	binary.BigEndian.PutUint32(b[12:], uint32(len(b)-head))
	binary.BigEndian.PutUint32(b[16:], uint32(head-blockHeader))
	binary.BigEndian.PutUint32(b[20:], blockSum(b))
	if s.out = b; cap(b) > 4*blockBytes {
		s.out = nil
	}
	return b, nil
}

func blockSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:20], castagnoli), castagnoli, b[blockHeader:])
}

// ErrFull is the reason for dropping output.
var ErrFull = errors.New("the disk is nearly full: the rest is reserved for the launcher's records")

func (s *Segments) write(block []byte) error {
	if free, _, err := Room(s.disk()); err == nil && free < int64(len(block)) {
		if s.file != nil { // so that the file may be trimmed
			err = s.file.Close()
			s.file = nil
		}
		return errors.Join(ErrFull, err)
	}
	if s.file == nil || s.size > 0 && s.size+int64(len(block)) > taskSegmentBytes {
		if err := s.next(); err != nil {
			return err
		}
	}
	n, err := s.file.Write(block)
	if err != nil && n > 0 {
		// A torn block would hide no later block, but cost a search.
		_ = s.file.Truncate(s.size)
		return err
	}
	s.size += int64(n)
	return err
}

// disk returns an existing folder on the disk of the segments.
func (s *Segments) disk() string {
	if s.file != nil {
		return s.dir
	}
	dir := s.dir
	for dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func (s *Segments) next() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	for {
		name := filepath.Join(s.dir, fmt.Sprintf("%d-%d.seg", s.writer, s.serial))
		f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW, 0o600)
		if errors.Is(err, fs.ErrExist) {
			s.serial++ // of an earlier writer with this number
			continue
		}
		if err != nil {
			return err
		}
		// So that the file is not trimmed: the lock ends with the writer.
		_ = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		if s.file != nil {
			s.file.Close()
		}
		s.file, s.size = f, 0
		s.serial++
		return nil
	}
}

// Close writes the collected pieces and closes the file.
func (s *Segments) Close() error {
	err := s.Flush()
	if s.file != nil {
		err = errors.Join(err, s.file.Close())
		s.file = nil
	}
	return err
}

// ReadSegments calls f with the output of the tasks of a folder, file by file in the
// order of writing. After f has returned false, ReadSegments finishes the block and
// stops. want selects entries, without seeing Data; blocks without a wanted entry are
// not decompressed. f may use Data only during the call. Bad counts unreadable blocks.
func ReadSegments(dir string, want func(Printed) bool, f func(Printed) bool) (bad int, err error) {
	names, err := segmentFiles(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		n, _, more, err := readBlocks(name, 0, want, f)
		bad += n
		if err != nil || !more {
			return bad, err
		}
	}
	return bad, nil
}

// Cursor is a place in a folder of segments: how far each file was read, by file name.
// The zero Cursor is the beginning.
type Cursor map[string]int64

// ReadSegmentsFrom is ReadSegments from a place on, until f returns false, to the end
// of the block: next is the place of the following call.
func ReadSegmentsFrom(dir string, from Cursor, want func(Printed) bool, f func(Printed) bool) (next Cursor, bad int, err error) {
	names, err := segmentFiles(dir)
	if err != nil {
		return from, 0, err
	}
	next = Cursor{} // removed files are left out
	for _, name := range names {
		if at, ok := from[filepath.Base(name)]; ok {
			next[filepath.Base(name)] = at
		}
	}
	for _, name := range names {
		base := filepath.Base(name)
		n, end, more, err := readBlocks(name, next[base], want, f)
		bad += n
		next[base] = end
		if err != nil || !more {
			return next, bad, err
		}
	}
	return next, bad, nil
}

// segmentFiles lists the files of a folder, oldest first.
func segmentFiles(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.seg"))
	if err != nil {
		return nil, err
	}
	type file struct {
		name           string
		writer, serial int
	}
	var all []file
	for _, name := range names {
		one, two, _ := strings.Cut(strings.TrimSuffix(filepath.Base(name), ".seg"), "-")
		w, err1 := strconv.Atoi(one)
		n, err2 := strconv.Atoi(two)
		if err1 == nil && err2 == nil {
			all = append(all, file{name, w, n})
		}
	}
	slices.SortFunc(all, func(a, b file) int { return cmp.Or(cmp.Compare(a.writer, b.writer), cmp.Compare(a.serial, b.serial)) })
	names = names[:0]
	for _, f := range all {
		names = append(names, f.name)
	}
	return names, nil
}

// readBlocks reads one file from a place on; end is the place after the last block
// read.
func readBlocks(name string, at int64, want, f func(Printed) bool) (bad int, end int64, more bool, err error) {
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, at, true, nil
	}
	if err != nil {
		return 0, at, true, err
	}
	defer file.Close()
	st, err := file.Stat()
	if err != nil {
		return 0, at, true, err
	}
	return scanBlocks(file, st.Size(), at, want, f)
}

// scanBlocks is readBlocks of a reader with size bytes.
func scanBlocks(file io.ReaderAt, size, at int64, want, f func(Printed) bool) (bad int, end int64, more bool, err error) {
	var head [blockHeader]byte
	for at+blockHeader <= size {
		if _, err := file.ReadAt(head[:], at); err != nil {
			return bad, at, true, err
		}
		n := blockLength(head[:])
		if n < 0 || at+n > size {
			bad++
			next := nextBlock(file, at+1, size)
			if next < 0 {
				return bad, at, true, nil
			}
			at = next
			continue
		}
		more, ok, err := readBlock(io.NewSectionReader(file, at, n), n, want, f)
		if err != nil {
			return bad, at, more, err
		}
		if !ok {
			bad++
		}
		if at += n; !more {
			return bad, at, false, nil
		}
	}
	return bad, at, true, nil
}

// blockLength returns the length of a block by its header, -1 for an invalid header.
func blockLength(head []byte) int64 {
	entries := int64(binary.BigEndian.Uint32(head[4:]))
	raw := int64(binary.BigEndian.Uint32(head[8:]))
	packed := int64(binary.BigEndian.Uint32(head[12:]))
	index := int64(binary.BigEndian.Uint32(head[16:]))
	if string(head[:4]) != blockMagic || entries == 0 || entries > blockEntries || raw > blockMax || packed > blockMax || index > entries*entryMax+binary.MaxVarintLen64 {
		return -1
	}
	return blockHeader + index + packed
}

// nextBlock looks for the next magic word.
func nextBlock(file io.ReaderAt, from, size int64) int64 {
	buf := make([]byte, 64<<10)
	for from < size {
		n, _ := file.ReadAt(buf, from)
		if i := bytes.Index(buf[:n], []byte(blockMagic)); i >= 0 {
			return from + int64(i)
		}
		if n < len(blockMagic) {
			return -1
		}
		from += int64(n - len(blockMagic) + 1)
	}
	return -1
}

// readBlock reads a block of n bytes; ok is false when the block is damaged.
func readBlock(r io.Reader, n int64, want, f func(Printed) bool) (more, ok bool, err error) {
	b := make([]byte, n)
	if _, err := io.ReadFull(r, b); err != nil {
		return true, false, err
	}
	if binary.BigEndian.Uint32(b[20:]) != blockSum(b) {
		return true, false, nil
	}
	raw := int(binary.BigEndian.Uint32(b[8:]))
	packed := b[blockHeader+binary.BigEndian.Uint32(b[16:]):]
	entries, lengths, ok := readIndex(b[blockHeader:len(b)-len(packed)], int(binary.BigEndian.Uint32(b[4:])), raw)
	if !ok {
		return true, false, nil
	}
	wanted := slices.ContainsFunc(entries, want)
	if !wanted {
		return true, true, nil
	}
	codec, err := zstdDecoder()
	if err != nil {
		return true, false, err
	}
	data, err := codec.DecodeAll(packed, make([]byte, 0, raw))
	if err != nil || len(data) != raw {
		return true, false, nil
	}
	more = true
	for i, e := range entries {
		e.Data, data = data[:lengths[i]:lengths[i]], data[lengths[i]:]
		if want(e) && !f(e) {
			more = false // f still receives the other entries of the block
		}
	}
	return more, true, nil
}

// readIndex reads the index of a block; the lengths must add up to raw.
func readIndex(b []byte, count, raw int) (entries []Printed, lengths []int, ok bool) {
	entries, lengths = make([]Printed, count), make([]int, count)
	d := varint.Reader{B: b}
	last, left := int64(0), raw
	for i := range entries {
		last += d.Varint()
		e := Printed{Index: int32(last), Attempt: int32(d.Uvarint()), Lost: int64(d.Uvarint())}
		length, how := d.Uvarint(), d.Uvarint()
		if d.Bad || length > uint64(left) {
			return nil, nil, false
		}
		left -= int(length)
		e.Rank, e.Stream, e.Failed = int32(how>>3), uint8(how>>1)&3, how&1 == 1
		entries[i], lengths[i] = e, int(length)
	}
	if d.Left() > 0 {
		at := int64(d.Uvarint())
		for i := range entries {
			entries[i].Time = at
		}
	}
	return entries, lengths, left == 0 && !d.Bad && d.Left() == 0
}
