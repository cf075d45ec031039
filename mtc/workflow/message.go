package workflow

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/filch-hpc/filch"
)

// shownMax is how much of a name or value a message shows.
const shownMax = 80

// source is a text being read, for messages.
type source struct{ name string }

// errorf is an error at a line; 0 when the line is not known.
func (s source) errorf(line int, format string, args ...any) *filch.Error {
	where := s.name
	if where == "" {
		where = "input"
	}
	if line > 0 {
		where += ":" + strconv.Itoa(line)
	}
	return filch.Errorf(filch.Invalid, "%s: %s", visible(where), visible(fmt.Sprintf(format, args...)))
}

// visible is a text in which nothing moves a cursor.
func visible(s string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return '?'
		}
		return r
	}, s)
}

// quote shows a name that comes from a file: cut, and with nothing in it that
// moves a cursor.
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

// nearest is the name of all that is most like name, or "" when none is near.
// It looks at so many names only: a hint is not worth a second.
func nearest(name string, all func(yield func(string) bool)) string {
	const looked = 5000
	best, least, n := "", len(name)/3+2, 0
	if len(name) > shownMax {
		return ""
	}
	for other := range all {
		if n++; n > looked {
			break
		}
		if d := distance(name, other, least); d < least {
			best, least = other, d
		}
	}
	return best
}

// distance is the number of bytes to insert, delete or change to get from a to
// b; most when it is not below that.
func distance(a, b string, most int) int {
	if len(a)-len(b) >= most || len(b)-len(a) >= most {
		return most
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
