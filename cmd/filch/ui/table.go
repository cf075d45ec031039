package ui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"
)

// Table is the output of the list commands: columns wide enough for their cells,
// two blanks apart. Cells are made safe for the terminal.
type Table struct {
	Head   []string
	Right  map[int]bool // columns of numbers
	rows   [][]string
	red    map[int]bool // rows that stand out on a terminal
	widths []int        // of the pages before
}

// AlertState makes the last row stand out if the state is that of a job or a task that ended
// badly by itself.
func (t *Table) AlertState(state string) {
	if state == "failed" || state == "killed" || state == "lost" {
		t.Alert()
	}
}

// Alert makes the last row stand out on a terminal: something ended badly.
func (t *Table) Alert() {
	if t.red == nil {
		t.red = map[int]bool{}
	}
	t.red[len(t.rows)-1] = true
}

func (t *Table) Add(cells ...string) {
	for i, c := range cells {
		cells[i] = Clean(c)
	}
	t.rows = append(t.rows, cells)
}

func (t *Table) String() string { return t.whole(false) }

// whole writes all rows, and keeps them.
func (t *Table) whole(color bool) string {
	c := *t
	c.widths = nil
	return c.page(color)
}

// Page writes the rows since the page before, for the file that will get the text; the first
// page is below the head. A column is at least as wide as on the pages before.
func (t *Table) Page(to *os.File) string { return t.page(colors(to)) }

func (t *Table) page(color bool) string {
	rows, head := t.rows, 0
	if t.rows = nil; t.widths == nil {
		t.widths = make([]int, len(t.Head))
		rows, head = append([][]string{t.Head}, rows...), 1
	}
	red := t.red
	t.red = nil
	widths := t.widths
	for _, row := range rows {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for k, row := range rows {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if t.Right[i] {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
			line.WriteString("  ")
		}
		text := strings.TrimRight(line.String(), " ")
		if color && red[k-head] {
			text = "\x1b[31m" + text + "\x1b[0m"
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// Untold is the first error of [Printf]: a command whose output was lost has
// failed.
var Untold error

// Printf prints to standard output.
func Printf(format string, args ...any) {
	_, err := fmt.Printf(format, args...)
	Untold = cmp.Or(Untold, err)
}

func (t *Table) Print() error {
	_, err := os.Stdout.WriteString(t.whole(colors(os.Stdout)))
	return err
}

// PrintJSON prints v as indented JSON; see docs/json.md for the fields.
func PrintJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}
