package mirror

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/config/place"
	"github.com/filch-hpc/filch/mtc"
)

// Queue is the folder of a queue.
type Queue string

// Names in such a folder, beside the files of the writers.
const (
	closedName = "closed" // nothing that runs once is started any more
	nextName   = "next"   // INSTANCE/UUID of the queue that goes on
	prevName   = "prev"   // the same of the queue that this one goes on with
	suffix     = ".lines"
	baseName   = "0" + suffix // what the queue began with
)

// maxChain bounds the queues that went on with one another and are followed.
const maxChain = 10_000

// Of is the queue of an instance.
func Of(home place.Home, uuid string) Queue { return Queue(filepath.Join(home.Queues(), uuid)) }

// Make makes the folder.
func (q Queue) Make() error {
	if err := os.MkdirAll(string(q), 0o700); err != nil {
		return filch.Errorf(filch.Invalid, "cannot keep the queue in %s: %s", q, err.Error())
	}
	return nil
}

func (q Queue) file(name string) string { return filepath.Join(string(q), name) }

// Latest is the queue of an instance that may go on: the one that was made last
// of those that no other goes on with, or the one at the end of those that did.
func Latest(home place.Home) (Queue, error) {
	none := filch.Errorf(filch.NotFound, "%s has no queue that can go on", filepath.Base(string(home))).
		WithHint("a queue is kept for instances in a Slurm or PBS job, and of filch up --mirror; %s has them", home.Queues())
	list, err := os.ReadDir(home.Queues())
	if err != nil {
		return "", none
	}
	var last Queue
	var made fs.FileInfo
	for _, e := range list {
		q := Queue(filepath.Join(home.Queues(), e.Name()))
		info, err := os.Stat(string(q))
		if err != nil || !info.IsDir() {
			continue
		}
		over, had := q.Next() == "", made != nil && last.Next() == ""
		if made == nil || over && !had || over == had && info.ModTime().After(made.ModTime()) {
			last, made = q, info
		}
	}
	for range maxChain {
		if last == "" || last.Next() == "" {
			break
		}
		last = last.Next()
	}
	if last == "" {
		return "", none
	}
	if _, err := os.Stat(string(last)); err != nil {
		return "", none
	}
	return last, nil
}

// Next is the queue that goes on with this one, "" while none does.
func (q Queue) Next() Queue { return q.named(nextName) }

// named is the queue that a file names, "" without it.
func (q Queue) named(name string) Queue {
	b, err := os.ReadFile(q.file(name))
	if err != nil {
		return ""
	}
	instance, uuid, ok := strings.Cut(strings.TrimSpace(string(b)), "/")
	if !ok || place.CheckInstance(instance) != nil || !place.ValidName(uuid) {
		return ""
	}
	root := filepath.Dir(filepath.Dir(filepath.Dir(string(q))))
	return Of(place.Home(filepath.Join(root, instance)), uuid)
}

// Instance is the name of the queue's instance.
func (q Queue) Instance() string { return filepath.Base(filepath.Dir(filepath.Dir(string(q)))) }

// Writer is the name of a file whose launcher lives, "" where none is known to.
func (q Queue) Writer() string {
	files, _ := filepath.Glob(q.file("*" + suffix))
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
		_ = f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return filepath.Base(name)
		}
	}
	return ""
}

// Closed reports whether somebody goes on with the queue, or is about to.
func (q Queue) Closed() bool {
	_, err := os.Lstat(q.file(closedName))
	return !errors.Is(err, fs.ErrNotExist)
}

// Close closes the queue.
func (q Queue) Close() error {
	f, err := os.OpenFile(q.file(closedName), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot close the queue of %s: %s", q.Instance(), err.Error())
	}
	return syncDir(string(q))
}

// HandOver says that next goes on with the queue; an error if another does.
func (q Queue) HandOver(next Queue) error {
	f, err := os.CreateTemp(string(q), ".next-*")
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot write to the queue of %s: %s", q.Instance(), err.Error())
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString(next.words())
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Link(f.Name(), q.file(nextName))
	}
	if err != nil && q.Next() == next { // the answer was lost, as NFS does
		err = nil
	}
	if other := q.Next(); err != nil && other != "" {
		return filch.Errorf(filch.Busy, "%s goes on with the queue of %s already", other.Instance(), q.Instance()).
			WithHint("filch up --resume %s goes on with that", other.Instance())
	}
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot hand over the queue of %s: %s", q.Instance(), err.Error())
	}
	return syncDir(string(q))
}

// Drop takes away the lines of a queue that was handed over.
func (q Queue) Drop() {
	files, _ := filepath.Glob(q.file("*" + suffix))
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// words name the queue.
func (q Queue) words() string { return q.Instance() + "/" + filepath.Base(string(q)) + "\n" }

// Remove takes away a queue in which nothing is left to be done, with those
// that it went on with.
func (q Queue) Remove() {
	for range maxChain {
		prev := q.named(prevName)
		_ = os.RemoveAll(string(q))
		_ = os.Remove(filepath.Dir(string(q)))               // fails while another is there
		_ = os.Remove(filepath.Dir(filepath.Dir(string(q)))) // while there is an instance
		if prev == "" || prev.Next() != q {
			return
		}
		q = prev
	}
}

// Begin writes what the queue begins with, all that is left of prev, whole or
// not at all.
func (q Queue) Begin(prev Queue, lines []byte) error {
	err := place.WritePrivate(q.file(prevName), []byte(prev.words()))
	if err == nil {
		err = place.WritePrivate(q.file(baseName), lines)
	}
	if err == nil {
		var f *os.File
		if f, err = os.Open(q.file(baseName)); err == nil {
			err = errors.Join(f.Sync(), f.Close(), syncDir(string(q)))
		}
	}
	return err
}

func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	_ = f.Sync() // not every file system has it
	return nil
}

// Damage counts what could not be read.
type Damage struct {
	Files int // that could not be opened or read to their end
	Lines int // torn or damaged
	First string
}

// Read reads all files of a queue. What is damaged is passed over.
func (q Queue) Read() (*mtc.Remains, Damage) {
	m, d := mtc.NewRemains(), Damage{}
	files, _ := filepath.Glob(q.file("*" + suffix))
	for _, name := range files {
		if err := readFile(m, name, &d); err != nil {
			d.Files++
			d.note(name, err.Error())
		}
	}
	return m, d
}

func (d *Damage) note(name, what string) {
	if d.First == "" {
		d.First = filepath.Base(name) + ": " + what
	}
}

func readFile(m *mtc.Remains, name string, d *Damage) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return readLines(m, f, func(n int) {
		d.Lines++
		d.note(name, fmt.Sprintf("line %d", n))
	})
}

// readLines takes all lines that make sense; bad is told the number of each
// other one. Empty lines separate what was torn from what was written after it.
func readLines(m *mtc.Remains, from io.Reader, bad func(n int)) error {
	in := bufio.NewReaderSize(from, 1<<16)
	var line []byte
	for n, long := 1, false; ; {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > mtc.MaxMirrorLine+1 {
			long, line = true, line[:0]
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); (len(line) > 0 || long) && (long || !m.Take(line)) {
			bad(n)
		}
		line, long = line[:0], false
		n++
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
