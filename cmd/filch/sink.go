package main

import (
	"errors"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/launcher/spec"
	"github.com/filch-hpc/filch/launcher/wire"
)

// sink takes what the ranks print: to the client's own streams or to the
// files of -o and -e that are not the nodes'. It writes at once and waits for
// a slow reader, which holds up the ranks and nothing else.
type sink struct {
	out, err io.Writer
	label    bool
	width    int
	buf      []byte
	files    []*os.File
}

// openSink opens the client's files once the job's number is known.
func openSink(r *spec.Run, job filch.JobID, cwd string) (*sink, error) {
	s := &sink{out: os.Stdout, err: os.Stderr, label: r.Order.IO.Label}
	place := output.Place{Job: job, Name: r.Request.Name}
	if strings.Contains(r.Client.Stdout+r.Client.Stderr, "%") {
		place.User = userName()
	}
	outPath := clientFile(r.Client.Stdout, place, cwd)
	errPath := clientFile(r.Client.Stderr, place, cwd)
	if outPath != "" {
		f, err := s.open(outPath, r.Order.IO)
		if err != nil {
			return nil, err
		}
		s.out = f
		if r.Client.Stderr == "" {
			s.err = f
		}
	}
	switch {
	case errPath != "" && errPath == outPath:
		s.err = s.out
	case errPath != "":
		f, err := s.open(errPath, r.Order.IO)
		if err != nil {
			return nil, err
		}
		s.err = f
	}
	return s, nil
}

// clientFile is the path of the file that a -o or -e makes the client write;
// "" when it is none.
func clientFile(v string, place output.Place, cwd string) string {
	if v == "" || v == "all" || v == launcher.NoFile || allDigits(v) || output.SideOf(v) != output.SideClient {
		return ""
	}
	path := output.Expand(v, place)
	if !filepath.IsAbs(path) {
		path = filepath.Join(cwd, path)
	}
	return path
}

func (s *sink) open(path string, io launcher.IO) (*os.File, error) {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if io.Append {
		flags = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot open the output file: %s", err.Error())
	}
	s.files = append(s.files, f)
	return f, nil
}

// write hands on one piece.
func (s *sink) write(o wire.Output) error {
	w := s.out
	if o.Stream == 2 {
		w = s.err
	}
	data := o.Data
	if s.label {
		s.buf = output.AppendLabeled(s.buf[:0], o.Rank, s.width, data)
		data = s.buf
	}
	if len(data) == 0 {
		return nil
	}
	_, err := w.Write(data)
	return err
}

func (s *sink) close() error {
	var first error
	for _, f := range s.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func isBrokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }

func allDigits(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

func userName() string {
	if u, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		return u.Username
	}
	return os.Getenv("USER")
}
