package daemon

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/dht/disk"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/wire"
)

func jobRecord(n int32, size int) launcher.Record {
	return launcher.Record{Key: fmt.Sprintf("job/%d", n), Job: &launcher.JobRecord{
		Job: filch.JobID(n), Attempt: 1, Request: launcher.Request{Name: "r", Order: bytes.Repeat([]byte{1}, size)},
	}}
}

func openTest(t *testing.T, dir string) *recordLog {
	t.Helper()
	s, err := openRecords(dir, func(r disk.Report) { t.Log(r) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s
}

// segmentOf is the one file of records in a directory.
func segmentOf(t testing.TB, dir string) (name string, raw []byte) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil || len(names) != 1 {
		t.Fatalf("got the segments %v, %v, want one", names, err)
	}
	raw, err = os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(names[0]), raw
}

func put(t *testing.T, s *recordLog, r launcher.Record) {
	t.Helper()
	if err := s.put(&r); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, dir string) []string {
	t.Helper()
	s := openTest(t, dir)
	defer s.close()
	all, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	got := []string{}
	for _, r := range all {
		got = append(got, r.Key)
	}
	return got
}

func TestStoreKeepsTheLastOfEachKey(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 10))
	put(t, s, jobRecord(2, 10))
	put(t, s, launcher.Record{Key: "job/1"})
	put(t, s, launcher.Record{Key: "job/9"}) // never was
	put(t, s, jobRecord(2, 20))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir)
	all, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	want := []launcher.Record{jobRecord(2, 20)}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
}

// The record of job ids that earlier builds kept is dropped without a word.
func TestStoreDropsTheIDsOfEarlierBuilds(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 50))
	type ids struct{ Index, Stride, Round, After int32 }
	old, err := wire.Marshal(struct {
		Key       string
		Job, Part *int
		IDs       *ids
	}{Key: "ids", IDs: &ids{1, 4096, 5, 0}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.append(disk.Entry{Key: "ids", Value: old}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, dir)
		if got, err := s.load(); err != nil || len(got) != 1 || got[0].Key != "job/1" {
			t.Errorf("got %v, %v, want job/1 alone", got, err)
		}
		if _, there := s.keys["ids"]; there {
			t.Error("the record is still there")
		}
	}
}

// A launcher that is killed while it writes leaves part of an entry.
func TestStoreSurvivesEveryCut(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 20))
	_, raw := segmentOf(t, dir)
	whole := len(raw)
	put(t, s, jobRecord(2, 20))
	name, all := segmentOf(t, dir)
	for cut := whole; cut < len(all); cut++ {
		sub := filepath.Join(dir, fmt.Sprint(cut))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, name), all[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, sub)
		got, err := s.load()
		if len(got) != 1 || (err == nil) != (cut == whole) {
			t.Fatalf("cut at %d: got %d records, %v", cut, len(got), err)
		}
		put(t, s, jobRecord(3, 5))
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
		if got := keys(t, sub); len(got) != 2 {
			t.Fatalf("cut at %d, then one more: got %v", cut, got)
		}
	}
}

func TestStoreSkipsADamagedRecord(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 50))
	put(t, s, jobRecord(2, 50))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	name, all := segmentOf(t, dir)
	all[40] ^= 0xff
	if err := os.WriteFile(filepath.Join(dir, name), all, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir)
	got, err := s.load()
	if len(got) != 1 || got[0].Key != "job/2" || err == nil {
		t.Errorf("got %v, %v, want job/2 alone and a word about the damage", got, err)
	}
}

func TestStoreDropsWhatItCannotDecode(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 50))
	if err := s.append(disk.Entry{Key: "job/2", Value: []byte{0xdd, 0xff, 0xff, 0xff, 0xff}}); err != nil {
		t.Fatal(err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir)
	if got, err := s.load(); len(got) != 1 || err == nil {
		t.Errorf("got %v, %v, want one record and an error", got, err)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, dir); len(got) != 1 || got[0] != "job/1" {
		t.Errorf("got %v, want job/1 alone", got)
	}
}

func TestStoreStaysSmall(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 100))
	for i := range int32(2000) {
		put(t, s, jobRecord(i+2, 10000))
		put(t, s, launcher.Record{Key: fmt.Sprintf("job/%d", i+2)})
	}
	end := time.Now().Add(20 * time.Second)
	size := func() int64 { return s.log.(*disk.Log).Stats().SizeBytes }
	for size() > 2*recordsChunk {
		if time.Now().After(end) {
			t.Fatalf("got %d bytes, want at most %d", size(), 2*recordsChunk)
		}
		time.Sleep(time.Millisecond)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, dir); len(got) != 1 || got[0] != "job/1" {
		t.Errorf("got %v, want job/1 alone", got)
	}
}

// memory is a journal without a disk.
type memory map[string][]byte

func (m memory) Append(_ uint64, entries ...disk.Entry) error {
	for _, e := range entries {
		if m[e.Key] = e.Value; e.Value == nil {
			delete(m, e.Key)
		}
	}
	return nil
}

func (m memory) Each(yield func(key string, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if err := yield(key, m[key]); err != nil {
			return err
		}
	}
	return nil
}

func (m memory) Flush() error { return nil }
func (m memory) Close() error { return nil }

// Whatever a record holds, it keeps no launcher from starting, nor later
// records from being kept.
func FuzzStore(f *testing.F) {
	r := jobRecord(1, 2)
	b, err := wire.Marshal(&r)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		log := memory{"job/1": b}
		s := &recordLog{log: log, keys: map[string]struct{}{}}
		first, _ := s.load()
		put(t, s, jobRecord(7, 1))
		s = &recordLog{log: log, keys: map[string]struct{}{}}
		all, err := s.load()
		if err != nil {
			t.Errorf("a strange record is still there in the next life: %v", err)
		}
		if len(all) != len(first)+1 || all[len(all)-1].Key != "job/7" {
			t.Errorf("got %d records and then %d: want one more, job/7, which was put after a strange one", len(first), len(all))
		}
	})
}
