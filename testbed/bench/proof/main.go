package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// promise is one line of the table.
type promise struct {
	line  string // its number among the promises
	what  string
	bar   string
	tests []suite
	bench func(*figures) verdict // nil: no figures of the bench
	check func() verdict         // nil: nothing else is run
}

// suite is a run of tests.
type suite struct {
	dir  string
	run  string // regular expression; "" all
	tags string
	race bool
	env  []string
}

// verdict is what came out.
type verdict struct {
	measured string
	ok       bool
}

func main() {
	filch := flag.String("filch", "bin/filch", "the binary to prove")
	only := flag.String("only", "", "the numbers of the promises to prove, with commas; all by default")
	jobs := flag.Int("jobs", 10000, "launches between the two looks at the idle cost")
	tables := flag.String("tables", "", "the tables that the bench makes, with commas; all by default")
	flag.Parse()
	exe, err := filepath.Abs(*filch)
	if err != nil {
		fmt.Fprintln(os.Stderr, "proof:", err)
		os.Exit(1)
	}
	p := &prover{filch: exe, jobs: *jobs, tables: *tables, began: time.Now()}
	if !p.prove(promises(), *only) {
		os.Exit(1)
	}
}

// prove prints progress to stderr as it goes and the table at the end.
func (p *prover) prove(list []promise, only string) bool {
	wanted := strings.FieldsFunc(only, func(r rune) bool { return r == ',' })
	all := true
	var rows [][]string
	for _, one := range list {
		if len(wanted) > 0 && !slices.Contains(wanted, one.line) {
			continue
		}
		fmt.Fprintf(os.Stderr, "proof: %s %s …\n", one.line, one.what)
		v := p.judge(one)
		all = all && v.ok
		word := "ok"
		if !v.ok {
			word = "NOT OK"
		}
		rows = append(rows, []string{one.line, one.what, one.bar, v.measured, word})
		fmt.Fprintf(os.Stderr, "proof: %s %s: %s: %s\n", one.line, one.what, word, v.measured)
	}
	printTable(append([][]string{{"", "promise", "bar", "measured", ""}}, rows...))
	fmt.Printf("proved in %v\n", time.Since(p.began).Round(time.Second))
	return all
}

// judge runs a promise's tests and looks at its figures.
func (p *prover) judge(one promise) verdict {
	v := verdict{ok: true}
	var said []string
	for _, s := range one.tests {
		r := p.run(s)
		said = append(said, r.summary())
		v.ok = v.ok && r.ok()
	}
	if one.bench != nil {
		f, err := p.figures()
		if err != nil {
			return verdict{measured: err.Error()}
		}
		b := one.bench(f)
		said = append(said, b.measured)
		v.ok = v.ok && b.ok
	}
	if one.check != nil {
		c := one.check()
		said = append(said, c.measured)
		v.ok = v.ok && c.ok
	}
	v.measured = strings.Join(said, "; ")
	return v
}

// wrapAt is where the long columns of the table are broken.
const wrapAt = 44

// printTable prints rows in columns, breaking long cells into several lines.
func printTable(rows [][]string) {
	width := make([]int, len(rows[0]))
	cells := make([][][]string, len(rows))
	for i, row := range rows {
		cells[i] = make([][]string, len(row))
		for j, cell := range row {
			cells[i][j] = wrap(cell, wrapAt)
			for _, l := range cells[i][j] {
				width[j] = max(width[j], len([]rune(l)))
			}
		}
	}
	for i, row := range cells {
		height := 0
		for _, c := range row {
			height = max(height, len(c))
		}
		for l := range height {
			var line strings.Builder
			for j, c := range row {
				text := ""
				if l < len(c) {
					text = c[l]
				}
				fmt.Fprintf(&line, "%s%s  ", text, strings.Repeat(" ", width[j]-len([]rune(text))))
			}
			fmt.Println(strings.TrimRight(line.String(), " "))
		}
		if i == 0 || height > 1 {
			fmt.Println()
		}
	}
}

// wrap breaks text between words into lines of at most n runes, where it can.
func wrap(text string, n int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len([]rune(line))+1+len([]rune(word)) > n {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
