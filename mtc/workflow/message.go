package workflow

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
)

// shownMax bounds the shown part of a name or value.
const shownMax = 80

// source is a text being read, for messages.
type source struct{ name string }

// errorf is an error at a line; 0 if the line is unknown.
func (s source) errorf(line int, format string, args ...any) *filch.Error {
	return filch.Errorf(filch.Invalid, "%s: %s", s.at(line), visible(fmt.Sprintf(format, args...)))
}

// at is the place of a line.
func (s source) at(line int) string {
	where := s.name
	if where == "" {
		where = "input"
	}
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	return visible(where)
}

// visible is a text without characters that move a cursor.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return '?'
		}
		return r
	}, s)
}

// quote shows a name from a file, cut, and without characters that move a cursor.
func quote(s string) string {
	if len(s) > shownMax {
		cut := shownMax
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		return visible(strconv.Quote(s[:cut])) + "..."
	}
	return visible(strconv.Quote(s))
}

// chain writes names joined by arrows, at most ten of them.
func chain(names []string) string {
	const most = 10
	var b strings.Builder
	for i, n := range names {
		if len(names) > most && i == most-2 {
			fmt.Fprintf(&b, " -> ... %d more ... -> %s", len(names)-most+1, quote(names[len(names)-1]))
			break
		}
		if i > 0 {
			b.WriteString(" -> ")
		}
		b.WriteString(quote(n))
	}
	return b.String()
}

// nearest is the most similar name in all, or "" if none is similar.
func nearest(name string, all func(yield func(string) bool)) string {
	return filch.Nearest(name, all, len(name)/3+2)
}
