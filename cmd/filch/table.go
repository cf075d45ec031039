package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// table is what the list commands print: columns wide enough for their cells,
// two blanks apart. Cells are made safe for the terminal.
type table struct {
	head  []string
	right map[int]bool // columns of numbers
	rows  [][]string
}

func (t *table) add(cells ...string) {
	for i, c := range cells {
		cells[i] = clean(c)
	}
	t.rows = append(t.rows, cells)
}

func (t *table) String() string {
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, c := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(c))
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.head}, t.rows...) {
		var line strings.Builder
		for i, c := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c))
			if t.right[i] {
				line.WriteString(pad + c)
			} else {
				line.WriteString(c + pad)
			}
			line.WriteString("  ")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	return b.String()
}

// untold is the first error of [printf]: a command whose words were lost has failed.
var untold error

// printf prints to standard output.
func printf(format string, args ...any) {
	_, err := fmt.Printf(format, args...)
	untold = cmp.Or(untold, err)
}

func (t *table) print() error {
	_, err := os.Stdout.WriteString(t.String())
	return err
}

// printJSON prints v as indented JSON; see docs/json.md for the fields.
func printJSON(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}

// shortTime writes a duration as people say it: 0.25s, 41s, 2m11s, 3h05m, 2d4h.
func shortTime(d time.Duration) string {
	switch s := int64(d / time.Second); {
	case d < time.Second:
		return fmt.Sprintf("%.2gs", d.Seconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%dh%02dm", s/3600, s%3600/60)
	default:
		return fmt.Sprintf("%dd%dh", s/86400, s%86400/3600)
	}
}
