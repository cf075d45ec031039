package needs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/filch-hpc/filch"
	"github.com/filch-hpc/filch/mtc/record"
	"github.com/filch-hpc/filch/mtc/submit"
	"github.com/filch-hpc/filch/mtc/workflow"
)

// order is the order in which tasks with these columns start; err is the refusal.
func order(option string, rows ...[]string) (order []int32, err error) {
	l := Lengths{Option: option}
	if err := l.Read(); err != nil {
		return nil, err
	}
	for _, r := range rows {
		if err := l.Fill(r, nil); err != nil {
			return nil, err
		}
	}
	var s submit.Job
	if err := l.Put(&s); err != nil {
		return nil, err
	}
	return record.Lengths(s.Long).LongestFirst(int32(len(rows))), nil
}

func column(values ...string) (rows [][]string) {
	for _, v := range values {
		rows = append(rows, []string{"x", v})
	}
	return rows
}

// TestOrderByLengths: a stated zero starts last, a task without a length is as long as the mean, and
// blanks around a value do not count.
func TestOrderByLengths(t *testing.T) {
	for _, c := range []struct {
		option string
		rows   [][]string
		want   []int32
	}{
		{"{2}s", column("0", "1", "2", "3"), []int32{3, 2, 1, 0}},
		{"{2}", column("1ns", "0", "4s"), []int32{2, 0, 1}},
		{"{2}", column("2s", "", "9s", "0s"), []int32{2, 1, 0, 3}},
		{"{2}s", column("2", "", "9", "0"), []int32{2, 1, 0, 3}},
		{"{2}m", column(" 2", "9 ", " "), []int32{1, 2, 0}},
		{"{2}", column(" 2s", " 9s", "\t5s\r"), []int32{1, 2, 0}},
		{"{#}s", column("a", "b", "c"), []int32{2, 1, 0}},
	} {
		if got, err := order(c.option, c.rows...); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("--length %s of %q: %v, %v, want %v", c.option, c.rows, got, err, c.want)
		}
	}
}

// TestAllTasksTakeNoTime: lengths that are all zero state nothing.
func TestAllTasksTakeNoTime(t *testing.T) {
	l, s := Lengths{Option: "{2}s"}, submit.Job{}
	for _, r := range append(column("0"), column("0")...) {
		if err := errors.Join(l.Read(), l.Fill(r, nil)); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Put(&s); err != nil || s.Spec.Expect != 0 || s.Long != nil {
		t.Errorf("%v, %d chunks, %v", s.Spec.Expect, len(s.Long), err)
	}
}

// TestBadLengths: each refusal says what is wrong with the option or the value.
func TestBadLengths(t *testing.T) {
	for _, c := range []struct{ option, value, want, hint string }{
		{"{x}", "1", "--length {x}: there is no column x", "--header :"},
		{"{2}{y}", "1", "--length {2}{y}: there is no column y", "--header :"},
		{"{%}s", "1", "--length {%}s: the lengths are read before a task has a place", "{#} is the number"},
		{"{= 1 =}", "1", "--length {= 1 =}: expressions in perl", "a column of its own"},
		{"{2", "1", "--length {2: a brace is open", ""},
		{"{3}", "1", "task 1: --length {3}: cannot replace {3}: task 1 has 2 values", ""},
		{"{2}", "2.5", `task 1: --length {2}: "2.5" is not a time`, "2.5m"},
		{"{2}s", "soon", `task 1: --length {2}s: "soons" is not a time`, "units"},
		{"{2}", "-1", `task 1: --length {2}: "-1" is not a time`, "units"},
	} {
		_, err := order(c.option, column(c.value)...)
		if told, is := errors.AsType[*filch.Error](err); !is || !strings.HasPrefix(err.Error(), c.want) || !strings.Contains(told.Hint, c.hint) {
			t.Errorf("--length %s of %s: %v, want %s", c.option, c.value, err, c.want)
		}
	}
}

// TestTooManyLengths: an array with more tasks than a job can have lengths is refused before a
// number is read.
func TestTooManyLengths(t *testing.T) {
	l := Lengths{Option: "{}s"}
	many := workflow.Array{Ranges: []workflow.Range{{First: 1, Last: record.LengthsMax + 1, Step: 1}}}
	if err := l.Array(many); err == nil || !strings.Contains(err.Error(), "at most") || len(l.own) > 0 {
		t.Errorf("%v, after %d of %d numbers", err, len(l.own), many.Len())
	}
}

// TestLengthsGoWith: an open job, shuffled tasks and a delay are refused with lengths of tasks, and
// only with them.
func TestLengthsGoWith(t *testing.T) {
	for _, differ := range []bool{false, true} {
		l := Lengths{Differ: differ}
		for _, err := range []error{l.Goes(true, false, 0), l.Goes(false, true, 0), l.Goes(false, false, time.Second)} {
			if (err != nil) != differ {
				t.Errorf("lengths of the tasks %t: %v", differ, err)
			}
		}
		if err := l.Goes(false, false, 0); err != nil {
			t.Error(err)
		}
	}
}
