package output_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/output"
)

func openLog(t *testing.T, path string) *output.Log {
	t.Helper()
	l, err := output.OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestLogGivesBackPerRank(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	l := openLog(t, path)
	for i := range 10 {
		p := output.Piece{Index: int32(i % 2), Offset: uint64(i / 2 * 2), Rank: filch.Rank(i % 2), Stream: 1, Data: fmt.Appendf(nil, "%d\n", i)}
		if err := l.Append(p); err != nil {
			t.Fatal(err)
		}
	}
	all, next, lost, err := output.ReadLog(path, 0, 0, math.MaxInt32, 1<<20)
	if err != nil || lost != 0 || len(all) != 10 {
		t.Fatalf("got %d pieces, lost %d, %v", len(all), lost, err)
	}
	if more, again, _, err := output.ReadLog(path, next, 0, math.MaxInt32, 1<<20); len(more) != 0 || again != next || err != nil {
		t.Errorf("at the end: got %d pieces and %d, want none and %d: %v", len(more), again, next, err)
	}
	one, _, _, err := output.ReadLog(path, 0, 1, 1, 1<<20)
	if err != nil || len(one) != 5 || string(one[4].Data) != "9\n" {
		t.Errorf("rank 1: got %d pieces, %v", len(one), err)
	}
	var got []byte
	for at := uint64(0); ; {
		some, n, _, err := output.ReadLog(path, at, 0, math.MaxInt32, 3)
		if err != nil {
			t.Fatal(err)
		}
		if len(some) == 0 {
			break
		}
		for _, p := range some {
			got = append(got, p.Data...)
		}
		at = n
	}
	if want := "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n"; string(got) != want {
		t.Errorf("in small steps: got %q", got)
	}
}

func TestLogGoesOnAfterARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	l := openLog(t, path)
	if err := l.Append(output.Piece{Index: 3, Offset: 5, Stream: 2, Partial: true, Data: []byte("before")}); err != nil {
		t.Fatal(err)
	}
	l.Close()
	f, err := os.OpenFile(path+".0", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte{0, 0, 0, 9, 0}); err != nil { // it died while it wrote
		t.Fatal(err)
	}
	f.Close()
	l = openLog(t, path)
	if got := l.Marks(1)[3]; got != 11 {
		t.Errorf("got mark %d, want 11", got)
	}
	if err := l.Append(output.Piece{Index: 3, Offset: 11, Stream: 2, Data: []byte(" and after\n")}); err != nil {
		t.Fatal(err)
	}
	all, _, _, err := output.ReadLog(path, 0, 0, math.MaxInt32, 1<<20)
	if err != nil || len(all) != 2 || !all[0].Partial || string(all[1].Data) != " and after\n" {
		t.Errorf("got %+v, %v", all, err)
	}
}

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	l := openLog(t, path)
	chunk := bytes.Repeat([]byte{'x'}, 1<<20)
	const pieces = output.MaxSegments*16 + 64
	for i := range pieces {
		if err := l.Append(output.Piece{Offset: uint64(i) << 20, Stream: 1, Data: chunk}); err != nil {
			t.Fatal(err)
		}
	}
	var bytes int64
	names, _ := filepath.Glob(path + ".*")
	for _, n := range names {
		info, err := os.Stat(n)
		if err != nil {
			t.Fatal(err)
		}
		bytes += info.Size()
	}
	if limit := int64(output.MaxSegments+1) * (output.SegmentBytes + 1<<20); bytes > limit {
		t.Errorf("got %d bytes, want at most %d", bytes, limit)
	}
	var gaps, seen int
	last := uint64(0)
	for at := uint64(0); ; {
		some, next, lost, err := output.ReadLog(path, at, 0, math.MaxInt32, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if lost > 0 {
			gaps++
		}
		if len(some) == 0 {
			break
		}
		seen += len(some)
		last, at = some[len(some)-1].Offset, next
	}
	if gaps != 1 || last != (pieces-1)<<20 || seen < (output.MaxSegments-1)*16 {
		t.Errorf("got %d pieces up to %d with %d gaps", seen, last, gaps)
	}
	if err := output.RemoveLog(path); err != nil {
		t.Fatal(err)
	}
	if names, _ := filepath.Glob(path + ".*"); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func FuzzReadLog(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 'x'}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		path := filepath.Join(t.TempDir(), "7")
		if err := os.WriteFile(path+".0", b, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, _, _ = output.ReadLog(path, at, 0, math.MaxInt32, 1<<20)
	})
}

// What did not fit on the disk is lost, and nothing else.
func TestLogGoesOnAfterAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	l := openLog(t, path)
	say := func(offset int, text string) error {
		return l.Append(output.Piece{Offset: uint64(offset), Stream: 1, Data: []byte(text)})
	}
	if err := say(0, "first\n"); err != nil {
		t.Fatal(err)
	}
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	signal.Ignore(unix.SIGXFSZ)
	defer signal.Reset(unix.SIGXFSZ)
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 60, Max: was.Max}); err != nil {
		t.Fatal(err)
	}
	full := say(6, "this does not fit, but for its beginning\n")
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &was); err != nil || full == nil {
		t.Fatalf("it fitted: %v, %v", full, err)
	}
	if err := say(47, "third\n"); err != nil {
		t.Fatal(err)
	}
	all, _, _, err := output.ReadLog(path, 0, 0, math.MaxInt32, 1<<20)
	if err != nil || len(all) != 2 || string(all[1].Data) != "third\n" {
		t.Errorf("got %v, %v", all, err)
	}
}

// Each attempt of a job counts its output from 0, and the log tells the attempts apart.
func TestLogOfAttempts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "7")
	l, err := output.OpenLog(path)
	if err != nil {
		t.Fatal(err)
	}
	add := func(attempt filch.Attempt, offset uint64, text string) {
		t.Helper()
		if err := l.Append(output.Piece{Index: 3, Attempt: attempt, Idle: int32(attempt) / 3, Offset: offset, Stream: 1, Time: int64(attempt), Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 0, "the first attempt\n")
	add(3, 0, "third\n")
	add(1, 18, "late\n") // of a node that did not know
	if got := l.Marks(3)[3]; got != 6 || l.Marks(1) != nil {
		t.Errorf("the third attempt has come to %d, the first to %v", got, l.Marks(1))
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err = output.OpenLog(path); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got := l.Marks(3)[3]; got != 6 || l.Marks(1) != nil {
		t.Errorf("opened again: the third attempt has come to %d, the first to %v", got, l.Marks(1))
	}
	pieces, _, _, err := output.ReadLog(path, 0, 0, 9, 1<<20)
	if err != nil || len(pieces) != 3 {
		t.Fatalf("got %d pieces, %v", len(pieces), err)
	}
	for i, want := range []struct {
		attempt filch.Attempt
		text    string
	}{{0, "the first attempt\n"}, {3, "third\n"}, {0, "late\n"}} {
		if p := pieces[i]; p.Attempt != want.attempt || p.Idle != int32(want.attempt)/3 || string(p.Data) != want.text || p.Time == 0 {
			t.Errorf("piece %d: got %+v, want %+v", i, p, want)
		}
	}
}
