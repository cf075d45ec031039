package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait of these tests.
const patience = 20 * time.Second

// voice keeps what a log reported.
type voice struct {
	mu  sync.Mutex
	all []Report
}

func (v *voice) hear(r Report) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, r)
}

func (v *voice) count(k Kind) (n int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, r := range v.all {
		if r.Kind == k {
			n++
		}
	}
	return n
}

func mustOpen(t testing.TB, cfg Config) *Log {
	t.Helper()
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func mustAppend(t testing.TB, l *Log, entries ...Entry) uint64 {
	t.Helper()
	n, err := appendNext(l, entries...)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var appends sync.Mutex // a log has one owner, who numbers the entries

// appendNext appends entries under the next numbers, and returns the last number.
func appendNext(l *Log, entries ...Entry) (uint64, error) {
	appends.Lock()
	defer appends.Unlock()
	n := l.Stats().Number + uint64(len(entries))
	return n, l.Append(n, entries...)
}

func mustSync(t testing.TB, l *Log, n uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := l.Sync(ctx, n); err != nil {
		t.Fatal(err)
	}
}

func contents(t testing.TB, l *Log) map[string]string {
	t.Helper()
	got := map[string]string{}
	if err := l.Each(func(key string, value []byte) error { got[key] = string(value); return nil }); err != nil {
		t.Fatal(err)
	}
	return got
}

func poll(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(time.Millisecond)
	}
}

func segments(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestLogKeepsTheLastOfEachKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l := mustOpen(t, Config{Dir: dir})
	mustAppend(t, l, Entry{"a", []byte("1")}, Entry{"b", []byte("1")}, Entry{"c", []byte{}})
	n := mustAppend(t, l, Entry{"a", []byte("2")}, Entry{"b", nil}, Entry{"never", nil})
	if n != 6 {
		t.Errorf("got number %d, want 6", n)
	}
	mustSync(t, l, n)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "2", "c": ""}
	l = mustOpen(t, Config{Dir: dir})
	if got := contents(t, l); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if s := l.Stats(); s.Keys != 2 || s.Number != 0 {
		t.Errorf("got %+v, want 2 keys and no number yet", s)
	}
}

func TestLogRefusesWhatIsTooLong(t *testing.T) {
	l := mustOpen(t, Config{Dir: filepath.Join(t.TempDir(), "log")})
	for _, e := range []Entry{{}, {Key: strings.Repeat("k", maxKey+1)}, {Key: "k", Value: make([]byte, maxValue+1)}} {
		if n, err := appendNext(l, Entry{Key: "good", Value: []byte{1}}, e); err == nil {
			t.Errorf("a key of %d and a value of %d bytes: got number %d, want an error", len(e.Key), len(e.Value), n)
		}
	}
	mustSync(t, l, mustAppend(t, l, Entry{Key: strings.Repeat("k", maxKey), Value: make([]byte, maxValue)}))
	if got := contents(t, l); len(got) != 1 {
		t.Errorf("got %d keys, want the one that is not too long", len(got))
	}
	l.Close()
	if _, err := appendNext(l, Entry{Key: "k"}); !errors.Is(err, errClosed) {
		t.Errorf("append to a closed log: got %v", err)
	}
}

// An entry that the owner lost would count as synced with the entries after the lost one.
func TestLogRefusesAGapInTheNumbers(t *testing.T) {
	l := mustOpen(t, Config{Dir: filepath.Join(t.TempDir(), "log")})
	for _, last := range []uint64{0, 1, 3} {
		if err := l.Append(last, Entry{Key: "a"}, Entry{Key: "b"}); !errors.Is(err, errNumber) {
			t.Errorf("two entries up to number %d: got %v, want %v", last, err, errNumber)
		}
	}
	if s := l.Stats(); s.Number != 0 || s.Waiting != 0 {
		t.Errorf("got %+v, want a log that took nothing", s)
	}
	if err := l.Append(2, Entry{Key: "a"}, Entry{Key: "b"}); err != nil {
		t.Fatal(err)
	}
	mustSync(t, l, 2)
}

