package history

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"io"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/filch-hpc/filch"
)

// Damage counts the unreadable parts of a history.
type Damage struct {
	Files int
	Lines int // torn or damaged
}

// key names an attempt of a job.
type key struct {
	uuid    string
	job     filch.JobID
	attempt filch.Attempt
}

// Read reads the files of a folder: the entries with an end at or after since, in Unix
// nanoseconds, and accepted by take, in the order of their ends. Each attempt has one entry:
// the last, since a node may take a job over and record the end a second time. A missing
// folder is empty.
func Read(dir string, since int64, take func(*Entry) bool) ([]Entry, Damage, error) {
	list, err := files(dir)
	if err != nil {
		return nil, Damage{}, err
	}
	var damage Damage
	found := map[key]Entry{}
	for _, f := range list {
		if f.at.Add(timesDiffer).UnixNano() < since {
			continue // nothing was written since
		}
		err := readFile(f.path, func(line []byte) {
			e, ok := decode(line)
			switch k := (key{e.UUID, e.Job.ID, e.Job.Attempt}); {
			case !ok:
				damage.Lines++
			case e.Ended < since || !take(&e):
			case found[k].later(&e):
			default:
				found[k] = e
			}
		})
		if err != nil {
			damage.Files++
		}
	}
	all := make([]Entry, 0, len(found))
	for _, e := range found { // in any order: sorted below
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Ended, b.Ended), cmp.Compare(a.UUID, b.UUID), cmp.Compare(a.Job.ID, b.Job.ID), cmp.Compare(a.Job.Attempt, b.Job.Attempt))
	})
	return all, damage, nil
}

// timesDiffer bounds how much the time of a file is behind the clock of its writer: the kernel
// rounds, and a file server has a clock of its own.
const timesDiffer = 10 * time.Minute

// later reports whether a says more about the attempt than b: an end counts more than
// another attempt, and a later line more than an earlier line.
func (a Entry) later(b *Entry) bool {
	switch {
	case a.UUID == "":
		return false
	case a.Again != b.Again:
		return !a.Again
	}
	return a.Ended > b.Ended
}

func readFile(path string, take func(line []byte)) error {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return readLines(f, take)
}

// readLines hands out all lines but empty lines; too long a line is cut, and makes no sense.
// Empty lines separate a torn line from the lines written next.
func readLines(from io.Reader, take func(line []byte)) error {
	in := bufio.NewReaderSize(from, 32<<10)
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		if len(line) <= maxLine {
			line = append(line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if line = bytes.TrimSuffix(line, []byte("\n")); len(line) > 0 {
			take(line)
		}
		line = line[:0]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
