// Package history keeps the ended jobs of all instances of a user in files. The files
// outlive the instances.
//
// Each launcher appends to a separate file in one folder, perhaps on a file system shared by
// many machines: no file has two writers, and nothing is locked. A line is a JSON object, an
// [Entry]. A reader joins all files. A launcher with a full disk, or with a file system
// without an answer, counts the dropped entries, and never waits.
package history

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/filch-hpc/filch/launcher"
)

// Version is the version of the lines.
const Version = 1

// Limits of the files.
const (
	maxLine  = 64 << 10  // bytes of a line; a longer list of nodes or ends is left out
	maxFile  = 16 << 20  // bytes of a file; then the launcher begins another file
	maxAll   = 256 << 20 // bytes of all files; the oldest are removed
	maxFiles = 4096      // likewise
)

// Entry is the end of a job, or of an attempt before another start of the job.
type Entry struct {
	Version  int              `json:"v"`
	Instance string           `json:"instance"` // its two words
	UUID     string           `json:"uuid"`     // of the instance
	Ended    int64            `json:"ended_unix_ns"`
	Again    bool             `json:"again,omitempty"` // the job started again after this attempt
	Job      launcher.JobInfo `json:"job"`
}

// AppendTo appends the line of e.
func (e *Entry) AppendTo(b []byte) ([]byte, error) {
	short := *e
	short.Job.Rows = nil
	line, err := json.Marshal(&short)
	if err == nil && len(line) > maxLine {
		short.Job.Nodes, short.Job.Earlier, short.Job.Spares, short.Job.Bad = nil, nil, nil, nil
		line, err = json.Marshal(&short)
	}
	if err == nil && len(line) > maxLine {
		err = fmt.Errorf("an entry of %d bytes is too long", len(line))
	}
	if err != nil {
		return b, err
	}
	return append(append(b, line...), '\n'), nil
}

// decode decodes a line, without its end.
func decode(line []byte) (e Entry, ok bool) {
	if len(line) > maxLine || json.Unmarshal(line, &e) != nil {
		return Entry{}, false
	}
	return e, e.Version >= 1 && e.UUID != "" && e.Job.ID > 0 && !bytes.ContainsRune(line, '\n')
}
