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
	"github.com/filch-hpc/filch/mtc/queue"
)

// Queue is the folder of a queue.
type Queue string

// Names in such a folder, beside the files of the writers.
const (
	closedName = "closed" // no more starts of run-once tasks
	nextName   = "next"   // INSTANCE/UUID of the queue that continues this queue
	prevName   = "prev"   // INSTANCE/UUID of the queue that this queue continues
	suffix     = ".lines"
	baseName   = "0" + suffix // lines at the beginning of the queue
)

// maxChain bounds the chain of continued queues that Latest and Remove follow.
const maxChain = 10_000

// Of returns the queue of an instance.
func Of(home place.Home, uuid string) Queue { return Queue(filepath.Join(home.Queues(), uuid)) }

// Make makes the folder.
func (q Queue) Make() error {
	if err := os.MkdirAll(string(q), 0o700); err != nil {
		return filch.Errorf(filch.Invalid, "cannot keep the queue in %s: %s", q, err.Error())
	}
	return nil
}

func (q Queue) file(name string) string { return filepath.Join(string(q), name) }

// Latest returns the queue of an instance that may continue: the newest queue without a
// successor, else the queue at the end of a chain of successors.
func Latest(home place.Home) (Queue, error) {
	none := filch.Errorf(filch.NotFound, "%s has no queue to resume", filepath.Base(string(home))).
		WithHint("filch keeps queues of instances in a Slurm or PBS job, and of filch up --mirror, in %s", home.Queues())
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

// Next returns the queue that continues this queue, "" without a successor.
func (q Queue) Next() Queue { return q.named(nextName) }

// named returns the queue named in a file, "" without the file.
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

// Instance returns the name of the queue's instance.
func (q Queue) Instance() string { return filepath.Base(filepath.Dir(filepath.Dir(string(q)))) }

// Writer returns the name of a file whose launcher is alive, "" if none is known to be.
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

// Closed reports whether another instance continues the queue, or is about to.
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

// HandOver makes next the successor of the queue; an error if the queue has another
// successor.
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
	if err != nil && q.Next() == next { // the link succeeded and NFS lost the answer
		err = nil
	}
	if other := q.Next(); err != nil && other != "" {
		return filch.Errorf(filch.Busy, "%s already continues the queue of %s", other.Instance(), q.Instance()).
			WithHint("filch up --resume %s continues that queue", other.Instance())
	}
	if err != nil {
		return filch.Errorf(filch.Unavailable, "cannot hand over the queue of %s: %s", q.Instance(), err.Error())
	}
	return syncDir(string(q))
}

// Drop removes the lines of a queue that was handed over.
func (q Queue) Drop() {
	files, _ := filepath.Glob(q.file("*" + suffix))
	for _, f := range files {
		_ = os.Remove(f)
	}
}

// words returns the text naming the queue in a file.
func (q Queue) words() string { return q.Instance() + "/" + filepath.Base(string(q)) + "\n" }

// Remove removes a finished queue, with its predecessors.
func (q Queue) Remove() {
	for range maxChain {
		prev := q.named(prevName)
		_ = os.RemoveAll(string(q))
		_ = os.Remove(filepath.Dir(string(q)))               // fails with queues left
		_ = os.Remove(filepath.Dir(filepath.Dir(string(q)))) // while there is an instance
		if prev == "" || prev.Next() != q {
			return
		}
		q = prev
	}
}

// Begin writes the first lines of the queue, the rest of prev. Begin writes all lines
// or none.
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
	_ = f.Sync() // not every file system supports syncing a folder
	return nil
}

// Damage counts the unreadable parts of a queue.
type Damage struct {
	Files int // files that could not be opened or read to the end
	Lines int // torn or damaged
	First string
}

// Read reads all files of a queue. Read skips damaged lines and files.
func (q Queue) Read() (*queue.Recovered, Damage) {
	m, d := queue.NewRecovered(), Damage{}
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

func readFile(m *queue.Recovered, name string, d *Damage) error {
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

// readLines takes all valid lines; bad receives the number of each invalid line. Empty
// lines separate a torn line from the lines written next.
func readLines(m *queue.Recovered, from io.Reader, bad func(n int)) error {
	in := bufio.NewReaderSize(from, 1<<16)
	var line []byte
	for n, long := 1, false; ; {
		part, err := in.ReadSlice('\n')
		if line = append(line, part...); len(line) > queue.MaxLine+1 {
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
