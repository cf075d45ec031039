package runclient

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

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

// checkOutput refuses files of -o and -e that the client will not be able to write, before there
// is a job. The name of a file with the number of the job is not known yet: then only the
// folders before that number count.
func checkOutput(r *spec.Run, cwd string) error {
	for _, v := range [...]string{r.Client.Stdout, r.Client.Stderr} {
		path := clientFile(v, output.Place{}, cwd)
		if path == "" {
			continue
		}
		place := path
		known, _, open := strings.Cut(v, "%")
		if open {
			place = filepath.Dir(clientFile(known+"x", output.Place{}, cwd))
		}
		if err := writable(place, open); err != nil {
			return cannotOpen(path, err)
		}
	}
	return nil
}

// writable reports whether a file, or a file in a folder, can be made or written, with the
// folders that are missing above.
func writable(path string, folder bool) error {
	for ; ; folder = true {
		info, err := os.Stat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path):
			path = filepath.Dir(path)
		case err != nil:
			return err
		case folder && !info.IsDir():
			return unix.ENOTDIR
		case !folder && info.IsDir():
			return unix.EISDIR
		default:
			return unix.Access(path, unix.W_OK)
		}
	}
}

func cannotOpen(path string, err error) error {
	return filch.Errorf(filch.Invalid, "cannot open the output file %s: %s", ui.Clean(path), ui.Cause(err))
}

func (s *ClientOutput) open(path string, io launcher.IO) (*os.File, error) {
	f, err := output.Create(path, io.Append)
	if err != nil {
		return nil, cannotOpen(path, err)
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
