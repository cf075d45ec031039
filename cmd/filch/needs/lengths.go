package needs

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	blank, bad := fill(l.Option, make([]string, workflow.SourcesMax), 1) // a column too many: see Fill
	if _, left, braces := strings.Cut(blank, "{"); braces && bad == nil {
		return stranger(l.Option, left)
	}
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

// stranger refuses an option with a brace that no value replaces; rest is the text behind it.
func stranger(option, rest string) error {
	name, _, closed := strings.Cut(rest, "}")
	switch {
	case name == "%":
		return filch.Errorf(filch.Invalid, "--length %s: the lengths are read before a task has a place on a node, and {%%} is the place", option).
			WithHint("{#} is the number of the task, {} the value, {2} the second column")
	case strings.HasPrefix(name, "="):
		return filch.Errorf(filch.Invalid, "--length %s: expressions in perl are GNU parallel's alone", option).
			WithHint("state the length in a column of its own: --length '{2}'")
	case !closed:
		return filch.Errorf(filch.Invalid, "--length %s: a brace is open", option)
	}
	return filch.Errorf(filch.Invalid, "--length %s: there is no column %s", option, name).
		WithHint("--header : takes the names of columns from the first line; {2} is the second column, {} the value")
}

// fill puts values, without the blanks around each, into the option.
func fill(option string, values []string, number int64) (string, error) {
	trimmed := make([]string, len(values))
	for i, v := range values {
		trimmed[i] = strings.TrimSpace(v)
	}
	text, err := workflow.Template{}.Fill(option, trimmed, number)
	return strings.TrimSpace(text), err
}

// Goes refuses lengths of the tasks that do not go with other options: of an open job, with
// shuffled tasks, and with a delay before each task.
func (l *Lengths) Goes(open, shuffle bool, delay time.Duration) error {
	switch {
	case !l.Differ:
	case open:
		return OpenError
	case shuffle:
		return filch.Errorf(filch.Invalid, "--shuf contradicts the lengths of the tasks: the longest starts first")
	case delay > 0:
		return filch.Errorf(filch.Invalid, "--delay contradicts the lengths of the tasks: the longest starts first, and --delay adds the tasks in their order")
	}
	return nil
}

// stated is the length that stands for a stated time: a task of no time at all is shorter than all
// others, and a task without a stated time is not.
func stated(d time.Duration) time.Duration { return max(d, time.Nanosecond) }

// Add takes in the length of the next task; 0 is not stated.
func (l *Lengths) Add(d time.Duration) { l.own = append(l.own, d) }

// Fill takes in the values of the next task; where is the place of the values, or nil or "" if
// they come from no file. A task whose values are empty states no length.
func (l *Lengths) Fill(values []string, where func() string) error {
	if !workflow.HasPlaces(l.Option) {
		return nil
	}
	n := int64(len(l.own) + 1)
	text, err := fill(l.Option, values, n)
	d := time.Duration(0)
	if err == nil {
		d, err = filch.ReadTime(text)
		if d = stated(d); err != nil {
			d = 0
			if blank, bad := fill(l.Option, make([]string, len(values)), n); bad == nil && blank == text {
				err = nil
			}
		}
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
func (l *Lengths) Array(a workflow.Array) error {
	err := fits(a.Len())
	for i := int64(0); i < a.Len() && err == nil; i++ {
		at, _ := a.At(i)
		err = l.Fill([]string{strconv.FormatInt(at, 10)}, nil)
	}
	return err
}

// fits refuses more tasks with lengths than a submission can have.
func fits(tasks int64) error {
	if tasks <= record.LengthsMax {
		return nil
	}
	return filch.Errorf(filch.Invalid, "%d tasks have lengths of their own, at most %d", tasks, record.LengthsMax).WithHint("submit the tasks as several jobs")
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
	if err := fits(int64(len(l.own))); err != nil {
		return err
	}
	if slices.Min(l.own) == slices.Max(l.own) {
		if s.Spec.Expect = l.own[0]; s.Spec.Expect == stated(0) {
			s.Spec.Expect = 0
		}
		return nil
	}
	s.Long = record.NewLengths(l.own)
	return nil
}
