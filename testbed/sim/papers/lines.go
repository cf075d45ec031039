package papers

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

// Line is a line of the list of what the papers contain.
type Line struct {
	Number int
	State  string // one of states
	What   string
	Where  string // where filch has it, and a test; or the reason
}

// states are those of a line.
var states = []string{"works", "replaced", "partly", "absent"}

//go:embed lines.txt
var linesText string

// linesCount is the number of lines.
const linesCount = 89

// Lines reads the list: a line has a number, a state, what the papers have, and where filch has it, with bars
// between.
func Lines() (list []Line, err error) {
	for text := range strings.Lines(linesText) {
		f := strings.SplitN(strings.TrimSuffix(text, "\n"), " | ", 4)
		n, err := strconv.Atoi(f[0])
		known := false
		for _, s := range states {
			known = known || len(f) == 4 && f[1] == s
		}
		if err != nil || !known || n != len(list)+1 || f[2] == "" || f[3] == "" {
			return nil, fmt.Errorf("line %d of the list of lines is not right: %q", len(list)+1, text)
		}
		list = append(list, Line{n, f[1], f[2], f[3]})
	}
	if len(list) != linesCount {
		return nil, fmt.Errorf("the list of lines has %d lines, want %d", len(list), linesCount)
	}
	return list, nil
}

func tableOfCounts(list []Line) Table {
	t := Table{Columns: []string{"state", "lines", "which"}}
	for _, s := range states {
		var which []string
		for _, l := range list {
			if l.State == s {
				which = append(which, strconv.Itoa(l.Number))
			}
		}
		t.add(said("%s", s), said("%d", len(which)), said("%s", strings.Join(which, " ")))
	}
	return t
}

func tableOfLines(list []Line) Table {
	t := Table{Columns: []string{"line", "state", "in the papers", "here"}}
	for _, l := range list {
		t.add(said("%d", l.Number), said("%s", l.State), said("%s", l.What), said("%s", l.Where))
	}
	return t
}
