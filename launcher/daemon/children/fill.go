package children

import (
	"path/filepath"
	"strconv"
	"strings"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/launcher"
	"github.com/filch-hpc/filch/launcher/output"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// fill replaces the replacement strings of the order for a task of a list, with the task's
// line, or of an array, with the task's number. Fields of the task's own stay.
func (o *order) fill(s *launcher.TaskStart, line string, indexed bool) error {
	value, number := valueOf(s, line, indexed)
	if o.template == nil {
		t, err := workflow.NewTemplate(o.Argv, 1, false)
		if err != nil {
			return err
		}
		o.template, o.usesSlot = &t, t.UsesSlot()
	}
	var err error
	if len(s.Argv) == 0 {
		slot := 0
		if o.usesSlot {
			slot = o.place(s)
		}
		if s.Argv, err = o.template.Expand([]string{value}, number, slot); err != nil {
			return err
		}
	}
	if s.Streams != nil {
		return o.fillCwd(s, value, number)
	}
	var streams launcher.Streams
	for _, f := range []struct {
		pattern string
		to      *string
	}{{o.Stdin, &streams.Stdin}, {o.Stdout, &streams.Stdout}, {o.Stderr, &streams.Stderr}} {
		if !workflow.HasPlaces(f.pattern) {
			continue
		}
		if *f.to, err = fillFile(f.pattern, value, number); err != nil {
			return err
		}
		s.Streams = &streams
	}
	return o.fillCwd(s, value, number)
}

// valueOf is the value of a task for replacement strings, and the task's number.
func valueOf(s *launcher.TaskStart, line string, indexed bool) (value string, number int64) {
	value, number = strconv.Itoa(int(s.Number)), int64(s.Number)
	if !indexed {
		value, number = line, number+1
	}
	for _, e := range s.Env { // of a command of its own
		if own, is := strings.CutPrefix(e, "FILCH_LINE="); is {
			value = own
		}
	}
	return value, number
}

// stageFor makes the inputs and the patterns of the outputs of a task of a list or an
// array.
func stageFor(st *launcher.Stage, s *launcher.TaskStart, line string, indexed bool) (in, out []launcher.TaskFile, err error) {
	value, number := valueOf(s, line, indexed)
	for _, i := range st.In {
		from, to, err := workflow.StagedIn(st.Folder, i.File, i.Name, []string{value}, number)
		if err != nil {
			return nil, nil, err
		}
		in = append(in, launcher.TaskFile{Path: from, As: to, Writer: -1, Size: -1})
	}
	for _, pattern := range st.Out {
		filled, err := workflow.StagedOut(pattern, []string{value}, number)
		if err != nil {
			return nil, nil, err
		}
		out = append(out, launcher.TaskFile{Path: filled})
	}
	return in, out, nil
}

// fillCwd sets the folder of a task without a folder of its own.
func (o *order) fillCwd(s *launcher.TaskStart, value string, number int64) (err error) {
	if o.FillCwd != "" && s.Cwd == "" {
		s.Cwd, err = workflow.Template{}.Fill(o.FillCwd, []string{value}, number)
		if err == nil && !filepath.IsAbs(s.Cwd) {
			s.Cwd = filepath.Join(o.Cwd, s.Cwd)
		}
	}
	return err
}

// fillFile makes the name of a file of a task from the pattern of the order.
func fillFile(pattern, value string, number int64) (string, error) {
	safe, ok := output.Literal(pattern, []string{value})
	if !ok {
		return "", filch.Errorf(filch.Invalid, "cannot name a file of task %d by %s: a value with a backslash does not go with a conversion", number, pattern)
	}
	name, err := workflow.Template{}.Fill(pattern, safe, number)
	if name == launcher.NoFile || name == "-" {
		name = "./" + name // a value, and so the name of a file
	}
	return name, err
}
