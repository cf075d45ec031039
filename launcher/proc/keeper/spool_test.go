package keeper

import (
	"bytes"
	"math/rand"
	"testing"
)

// TestSpool checks a spool against a slice that keeps everything.
func TestSpool(t *testing.T) {
	seed := rand.Int63()
	r := rand.New(rand.NewSource(seed))
	s := spool{dir: t.TempDir()}
	var all []byte
	low := uint64(0)
	buf := make([]byte, 8192)
	for i := range 3000 {
		switch r.Intn(4) {
		case 0, 1:
			b := make([]byte, r.Intn(9000))
			r.Read(b)
			all = append(all, b...)
			if err := s.add(b); err != nil {
				t.Fatal(err)
			}
		case 2:
			if r.Intn(20) == 0 {
				low = s.end
			} else {
				low += uint64(r.Int63n(int64(s.end-low)/4 + 1))
			}
			s.trim(low)
		case 3:
			off := low + uint64(r.Int63n(int64(s.end-low)+1))
			if off == s.end {
				continue
			}
			b, err := s.read(off, buf)
			if err != nil || len(b) == 0 || !bytes.Equal(b, all[off:off+uint64(len(b))]) {
				t.Fatalf("seed %d, step %d: read of %d bytes at %d of %d-%d: %v", seed, i, len(b), off, s.base, s.end, err)
			}
		}
		if s.file == nil && len(s.mem) > spoolMemory || s.end != uint64(len(all)) || s.kept() != s.end-low {
			t.Fatalf("seed %d, step %d: %d in memory, end %d of %d, kept %d", seed, i, len(s.mem), s.end, len(all), s.kept())
		}
	}
	s.trim(s.end)
	if s.file != nil || s.mem != nil {
		t.Errorf("an empty spool keeps its file or memory")
	}
}
