package tasks

import (
	"encoding/binary"
	"errors"
	"io"
	"os"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/cmd/filch/cli"
	"github.com/filch-hpc/filch/cmd/filch/ui"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// source yields the payloads of tasks in order; io.EOF ends the sequence.
type source func() ([]byte, error)

// payloads is the source of the tasks; the bag's tasks have streams of their own.
func (f *submitFlags) payloads(s *submit.Job, command []string, bag *workflow.Bag) (source, error) {
	switch {
	case f.array != "" && (f.shuffle || f.delay > 0):
		of, err := readArray(f.array)
		s.Spec.Cap, s.Spec.Payloads = of.Cap, true
		return numbers(of, nil), err
	case f.array != "":
		return nil, array(s, f.array)
	case f.eachLine != "":
		in, err := openInput(f.eachLine)
		if err != nil {
			return nil, err
		}
		s.Spec.Payloads = true
		lines := workflow.NewLines(in, f.eachLine, len(command) == 0)
		next := f.distinctLines(f.spoken(lines.Next))
		return func() ([]byte, error) {
			line, err := next()
			if err == nil {
				err = f.lengths.Fill([]string{line}, lines.At)
			}
			return append([]byte{launcher.PayloadLine}, line...), err
		}, nil
	case f.fromJSON != "":
		return f.entries(s, command)
	case bag != nil:
		return f.expanded(s, bag)
	}
	return nil, nil
}

// numbers are payloads with the numbers of an array, each before the payload own.
func numbers(of workflow.Array, own []byte) source {
	return many(of.Len(), func(i int64) ([]byte, error) {
		index, _ := of.At(i)
		return numbered(index, own), nil
	})
}

func numbered(index int64, own []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{launcher.PayloadNumber}, uint32(index)), own...)
}

func readArray(text string) (workflow.Array, error) {
	a, err := workflow.ParseArray(text)
	if n := a.Len(); n > record.MaxTasks && err == nil {
		err = filch.Errorf(filch.Invalid, "%s makes %d tasks, %d at most", text, n, record.MaxTasks)
	}
	return a, cli.OfOption("array", err)
}

// array reads indices and a cap.
func array(s *submit.Job, text string) error {
	a, err := readArray(text)
	if err != nil {
		return err
	}
	s.Total, s.Spec.Cap = int32(a.Len()), int32(a.Cap)
	if len(a.Ranges) == 1 {
		s.Spec.First, s.Spec.Step = int32(a.Ranges[0].First), int32(a.Ranges[0].Step)
		return nil
	}
	for _, r := range a.Ranges {
		if r.Step == 1 {
			s.Spec.Picks = append(s.Spec.Picks, record.Pick{From: int32(r.First), Count: int32(r.Last - r.First + 1)})
			continue
		}
		for i := r.First; i <= r.Last; i += r.Step {
			s.Spec.Picks = append(s.Spec.Picks, record.Pick{From: int32(i), Count: 1})
		}
	}
	return nil
}

func openInput(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(os.Stdin), nil
	}
	in, err := openFile(name)
	if err != nil {
		return nil, filch.Errorf(filch.Invalid, "cannot read the tasks of %s: %s", ui.Clean(name), ui.Cause(err))
	}
	return in, nil
}

// openFile opens a file that is no folder; the error is the cause alone.
func openFile(name string) (*os.File, error) {
	in, err := os.Open(name)
	if err != nil {
		return nil, errors.New(ui.Cause(err))
	}
	if st, err := in.Stat(); err == nil && st.IsDir() {
		_ = in.Close()
		return nil, errors.New("the name is a folder's")
	}
	return in, nil
}

// openValues is [openInput] for values; the caller names the file.
func openValues(name string) (io.ReadCloser, error) {
	if name == "-" {
		return openInput(name)
	}
	return openFile(name)
}

// expanded are the combinations of the values after :::, with their files.
func (f *submitFlags) expanded(s *submit.Job, bag *workflow.Bag) (source, error) {
	s.Spec.Payloads = true
	slot, files, folder := bag.Template.UsesSlot(), f.patterns(bag, false), f.cwdPattern()
	here, err := os.Getwd()
	var staged *launcher.Stage
	if err == nil && f.stagePlaces() {
		staged, err = f.stage(here)
	}
	return many(bag.Len(), func(i int64) ([]byte, error) {
		argv, err := bag.Argv(i, 0)
		if err != nil {
			return nil, err
		}
		streams, err := files.streams(i)
		if err != nil {
			return nil, err
		}
		t := launcher.TaskItem{Argv: argv, Streams: streams}
		values, err := bag.Values(i)
		if err == nil {
			err = f.lengths.Fill(values, func() string { return f.row(i) })
		}
		if staged != nil && err == nil {
			t.Inputs, t.Outputs, err = stageOf(staged, values, i+1)
		}
		if folder != "" && err == nil {
			t.Cwd, err = workflow.Template{}.Fill(folder, values, i+1)
			t.Cwd = absolute(here, t.Cwd)
		}
		if err != nil {
			return nil, err
		}
		b, err := item(t)
		if slot && err == nil {
			b[0] = launcher.PayloadSlot
		}
		return b, err
	}), err
}
