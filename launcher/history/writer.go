package history

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Limits of a writer.
const (
	maxWaiting = 1 << 20                // bytes of waiting lines
	gather     = 100 * time.Millisecond // between two writes
	tryAgain   = 5 * time.Second        // after a failure
	tellEvery  = 10 * time.Second       // between two reports of losses
	silent     = 10 * time.Second       // a write without an answer for so long is told of
)

// suffix ends the names of the files.
const suffix = ".jobs"

// Writer appends entries to the file of a launcher, from a goroutine of its own. The first
// entry makes the folder and the file.
type Writer struct {
	dir, name string
	tell      func(lost int, why error)
	gather    time.Duration
	again     time.Duration
	silent    time.Duration

	wake chan struct{}

	mu    sync.Mutex // guards the fields below
	lines []byte
	count int    // of lines
	lost  int    // entries without space, not reported yet
	fault string // why the waiting lines are not written; "": no write has failed

	// The goroutine's.
	file *os.File
	size int64
	nth  int
	torn bool // the last write may have left half a line
	told time.Time
	why  error // the last failure
}

// NewWriter makes the writer of a file in dir; name distinguishes the launcher from all
// others. The writer's goroutine calls tell with the number of lost entries since the last
// call and the reason; and once with 0 when writing begins to fail, or the file system begins
// to be silent.
func NewWriter(dir, name string, tell func(lost int, why error)) *Writer {
	return &Writer{dir: dir, name: name, tell: tell, gather: gather, again: tryAgain, silent: silent, wake: make(chan struct{}, 1)}
}

// Add queues an entry and never waits: without space in the queue, the entry is lost.
func (w *Writer) Add(e *Entry) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, err := w.lines, error(nil)
	if len(lines) < maxWaiting {
		lines, err = e.AppendTo(lines)
	}
	if err != nil || len(lines) > maxWaiting || len(lines) == len(w.lines) {
		w.lost++
	} else {
		w.lines, w.count = lines, w.count+1
	}
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// Unwritten returns the number of entries that are not on disk, but for those reported as lost,
// and the reason; "" is none.
func (w *Writer) Unwritten() (n int, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.count + w.lost, w.fault
}

// Run writes until ctx ends, and then the rest, once. Run may never return: a process cannot
// interrupt a file system that hangs.
func (w *Writer) Run(ctx context.Context) {
	defer func() {
		if w.file != nil {
			_ = w.file.Close()
		}
	}()
	timer := time.NewTimer(0)
	<-timer.C
	defer timer.Stop()
	var wrote time.Time
	for {
		select {
		case <-w.wake:
		case <-ctx.Done():
			w.last()
			return
		}
		// An end after a pause is written at once: the next command of a script may look for it.
		wait := max(w.gather-time.Since(wrote), 0)
		for {
			timer.Reset(wait)
			select {
			case <-timer.C:
			case <-ctx.Done():
				w.last()
				return
			}
			err := w.attempt()
			w.report(err)
			if err == nil {
				wrote = time.Now()
				break
			}
			wait = w.again
		}
	}
}

// attempt writes the waiting lines, and tells of a file system that does not answer meanwhile.
// Of the goroutine's fields, the write changes those of the file, and a report the others.
func (w *Writer) attempt() error {
	done := make(chan error, 1)
	go func() { done <- w.write() }()
	began, timer := time.Now(), time.NewTimer(w.silent)
	defer timer.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-timer.C:
			w.report(fmt.Errorf("the file system of %s has not answered for %s", w.dir, time.Since(began).Round(time.Second)))
			timer.Reset(w.silent)
		}
	}
}

// last writes the rest; after a failure the rest is lost.
func (w *Writer) last() {
	err := w.write()
	if err != nil {
		w.mu.Lock()
		w.lost += w.count
		w.mu.Unlock()
	}
	w.told = time.Time{}
	w.report(err)
}

// report tells of a first failure, and of losses.
func (w *Writer) report(err error) {
	w.mu.Lock()
	lost := w.lost
	if w.fault = ""; err != nil {
		w.fault = err.Error()
	}
	w.mu.Unlock()
	fresh := err != nil && w.why == nil
	if err != nil {
		w.why = err
	}
	why := w.why
	if why == nil {
		why = errors.New("too many jobs ended at a time")
	}
	if err == nil {
		w.why = nil
	}
	if !fresh && (lost == 0 || time.Since(w.told) < tellEvery) {
		return
	}
	w.told = time.Now()
	w.mu.Lock()
	w.lost -= lost
	w.mu.Unlock()
	w.tell(lost, why)
}

// write writes the waiting lines.
func (w *Writer) write() error {
	w.mu.Lock()
	lines, count := w.lines, w.count
	w.mu.Unlock()
	if len(lines) == 0 {
		return nil
	}
	if err := w.append(lines); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lines, w.count = w.lines[len(lines):], w.count-count; len(w.lines) == 0 {
		w.lines = nil
	}
	return nil
}

func (w *Writer) append(lines []byte) (err error) {
	if w.file != nil && w.size > 0 && w.size+int64(len(lines)) > maxFile {
		_ = w.file.Close()
		w.file, w.nth = nil, w.nth+1
	}
	if w.file == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if w.torn {
		_, err = w.file.Write([]byte{'\n'})
	}
	if err == nil {
		w.torn = true
		_, err = w.file.Write(lines)
	}
	if err == nil {
		err = w.file.Sync()
	}
	if err != nil { // a file that failed once may hide later errors
		err = errors.Join(err, w.file.Close())
		w.file = nil
		return err
	}
	w.torn = false
	w.size += int64(len(lines))
	return nil
}

// open makes the folder and the file, and removes old files.
func (w *Writer) open() error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return err
	}
	name := w.name
	if w.nth > 0 {
		name = fmt.Sprintf("%s+%d", name, w.nth)
	}
	f, err := os.OpenFile(filepath.Join(w.dir, name+suffix), os.O_CREATE|os.O_WRONLY|os.O_APPEND|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", f.Name())
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file, w.size = f, info.Size()
	prune(w.dir, name+suffix)
	return nil
}

// file is a file of the folder.
type file struct {
	path string
	size int64
	at   time.Time
}

// files lists the files of a folder, the oldest first.
func files(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var list []file
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffix) {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			list = append(list, file{filepath.Join(dir, e.Name()), info.Size(), info.ModTime()})
		}
	}
	slices.SortFunc(list, func(a, b file) int {
		if c := a.at.Compare(b.at); c != 0 {
			return c
		}
		return strings.Compare(a.path, b.path)
	})
	return list, err
}

// prune removes the oldest files beyond the limits, but not the file own.
func prune(dir, own string) {
	list, _ := files(dir)
	total := int64(0)
	for i := range list {
		total += list[i].size
	}
	for n := len(list); len(list) > 0 && (n > maxFiles || total > maxAll); list = list[1:] {
		if filepath.Base(list[0].path) == own {
			continue
		}
		if os.Remove(list[0].path) == nil {
			n, total = n-1, total-list[0].size
		}
	}
}
