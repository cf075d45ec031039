package staging

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/proc"
	"golang.org/x/sys/unix"
)

// streamTail bounds the end of a stream's file that the node keeps of a failed task: the
// reason of a failure is at the end, and many tasks may fail.
const streamTail = 64 << 10

// streamFile is an open file of a task's stream.
type streamFile struct {
	stream uint8 // 1 stdout, 2 stderr
	name   string
	file   *os.File
}

// openEnded opens the files that a process of an ended task wrote as stdout and stderr.
// The files stay readable when the task's folder is removed; dir has the folders of jobs. A
// file for both streams is that of stderr.
func (b *Attempt) openEnded(dir string, e *launcher.TaskEnd) (files []streamFile) {
	s := b.item.Streams
	// Without a process of the task, a file in the user's own folder is of an earlier run.
	if s == nil || b.bag || !b.running || e.Kind == launcher.CauseOurs && b.sink == nil {
		return nil
	}
	folder, run := b.graph.Folder, ""
	if !b.graph.InPlace {
		folder, run = filepath.Join(dir, b.start.Job.String()), b.run()
	}
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil
	}
	defer root.Close()
	for i, name := range [...]string{1: s.Stdout, 2: s.Stderr} {
		if name == "" || i == 1 && name == s.Stderr {
			continue
		}
		// The task may have put a named pipe there.
		f, err := root.OpenFile(path.Join(run, name), os.O_RDONLY|unix.O_NONBLOCK, 0)
		if err == nil {
			files = append(files, streamFile{uint8(i), name, f})
		}
	}
	return files
}

// keep closes the file. Of a failed task, the end of the file is added to the task's output,
// since no command brings files of a failed task.
func (s *streamFile) keep(g *Files, b *Attempt, e *launcher.TaskEnd) {
	defer s.file.Close()
	if e.Kind == launcher.CauseNone {
		return
	}
	data, err := s.tail()
	if err != nil {
		g.in.Fault("cannot read the output of a task", err)
		return
	}
	if len(data) > 0 {
		g.appendOutput(b, s.stream, data)
		e.Bytes += int64(len(data))
	}
}

// tail is the end of the file; of a longer file whole lines, if there are any, after a line
// that says so.
func (s *streamFile) tail() ([]byte, error) {
	st, err := s.file.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, err
	}
	data := make([]byte, min(st.Size(), streamTail))
	n, err := s.file.ReadAt(data, st.Size()-int64(len(data)))
	if err != nil && err != io.EOF { // a process that the task left may cut the file
		return nil, err
	}
	if data = data[:n]; st.Size() <= streamTail {
		return data, nil
	}
	if _, rest, ok := bytes.Cut(data, []byte("\n")); ok && len(rest) > 0 {
		data = rest
	}
	head := fmt.Appendf(nil, "filch: the last %d of %d bytes of %s:\n", len(data), st.Size(), s.name)
	return append(head, data...), nil
}

// appendOutput adds a piece of a stream to the output of a failed task, where filch logs finds
// the piece.
func (g *Files) appendOutput(b *Attempt, stream uint8, data []byte) {
	g.hash.Lock()
	defer g.hash.Unlock()
	s := output.NewSegments(proc.Place{Dir: g.state}.OutputDir(b.start.Job), os.Getpid())
	err := s.Add(output.Printed{
		Index: int32(b.start.Index), Attempt: b.start.Nth, Stream: stream, Failed: true, Data: data,
	})
	if err = errors.Join(err, s.Close()); err != nil {
		g.in.Fault("cannot keep the output of a task", err)
	}
}
