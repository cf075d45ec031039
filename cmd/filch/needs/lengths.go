package needs

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// Lengths are how long the tasks of a bag take, as the user states.
type Lengths struct {
	Option string          // of --length: a time, or a text with places for values
	Differ bool            // tasks have lengths of their own
	alike  time.Duration   // of all tasks that state no other; 0: unknown
	own    []time.Duration // of the tasks so far; 0: not stated
}

// Read reads the option, in which names of columns are numbers.
func (l *Lengths) Read() (err error) {
	switch {
	case workflow.HasPlaces(l.Option):
		l.Differ = true
	case l.Option != "":
		if l.alike, err = filch.ReadTime(l.Option); err != nil {
			return At("--length", err)
		}
	}
	return nil
}

// Add takes in the length of the next task; 0 is not stated.
func (l *Lengths) Add(d time.Duration) { l.own = append(l.own, d) }

// Fill takes in the values of the next task; where is the place of the values, or nil or "" if
// they come from no file.
func (l *Lengths) Fill(values []string, where func() string) error {
	if !workflow.HasPlaces(l.Option) {
		return nil
	}
	n := int64(len(l.own) + 1)
	text, err := workflow.Template{}.Fill(l.Option, values, n)
	d := time.Duration(0)
	if err == nil && text != "" {
		d, err = filch.ReadTime(text)
	}
	if l.Add(d); err == nil {
		return nil
	}
	place := ""
	if where != nil {
		place = where()
	}
	if place == "" {
		place = fmt.Sprintf("task %d", n)
	}
	return At(place, At("--length "+l.Option, err))
}

// Array takes in the numbers of an array.
func (l *Lengths) Array(a workflow.Array) (err error) {
	for i := int64(0); i < a.Len() && err == nil; i++ {
		at, _ := a.At(i)
		err = l.Fill([]string{strconv.FormatInt(at, 10)}, nil)
	}
	return err
}

// OpenError refuses lengths that come too late.
var OpenError = filch.Errorf(filch.Invalid, "the tasks of an open job have no lengths of their own: the longest of all tasks starts first").
	WithHint("--length 5m states one length for all tasks of a job")

// Put puts the lengths of all tasks into the submission.
func (l *Lengths) Put(s *submit.Job) error {
	s.Spec.Expect = l.alike
	if !l.Differ {
		return nil
	}
	if len(l.own) == 0 {
		return filch.Errorf(filch.Invalid, "nothing replaces the braces of --length %s: no task has values", l.Option)
	}
	for i := range l.own {
		if l.own[i] == 0 {
			l.own[i] = l.alike
		}
	}
	if len(l.own) > record.LengthsMax {
		return filch.Errorf(filch.Invalid, "%d tasks have lengths of their own, at most %d", len(l.own), record.LengthsMax).WithHint("submit the tasks as several jobs")
	}
	if slices.Min(l.own) == slices.Max(l.own) {
		s.Spec.Expect = l.own[0]
		return nil
	}
	s.Long = record.NewLengths(l.own)
	return nil
}
