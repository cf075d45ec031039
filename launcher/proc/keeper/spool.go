package keeper

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Limits of the stdin kept for ranks that read slowly or not at all.
const (
	spoolMemory = 1 << 20 // in memory; beyond that, in a file without a name
	spoolMax    = 1 << 30 // in all; then no more is asked for
	pipeHolds   = 64 << 10
)

// spool keeps the bytes [base, end) of a stream.
type spool struct {
	base, end uint64
	mem       []byte // all bytes, when file is nil
	file      *os.File
	start     uint64 // the stream's place of the file's first byte
	dir       string // the folder of the file, which has no name there
}

func itoa(n int) string { return strconv.Itoa(n) }

// kept is how many bytes are held.
func (s *spool) kept() uint64 { return s.end - s.base }

// skip passes over n bytes that no rank reads.
func (s *spool) skip(n int) {
	s.end += uint64(n)
	s.trim(s.end)
}

// add keeps b.
func (s *spool) add(b []byte) error {
	if s.file == nil && len(s.mem)+len(b) > spoolMemory {
		f, err := unnamedFile(s.dir)
		if err != nil {
			return err
		}
		s.file, s.start = f, s.base
		if _, err := f.WriteAt(s.mem, 0); err != nil {
			return err
		}
		s.mem = nil
	}
	if s.file != nil {
		if _, err := s.file.WriteAt(b, int64(s.end-s.start)); err != nil {
			return err
		}
	} else {
		s.mem = append(s.mem, b...)
	}
	s.end += uint64(len(b))
	return nil
}

// read returns bytes from off, a view of the memory or of buf.
func (s *spool) read(off uint64, buf []byte) ([]byte, error) {
	if s.file == nil {
		b := s.mem[off-s.base:]
		return b[:min(len(b), len(buf))], nil
	}
	n, err := s.file.ReadAt(buf[:min(uint64(len(buf)), s.end-off)], int64(off-s.start))
	if n > 0 {
		err = nil
	}
	return buf[:n], err
}

// trim drops the bytes before low.
func (s *spool) trim(low uint64) {
	if low <= s.base {
		return
	}
	if s.file == nil {
		s.mem = s.mem[min(low-s.base, uint64(len(s.mem))):]
		s.base = low
		if len(s.mem) == 0 {
			s.mem = nil
		}
		return
	}
	if low == s.end {
		s.file.Close()
		s.file = nil
	} else {
		// Free the disk blocks of bytes that every rank has read.
		unix.Fallocate(int(s.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE,
			int64(s.base-s.start), int64(low-s.base))
	}
	s.base = low
}

// unnamedFile makes a file that vanishes with its descriptor.
func unnamedFile(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), "stdin-spool"), nil
	}
	f, err := os.CreateTemp(dir, "stdin-")
	if err == nil {
		os.Remove(f.Name())
	}
	return f, err
}
