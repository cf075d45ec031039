package disk

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Damage is told apart from what a crash leaves, and healed.
func TestDamageIsTold(t *testing.T) {
	for _, c := range []struct {
		name    string
		at      int // from the end, if below 0
		damaged bool
		keys    int
	}{{"in the middle", 40, true, 9}, {"at the end", -1, false, 9}} {
		t.Run(c.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "log")
			l := mustOpen(t, Config{Dir: dir})
			for i := range 10 {
				mustAppend(t, l, Entry{fmt.Sprint("k", i), bytes.Repeat([]byte{1}, 100)})
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			name := segments(t, dir)[0]
			raw, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			raw[(c.at+len(raw))%len(raw)] ^= 1
			if err := os.WriteFile(name, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			v := &voice{}
			l = mustOpen(t, Config{Dir: dir, Report: v.hear})
			if s := l.Stats(); s.Damaged != c.damaged || s.Skipped == 0 || s.Keys != c.keys || len(v.all) != 1 {
				t.Errorf("got %+v and %v", s, v.all)
			}
			if c.damaged {
				mustSync(t, l, mustAppend(t, l, Entry{"noted", []byte{1}}))
				poll(t, "the segment is rewritten", func() bool { return l.Stats().Segments == 1 && segments(t, dir)[0] != name })
				c.keys++
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			l = mustOpen(t, Config{Dir: dir})
			if s := l.Stats(); s.Damaged || s.Skipped != 0 || s.Keys != c.keys {
				t.Errorf("opened once more: got %+v", s)
			}
		})
	}
}

// TestDamageIsToldUntilNoted opens a damaged log again and again: until an entry
// of a process is durable, which may be the note of it, every process is told.
func TestDamageIsToldUntilNoted(t *testing.T) {
	for _, c := range []struct {
		name string
		hurt func(raw []byte) []byte
	}{
		{"in the middle", func(raw []byte) []byte { raw[40] ^= 1; return raw }},
		{"at the end of an old one", func(raw []byte) []byte { raw[len(raw)-1] ^= 1; return raw }},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs := newFake(1)
			fill, err := openIdle(Config{Dir: "log", FS: fs, SegmentBytes: segmentMin})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 2 * segmentMin / 100 * (tornMax + 1) {
				mustAppend(t, fill, Entry{fmt.Sprint("k", i), bytes.Repeat([]byte{1}, 50)})
			}
			if err := fill.Close(); err != nil {
				t.Fatal(err)
			}
			names, err := fs.List("log")
			if err != nil || len(names) <= tornMax {
				t.Fatalf("got %d segments, %v", len(names), err)
			}
			old := fs.files[filepath.Join("log", slices.Min(names))]
			old.data = c.hurt(old.data)
			open := func() *Log {
				l, err := openIdle(Config{Dir: "log", FS: fs, SegmentBytes: segmentMin})
				if err != nil {
					t.Fatal(err)
				}
				return l
			}
			turns := func(l *Log) {
				f := <-l.own
				for range 100 {
					l.turn(f, time.Now())
				}
				l.own <- f
			}
			for life := range 3 {
				l := open()
				if !l.Stats().Damaged {
					t.Fatalf("life %d is not told of the damage", life)
				}
				turns(l) // and its process ends
			}
			l := open()
			l.Hurry(mustAppend(t, l, Entry{"noted", []byte{1}}))
			turns(l)
			if l := open(); l.Stats().Damaged || l.Stats().Skipped > 0 {
				t.Errorf("after it was noted: got %+v", l.Stats())
			}
		})
	}
}
