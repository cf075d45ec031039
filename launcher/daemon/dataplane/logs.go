package dataplane

import (
	"os"
	"path/filepath"
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

	mu   sync.Mutex // guards have and busy
	have map[filch.JobID]bool
	busy map[filch.JobID]int // number of open sinks
}

// newLogs finds the logs of an earlier launcher.
func newLogs(dir string) *logs {
	ls := &logs{dir: dir, have: map[filch.JobID]bool{}, busy: map[filch.JobID]int{}}
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
	return &sink{log: l, closed: func() { ls.release(j) }}, err
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
}

func (s *sink) append(o wire.Output) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Append(output.Piece{
		Index: o.Index, Offset: o.Offset, Rank: o.Rank, Stream: o.Stream, Partial: o.Partial, Data: o.Data,
	})
}

func (s *sink) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed()
	return s.log.Close()
}

// LogPoll is the time between two looks for new output.
const LogPoll = 50 * time.Millisecond

// ReadLog returns a part of the output of a detached job on this node, and waits a
// while for new output.
func (rs *Routes) ReadLog(job filch.JobID, rank filch.Rank, at uint64, limit int, wait time.Duration) (wire.LogPart, error) {
	poll := time.NewTicker(LogPoll)
	defer poll.Stop()
	for end := time.Now().Add(wait); ; {
		// before the log is read; otherwise the last output could be missed
		p := wire.LogPart{Next: at, Absent: !rs.logs.has(job), Done: rs.find(job) == nil}
		if !p.Absent {
			pieces, next, lost, err := output.ReadLog(rs.logs.path(job), at, rank, limit)
			if err != nil {
				return p, err
			}
			p.Next, p.Lost = next, lost
			for _, o := range pieces {
				p.Pieces = append(p.Pieces, wire.LogPiece{Rank: o.Rank, Stream: o.Stream, Partial: o.Partial, Data: o.Data})
			}
		}
		if len(p.Pieces) > 0 || p.Done || time.Now().After(end) {
			return p, nil
		}
		at = p.Next
		select {
		case <-poll.C:
		case <-rs.in.Context().Done():
			return p, rs.in.GoingDown()
		}
	}
}
