package screen

import (
	"strconv"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/filch-hpc/filch/cmd/filch/ui"
)

// style is the parameter of an SGR sequence (ECMA-48, 8.3.117).
type style string

const (
	bold style = "1"
	dim  style = "2"
	red  style = "31"
	// chosen marks the selected row.
	chosen style = "7"
)

// paint writes text in a style, or plain without colors.
func (m *Model) paint(s style, text string) string {
	if !m.Color || m.Once || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// palette has the colors of jobs, by letter, of the 256 colors of xterm. Black text is
// readable on each.
var palette = [...]int{39, 208, 76, 213, 220, 51, 141, 203, 118, 180, 87, 177, 214, 79, 210, 153, 149, 222, 111, 186}

// jobStyle is the style of a job's cells.
func jobStyle(letter byte) style {
	if letter == anyLetter {
		return "30;48;5;250"
	}
	return style("30;48;5;" + strconv.Itoa(palette[int(letter-'a')%len(palette)]))
}

// clip cuts a line with styles to a width.
func clip(s string, width int) string {
	if ansi.StringWidth(s) <= width {
		return s
	}
	return ansi.Truncate(s, width, "")
}

// fit writes a cleaned text into exactly width cells, to the left.
func fit(s string, width int) string {
	if width <= 0 {
		return ""
	}
	s = ui.Clean(s)
	if ansi.StringWidth(s) > width {
		s = ansi.Truncate(s, width, "…")
	}
	return s + strings.Repeat(" ", max(width-ansi.StringWidth(s), 0))
}

// right is fit, to the right.
func right(s string, width int) string {
	s = strings.TrimRight(fit(s, width), " ")
	return strings.Repeat(" ", max(width-ansi.StringWidth(s), 0)) + s
}

// bar draws a part of 1.
func bar(part float64, width int) string {
	full := int(min(max(part, 0), 1) * float64(width))
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", width-full) + "]"
}

// number writes a rate in few letters.
func number(x float64) string {
	switch {
	case x >= 1e6:
		return strconv.FormatFloat(x/1e6, 'f', 1, 64) + "M"
	case x >= 1e4:
		return strconv.FormatFloat(x/1e3, 'f', 0, 64) + "k"
	case x >= 10 || x == 0:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', 1, 64)
}
