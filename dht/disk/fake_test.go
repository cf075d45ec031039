package disk

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"syscall"
)

// errCrash is what a crash panics with.
var errCrash = errors.New("the machine lost its power")

// fakeFS is a file system in memory that knows what is durable, runs full,
// fails and crashes.
type fakeFS struct {
	rng    *rand.Rand
	files  map[string]*fakeFile // as a process sees them
	stable map[string]*fakeFile // names that survive a crash
	ops    int                  // calls that change something
	crash  int                  // the call that panics; 0 none
	room   int64                // bytes that may still be written; below 0 without end
	faults []fault
}

// fault makes the calls of one kind fail, n times.
type fault struct {
	op  string
	err error
	n   int
}

type fakeFile struct {
	fs     *fakeFS
	data   []byte // as a process sees it
	stable []byte // as of the last sync
	recent []piece
}

// piece is a change since the last sync.
type piece struct {
	at   int64
	data []byte // nil: truncated to at
}

func newFake(seed uint64) *fakeFS {
	return &fakeFS{
		rng: rand.New(rand.NewPCG(seed, 1)), room: -1,
		files: map[string]*fakeFile{}, stable: map[string]*fakeFile{},
	}
}

// step counts a call and makes it fail or crash.
func (s *fakeFS) step(op string) error {
	s.ops++
	return s.fault(op)
}

func (s *fakeFS) fault(op string) error {
	for i := range s.faults {
		if f := &s.faults[i]; f.op == op && f.n > 0 {
			f.n--
			return f.err
		}
	}
	return nil
}

func (s *fakeFS) crashes() bool { return s.crash > 0 && s.ops >= s.crash }

func (s *fakeFS) Create(name string) (File, error) {
	err := s.step("create")
	if err == nil && s.room == 0 {
		err = syscall.ENOSPC
	}
	if s.crashes() {
		panic(errCrash)
	}
	if err != nil {
		return nil, err
	}
	if s.files[name] != nil {
		return nil, fs.ErrExist
	}
	f := &fakeFile{fs: s}
	s.files[name] = f
	return f, nil
}

func (s *fakeFS) Open(name string) (File, error) {
	if err := s.fault("open"); err != nil {
		return nil, err
	}
	if f := s.files[name]; f != nil {
		return f, nil
	}
	return nil, fs.ErrNotExist
}

func (s *fakeFS) Reserve(name string, bytes int64) error {
	err := s.step("reserve")
	if s.crashes() {
		panic(errCrash)
	}
	if err == nil && s.room >= 0 && s.room < bytes {
		err = syscall.ENOSPC
	}
	if err != nil || s.files[name] != nil {
		return err
	}
	if s.room >= 0 {
		s.room -= bytes
	}
	s.files[name] = &fakeFile{fs: s, data: make([]byte, bytes)}
	return nil
}

func (s *fakeFS) Remove(name string) error {
	err := s.step("remove")
	if s.crashes() {
		panic(errCrash)
	}
	if err != nil {
		return err
	}
	if f := s.files[name]; f != nil && s.room >= 0 {
		s.room += int64(len(f.data))
	}
	delete(s.files, name)
	return nil
}

func (s *fakeFS) List(string) ([]string, error) {
	var names []string
	for name := range s.files {
		names = append(names, filepath.Base(name))
	}
	slices.Sort(names)
	return names, nil
}

func (s *fakeFS) SyncDir(string) error {
	err := s.step("syncdir")
	if s.crashes() {
		panic(errCrash)
	}
	if err != nil {
		return err
	}
	clear(s.stable)
	maps.Copy(s.stable, s.files)
	return nil
}

func (f *fakeFile) ReadAt(b []byte, at int64) (int, error) {
	if at >= int64(len(f.data)) {
		return 0, io.EOF
	}
	n := copy(b, f.data[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func (f *fakeFile) WriteAt(b []byte, at int64) (int, error) {
	s := f.fs
	err := s.step("write")
	n := len(b)
	if s.room >= 0 && int64(n) > s.room {
		n, err = int(s.room), syscall.ENOSPC
	} else if err != nil {
		n = s.rng.IntN(n)
	}
	if s.crashes() {
		n = s.rng.IntN(n + 1)
	}
	f.change(piece{at: at, data: slices.Clone(b[:n])})
	if s.room >= 0 {
		s.room -= int64(n)
	}
	if s.crashes() {
		panic(errCrash)
	}
	return n, err
}

func (f *fakeFile) Truncate(size int64) error {
	err := f.fs.step("truncate")
	if f.fs.crashes() {
		panic(errCrash)
	}
	if err != nil {
		return err
	}
	if f.fs.room >= 0 {
		f.fs.room += int64(len(f.data)) - size
	}
	f.change(piece{at: size})
	return nil
}

func (f *fakeFile) change(p piece) {
	f.data = apply(f.data, p)
	f.recent = append(f.recent, p)
}

func apply(b []byte, p piece) []byte {
	if p.data == nil {
		return b[:min(int64(len(b)), p.at)]
	}
	if grow := p.at + int64(len(p.data)) - int64(len(b)); grow > 0 {
		b = append(b, make([]byte, grow)...)
	}
	copy(b[p.at:], p.data)
	return b
}

// Sync of a disk that fails forgets what it should have written, as Linux does:
// it is still read, and is gone after a crash.
func (f *fakeFile) Sync() error {
	err := f.fs.step("sync")
	if f.fs.crashes() {
		panic(errCrash)
	}
	if err != nil {
		f.recent = nil
		return err
	}
	f.stable, f.recent = slices.Clone(f.data), nil
	return nil
}

func (f *fakeFile) Size() (int64, error) { return int64(len(f.data)), nil }
func (f *fakeFile) Close() error         { return nil }

// afterKill is what the next process finds when only the process died.
func (s *fakeFS) afterKill() *fakeFS {
	s.crash, s.faults = 0, nil
	return s
}

// afterCrash is what is left when the machine died: what was synced, and of the
// rest any part.
func (s *fakeFS) afterCrash() *fakeFS {
	next := newFake(s.rng.Uint64())
	names := map[string]*fakeFile{}
	for name, f := range s.stable {
		if s.files[name] != nil || s.rng.IntN(2) == 0 {
			names[name] = f // a removal that was not synced may not have happened
		}
	}
	for name, f := range s.files {
		if s.stable[name] != nil || s.rng.IntN(2) == 0 {
			names[name] = f
		}
	}
	for name, f := range names {
		b := slices.Clone(f.stable)
		for _, p := range f.recent {
			switch {
			case s.rng.IntN(3) == 0: // lost
			case p.data == nil:
				b = apply(b, p)
			case s.rng.IntN(3) == 0: // torn
				b = apply(b, piece{at: p.at, data: p.data[:s.rng.IntN(len(p.data)+1)]})
			default:
				b = apply(b, p)
			}
		}
		g := &fakeFile{fs: next, data: b, stable: slices.Clone(b)}
		next.files[name], next.stable[name] = g, g
	}
	return next
}
