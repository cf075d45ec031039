package runclient

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// ClientOutput writes the output of the ranks: to the client's own streams or to the
// files of -o and -e that the nodes do not write. ClientOutput writes at once and waits
// for a slow reader, which holds up the ranks and nothing else.
type ClientOutput struct {
	Out, Err io.Writer
	Label    bool
	Width    int
	buf      []byte
	files    []*os.File
	fold     *folding // nil: every line shows
}

// openOutput opens the client's files once the job's number is known.
func openOutput(r *spec.Run, job filch.JobID, step int32, cwd string) (*ClientOutput, error) {
	s := &ClientOutput{Out: os.Stdout, Err: os.Stderr, Label: r.Order.IO.Label}
	place := output.Place{Job: job, Name: r.Request.Name}
	if j := r.Order.Slurm; j != nil && j.Job != 0 {
		place = output.Place{Job: j.Job, Array: j.Array, Task: j.Task, Name: j.Name, Step: step}
	}
	if strings.Contains(r.Client.Stdout+r.Client.Stderr, "%") {
		place.User = cli.UserName()
	}
	outPath := clientFile(r.Client.Stdout, place, cwd)
	errPath := clientFile(r.Client.Stderr, place, cwd)
	if outPath != "" {
		f, err := s.open(outPath, r.Order.IO)
		if err != nil {
			return nil, err
		}
		s.Out = f
		if r.Client.Stderr == "" {
			s.Err = f
		}
	}
	switch {
	case errPath != "" && errPath == outPath:
		s.Err = s.Out
	case errPath != "":
		f, err := s.open(errPath, r.Order.IO)
		if err != nil {
			return nil, err
		}
		s.Err = f
	}
	return s, nil
}

// clientFile is the path of the file that a -o or -e makes the client write; ""
// when the option names no such file.
func clientFile(v string, place output.Place, cwd string) string {
	if v == "" || v == "all" || v == launcher.NoFile || ui.AllDigits(v) || output.SideOf(v) != output.SideClient {
		return ""
	}
	path := output.Expand(v, place)
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	return path
}

// setSize sets the number of ranks.
func (s *ClientOutput) setSize(size int32) {
	s.Width = output.Width(size)
	if s.fold != nil {
		s.fold.setSize(size)
	}
}

// startFold makes equal lines of the ranks show once.
func (s *ClientOutput) startFold(size int32) {
	s.fold = newFolding(size, func(stream uint8, line []byte) error {
		w := s.Out
		if stream == 2 {
			w = s.Err
		}
		_, err := w.Write(line)
		return err
	})
}

func (s *ClientOutput) open(path string, io launcher.IO) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if io.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot open the output file %s: %s", ui.Clean(path), ui.Cause(err))
	}
	s.files = append(s.files, f)
	return f, nil
}

// Write writes one piece of output.
func (s *ClientOutput) Write(o wire.Output) error {
	if s.fold != nil {
		return s.fold.add(o)
	}
	w := s.Out
	if o.Stream == 2 {
		w = s.Err
	}
	data := o.Data
	if s.Label {
		s.buf = output.AppendLabeled(s.buf[:0], o.Rank, s.Width, data)
		data = s.buf
	}
	if len(data) == 0 {
		return nil
	}
	_, err := w.Write(data)
	return err
}

func (s *ClientOutput) close() error {
	var first error
	if s.fold != nil {
		first = s.fold.close()
	}
	for _, f := range s.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}