// Many goroutines append and wait; syncs are shared.
func TestLogGroupsCommits(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	var mu sync.Mutex
	var told []uint64
	l := mustOpen(t, Config{Dir: dir, Synced: func(n uint64) { mu.Lock(); told = append(told, n); mu.Unlock() }})
	const goroutines, each = 8, 50
	var wait sync.WaitGroup
	for g := range goroutines {
		wait.Go(func() {
			for i := range each {
				n, err := appendNext(l, Entry{fmt.Sprint(g, "/", i), []byte("x")})
				if err != nil {
					t.Error(err)
					return
				}
				if i%10 == 9 {
					mustSync(t, l, n)
				}
			}
		})
	}
	wait.Wait()
	// Nobody hurries for the rest: it is synced all the same.
	poll(t, "everything is synced", func() bool { return l.Stats().Synced == goroutines*each })
	mu.Lock()
	heard := slices.Clone(told) // held on to, it would hold up the writer for which contents waits
	mu.Unlock()
	for i := 1; i < len(heard); i++ {
		if heard[i] <= heard[i-1] {
			t.Errorf("told %d after %d", heard[i], heard[i-1])
		}
	}
	if len(heard) > goroutines*each/2 {
		t.Errorf("%d syncs for %d entries", len(heard), goroutines*each)
	}
	if got := len(contents(t, l)); got != goroutines*each {
		t.Errorf("got %d keys, want %d", got, goroutines*each)
	}
}

func TestLogIsPrivateAndLocked(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "log")
	l := mustOpen(t, Config{Dir: dir})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("got %v, %v, want a directory of mode 0700", info, err)
	}
	if _, err := Open(Config{Dir: dir}); !errors.Is(err, errLocked) || !strings.Contains(err.Error(), fmt.Sprint("pid ", os.Getpid())) {
		t.Errorf("a second log in the directory: got %v, want that this process holds it", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "0750") {
		t.Errorf("a directory that others may read: got %v", err)
	}
	link := filepath.Join(parent, "link")
	if err := errors.Join(os.Chmod(dir, 0o700), os.Symlink(dir, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: link}); err == nil {
		t.Error("a symbolic link was taken")
	}
}

func TestLogWithoutSyncs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l := mustOpen(t, Config{Dir: dir, SyncEvery: -1})
	mustAppend(t, l, Entry{"a", []byte("1")})
	if got := segments(t, dir); len(got) != 0 {
		t.Errorf("written without a flush: %v", got)
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(segments(t, dir)[0])
	if err != nil || !bytes.Contains(raw, []byte("a1")) {
		t.Errorf("after a flush the segment holds %q, %v", raw, err)
	}
	mustAppend(t, l, Entry{"b", []byte("1")})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, mustOpen(t, Config{Dir: dir, SyncEvery: -1})); len(got) != 2 {
		t.Errorf("got %v, want both", got)
	}
}

func TestCompactionKeepsTheLogSmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	l := mustOpen(t, Config{Dir: dir, SegmentBytes: 64 << 10, QuotaBytes: 4 << 20})
	value := bytes.Repeat([]byte{7}, 1000)
	for i := range 20000 {
		mustAppend(t, l, Entry{fmt.Sprint("k", i%50), value}, Entry{fmt.Sprint("gone", i), value}, Entry{fmt.Sprint("gone", i), nil})
		if i%100 == 0 {
			mustSync(t, l, l.Stats().Number)
		}
	}
	mustSync(t, l, l.Stats().Number)
	poll(t, "the log is small", func() bool { return l.Stats().SizeBytes < 4*64<<10 })
	s := l.Stats()
	if s.Keys != 50 || s.LiveBytes > 60<<10 || s.Failed != nil {
		t.Errorf("got %+v, want 50 keys and 50 KB", s)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, mustOpen(t, Config{Dir: dir})); len(got) != 50 {
		t.Errorf("got %d keys, want 50", len(got))
	}
}

