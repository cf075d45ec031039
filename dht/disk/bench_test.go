package disk

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
)

// BenchmarkAppend writes batches of entries of 100 bytes; with sync=true each
// batch is waited for.
func BenchmarkAppend(b *testing.B) {
	for _, synced := range []bool{false, true} {
		for _, batch := range []int{1, 10, 100, 1000} {
			b.Run(fmt.Sprintf("sync=%v/batch=%d", synced, batch), func(b *testing.B) {
				l := mustOpen(b, Config{Dir: filepath.Join(b.TempDir(), "log")})
				entries := make([]Entry, batch)
				for i := range entries {
					entries[i] = Entry{Key: fmt.Sprint("key", i), Value: bytes.Repeat([]byte{1}, 100)}
				}
				b.SetBytes(int64(batch) * recordBytes(&entries[0]))
				n := uint64(0)
				for b.Loop() {
					n = mustAppend(b, l, entries...)
					if synced || n%(1<<16) < uint64(batch) {
						mustSync(b, l, n)
					}
				}
				mustSync(b, l, n)
				b.ReportMetric(float64(batch)*float64(b.N)/b.Elapsed().Seconds(), "entries/s")
			})
		}
	}
}

// BenchmarkOpen reads a log of 100,000 keys.
func BenchmarkOpen(b *testing.B) {
	dir := filepath.Join(b.TempDir(), "log")
	l := mustOpen(b, Config{Dir: dir})
	const keys = 100_000
	for i := range keys {
		mustAppend(b, l, Entry{fmt.Sprint("key", i), bytes.Repeat([]byte{1}, 100)})
	}
	if err := l.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l, err := Open(Config{Dir: dir})
		if err != nil {
			b.Fatal(err)
		}
		n := 0
		if err := l.Each(func(string, []byte) error { n++; return nil }); err != nil || n != keys {
			b.Fatalf("%d keys, %v", n, err)
		}
		if err := l.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
