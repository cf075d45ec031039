package history

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func entry(uuid string, job filch.JobID, attempt filch.Attempt, ended int64) *Entry {
	code := int32(0)
	return &Entry{
		Version: Version, Instance: "a-b", UUID: uuid, Ended: ended,
		Job: launcher.JobInfo{ID: job, Name: fmt.Sprintf("j%d", job), State: "ok", Code: &code, Attempt: attempt},
	}
}

// running is a Writer that runs.
type running struct {
	*Writer
	t    *testing.T
	stop context.CancelFunc
	over chan struct{}

	mu    sync.Mutex // guards what follows
	lost  int
	tells int
	why   error
}

func start(t *testing.T, dir, name string, again time.Duration) *running {
	t.Helper()
	r := newRunning(t, dir, name, again)
	r.begin()
	return r
}

func newRunning(t *testing.T, dir, name string, again time.Duration) *running {
	r := &running{t: t, over: make(chan struct{})}
	r.Writer = NewWriter(dir, name, func(lost int, why error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lost, r.tells, r.why = r.lost+lost, r.tells+1, why
	})
	r.gather, r.again = time.Millisecond, again
	return r
}

func (r *running) begin() {
	ctx, stop := context.WithCancel(r.t.Context())
	r.stop = stop
	go func() { defer close(r.over); r.Run(ctx) }()
	r.t.Cleanup(r.end)
}

func (r *running) end() { r.stop(); <-r.over }

func (r *running) losses() (lost, tells int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lost, r.tells
}

func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.t.Fatalf("no end of the wait for %s", what)
		}
	}
}

func all(*Entry) bool { return true }

func read(t *testing.T, dir string, since int64) ([]Entry, Damage) {
	t.Helper()
	list, d, err := Read(dir, since, all)
	if err != nil {
		t.Fatal(err)
	}
	return list, d
}

func TestHistoryIsJoined(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	if list, d := read(t, dir, 0); len(list) > 0 || d != (Damage{}) {
		t.Errorf("a folder that is not there has %v, %+v", list, d)
	}
	a, b := start(t, dir, "n1", time.Second), start(t, dir, "n2", time.Second)
	a.Add(entry("u1", 1, 1, 10))
	b.Add(entry("u1", 1, 1, 12)) // taken over, and recorded a second time
	b.Add(entry("u2", 1, 1, 11)) // of another instance
	again := entry("u1", 2, 1, 5)
	again.Again = true
	a.Add(again)
	a.Add(entry("u1", 2, 2, 20))
	a.end()
	b.end()
	list, d := read(t, dir, 0)
	var got []string
	for _, e := range list {
		got = append(got, fmt.Sprintf("%s/%d/%d@%d", e.UUID, e.Job.ID, e.Job.Attempt, e.Ended))
	}
	if want := "u1/2/1@5 u2/1/1@11 u1/1/1@12 u1/2/2@20"; strings.Join(got, " ") != want || d != (Damage{}) {
		t.Errorf("got %s with %+v, want %s", strings.Join(got, " "), d, want)
	}
	if list, _ := read(t, dir, 12); len(list) != 2 {
		t.Errorf("%d entries since 12, want 2", len(list))
	}
}

// A job that an attempt's entry and an end's entry disagree about has ended.
func TestTheEndCounts(t *testing.T) {
	dir := t.TempDir()
	w := start(t, dir, "n1", time.Second)
	again := entry("u1", 1, 1, 50)
	again.Again = true
	w.Add(entry("u1", 1, 1, 10))
	w.Add(again)
	w.end()
	if list, _ := read(t, dir, 0); len(list) != 1 || list[0].Again {
		t.Errorf("got %+v", list)
	}
}

// A launcher that cannot write goes on, says so once, and writes when it can.
// The first end after a pause is written at once, and further ends together.
func TestAnEndAfterAPauseIsWrittenAtOnce(t *testing.T) {
	dir := t.TempDir()
	w := NewWriter(dir, "n1", func(int, error) {})
	w.gather = time.Hour
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan struct{})
	go func() { defer close(over); w.Run(ctx) }()
	written := func() int {
		list, _, err := Read(dir, 0, func(*Entry) bool { return true })
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	w.Add(entry("u", 1, 1, 10))
	for deadline := time.Now().Add(10 * time.Second); written() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the first end is not written")
		}
	}
	w.Add(entry("u", 2, 1, 20))
	if n := written(); n != 1 {
		t.Errorf("%d ends are written, want 1: the second waits", n)
	}
	stop()
	<-over
	if n := written(); n != 2 {
		t.Errorf("%d ends are written at the end, want 2", n)
	}
}

func TestWriterTriesAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // a file where the folder should be
		t.Fatal(err)
	}
	w := start(t, dir, "n1", time.Millisecond)
	w.Add(entry("u1", 1, 1, 1))
	w.until("a failure", func() bool { _, tells := w.losses(); return tells == 1 })
	w.Add(entry("u1", 2, 1, 2))
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	w.until("the entries", func() bool { list, _, _ := Read(dir, 0, all); return len(list) == 2 })
	if lost, tells := w.losses(); lost != 0 || tells != 1 {
		t.Errorf("%d entries are lost, told %d times; want none, told once", lost, tells)
	}
}

