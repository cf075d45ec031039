package mirror

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc/queue"
	"github.com/filch-hpc/filch/mtc/record"
)

func made(t *testing.T, root, instance, uuid string) Queue {
	t.Helper()
	q := Of(place.Home(filepath.Join(root, instance)), uuid)
	if err := q.Make(); err != nil {
		t.Fatal(err)
	}
	return q
}

// jobLines say all of a bag without an end.
func jobLines(id filch.JobID) []byte {
	b := queue.AppendLine(nil, record.KeyJob(id), (&record.Job{Total: 9, Closed: true}).Encode())
	return queue.AppendLine(b, record.KeySpec(id), (&record.Spec{}).Encode())
}

func TestReadPassesOverDamage(t *testing.T) {
	q := made(t, t.TempDir(), "a", "u")
	good := jobLines(1)
	flipped := jobLines(2)
	flipped[len(flipped)/2] ^= 4
	long := bytes.Repeat([]byte("x"), queue.MaxLine+100)
	for name, b := range map[string][]byte{
		"n1.lines": append(bytes.Clone(good), good[:20]...),                                // torn
		"n2.lines": append(append(append(good[:20:20], '\n'), jobLines(3)...), flipped...), // torn, and gone on
		"n3.lines": append(append(append(bytes.Clone(long), '\n'), '\n'), jobLines(4)...),  // no line at all
		"n4.other": []byte("nonsense\n"),
		"n5.lines": nil,
	} {
		if err := os.WriteFile(q.file(name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m, d := q.Read()
	var ids []filch.JobID
	for _, r := range m.Jobs() {
		ids = append(ids, r.ID)
		if r.ID != 2 && !r.Whole() {
			t.Errorf("job %d is not whole", r.ID)
		}
	}
	if fmt.Sprint(ids) != "[1 2 3 4]" && fmt.Sprint(ids) != "[1 3 4]" {
		t.Errorf("jobs %v are read", ids)
	}
	if d.Files != 0 || d.Lines != 4 || d.First == "" {
		t.Errorf("damage %+v, want 4 lines: two torn, one flipped, one too long", d)
	}
}

func TestOneGoesOn(t *testing.T) {
	root := t.TempDir()
	old := made(t, root, "old", "u0")
	var wait sync.WaitGroup
	won := make([]error, 8)
	for i := range won {
		q := made(t, root, fmt.Sprintf("new%d", i), "u1")
		wait.Go(func() {
			won[i] = errors.Join(old.Close(), q.Begin(old, jobLines(1)))
			if won[i] == nil {
				won[i] = old.HandOver(q)
			}
		})
	}
	wait.Wait()
	winner := -1
	for i, err := range won {
		if err == nil && winner >= 0 {
			t.Fatalf("%d and %d both go on", winner, i)
		}
		if err == nil {
			winner = i
		}
	}
	if winner < 0 {
		t.Fatalf("nobody goes on: %v", won)
	}
	want := Of(place.Home(filepath.Join(root, fmt.Sprintf("new%d", winner))), "u1")
	last, err := Latest(place.Home(filepath.Join(root, "old")))
	if err != nil || last != want || last.Instance() != fmt.Sprintf("new%d", winner) {
		t.Fatalf("the latest is %s (%v), want %s", last, err, want)
	}
	if again := old.HandOver(want); again != nil {
		t.Errorf("said again it is refused: %v", again)
	}
	old.Drop()
	want.Remove()
	if _, err := os.Stat(filepath.Join(root, "old")); !os.IsNotExist(err) {
		t.Errorf("the folder of the first one is still there: %v", err)
	}
	if _, err := Latest(place.Home(filepath.Join(root, "old"))); err == nil {
		t.Error("a queue in which nothing is left is found")
	}
}

// wrote is what a Writer told.
type wrote struct {
	mu     sync.Mutex // guards what follows
	upto   uint64
	closed bool
	failed int
	lost   int
}

func (w *wrote) config() Config {
	return Config{
		SlowAfter: time.Hour, Slow: func() { panic("a file system that answers is called slow") },
		Synced: func(upto uint64, closed bool) { w.set(func() { w.upto, w.closed = upto, closed }) },
		Failed: func(error) { w.set(func() { w.failed++ }) },
		Lost:   func() { w.set(func() { w.lost++ }) },
	}
}

func (w *wrote) set(f func()) { w.mu.Lock(); f(); w.mu.Unlock() }

func (w *wrote) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
		is := false
		if w.set(func() { is = ok() }); is {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("no end of the wait for %s: %+v", what, w)
		}
	}
}

func TestWriterTriesAgainAndSeesTheFence(t *testing.T) {
	root := t.TempDir()
	q := Of(place.Home(filepath.Join(root, "a")), "u")
	heard := &wrote{}
	w := NewWriter(q, "n1-1", heard.config())
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	n := w.Add(jobLines(1), true) // there is no folder yet
	heard.until(t, "a failure", func() bool { return heard.failed > 0 && heard.upto == 0 })
	if err := q.Make(); err != nil {
		t.Fatal(err)
	}
	heard.until(t, "the first lines", func() bool { return heard.upto == n && !heard.closed })
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	n = w.Add(jobLines(2), false)
	heard.until(t, "the fence", func() bool { return heard.upto == n && heard.closed })
	w.Add(jobLines(3), true)
	if got := q.Writer(); got != "n1-1.lines" {
		t.Errorf("%q is said to be written, want n1-1.lines", got)
	}
	stop()
	<-ended
	if busy := w.Busy(); busy != 0 {
		t.Errorf("the file system is said to be at work for %v, and all is written", busy)
	}
	if got := q.Writer(); got != "" {
		t.Errorf("%q is said to be written, and nobody is", got)
	}
	m, d := q.Read()
	if len(m.Jobs()) != 3 || d != (Damage{}) {
		t.Errorf("%d jobs are read, with %+v; want 3", len(m.Jobs()), d)
	}
}

func TestWriterDropsWhatCanBeSaidAgain(t *testing.T) {
	q := Of(place.Home(filepath.Join(t.TempDir(), "a")), "u")
	heard := &wrote{}
	w := NewWriter(q, "n1-1", heard.config())
	some := bytes.Repeat(jobLines(1), 1<<14)
	for range maxWaiting/len(some) + 2 {
		w.Add(some, true)
	}
	n := w.Add(jobLines(2), false)
	if len(w.lines) > maxWaiting+len(some) {
		t.Errorf("%d bytes wait, the most is %d", len(w.lines), maxWaiting)
	}
	if err := q.Make(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	heard.until(t, "all that was taken", func() bool { return heard.upto == n && heard.lost == 1 })
	stop()
	<-ended
	if m, _ := q.Read(); len(m.Jobs()) != 2 {
		t.Errorf("%d jobs are read, want 2: what must not be dropped is not", len(m.Jobs()))
	}
}
