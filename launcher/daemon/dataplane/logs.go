package dataplane

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/wire"
)

// logs holds the output of the ranks here of detached jobs, one log for each job.
type logs struct {
	dir string

	mu    sync.Mutex // guards all below
	have  map[filch.JobID]bool
	busy  map[filch.JobID]int             // number of open sinks
	waits map[filch.JobID][]chan struct{} // of readers
}

// newLogs finds the logs of an earlier launcher.
func newLogs(dir string) *logs {
	ls := &logs{dir: dir, have: map[filch.JobID]bool{}, busy: map[filch.JobID]int{}, waits: map[filch.JobID][]chan struct{}{}}
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		digits, _, _ := strings.Cut(e.Name(), ".")
		if n, err := strconv.ParseInt(digits, 10, 32); err == nil {
			ls.have[filch.JobID(n)] = true
		}
	}
	return ls
}

func (ls *logs) path(j filch.JobID) string { return filepath.Join(ls.dir, j.String()) }

func (ls *logs) has(j filch.JobID) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.have[j]
}

// open continues a job's log, or begins a new log.
func (ls *logs) open(j filch.JobID) (*sink, error) {
	l, err := output.OpenLog(ls.path(j))
	if err != nil {
		return nil, err
	}
	ls.mu.Lock()
	ls.have[j] = true
	ls.busy[j]++
	oldest := j
	for k := range ls.have { // in any order: the least id counts
		if ls.busy[k] == 0 { // the job with the least number may run on for days
			oldest = min(oldest, k)
		}
	}
	full := len(ls.have) > maxLogs && oldest != j
	ls.mu.Unlock()
	if full {
		err = ls.remove(oldest)
	}
	ls.wake(j)
	return &sink{log: l, closed: func() { ls.release(j) }, grown: func() { ls.wake(j) }}, err
}

// release notes that a sink of a log was closed.
func (ls *logs) release(j filch.JobID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if ls.busy[j]--; ls.busy[j] == 0 {
		delete(ls.busy, j)
	}
}

// maxLogs bounds the jobs whose output a node keeps; beyond maxLogs the node removes
// the log of the oldest ended job.
const maxLogs = 1000

// remove deletes the log of a forgotten job.
func (ls *logs) remove(j filch.JobID) error {
	ls.mu.Lock()
	had := ls.have[j]
	delete(ls.have, j)
	ls.mu.Unlock()
	if !had {
		return nil
	}
	return output.RemoveLog(ls.path(j))
}

// sink is a job's log, open for writing.
type sink struct {
	mu     sync.Mutex // one writer at a time; the file is local
	log    *output.Log
	closed func()
	grown  func()
}

func (s *sink) append(o wire.Output, attempt filch.Attempt, idle int32) error {
	defer s.grown()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Append(output.Piece{
		Index: o.Index, Offset: o.Offset, Rank: o.Rank, Stream: o.Stream, Partial: o.Partial, Attempt: attempt, Idle: idle, Time: time.Now().UnixMilli(), Data: o.Data,
	})
}

func (s *sink) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed()
	return s.log.Close()
}

// ReadLog returns a part of the output of a detached job's ranks on this node: pieces of
// ranks from first to last, and the place of the following call.
func (rs *Routes) ReadLog(job filch.JobID, first, last filch.Rank, at uint64, limit int) (c wire.OutputChunk, next uint64, err error) {
	// before the log is read; otherwise the last output could be missed
	c.Absent, c.Done = !rs.logs.has(job), rs.find(job) == nil
	c.End = true
	if c.Absent {
		return c, at, nil
	}
	pieces, next, lost, err := output.ReadLog(rs.logs.path(job), at, first, last, limit)
	if err != nil {
		return c, at, err
	}
	for _, o := range pieces {
		limit -= len(o.Data)
		c.Pieces = append(c.Pieces, wire.OutputPiece{Index: int32(o.Rank), Attempt: int32(o.Attempt) - o.Idle, Stream: o.Stream, Partial: o.Partial, Time: o.Time, Data: o.Data})
	}
	c.Lost, c.End = lost, limit > 0
	return c, next, nil
}

// AwaitLog returns a channel that closes when the log of a job grows, or when the job has
// ended here. A call of stop ends the wait.
func (rs *Routes) AwaitLog(job filch.JobID) (news <-chan struct{}, stop func()) {
	ls, ch := rs.logs, make(chan struct{})
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.waits[job] = append(ls.waits[job], ch)
	return ch, func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if left := slices.DeleteFunc(ls.waits[job], func(c chan struct{}) bool { return c == ch }); len(left) > 0 {
			ls.waits[job] = left
		} else {
			delete(ls.waits, job)
		}
	}
}

// wake wakes the readers of a job's log.
func (ls *logs) wake(j filch.JobID) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, ch := range ls.waits[j] {
		close(ch)
	}
	delete(ls.waits, j)
}
