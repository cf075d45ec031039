package disk

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
)

// sample is a segment of n records and where they begin.
func sample(n int, salt uint32) (b []byte, at []int) {
	for i := range n {
		at = append(at, len(b))
		e := Entry{Key: fmt.Sprint("key", i), Value: bytes.Repeat([]byte{byte(i)}, 10*i)}
		if i%5 == 4 {
			e.Value = nil
		}
		b = appendRecord(b, salt, uint64(i), &e)
	}
	return b, at
}

// read scans b; bad is how many bytes were skipped.
func read(b []byte, salt uint32) (seqs []uint64, bad int64) {
	end := int64(0)
	s := scanner{r: bytes.NewReader(b), size: int64(len(b)), salt: salt, damage: func(at, n int64, err error) {
		if err != nil || n <= 0 || at < end || at+n > int64(len(b)) {
			panic(fmt.Sprintf("damage of %d bytes at %d of %d, %v", n, at, len(b), err))
		}
		bad += n
		end = at + n
	}}
	for s.next() {
		seqs = append(seqs, s.rec.seq)
		if s.rec.at < end {
			panic("a record within damage")
		}
		end = s.rec.at + s.rec.bytes()
	}
	return seqs, bad
}

func TestScanReadsAll(t *testing.T) {
	b, at := sample(500, 1)
	if seqs, bad := read(b, 1); len(seqs) != len(at) || bad != 0 {
		t.Errorf("got %d records and %d bad bytes, want %d and 0", len(seqs), bad, len(at))
	}
	if seqs, bad := read(b, 2); len(seqs) != 0 || bad != int64(len(b)) {
		t.Errorf("under another salt: got %d records and %d bad bytes", len(seqs), bad)
	}
}

// Every flipped bit costs the record that it is in, and no other.
func TestScanFlips(t *testing.T) {
	b, at := sample(12, 1)
	for i := range b {
		for bit := range 8 {
			b[i] ^= 1 << bit
			hit := 0
			for hit+1 < len(at) && at[hit+1] <= i {
				hit++
			}
			seqs, bad := read(b, 1)
			if len(seqs) != len(at)-1 || bad == 0 {
				t.Fatalf("bit %d of byte %d: got records %v, want all but %d", bit, i, seqs, hit)
			}
			for _, s := range seqs {
				if s == uint64(hit) {
					t.Fatalf("bit %d of byte %d: record %d was read", bit, i, hit)
				}
			}
			b[i] ^= 1 << bit
		}
	}
}

// A cut at any byte costs the record that it is in and those after it.
func TestScanCuts(t *testing.T) {
	b, at := sample(12, 1)
	for cut := range b {
		whole := 0
		for whole+1 < len(at) && at[whole+1] <= cut {
			whole++
		}
		if seqs, bad := read(b[:cut], 1); len(seqs) != whole || bad != int64(cut-at[whole]) {
			t.Fatalf("cut at %d: got %d records and %d bad bytes, want %d and %d", cut, len(seqs), bad, whole, cut-at[whole])
		}
	}
}

// Blocks of zeros, as file systems leave them: hyperqueue 1059.
func TestScanZeros(t *testing.T) {
	b, at := sample(400, 1)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		c := bytes.Clone(b)
		from := rng.IntN(len(c))
		to := min(len(c), from+4096*(1+rng.IntN(3)))
		clear(c[from:to])
		want := 0
		for i := range at {
			end := len(b)
			if i+1 < len(at) {
				end = at[i+1]
			}
			// A value of zeros loses nothing by zeros.
			if bytes.Equal(b[at[i]:end], c[at[i]:end]) {
				want++
			}
		}
		if seqs, _ := read(c, 1); len(seqs) != want {
			t.Fatalf("zeros from %d to %d: got %d records, want %d", from, to, len(seqs), want)
		}
	}
}

// A value that holds a piece of a log yields none of its records, even where
// its own head is damaged.
func TestScanPieceOfALog(t *testing.T) {
	inner, _ := sample(20, 1)
	b := appendRecord(nil, 2, 77, &Entry{Key: "k", Value: inner})
	b = appendRecord(b, 2, 78, &Entry{Key: "l", Value: []byte("x")})
	b[6] ^= 1
	if seqs, _ := read(b, 2); len(seqs) != 1 || seqs[0] != 78 {
		t.Errorf("got %v, want 78 alone", seqs)
	}
}

// failing gives an error for a stretch of what it reads.
type failing struct {
	b        []byte
	from, to int64
}

func (f failing) ReadAt(b []byte, at int64) (int, error) {
	if at < f.to && at+int64(len(b)) > f.from {
		return copy(b, f.b[at:max(at, f.from)]), errors.New("input/output error")
	}
	n := copy(b, f.b[at:])
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

func TestScanReadErrors(t *testing.T) {
	b, _ := sample(500, 1)
	skipped, told := int64(0), 0
	s := scanner{r: failing{b, 100_000, 110_000}, size: int64(len(b)), salt: 1, damage: func(_, n int64, err error) {
		skipped += n
		if err != nil {
			told++
		}
	}}
	n := 0
	for s.next() {
		n++
	}
	if n < 450 || n == 500 || told == 0 || skipped < 10_000 || skipped > 25_000 {
		t.Errorf("got %d records, %d bytes skipped, %d errors told", n, skipped, told)
	}
}

// Many marks and heads that promise much must not cost more than one look each.
func TestScanHostileHeads(t *testing.T) {
	b := bytes.Repeat(mark, 1<<18)
	if seqs, bad := read(b, 1); len(seqs) != 0 || bad != int64(len(b)) {
		t.Errorf("got %d records, %d bad bytes", len(seqs), bad)
	}
}

func FuzzScan(f *testing.F) {
	b, _ := sample(6, 1)
	f.Add(b)
	f.Add(bytes.Repeat(mark, 10))
	f.Add(make([]byte, 100))
	f.Fuzz(func(t *testing.T, b []byte) {
		// Whatever comes before it, a record that is whole is read.
		last := Entry{Key: "last", Value: []byte("value")}
		b = appendRecord(bytes.Clone(b), 1, 1<<40, &last)
		seqs, bad := read(b, 1)
		got := int64(0)
		s := scanner{r: bytes.NewReader(b), size: int64(len(b)), salt: 1, damage: func(int64, int64, error) {}}
		for s.next() {
			got += s.rec.bytes()
		}
		if got+bad != int64(len(b)) {
			t.Errorf("%d bytes of records and %d of damage in %d", got, bad, len(b))
		}
		// Only a head that is right and promises more hides it.
		if len(seqs) == 0 || seqs[len(seqs)-1] != 1<<40 {
			for i := 0; i+headBytes <= len(b); i++ {
				if h, ok := readHead(b[i:], 1); ok && i+h.bytes() > len(b)-int(recordBytes(&last)) && i < len(b)-int(recordBytes(&last)) {
					return
				}
			}
			t.Errorf("the record after %d bytes is not read", len(b)-int(recordBytes(&last)))
		}
	})
}
