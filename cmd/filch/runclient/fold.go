package runclient

import (
	"sync"
	"time"

	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// foldEvery is the time between two looks for lines that have waited long enough for other
// ranks.
const foldEvery = 100 * time.Millisecond

// folding joins equal lines of the ranks.
type folding struct {
	mu   sync.Mutex // guards all below
	fold *output.Fold
	due  *time.Timer // nil: no line waits
	err  error       // of a line that left later
	over bool
}

func newFolding(size int32, write func(stream uint8, line []byte) error) *folding {
	return &folding{fold: output.NewFold(size, write)}
}

func (f *folding) setSize(size int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fold.SetSize(size)
}

// add adds a piece of a rank.
func (f *folding) add(o wire.Output) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	err := f.fold.Add(time.Now(), o.Rank, o.Stream, o.Data)
	if err == nil {
		err = f.err
	}
	f.wait()
	return err
}

// wait looks again later, if a line waits.
func (f *folding) wait() {
	if f.due != nil || f.over || !f.fold.Waits() {
		return
	}
	f.due = time.AfterFunc(foldEvery, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.due = nil; f.over {
			return
		}
		if err := f.fold.Expire(time.Now()); err != nil && f.err == nil {
			f.err = err
		}
		f.wait()
	})
}

// close writes the lines that wait.
func (f *folding) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.due != nil {
		f.due.Stop()
	}
	return f.fold.Flush()
}
