package output

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeSegments keeps n small pieces and one that fills a block by itself.
func writeSegments(t testing.TB, dir string, n int) {
	t.Helper()
	s := NewSegments(dir, 7)
	for i := range n {
		p := Printed{Index: int32(i), Attempt: 1, Stream: 1, Failed: i%2 == 1, Data: fmt.Appendf(nil, "task %d says hello\n", i)}
		if err := s.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add(Printed{Index: -1, Attempt: 2, Stream: 2, Lost: 5, Data: bytes.Repeat([]byte("x"), blockBytes+1)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func everything(Printed) bool { return true }

func TestSegmentsGiveBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "12")
	writeSegments(t, dir, 10_000)
	names, _ := segmentFiles(dir)
	if st, err := os.Stat(names[0]); len(names) != 1 || err != nil || st.Size() > 100_000 {
		t.Errorf("got %d files, the first of %d bytes", len(names), st.Size())
	}
	next := int32(0)
	bad, err := ReadSegments(dir, everything, func(p Printed) bool {
		if p.Index < 0 {
			if p.Lost != 5 || p.Attempt != 2 || p.Stream != 2 || len(p.Data) != blockBytes+1 {
				t.Errorf("got %+v", p)
			}
			return true
		}
		if p.Index != next || p.Failed != (next%2 == 1) || string(p.Data) != fmt.Sprintf("task %d says hello\n", next) {
			t.Fatalf("got %+v, want task %d", p, next)
		}
		next++
		return true
	})
	if bad != 0 || err != nil || next != 10_000 {
		t.Errorf("got %d pieces, %d bad, %v", next, bad, err)
	}
	var from Cursor
	n, rounds := 0, 0
	for more := true; more; rounds++ {
		more = false
		from, _, err = ReadSegmentsFrom(dir, from, func(p Printed) bool { return p.Failed }, func(Printed) bool {
			n, more = n+1, true
			return false
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n != 5000 || rounds < 3 {
		t.Errorf("block by block: got %d pieces in %d rounds", n, rounds)
	}
}

func TestSegmentsSkipWhatIsRotten(t *testing.T) {
	dir := t.TempDir()
	writeSegments(t, dir, 10_000) // three blocks of small pieces, one of a large
	names, _ := segmentFiles(dir)
	whole, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	second := bytes.Index(whole[4:], []byte(blockMagic)) + 4
	for name, spoil := range map[string]func([]byte) []byte{
		"bit in the index": func(b []byte) []byte { b[second+blockHeader] ^= 1; return b },
		"bit in the data":  func(b []byte) []byte { b[second+blockHeader+blockEntries*6] ^= 4; return b },
		"zeros":            func(b []byte) []byte { clear(b[second : second+40]); return b },
		"length":           func(b []byte) []byte { b[second+12] = 0xff; return b },
		"torn tail":        func(b []byte) []byte { return b[:len(b)-3] },
	} {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			if err := os.WriteFile(names[0], spoil(bytes.Clone(whole)), 0o600); err != nil {
				t.Fatal(err)
			}
			seen := map[int32]bool{}
			bad, err := ReadSegments(dir, everything, func(p Printed) bool { seen[p.Index] = true; return true })
			if bad == 0 || err != nil || len(seen) < 5000 || len(seen) > 10_000 {
				t.Errorf("got %d bad, %d pieces, %v", bad, len(seen), err)
			}
		})
	}
}

func TestSegmentsOfTwoWriters(t *testing.T) {
	dir := t.TempDir()
	for range 2 { // the second finds the files of the first
		writeSegments(t, dir, 3)
	}
	n := 0
	if _, err := ReadSegments(dir, everything, func(Printed) bool { n++; return true }); err != nil || n != 8 {
		t.Errorf("got %d pieces, %v", n, err)
	}
}

// A reader that goes on sees what each of several writers wrote meanwhile, and
// does not stop at a file that is gone.
func TestReadOnFromSeveralWriters(t *testing.T) {
	dir := t.TempDir()
	one, two := NewSegments(dir, 100), NewSegments(dir, 200)
	t.Cleanup(func() { one.Close(); two.Close() })
	add := func(s *Segments, text string) {
		t.Helper()
		if err := errors.Join(s.Add(Printed{Stream: 1, Data: []byte(text)}), s.Flush()); err != nil {
			t.Fatal(err)
		}
	}
	var from Cursor
	read := func() (got string) {
		t.Helper()
		next, bad, err := ReadSegmentsFrom(dir, from, everything, func(p Printed) bool { got += string(p.Data); return true })
		if bad > 0 || err != nil {
			t.Fatalf("%d bad blocks, %v", bad, err)
		}
		from = next
		return got
	}
	add(two, "a")
	if got := read(); got != "a" {
		t.Errorf("got %q, want a", got)
	}
	add(one, "b")
	add(two, "c")
	if got := read(); got != "bc" {
		t.Errorf("got %q, want bc", got)
	}
	if err := os.Remove(filepath.Join(dir, "200-0.seg")); err != nil {
		t.Fatal(err)
	}
	three := NewSegments(dir, 50)
	t.Cleanup(func() { three.Close() })
	add(three, "d")
	if got := read(); got != "d" {
		t.Errorf("got %q, want d", got)
	}
}

// What a task printed comes back in pieces that fit into an answer.
func TestLargeOutputComesInPieces(t *testing.T) {
	dir := t.TempDir()
	s := NewSegments(dir, 1)
	data := bytes.Repeat([]byte("a line of a task that prints very much\n"), 500_000)[:15<<20]
	if err := errors.Join(s.Add(Printed{Stream: 1, Failed: true, Lost: 3, Data: data}), s.Close()); err != nil {
		t.Fatal(err)
	}
	var got []byte
	lost := int64(0)
	_, err := ReadSegments(dir, everything, func(p Printed) bool {
		if len(p.Data) > pieceBytes || !p.Failed || p.Stream != 1 {
			t.Fatalf("got %d bytes, %+v", len(p.Data), p.Failed)
		}
		got = append(got, p.Data...)
		lost += p.Lost
		return true
	})
	if err != nil || !bytes.Equal(got, data) || lost != 3 {
		t.Errorf("got %d bytes of %d, %d lost, %v", len(got), len(data), lost, err)
	}
}

// A file that somebody writes to is spared, whichever it is.
func TestTrimSparesWhatIsWritten(t *testing.T) {
	base := t.TempDir()
	open := NewSegments(filepath.Join(base, "1"), 1)
	if err := errors.Join(open.Add(Printed{Data: []byte("first")}), open.Flush()); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1000, 0)
	if err := os.Chtimes(filepath.Join(base, "1", "1-0.seg"), old, old); err != nil {
		t.Fatal(err)
	}
	writeSegments(t, filepath.Join(base, "2"), 10)
	gone, err := TrimSegments(base, 1, 0)
	left, _ := filepath.Glob(filepath.Join(base, "*", "*.seg"))
	if err != nil || len(left) != 1 || filepath.Base(left[0]) != "1-0.seg" || gone == 0 || GoneSegments(filepath.Join(base, "2")) != gone {
		t.Errorf("got %d bytes gone, %d said, %v left, %v", gone, GoneSegments(filepath.Join(base, "2")), left, err)
	}
	if err := errors.Join(open.Add(Printed{Data: []byte("second")}), open.Close()); err != nil {
		t.Fatal(err)
	}
	more, err := TrimSegments(base, 1, 0)
	if err != nil || more == 0 || GoneSegments(filepath.Join(base, "1")) != more || GoneSegments(filepath.Join(base, "2")) != gone {
		t.Errorf("then got %d bytes gone, %v", more, err)
	}
}

func TestTrimSegments(t *testing.T) {
	base := t.TempDir()
	for i, job := range []string{"1", "2", "3"} {
		dir := filepath.Join(base, job)
		writeSegments(t, dir, 10)
		names, _ := segmentFiles(dir)
		at := time.Unix(int64(1000+i), 0)
		if err := os.Chtimes(names[0], at, at); err != nil {
			t.Fatal(err)
		}
	}
	gone, err := TrimSegments(base, 1, 0)
	left, _ := os.ReadDir(base)
	if err != nil || gone == 0 || len(left) != 1 || left[0].Name() != goneFile {
		t.Errorf("got %d bytes gone, %v left, %v", gone, left, err)
	}
}

func TestSegmentsOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	s := NewSegments(filepath.Join(dir, "file", "below"), 1)
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(Printed{Data: []byte("lost")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Flush(); err == nil || !strings.Contains(err.Error(), "4 bytes of output of 1 tasks") {
		t.Errorf("got %v", err)
	}
	if err := s.Flush(); err != nil {
		t.Errorf("told twice: %v", err)
	}
}

// FuzzReadSegments reads strange files; half of them have a first block whose
// checksum is right, as chance makes none.
func FuzzReadSegments(f *testing.F) {
	s := NewSegments("", 1)
	for i := range 2 {
		if err := s.Add(Printed{Index: int32(i), Attempt: 1, Stream: 1, Data: []byte("hello\n")}); err != nil {
			f.Fatal(err)
		}
	}
	whole, err := s.block()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(whole, false)
	f.Add(append([]byte("torn"), whole...), false)
	f.Add([]byte(blockMagic+"\x00\x00\x00\x01\x7f\xff\xff\xff\x00\x00\x00\x01\x00\x00\x00\x01"), true)
	f.Fuzz(func(t *testing.T, b []byte, sound bool) {
		if len(b) >= blockHeader && sound {
			if n := blockLength(b); n > 0 && n <= int64(len(b)) {
				b = bytes.Clone(b)
				binary.BigEndian.PutUint32(b[20:], blockSum(b[:n]))
			}
		}
		told := 0
		bad, end, more, err := scanBlocks(bytes.NewReader(b), int64(len(b)), 0, everything, func(p Printed) bool {
			told++
			return len(p.Data) <= blockMax
		})
		if err != nil || !more || end < 0 || end > int64(len(b)) || bad+told > len(b) {
			t.Errorf("%d bytes: got %d pieces, %d bad, to byte %d, %v, %v", len(b), told, bad, end, more, err)
		}
	})
}

func BenchmarkSegmentsAdd(b *testing.B) {
	s := NewSegments(b.TempDir(), 1)
	line := []byte("processed item 123456 in 0.25 s, residual 1.234e-05\n")
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if err := s.Add(Printed{Index: 1, Stream: 1, Data: line}); err != nil {
			b.Fatal(err)
		}
	}
}
