package daemon

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

// logs are what the detached jobs of this origin printed, one log each.
type logs struct {
	dir string

	mu   sync.Mutex // guards what follows
	have map[filch.JobID]bool
}

// newLogs finds the logs that an earlier launcher left.
func newLogs(dir string) *logs {
	ls := &logs{dir: dir, have: map[filch.JobID]bool{}}
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

// open goes on with a job's log, or begins it.
func (ls *logs) open(j filch.JobID) (*sink, error) {
	l, err := output.OpenLog(ls.path(j))
	if err != nil {
		return nil, err
	}
	ls.mu.Lock()
	ls.have[j] = true
	ls.mu.Unlock()
	return &sink{log: l}, nil
}

// remove drops the log of a job that is forgotten.
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

// sink is a log that several nodes' output comes together in.
type sink struct {
	mu  sync.Mutex // one writer at a time; the file is local
	log *output.Log
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
	return s.log.Close()
}

// Limits of reading a log.
const (
	chunkBytes = 1 << 20
	followPoll = 50 * time.Millisecond
)

// readLog gives back a part of what a detached job printed, and waits for it
// when the client follows.
func (d *Daemon) readLog(job filch.JobID, arg func(int) string) (any, error) {
	if !d.logs.has(job) {
		return nil, filch.Errorf(filch.NotFound, "no output of job %d is kept: it was not detached, or it was not started yet", job)
	}
	rank := filch.Rank(-1)
	if s := arg(1); s != "" {
		n, err := strconv.ParseInt(s, 10, 32)
		if err != nil || n < 0 {
			return nil, filch.Errorf(filch.Invalid, "%q is not a rank", s)
		}
		rank = filch.Rank(n)
	}
	at, err := strconv.ParseUint(arg(2), 10, 64)
	if arg(2) != "" && err != nil {
		return nil, filch.Errorf(filch.Invalid, "%q is not a place in the output", arg(2))
	}
	wait := time.Duration(0)
	if arg(3) != "" {
		wait = parseWait(arg(3))
	}
	poll := time.NewTicker(followPoll)
	defer poll.Stop()
	for end := time.Now().Add(wait); ; {
		over, err := d.jobOver(job) // before it is read, or its last words were missed
		if err != nil {
			return nil, err
		}
		pieces, next, lost, err := output.ReadLog(d.logs.path(job), at, rank, chunkBytes)
		if err != nil {
			return nil, err
		}
		if len(pieces) > 0 || over || time.Now().After(end) {
			return chunkOf(pieces, next, lost, over && len(pieces) == 0), nil
		}
		at = next
		select {
		case <-poll.C:
		case <-d.ctx.Done():
			return nil, filch.Errorf(filch.Unavailable, "the launcher of %s is going down", d.self)
		}
	}
}

// jobOver reports whether a job has ended and all of its output is here.
func (d *Daemon) jobOver(job filch.JobID) (over bool, err error) {
	err = d.ask(loopWait, func(t *turn) {
		info, known := t.node.Job(t.now, job)
		over = (!known || info.Code != nil) && d.routes.find(job) == nil
	})
	return over, err
}

func chunkOf(pieces []output.Piece, next, lost uint64, end bool) wire.LogChunk {
	c := wire.LogChunk{Pieces: make([]wire.LogPiece, len(pieces)), Next: next, End: end, Lost: lost}
	for i, p := range pieces {
		c.Pieces[i] = wire.LogPiece{Rank: p.Rank, Stream: p.Stream, Partial: p.Partial, Data: p.Data}
	}
	return c
}
