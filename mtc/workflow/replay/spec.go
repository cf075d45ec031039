package replay

import (
	"strconv"
	"strings"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// TraceEnv names the trace if the arguments do not.
const TraceEnv = "FILCH_REPLAY_TRACE"

// File is a file that a task reads or writes.
type File struct {
	Path string
	Size int64
}

// Spec is the input of a single task's replay.
type Spec struct {
	Task  string
	Time  time.Duration
	Burn  bool   // use the processor for the time, else sleep
	Trace string // file to which the trace is appended; empty: none
	In    []File
	Out   []File
}

// Parse reads the arguments of filch replay.
func Parse(args []string) (Spec, error) {
	var s Spec
	for len(args) > 0 {
		word := args[0]
		args = args[1:]
		if word == "--burn" {
			s.Burn = true
			continue
		}
		if strings.HasPrefix(word, "--") {
			if len(args) == 0 {
				return s, filch.Errorf(filch.Invalid, "%s has no value", word)
			}
			if err := s.set(word, args[0]); err != nil {
				return s, err
			}
			args = args[1:]
			continue
		}
		if err := s.file(word); err != nil {
			return s, err
		}
	}
	if s.Task == "" {
		return s, filch.Errorf(filch.Invalid, "--task is missing")
	}
	return s, nil
}

func (s *Spec) set(option, value string) error {
	switch option {
	case "--task":
		s.Task = value
	case "--trace":
		s.Trace = value
	case "--time":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return filch.Errorf(filch.Invalid, "--time: %q is no time", value)
		}
		s.Time = d
	default:
		return filch.Errorf(filch.Invalid, "there is no option %q", option)
	}
	return nil
}

// file reads in:SIZE:PATH or out:SIZE:PATH.
func (s *Spec) file(word string) error {
	way, rest, _ := strings.Cut(word, ":")
	size, path, found := strings.Cut(rest, ":")
	n, err := strconv.ParseInt(size, 10, 64)
	if err != nil || !found || n < 0 || n > workflow.SizeMax || way != "in" && way != "out" {
		return filch.Errorf(filch.Invalid, "%q is neither in:SIZE:PATH nor out:SIZE:PATH", word)
	}
	if err := workflow.CheckPath(path); err != nil {
		return filch.Errorf(filch.Invalid, "the file %q is refused: %v", path, err)
	}
	if way == "in" {
		s.In = append(s.In, File{path, n})
	} else {
		s.Out = append(s.Out, File{path, n})
	}
	return nil
}
