package daemon

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

func jobRecord(n int32, size int) launcher.Record {
	return launcher.Record{Key: fmt.Sprintf("job/%d", n), Job: &launcher.JobRecord{
		Job: filch.JobID(n), Attempt: 1, Request: launcher.Request{Name: "r", Order: bytes.Repeat([]byte{1}, size)},
	}}
}

func openTest(t *testing.T, dir string) *store {
	t.Helper()
	s, err := openStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.close() })
	return s
}

func put(t *testing.T, s *store, r launcher.Record) {
	t.Helper()
	if err := s.put(&r); err != nil {
		t.Fatal(err)
	}
}

func keys(t *testing.T, dir string) []string {
	t.Helper()
	s := openTest(t, dir)
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
	dir := t.TempDir()
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 10))
	put(t, s, jobRecord(2, 10))
	put(t, s, launcher.Record{Key: "job/1"})
	put(t, s, launcher.Record{Key: "job/9"}) // never was
	put(t, s, launcher.Record{Key: "ids", IDs: &launcher.JobIDs{Round: 4}})
	put(t, s, launcher.Record{Key: "ids", IDs: &launcher.JobIDs{Round: 5}})
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	s = openTest(t, dir)
	all, err := s.load()
	if err != nil {
		t.Fatal(err)
	}
	want := []launcher.Record{jobRecord(2, 10), {Key: "ids", IDs: &launcher.JobIDs{Round: 5}}}
	if d := cmp.Diff(want, all); d != "" {
		t.Error(d)
	}
}

// A launcher that is killed while it writes leaves part of an entry.
func TestStoreSurvivesEveryCut(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 20))
	whole := s.size
	put(t, s, jobRecord(2, 20))
	all, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := int(whole); cut < len(all); cut++ {
		sub := filepath.Join(dir, fmt.Sprint(cut))
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, "records"), all[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, sub)
		got, err := s.load()
		if len(got) != 1 || (err == nil) != (cut == int(whole)) {
			t.Fatalf("cut at %d: got %d records, %v", cut, len(got), err)
		}
		put(t, s, jobRecord(3, 5))
		if got := keys(t, sub); len(got) != 2 {
			t.Fatalf("cut at %d, then one more: got %v", cut, got)
		}
	}
}

func TestStoreSkipsADamagedRecord(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 50))
	put(t, s, jobRecord(2, 50))
	all, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	all[entryHead+10] ^= 0xff
	if err := os.WriteFile(s.path, all, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, dir); len(got) != 1 || got[0] != "job/2" {
		t.Errorf("got %v, want job/2 alone", got)
	}
}

func TestStoreStaysSmall(t *testing.T) {
	dir := t.TempDir()
	s := openTest(t, dir)
	put(t, s, jobRecord(1, 100))
	for i := range int32(2000) {
		put(t, s, jobRecord(i+2, 10000))
		put(t, s, launcher.Record{Key: fmt.Sprintf("job/%d", i+2)})
	}
	if s.size > 2*compactAbove {
		t.Errorf("got %d bytes, want at most %d", s.size, 2*compactAbove)
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if got := keys(t, dir); len(got) != 1 || got[0] != "job/1" {
		t.Errorf("got %v, want job/1 alone", got)
	}
}

func FuzzStore(f *testing.F) {
	s, err := openStore(f.TempDir())
	if err != nil {
		f.Fatal(err)
	}
	r := jobRecord(1, 20)
	if err := s.put(&r); err != nil {
		f.Fatal(err)
	}
	b, err := os.ReadFile(s.path)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "records"), b, 0o600); err != nil {
			t.Fatal(err)
		}
		s := openTest(t, dir)
		_, _ = s.load()
		put(t, s, jobRecord(7, 1))
		if slices.Contains(keys(t, dir), "job/7") {
			return
		}
		t.Error("a record that was put after a damaged file is gone")
	})
}
