package replay

import (
	"encoding/hex"
	"encoding/json"
	"os"
)

// The events of a trace.
const (
	EventStart = "start"
	EventEnd   = "end"
)

// Record is a line of a trace. Tasks append to a single file, and each line is a single
// write: the order of the lines is the order of the events, regardless of the nodes'
// clocks.
type Record struct {
	Event   string    `json:"event"`
	Task    string    `json:"task"`
	Node    string    `json:"node,omitempty"`
	Job     string    `json:"job,omitempty"`
	Attempt string    `json:"attempt,omitempty"`
	PID     int       `json:"pid"`
	UnixNS  int64     `json:"unix_ns"`
	TookNS  int64     `json:"took_ns,omitempty"` // of an end
	In      []Touched `json:"in,omitempty"`
	Out     []Touched `json:"out,omitempty"`
	Error   string    `json:"error,omitempty"`
}

// Touched is a file that a task read or wrote.
type Touched struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
	Sum  string `json:"sha256"`
}

func touched(f File, s Sum) Touched { return Touched{f.Path, f.Size, hex.EncodeToString(s[:])} }

// trace appends records to a file.
type trace struct{ f *os.File }

func openTrace(name string) (*trace, error) {
	if name == "" {
		return &trace{}, nil
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	return &trace{f}, err
}

// append writes a line in one write.
func (t *trace) append(r Record) error {
	if t.f == nil {
		return nil
	}
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = t.f.Write(append(line, '\n'))
	return err
}

func (t *trace) close() error {
	if t.f == nil {
		return nil
	}
	return t.f.Close()
}