// The queue of a writer whose file system fails, or hangs, is bounded; Add never waits, and
// each entry is written or counted as lost.
func TestQueueIsBounded(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "h")
	if err := os.WriteFile(dir, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, dir, "n1", time.Hour)
	const total = 20_000
	for i := range total {
		w.Add(entry("u1", filch.JobID(i+1), 1, int64(i)))
	}
	if n := len(w.lines); n > maxWaiting+maxLine {
		t.Errorf("%d bytes wait, the most is %d", n, maxWaiting)
	}
	w.end()
	if lost, _ := w.losses(); lost != total {
		t.Errorf("%d of %d entries are counted as lost", lost, total)
	}
}

// A pipe in place of the file is refused: a writer to a pipe would wait for a reader.
func TestAPipeIsRefused(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "n1"+suffix)
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, dir, "n1", time.Hour)
	w.Add(entry("u1", 1, 1, 1))
	w.until("the refusal of a pipe", func() bool { _, tells := w.losses(); return tells == 1 })
}

func TestFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprintf("old%d%s", i, suffix))
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, maxAll/4); err != nil { // no blocks on the disk
			t.Fatal(err)
		}
		at := time.Unix(int64(i+1), 0)
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	other := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, dir, "n1", time.Second)
	w.Add(entry("u1", 1, 1, 1))
	w.end()
	var left []string
	list, err := files(dir)
	for _, f := range list {
		left = append(left, filepath.Base(f.path))
	}
	if got := strings.Join(left, " "); got != "old1.jobs old2.jobs old3.jobs old4.jobs n1.jobs" || err != nil {
		t.Errorf("left are %s, %v", got, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestALauncherBeginsAnotherFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "n1"+suffix)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := start(t, dir, "n1", time.Second)
	w.Add(entry("u1", 1, 1, 1))
	w.until("the first entry", func() bool { list, _, _ := Read(dir, 0, all); return len(list) == 1 })
	w.end()
	w.file, w.size = nil, 0
	if err := w.open(); err != nil {
		t.Fatal(err)
	}
	w.size = maxFile
	if err := w.append([]byte("x\n")); err != nil {
		t.Fatal(err)
	}
	w.file.Close()
	if b, err := os.ReadFile(filepath.Join(dir, "n1+1"+suffix)); string(b) != "x\n" {
		t.Errorf("the second file has %q, %v", b, err)
	}
}

func TestReadPassesOverDamage(t *testing.T) {
	dir := t.TempDir()
	one, err := entry("u1", 1, 1, 1).AppendTo(nil)
	if err != nil {
		t.Fatal(err)
	}
	two, _ := entry("u1", 2, 1, 2).AppendTo(nil)
	long := append(bytes.Repeat([]byte("x"), 3*maxLine), '\n')
	b := bytes.Join([][]byte{one, one[:20], []byte("\n\n"), long, []byte("{}\n"), two, one[:9]}, nil)
	if err := os.WriteFile(filepath.Join(dir, "n1"+suffix), b, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(dir, "n2"+suffix)); err != nil {
		t.Fatal(err)
	}
	list, d := read(t, dir, 0)
	if len(list) != 2 || d.Lines != 4 || d.Files != 0 {
		t.Errorf("%d entries with %+v, want 2 with 4 damaged lines", len(list), d)
	}
}

func TestLongEntriesAreShortened(t *testing.T) {
	e := entry("u1", 1, 1, 1)
	for i := range 10_000 {
		e.Job.Nodes = append(e.Job.Nodes, filch.NodeName(fmt.Sprintf("node%d", i)))
	}
	b, err := e.AppendTo(nil)
	if err != nil || len(b) > maxLine+1 {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	if got, ok := decode(bytes.TrimSpace(b)); !ok || got.Job.Name != "j1" {
		t.Errorf("got %+v", got)
	}
	e.Job.Name = strings.Repeat("x", 2*maxLine)
	if _, err := e.AppendTo(nil); err == nil {
		t.Error("a line without a limit is written")
	}
}

func FuzzReadLines(f *testing.F) {
	one, _ := entry("u1", 1, 1, 1).AppendTo(nil)
	f.Add(one)
	f.Add([]byte("{\n}\n\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		err := readLines(bytes.NewReader(b), func(line []byte) {
			e, ok := decode(line)
			if !ok {
				return
			}
			again, err := e.AppendTo(nil)
			if err != nil {
				return // longer with escapes
			}
			if _, ok := decode(bytes.TrimSuffix(again, []byte("\n"))); !ok {
				t.Errorf("%q is read, and %q is not", line, again)
			}
		})
		if err != nil {
			t.Error(err)
		}
	})
}