func TestQuota(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	v := &voice{}
	l := mustOpen(t, Config{Dir: dir, SegmentBytes: 32 << 10, QuotaBytes: 256 << 10, Report: v.hear})
	value := bytes.Repeat([]byte{7}, 1000)
	n := uint64(0)
	for i := range 400 {
		n = mustAppend(t, l, Entry{fmt.Sprint("k", i), value})
	}
	poll(t, "the quota is told", func() bool { return v.count(Failed) == 1 })
	s := l.Stats()
	if !errors.Is(s.Failed, errQuota) || s.SizeBytes > s.QuotaBytes || s.LiveBytes < 200<<10 || s.Waiting == 0 {
		t.Errorf("got %+v, want the quota, nearly used up", s)
	}
	for i := range 200 {
		n = mustAppend(t, l, Entry{fmt.Sprint("k", i), nil})
	}
	mustSync(t, l, n)
	poll(t, "the end of the failure is told", func() bool { return v.count(Back) == 1 })
	if got := contents(t, l); len(got) != 200 || got["k399"] == "" {
		t.Errorf("got %d keys, want the 200 that were not removed", len(got))
	}
}

// A fault that lasts is told, costs nothing that was durable, and what was
// appended meanwhile is written when it is over.
func TestFaultsPass(t *testing.T) {
	for _, op := range []string{"write", "sync", "create", "syncdir", "write+truncate"} {
		t.Run(op, func(t *testing.T) {
			fs := newFake(1)
			r := newRig(t, fs)
			r.append("old", 10)
			r.log.Hurry(1)
			r.turn(0)
			if r.acked != 1 {
				t.Fatal("not synced on a disk that is well")
			}
			f := <-r.log.own
			f.head = nil // so that a segment is made
			r.log.own <- f
			for part := range strings.SplitSeq(op, "+") {
				fs.faults = append(fs.faults, fault{op: part, err: syscall.EIO, n: 3})
			}
			for i := range 3 {
				r.append(fmt.Sprint("new", i), 10)
				r.append("old", 10+i)
				r.turn(time.Second)
				if err := r.log.Stats().Failed; !errors.Is(err, syscall.EIO) || r.acked != 1 {
					t.Fatalf("try %d: got %v, %d durable, want an I/O error and 1", i, err, r.acked)
				}
			}
			if r.heard[Failed] != 1 || r.heard[Back] != 0 {
				t.Errorf("heard %v, want one failure", r.heard)
			}
			for range 4 {
				r.turn(2 * time.Second)
			}
			if s := r.log.Stats(); s.Failed != nil || r.acked != 7 || r.heard[Back] != 1 {
				t.Errorf("got %+v, heard %v, want all written", s, r.heard)
			}
			r.fs = r.fs.afterCrash()
			r.open()
			r.check()
		})
	}
}

// A process that has run out of descriptors for a moment compacts its log
// later as if nothing had been.
func TestCompactionWaitsForDescriptors(t *testing.T) {
	fs := newFake(1)
	r := newRig(t, fs)
	for i := range 200 {
		r.append(fmt.Sprint("k", i), 200)
	}
	for i := range 200 {
		r.append(fmt.Sprint("k", i), -1)
		if i == 100 {
			for range 100 { // it is compacted, the first time
				r.turn(tidyPause)
			}
			fs.faults = append(fs.faults, fault{op: "open", err: syscall.EMFILE, n: 2})
		}
	}
	for range 100 {
		r.turn(tidyPause)
	}
	if r.heard[Untidy] == 0 {
		t.Fatal("no descriptor was wanting")
	}
	if s := r.log.Stats(); s.SizeBytes > 2*segmentMin {
		t.Errorf("%d bytes in %d segments are kept of nothing", s.SizeBytes, s.Segments)
	}
	r.check()
}

// While a disk fails, of each key only the last entry is kept.
func TestBacklogIsBounded(t *testing.T) {
	fs := newFake(1)
	fs.room = 0
	r := newRig(t, fs)
	for i := range 20 * shrinkFrom {
		if _, err := appendNext(r.log, Entry{fmt.Sprint("k", i%100), []byte{1}}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			r.turn(time.Second)
		}
	}
	if n := r.log.Stats().Waiting; n > shrinkFrom {
		t.Errorf("%d entries wait, want at most %d", n, shrinkFrom)
	}
}
